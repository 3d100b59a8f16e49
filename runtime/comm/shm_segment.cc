#include "runtime/comm/shm_segment.h"

#include <cerrno>
#include <new>
#include <random>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::runtime {

// Layout of the file: Header, RankState[world_size], SlotTag[world_size][kNumSlots],
// StandingWords[world_size], padding to a page, staging slots [world_size][kNumSlots][slot_bytes].
struct ShmSegment::Header {
  std::atomic<uint64_t> magic;
  uint64_t world_size = 0;
  uint64_t slot_bytes = 0;
  alignas(64) std::atomic<uint32_t> abort_word;
};

namespace {

constexpr uint64_t kSegmentMagic = 0x32736b636f6cULL;  // "locks2"
constexpr size_t kPageBytes = 4096;
constexpr size_t kLineBytes = 64;

static_assert(std::atomic<uint32_t>::is_always_lock_free, "futexes need plain words");

size_t align_up(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

[[noreturn]] void throw_errno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

struct flock byte_lock(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

// Offsets of the parts of the file.
struct Offsets {
  size_t states = 0;
  size_t tags = 0;
  size_t standings = 0;
  size_t slots = 0;
  size_t end = 0;
};

Offsets offsets_of(size_t header_bytes, size_t world_size, size_t slot_bytes) {
  constexpr size_t kSlots = ShmSegment::kNumSlots;
  Offsets offsets;
  offsets.states = align_up(header_bytes, kLineBytes);
  offsets.tags = offsets.states + world_size * sizeof(ShmSegment::RankState);
  offsets.standings = offsets.tags + world_size * kSlots * sizeof(ShmSegment::SlotTag);
  offsets.slots =
      align_up(offsets.standings + world_size * sizeof(ShmSegment::StandingWords), kPageBytes);
  offsets.end = offsets.slots + world_size * kSlots * slot_bytes;
  return offsets;
}

// Reserves and maps `bytes` of an open file, or says which step failed.
std::byte* reserve_and_map(int file, size_t bytes, const std::string& path) {
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (error != 0)
    throw_errno(error, "cannot reserve " + std::to_string(bytes) + " bytes of " + path);
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) throw_errno(errno, "cannot map " + path);
  return static_cast<std::byte*>(base);
}

}  // namespace

std::string fresh_shm_segment_name() {
  std::random_device random;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "lockstep-" + std::to_string(getpid()) + "-";
  for (int i = 0; i < 32; ++i) name += kDigits[random() % 16];
  return name;
}

void create_shm_segment(const std::string& path, const ShmLayout& layout) {
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) throw_errno(errno, "cannot create " + path);
  const size_t slot_bytes = align_up(layout.slot_bytes, kPageBytes);
  const size_t bytes = ShmSegment::file_bytes(layout.world_size, slot_bytes);
  try {
    std::byte* const base = reserve_and_map(file, bytes, path);
    ShmSegment::initialise(base, layout.world_size, slot_bytes);
    munmap(base, bytes);
  } catch (...) {
    close(file);
    unlink_shm_segment(path);
    throw;
  }
  close(file);
}

void unlink_shm_segment(const std::string& path) noexcept {
  unlink(path.c_str());
}

size_t ShmSegment::file_bytes(int world_size, size_t slot_bytes) {
  return offsets_of(sizeof(Header), static_cast<size_t>(world_size), slot_bytes).end;
}

// The file is new, hence zero: counters start at their initial values.
void ShmSegment::initialise(std::byte* base, int world_size, size_t slot_bytes) {
  auto* const header = new (base) Header;
  header->world_size = static_cast<uint64_t>(world_size);
  header->slot_bytes = slot_bytes;
  header->magic.store(kSegmentMagic, std::memory_order_release);
}

ShmSegment::ShmSegment(const std::string& path, int rank, int world_size)
    : folder_(path.substr(0, path.rfind('/'))), rank_(rank), world_size_(world_size) {
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) throw_errno(errno, "cannot open " + path);
  try {
    map_and_join(path);
  } catch (...) {
    if (base_ != nullptr) munmap(base_, mapped_bytes_);
    close(file_);
    throw;
  }
}

void ShmSegment::map_and_join(const std::string& path) {
  struct stat info = {};
  if (fstat(file_, &info) != 0) throw_errno(errno, "cannot read the size of " + path);
  mapped_bytes_ = static_cast<size_t>(info.st_size);
  if (mapped_bytes_ < sizeof(Header)) throw std::runtime_error(path + " is not initialised");
  void* const base = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (base == MAP_FAILED) throw_errno(errno, "cannot map " + path);
  base_ = static_cast<std::byte*>(base);
  slot_bytes_ = header().slot_bytes;
  if (header().magic.load(std::memory_order_acquire) != kSegmentMagic ||
      header().world_size != static_cast<uint64_t>(world_size_) ||
      mapped_bytes_ != file_bytes(world_size_, slot_bytes_)) {
    throw std::runtime_error(path + " is not a segment for " + std::to_string(world_size_) +
                             " ranks");
  }
  struct flock lock = byte_lock(rank_);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) {
    throw std::runtime_error("rank " + std::to_string(rank_) + " has already joined " + path);
  }
  state(rank_).joined.store(1, std::memory_order_release);
}

ShmSegment::~ShmSegment() {
  state(rank_).left.store(1, std::memory_order_release);
  munmap(base_, mapped_bytes_);
  close(file_);
}

ShmSegment::Header& ShmSegment::header() const {
  return *std::launder(reinterpret_cast<Header*>(base_));
}

std::atomic<uint32_t>& ShmSegment::abort_word() const {
  return header().abort_word;
}

ShmSegment::RankState& ShmSegment::state(int rank) const {
  const Offsets offsets = offsets_of(sizeof(Header), static_cast<size_t>(world_size_), slot_bytes_);
  return reinterpret_cast<RankState*>(base_ + offsets.states)[rank];
}

ShmSegment::SlotTag& ShmSegment::tag(int rank, uint32_t slot) const {
  const Offsets offsets = offsets_of(sizeof(Header), static_cast<size_t>(world_size_), slot_bytes_);
  const size_t index = static_cast<size_t>(rank) * kNumSlots + slot;
  return reinterpret_cast<SlotTag*>(base_ + offsets.tags)[index];
}

ShmSegment::StandingWords& ShmSegment::standing(int rank) const {
  const Offsets offsets = offsets_of(sizeof(Header), static_cast<size_t>(world_size_), slot_bytes_);
  return reinterpret_cast<StandingWords*>(base_ + offsets.standings)[rank];
}

std::span<std::byte> ShmSegment::slot(int rank, uint32_t slot) const {
  const Offsets offsets = offsets_of(sizeof(Header), static_cast<size_t>(world_size_), slot_bytes_);
  const size_t index = static_cast<size_t>(rank) * kNumSlots + slot;
  return {base_ + offsets.slots + index * slot_bytes_, slot_bytes_};
}

bool ShmSegment::is_dead(int rank) const {
  RankState& peer = state(rank);
  if (peer.joined.load(std::memory_order_acquire) == 0) return false;
  struct flock lock = byte_lock(rank);
  if (fcntl(file_, F_OFD_GETLK, &lock) != 0) return false;  // cannot tell: the timeout decides
  return lock.l_type == F_UNLCK;
}

}  // namespace lockstep::runtime
