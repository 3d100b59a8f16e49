// A file in memory, usually in /dev/shm, that the ranks of one host map: counters and staging areas
// of the shared-memory backend, and the proof of life of every rank.
//
// Note [Proof of life]
// Each rank holds an open-file-description write lock on byte `rank` of the file. The kernel drops
// it when the process ends in whatever way, so a rank that has joined, has not said goodbye and
// whose byte is unlocked is dead. The locks belong to the open file, not to the process, so ranks
// may also be threads of one process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "runtime/comm/standing.h"

namespace lockstep::runtime {

struct ShmLayout {
  int world_size = 1;
  size_t slot_bytes = size_t{1} << 20;  // of one staging slot; every rank has two
};

// A file name that no other segment has. The process id in it tells people whose file it is.
std::string fresh_shm_segment_name();

// Creates and initialises the file `path`. The memory is reserved at once, so that a full /dev/shm
// is an error here and not a SIGBUS later. Throws std::system_error.
void create_shm_segment(const std::string& path, const ShmLayout& layout);
// Removes the file; mappings stay. Missing files are ignored.
void unlink_shm_segment(const std::string& path) noexcept;

// Removes the file of a segment at the end of a scope.
class ShmSegmentFile {
 public:
  explicit ShmSegmentFile(std::string path) : path_(std::move(path)) {}
  ~ShmSegmentFile() { unlink_shm_segment(path_); }
  ShmSegmentFile(const ShmSegmentFile&) = delete;
  ShmSegmentFile& operator=(const ShmSegmentFile&) = delete;

 private:
  std::string path_;
};

// One rank's mapping of a segment.
class ShmSegment {
 public:
  static constexpr uint32_t kNumSlots = 2;

  // Counters of one rank, written by it and read by its peers; each on its own cache line because
  // different ranks wait on them.
  struct RankState {
    alignas(64) std::atomic<uint32_t> joined;
    std::atomic<uint32_t> left;                   // 1: said goodbye
    alignas(64) std::atomic<uint32_t> published;  // chunks staged so far, modulo 2^32
    alignas(64) std::atomic<uint32_t> consumed;   // chunks read from all peers so far
  };
  // What the staged chunk belongs to, so that ranks out of step are found out.
  struct alignas(64) SlotTag {
    uint64_t fingerprint = 0;  // Note [Standings] in standing.h
  };
  // A Standing and its version: see ShmBoard.
  struct alignas(64) StandingWords {
    static constexpr size_t kNumWords = sizeof(Standing) / sizeof(uint64_t);
    std::atomic<uint32_t> version;
    std::array<std::atomic<uint64_t>, kNumWords> values;
  };

  // Opens, maps and joins an initialised segment as `rank`. Throws std::system_error if it cannot
  // be opened, std::runtime_error if it is of another layout or the rank is taken.
  ShmSegment(const std::string& path, int rank, int world_size);
  ~ShmSegment();  // says goodbye
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  size_t slot_bytes() const { return slot_bytes_; }
  const std::string& folder() const { return folder_; }  // of its file

  std::atomic<uint32_t>& abort_word() const;  // 0 until a rank gives up; see ShmBoard
  RankState& state(int rank) const;
  SlotTag& tag(int rank, uint32_t slot) const;
  StandingWords& standing(int rank) const;
  std::span<std::byte> slot(int rank, uint32_t slot) const;

  // True if `rank` has joined and its lock is gone: dead, or left. See Note [Proof of life].
  bool is_dead(int rank) const;

 private:
  friend void create_shm_segment(const std::string& path, const ShmLayout& layout);
  struct Header;

  static size_t file_bytes(int world_size, size_t slot_bytes);
  static void initialise(std::byte* base, int world_size, size_t slot_bytes);
  void map_and_join(const std::string& path);
  Header& header() const;

  std::string folder_;
  int rank_ = 0;
  int world_size_ = 0;
  size_t slot_bytes_ = 0;
  int file_ = -1;
  std::byte* base_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace lockstep::runtime
