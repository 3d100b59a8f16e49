#include "runtime/data/corpus.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::size_t kMaxFiles = 50000;
constexpr int64_t kFingerprintEdgeBytes = 4096;

// FNV-1a, 64 bits: short, portable, the same everywhere.
// Source: http://www.isthe.com/chongo/tech/comp/fnv/
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash_ = (hash_ ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
    }
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

// The longest folder that holds all of `files`.
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

void add_file(Fingerprint& fingerprint, const fs::path& relative,
              std::span<const std::byte> bytes) {
  fingerprint.add(relative.generic_string());
  fingerprint.add(":");
  fingerprint.add(std::to_string(bytes.size()));
  fingerprint.add(":");
  const auto edge = std::min(bytes.size(), static_cast<std::size_t>(kFingerprintEdgeBytes));
  fingerprint.add(bytes.first(edge));
  fingerprint.add(bytes.last(edge));
}

}  // namespace

Result<Corpus> Corpus::open(const std::vector<std::string>& files) {
  if (files.empty()) return Error{ErrorCode::kInvalidArgument, "empty corpus: no files", ""};
  if (files.size() > kMaxFiles) {
    return Error{ErrorCode::kInvalidArgument,
                 "the corpus has " + std::to_string(files.size()) + " files, at most " +
                     std::to_string(kMaxFiles) + " can be mapped",
                 "join small files into larger ones"};
  }
  const fs::path folder = common_folder(files);
  Corpus corpus;
  Fingerprint fingerprint;
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(common::MappedFile file, common::MappedFile::open(path));
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.empty()) continue;
    add_file(fingerprint, fs::path(path).lexically_relative(folder), bytes);
    const int64_t separator = corpus.parts_.empty() ? 0 : 1;
    const int64_t begin_token = corpus.num_tokens_ + separator;
    corpus.num_tokens_ = begin_token + static_cast<int64_t>(bytes.size());
    corpus.parts_.push_back(Part{std::move(file), begin_token});
  }
  if (corpus.parts_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "empty corpus: every file is empty", ""};
  }
  char text[80];
  std::snprintf(text, sizeof text, "v1:%zu:%lld:%016llx", corpus.parts_.size(),
                static_cast<long long>(corpus.num_tokens_),
                static_cast<unsigned long long>(fingerprint.hash()));
  corpus.fingerprint_ = text;
  return corpus;
}

void Corpus::read(int64_t begin, std::span<int32_t> tokens) const {
  assert(begin >= 0 && begin + static_cast<int64_t>(tokens.size()) <= num_tokens_);
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](int64_t at, const Part& p) { return at < p.begin_token; });
  --part;  // the first part begins at 0, so there is one before
  while (!tokens.empty()) {
    const std::span<const std::byte> bytes = part->file.bytes();
    const auto skip = static_cast<std::size_t>(begin - part->begin_token);
    const std::size_t count = std::min(tokens.size(), bytes.size() - skip);
    std::transform(bytes.begin() + static_cast<std::ptrdiff_t>(skip),
                   bytes.begin() + static_cast<std::ptrdiff_t>(skip + count), tokens.begin(),
                   [](std::byte byte) { return std::to_integer<int32_t>(byte); });
    tokens = tokens.subspan(count);
    if (tokens.empty()) return;
    tokens.front() = 0;  // the separator before the next part
    tokens = tokens.subspan(1);
    ++part;
    begin = part == parts_.end() ? begin : part->begin_token;
  }
}

}  // namespace lockstep::runtime
