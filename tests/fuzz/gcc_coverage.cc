// What g++ compiles with -fsanitize-coverage=trace-pc calls, handed to libFuzzer as the counters
// that clang would have laid beside each edge. Not itself compiled so. Source: LLVM's
// SanitizerCoverage document, "Inline 8bit-counters"; GCC's -fsanitize-coverage.
#include <array>
#include <cstdint>

extern "C" {

extern const char
    __executable_start;  // of the linker; addresses from it on do not change with runs

void __sanitizer_cov_8bit_counters_init(uint8_t* begin, uint8_t* end);

void __sanitizer_cov_trace_pc();
void __sanitizer_cov_trace_cmpf(float left, float right);
void __sanitizer_cov_trace_cmpd(double left, double right);
}

namespace {

constexpr std::size_t kNumCounters = 1 << 16;  // two places that share one are told apart by others
alignas(64) std::array<uint8_t, kNumCounters> counters{};

[[gnu::constructor]] void register_counters() {
  __sanitizer_cov_8bit_counters_init(counters.data(), counters.data() + counters.size());
}

}  // namespace

void __sanitizer_cov_trace_pc() {
  constexpr uintptr_t kSpread = 0x9E3779B1;  // of the golden ratio: neighbours fall far apart
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) -
                     reinterpret_cast<uintptr_t>(&__executable_start);
  uint8_t& counter = counters[(place * kSpread >> 12) % kNumCounters];
  if (counter < UINT8_MAX) ++counter;
}

void __sanitizer_cov_trace_cmpf(float /*left*/, float /*right*/) {}
void __sanitizer_cov_trace_cmpd(double /*left*/, double /*right*/) {}
