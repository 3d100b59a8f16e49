// Prints what checking every block of a swap file costs: the same transfers with and without,
// alternately.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/offload/checked_swap_file.h"

namespace {

using Clock = std::chrono::steady_clock;
using lockstep::runtime::SwapFile;

constexpr int64_t kPieceBytes = int64_t{4} << 20;  // as large as a window's part
constexpr int64_t kFileBytes = 64 * kPieceBytes;
constexpr int kRounds = 5;

// As create_swap_file() makes it, without the checks.
std::unique_ptr<SwapFile> plain_file(const std::string& folder) {
  std::string path = folder + "/.lockstep-swap-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0 || ::unlink(path.c_str()) != 0 ||
      ::posix_fallocate(descriptor, 0, kFileBytes) != 0) {
    std::perror(folder.c_str());
    std::exit(1);
  }
  if (::fcntl(descriptor, F_SETFL, O_DIRECT) != 0)
    std::printf("no direct I/O in %s\n", folder.c_str());
  return lockstep::runtime::make_swap_file(descriptor, path);
}

// GB/s of writing, or of reading, the whole file.
double speed(SwapFile& file, std::span<std::byte> piece, bool writes) {
  const Clock::time_point start = Clock::now();
  for (int64_t offset = 0; offset < kFileBytes; offset += kPieceBytes) {
    const auto moved = writes ? file.write(offset, piece) : file.read(offset, piece);
    if (!moved) {
      std::printf("%s\n", moved.error().message.c_str());
      std::exit(1);
    }
  }
  return static_cast<double>(kFileBytes) /
         std::chrono::duration<double>(Clock::now() - start).count() * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/tmp";
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, kPieceBytes));
  const std::span<std::byte> piece(memory, kPieceBytes);
  for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<std::byte>(i * 31 >> 3);
  const std::unique_ptr<SwapFile> plain = plain_file(folder);
  const std::unique_ptr<SwapFile> checked =
      lockstep::runtime::check_blocks(plain_file(folder), folder, kFileBytes);
  for (const bool writes : {true, false}) {
    std::vector<double> of_plain;
    std::vector<double> of_checked;
    for (int round = 0; round < kRounds; ++round) {
      of_plain.push_back(speed(*plain, piece, writes));
      of_checked.push_back(speed(*checked, piece, writes));
    }
    std::sort(of_plain.begin(), of_plain.end());
    std::sort(of_checked.begin(), of_checked.end());
    std::printf(
        "swap file, %s 4 MiB at a time: %.2f GB/s plain, %.2f GB/s checked (medians of %d)\n",
        writes ? "writes" : "reads", of_plain[kRounds / 2], of_checked[kRounds / 2], kRounds);
  }
  std::free(memory);
}
