#include "runtime/comm/shm_board.h"

#include <array>
#include <bit>

namespace lockstep::runtime {
namespace {

using Words = ShmSegment::StandingWords;
using Values = std::array<uint64_t, Words::kNumWords>;

// The abort word: 0, or blame and culprit of the first verdict.
constexpr uint32_t kBlameShift = 24;

uint32_t encode(const Verdict& verdict) {
  return static_cast<uint32_t>(verdict.blame) << kBlameShift |
         static_cast<uint32_t>(verdict.culprit + 1);
}

Verdict decode(uint32_t word) {
  return {.culprit = static_cast<int>(word & ((1U << kBlameShift) - 1)) - 1,
          .blame = static_cast<Blame>(word >> kBlameShift)};
}

}  // namespace

// One writer. An odd version says that the words are being changed (a sequence lock).
void ShmBoard::post(const Standing& standing) {
  Words& words = segment_.standing(rank());
  const auto values = std::bit_cast<Values>(standing);
  const uint32_t version = words.version.load(std::memory_order_relaxed);
  words.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < values.size(); ++i) {
    words.values[i].store(values[i], std::memory_order_relaxed);
  }
  words.version.store(version + 2, std::memory_order_release);
}

// A rank may die or be stopped in the middle of post(): after a few tries the words are taken as
// they are, since they are only told.
std::optional<Standing> ShmBoard::read(int rank) const {
  constexpr int kTries = 1000;
  const Words& words = segment_.standing(rank);
  Values values{};
  for (int i = 0; i < kTries; ++i) {
    const uint32_t before = words.version.load(std::memory_order_acquire);
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = words.values[k].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && words.version.load(std::memory_order_relaxed) == before) break;
  }
  return std::bit_cast<Standing>(values);
}

Presence ShmBoard::presence(int rank) const {
  if (!segment_.is_dead(rank)) return Presence::kThere;
  const bool left = segment_.state(rank).left.load(std::memory_order_acquire) != 0;
  return left ? Presence::kLeft : Presence::kDead;
}

std::optional<Verdict> ShmBoard::accuse(const Verdict& verdict) {
  uint32_t found = 0;
  if (segment_.abort_word().compare_exchange_strong(found, encode(verdict))) return std::nullopt;
  return decode(found);
}

std::optional<Verdict> ShmBoard::verdict() const {
  const uint32_t word = segment_.abort_word().load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  return decode(word);
}

}  // namespace lockstep::runtime
