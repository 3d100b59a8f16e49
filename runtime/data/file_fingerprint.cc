#include "runtime/data/file_fingerprint.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kEdgeBytes = 4096;

}  // namespace

fs::path common_folder(const std::vector<std::string>& files) {
  fs::path folder = fs::path(files.front()).parent_path();
  for (const std::string& file : files) {
    const fs::path parent = fs::path(file).parent_path();
    const auto differing =
        std::mismatch(folder.begin(), folder.end(), parent.begin(), parent.end()).first;
    fs::path shared;
    for (auto part = folder.begin(); part != differing; ++part) shared /= *part;
    folder = shared;
  }
  return folder;
}

void FileFingerprint::add(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    hash_ = (hash_ ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  }
}

void FileFingerprint::add(std::string_view text) {
  add(std::as_bytes(std::span(text.data(), text.size())));
}

void FileFingerprint::add_file(const fs::path& relative, std::span<const std::byte> bytes) {
  add(relative.generic_string());
  add(":");
  add(std::to_string(bytes.size()));
  add(":");
  const std::size_t edge = std::min(bytes.size(), kEdgeBytes);
  add(bytes.first(edge));
  add(bytes.last(edge));
}

}  // namespace lockstep::runtime
