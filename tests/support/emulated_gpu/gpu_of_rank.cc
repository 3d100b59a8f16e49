// A device for tests of what holds on any device: its memory can be touched by its own functions
// alone. Anywhere else, a read or write of it ends the process, as it would where there is a GPU.
// Its kernels are the processor's, so that its results have the processor's bits.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include <sys/mman.h>

#include "runtime/train/rank_device.h"

namespace lockstep::runtime {
namespace {

constexpr size_t kArenaBytes = size_t{256} << 20U;
constexpr size_t kAlignment = 256;  // as cudaMalloc() aligns

// Memory in one piece, taken apart by first fit.
class Arena {
 public:
  Arena()
      : begin_(static_cast<char*>(mmap(nullptr, kArenaBytes, PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (static_cast<void*>(begin_) == MAP_FAILED) throw std::bad_alloc();
    free_[0] = kArenaBytes;
  }

  void* allocate(size_t num_bytes) {
    const std::lock_guard lock(mutex_);
    num_bytes = std::max(kAlignment, (num_bytes + kAlignment - 1) / kAlignment * kAlignment);
    for (const auto& [at, room] : free_) {
      if (room < num_bytes) continue;
      const size_t left = room - num_bytes;
      const size_t begin = at;
      free_.erase(begin);
      if (left > 0) free_[begin + num_bytes] = left;
      used_[begin] = num_bytes;
      return begin_ + begin;
    }
    throw std::bad_alloc();
  }
  void release(void* memory) {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto used = used_.find(static_cast<size_t>(static_cast<char*>(memory) - begin_));
    auto here = free_.emplace(used->first, used->second).first;
    used_.erase(used);
    const auto next = std::next(here);
    if (next != free_.end() && here->first + here->second == next->first) {
      here->second += next->second;
      free_.erase(next);
    }
    if (here == free_.begin()) return;
    const auto before = std::prev(here);
    if (before->first + before->second != here->first) return;
    before->second += here->second;
    free_.erase(here);
  }
  bool holds(const void* memory) const {
    const char* const at = static_cast<const char*>(memory);
    return at >= begin_ && at < begin_ + kArenaBytes;
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (num_open_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--num_open_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int access) {
    if (mprotect(begin_, kArenaBytes, access) != 0) throw std::bad_alloc();
  }

  std::mutex mutex_;
  char* begin_;
  std::map<size_t, size_t> free_;  // begin -> bytes
  std::map<size_t, size_t> used_;
  int num_open_ = 0;
};

Arena& arena() {
  static Arena* const kept = new Arena;  // outlives every buffer
  return *kept;
}

// The device is at work.
class Access {
 public:
  Access() { arena().open(); }
  ~Access() { arena().close(); }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

const KernelTable& processor_kernels() {
  static const KernelTable table = chosen_kernels();
  return table;
}

// A kernel reads and writes the device's memory alone.
void require_on_device(const void* memory) {
  if (memory == nullptr || arena().holds(memory)) return;
  std::fputs("emulated GPU: a kernel was given host memory\n", stderr);
  std::abort();
}
void check(float* values) {
  require_on_device(values);
}
void check(const float* values) {
  require_on_device(values);
}
void check(const int32_t* values) {
  require_on_device(values);
}
void check(const ConstValues& values) {
  require_on_device(values.data);
}
void check(const Values& values) {
  require_on_device(values.data);
}
void check(const RotaryShape& shape) {
  require_on_device(shape.positions);
}
void check(const AttentionShape& shape) {
  require_on_device(shape.positions);
}
template <class Other>
void check(const Other& /*argument*/) {}

// The processor's function, with access to the device's memory.
template <auto Member, class Function>
struct Kernel;
template <auto Member, class Result, class... Arguments>
struct Kernel<Member, Result (*)(Arguments...)> {
  static Result run(Arguments... arguments) {
    (check(arguments), ...);
    const Access access;
    return (processor_kernels().*Member)(arguments...);
  }
};
template <auto Member, class Function>
void guard(Function KernelTable::*, KernelTable& table) {
  table.*Member = &Kernel<Member, Function>::run;
}

KernelTable guarded_kernels() {
  KernelTable table;
  table.isa = "emulated-gpu";
#define GUARD(name) guard<&KernelTable::name>(&KernelTable::name, table)
  GUARD(rms_norm_forward);
  GUARD(rms_norm_backward);
  GUARD(layer_norm_forward);
  GUARD(layer_norm_backward);
  GUARD(rotary_forward);
  GUARD(rotary_backward);
  GUARD(swiglu_forward);
  GUARD(swiglu_backward);
  GUARD(geglu_forward);
  GUARD(geglu_backward);
  GUARD(gelu_forward);
  GUARD(gelu_backward);
  GUARD(softcap_forward);
  GUARD(softcap_backward);
  GUARD(embedding_forward);
  GUARD(embedding_backward);
  GUARD(softmax);
  GUARD(cross_entropy);
  GUARD(narrow);
  GUARD(widen);
  GUARD(add_in_place);
  GUARD(add_scaled);
  GUARD(scale);
  GUARD(shift);
  GUARD(add_to_rows);
  GUARD(sum_columns);
  GUARD(copy_columns);
  GUARD(dropout);
  GUARD(adamw);
  GUARD(adam);
  GUARD(sgd);
  GUARD(sum_squares_chunks);
  GUARD(attention_scratch_elems);
  GUARD(attention_forward);
  GUARD(attention_backward);
#undef GUARD
  return table;
}

void guarded_gemm(const GemmShape& shape, ConstMatrix a, ConstMatrix b, float beta, float* c,
                  int64_t c_leading) {
  check(a.data);
  check(b.data);
  check(c);
  const Access access;
  processor_gemm(shape, a, b, beta, c, c_leading);
}

}  // namespace

common::Result<Device> gpu_of_rank(const common::WorkerEnv& /*env*/) {
  Device device = processor();
  device.name = "emulated-gpu";
  device.has_own_memory = true;
  device.memory_bytes = static_cast<int64_t>(kArenaBytes);
  device.kernels = guarded_kernels();
  device.gemm = &guarded_gemm;
  device.allocate = [](size_t num_bytes) { return arena().allocate(num_bytes); };
  device.release = [](void* memory) noexcept { arena().release(memory); };
  device.copy = [](void* to, const void* from, size_t num_bytes) {
    const Access access;
    std::memcpy(to, from, num_bytes);
  };
  device.clear = [](void* memory, size_t num_bytes) {
    const Access access;
    std::memset(memory, 0, num_bytes);
  };
  device.holds = [](const void* memory) { return arena().holds(memory); };
  return device;
}

}  // namespace lockstep::runtime
