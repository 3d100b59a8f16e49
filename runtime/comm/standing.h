// Where every rank stands in the sequence of collectives, and who is to blame when it breaks.
//
// Note [Standings]
// Every rank numbers its collectives and posts the one that it is in on a board that its peers can
// read. There are two carriers: the shared segment (ShmBoard) and datagrams (Beacon). Before bytes
// of an operation are used, its number and fingerprint are compared between the ranks, so that
// ranks in different operations are found out and never mix their bytes. When an operation fails,
// whoever notices accuses a rank; the first verdict holds for all, so that all name the same one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runtime {

// The last two: of a Reach in collective.h.
enum class Verb : uint32_t {
  kAllGather = 1,
  kAllToAll = 2,
  kAllToAllInside = 3,
  kAllToAllAcross = 4,
};
std::string_view to_string(Verb verb);

// The newest collective that a rank has begun. Plain bytes: it travels as it is.
struct Standing {
  uint64_t sequence = 0;  // counted from 1; 0 = none yet
  int64_t step = 0;       // of training; 0 = before the first
  uint64_t slice_bytes = 0;
  Verb verb = Verb::kAllGather;
  uint32_t is_past = 0;         // 1: the rank has finished it
  std::array<char, 64> what{};  // cut to fit, ends with 0
};
static_assert(sizeof(Standing) == 96);

Standing make_standing(uint64_t sequence, int64_t step, Verb verb, uint64_t slice_bytes,
                       std::string_view what);
// Equal for ranks in the same collective of the same step; is_past does not count.
uint64_t fingerprint(const Standing& standing);
// "all_gather of unit layer.3"
std::string name_of(const Standing& standing);

enum class Blame : uint32_t { kDead = 1, kLeft = 2, kLate = 3, kDiverged = 4 };

struct Verdict {
  int culprit = -1;  // rank; -1 = nobody could be named
  Blame blame = Blame::kDead;
};

enum class Presence {
  kThere,
  kSilent,  // stopped, dead or cut off
  kLeft,    // said goodbye
  kDead,
};

class StandingBoard {
 public:
  virtual ~StandingBoard() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // The number of a rank in the world: what people know it by, also in a group of ranks.
  virtual int name(int rank) const = 0;
  virtual void post(const Standing& standing) = 0;
  // A word of a rank that came in another way, and is newer than what it posted.
  virtual void learn(int rank, const Standing& standing) = 0;
  // The newest word of a rank; nothing if there was none.
  virtual std::optional<Standing> read(int rank) const = 0;
  virtual Presence presence(int rank) const = 0;
  // Tells all ranks, unless a verdict is known, which stays: returns that one.
  virtual std::optional<Verdict> accuse(const Verdict& verdict) = 0;
  virtual std::optional<Verdict> verdict() const = 0;
};

// A board, and where the ranks of a transport stand on it: a level of a grouped world uses the
// world's board.
struct BoardView {
  std::shared_ptr<StandingBoard> board;
  std::vector<int> places{};  // by rank of the transport; empty: the same numbers

  int place(int rank) const { return places.empty() ? rank : places[static_cast<size_t>(rank)]; }
};

// The first rank that is in another operation than most are (than the lowest is, if there are as
// many of either); nothing if all are in the same.
std::optional<int> find_divergent(std::span<const Standing> by_rank);

// Whom to blame when ranks were found to be in other operations than `own`: waits until every rank
// on the board has told which `own.sequence` is, at most 2 s and `limit`, and lets them vote as
// find_divergent(). `found` if that names nobody.
Verdict diverged_verdict(const StandingBoard& board, const Standing& own, int found,
                         std::chrono::milliseconds limit);

// Whom to blame for a timeout in operation `sequence`: of the peers that have not begun it the
// furthest behind (others may wait for it), of equals the first that is not there, else the first;
// if all have begun it, the first that is not there, else `awaited`, unless that has begun it and
// may wait for a rank that was never heard: then nobody.
Verdict late_verdict(const StandingBoard& board, uint64_t sequence, int awaited);

// Whom to blame when a peer is not there any more: the first that is dead, else the first that is
// silent, which may only be stopped, else the first that said goodbye, which may have been because
// of the other. Nothing if all are there.
std::optional<Verdict> lost_verdict(const StandingBoard& board);

// "rank 0 in operation 7 (all_gather of unit head, step 3); rank 1 past operation 6 (...)"; the
// first 8 ranks.
std::string describe_ranks(const StandingBoard& board);

// Throws what the verdict of the ranks means for this one, which is in `own`: std::logic_error if
// it is the one that diverged, else PeerLostError. The message names culprit, collective, and where
// every rank stands.
[[noreturn]] void throw_verdict(const StandingBoard& board, const Standing& own,
                                const Verdict& verdict);

// Accuses and throws: CollectiveTimeoutError if a peer is late and this rank is the first to find
// out, else as throw_verdict().
//   timeout: how long it was waited for.
[[noreturn]] void give_up(StandingBoard& board, const Standing& own, const Verdict& mine,
                          std::chrono::milliseconds timeout);

}  // namespace lockstep::runtime
