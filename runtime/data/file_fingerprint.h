// A cheap identity of files: names, sizes and edges. No checksum: a change in the middle of a large
// file that keeps its size goes unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runtime {

// The longest folder that holds all of `files`, of which there is one at least.
std::filesystem::path common_folder(const std::vector<std::string>& files);

// FNV-1a, 64 bits: short, portable, the same everywhere.
// Source: http://www.isthe.com/chongo/tech/comp/fnv/
class FileFingerprint {
 public:
  // Takes a name that does not depend on where the data is mounted, the size, and the first and
  // last 4 KiB.
  void add_file(const std::filesystem::path& relative, std::span<const std::byte> bytes);
  void add(std::string_view text);
  uint64_t hash() const { return hash_; }

 private:
  void add(std::span<const std::byte> bytes);

  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace lockstep::runtime
