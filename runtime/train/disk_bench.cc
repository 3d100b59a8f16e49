#include "runtime/train/disk_bench.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Other bytes for every block: a file system that packs or merges equal ones gains nothing.
void fill(std::vector<std::byte>& block, int64_t index) {
  auto state = static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15U + 1;
  for (std::byte& value : block) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<std::byte>(state >> 56U);
  }
}

Result<double> write_blocks(Disk& disk, DiskFile& file, int64_t num_bytes) {
  std::vector<std::byte> block(static_cast<std::size_t>(kDiskBlockBytes));
  double seconds = 0;
  for (int64_t at = 0; at < num_bytes; at += kDiskBlockBytes) {
    fill(block, at);
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(disk.write_at(file, at, block));
    seconds += seconds_since(begin);
  }
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(disk.sync_file(file));
  return seconds + seconds_since(begin);
}

Result<void> read_block(const DiskFile& file, int64_t at, std::vector<std::byte>& block) {
  std::size_t num_read = 0;
  while (num_read < block.size()) {
    const ssize_t got = ::pread(file.descriptor(), block.data() + num_read, block.size() - num_read,
                                at + static_cast<int64_t>(num_read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return common::system_error("read", file.path(), errno);
    if (got == 0) return Error{ErrorCode::kDataLoss, file.path() + " is cut short", ""};
    num_read += static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> read_blocks(const std::string& path, DiskFigures& figures) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return common::system_error("open", path, errno);
  const DiskFile file(descriptor, path);
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<std::byte> block(static_cast<std::size_t>(kDiskBlockBytes));
  std::vector<std::byte> expected(block.size());
  for (int64_t at = 0; at < figures.num_bytes; at += kDiskBlockBytes) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(read_block(file, at, block));
    figures.read_seconds += seconds_since(begin);
    fill(expected, at);
    for (std::size_t i = 0; i < block.size(); ++i) {
      figures.num_wrong += block[i] == expected[i] ? 0 : 1;
    }
  }
  return {};
}

Result<double> time_replacements(Disk& disk, const std::string& folder, int64_t count) {
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(replace_file(disk, folder, "manifest.json", std::to_string(i)));
  }
  return seconds_since(begin) / static_cast<double>(count);
}

Result<DiskFigures> measure(Disk& disk, const std::string& folder,
                            const DiskBenchOptions& options) {
  DiskFigures figures{.num_bytes = options.num_bytes};
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file,
                   disk.open(folder + "/shard", OpenMode::kCreate));
  ASSIGN_OR_RETURN(figures.write_seconds, write_blocks(disk, *file, options.num_bytes));
  RETURN_IF_ERROR(read_blocks(file->path(), figures));
  ASSIGN_OR_RETURN(figures.replace_seconds, time_replacements(disk, folder, options.replacements));
  return figures;
}

double megabytes_per_second(int64_t num_bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(num_bytes) / seconds / 1e6 : 0;
}

}  // namespace

Result<DiskFigures> bench_disk(Disk& disk, const DiskBenchOptions& options) {
  std::error_code error;
  const auto space = std::filesystem::space(options.folder, error);
  if (error) return common::system_error("look at", options.folder, error.value());
  if (space.available < 2 * static_cast<std::uintmax_t>(options.num_bytes)) {
    return Error{ErrorCode::kUnavailable,
                 options.folder + " has " + std::to_string(space.available) + " bytes free, " +
                     std::to_string(2 * options.num_bytes) + " are asked for",
                 "free some, or measure with a smaller --size"};
  }
  std::string folder = options.folder + "/.lockstep-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return common::system_error("create a folder in", options.folder, errno);
  }
  Result<DiskFigures> figures = measure(disk, folder, options);
  const Result<void> removed = disk.remove_tree(folder);
  if (figures && !removed) return removed.error();
  return figures;
}

std::string render_disk(const DiskFigures& figures) {
  std::array<char, 320> text{};
  std::snprintf(text.data(), text.size(),
                "write and sync  %10.1f MB/s   (%lld bytes)\n"
                "read            %10.1f MB/s   (the page cache was asked to drop them)\n"
                "replace a file  %10.2f ms     (written, synced, renamed, its folder synced)\n"
                "#wrong          %10lld\n",
                megabytes_per_second(figures.num_bytes, figures.write_seconds),
                static_cast<long long>(figures.num_bytes),
                megabytes_per_second(figures.num_bytes, figures.read_seconds),
                figures.replace_seconds * 1e3, static_cast<long long>(figures.num_wrong));
  return text.data();
}

nlohmann::json disk_json(const DiskFigures& figures) {
  return {{"bytes", figures.num_bytes},
          {"writeSeconds", figures.write_seconds},
          {"readSeconds", figures.read_seconds},
          {"replaceSeconds", figures.replace_seconds},
          {"wrong", figures.num_wrong}};
}

}  // namespace lockstep::runtime
