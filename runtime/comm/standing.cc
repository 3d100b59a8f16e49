#include "runtime/comm/standing.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runtime/comm/collective.h"

namespace lockstep::runtime {
namespace {

constexpr int kMaxDescribed = 8;

// How long ranks that are in another operation than this one may take to say so.
constexpr std::chrono::milliseconds kWordLimit{2000};

// FNV-1a.
void mix(uint64_t& hash, const void* bytes, std::size_t num_bytes) {
  const auto* const begin = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < num_bytes; ++i) hash = (hash ^ begin[i]) * 0x100000001b3ULL;
}

std::string describe(const Standing& standing) {
  return (standing.is_past != 0 ? "past operation " : "in operation ") +
         std::to_string(standing.sequence) + " (" + name_of(standing) + ", step " +
         std::to_string(standing.step) + ")";
}

std::string accusation(const StandingBoard& board, const Verdict& verdict) {
  if (verdict.culprit < 0) return "a peer went away";
  const std::string rank = "rank " + std::to_string(board.name(verdict.culprit));
  if (verdict.culprit == board.rank()) {
    return verdict.blame == Blame::kDiverged ? "this rank is in another collective than its peers"
                                             : "its peers gave up this rank, which came too late";
  }
  switch (verdict.blame) {
    case Blame::kDead:
      return rank + " is dead";
    case Blame::kLeft:
      return rank + " has left";
    case Blame::kLate:
      return rank + " did not arrive in time, as a peer found";
    case Blame::kDiverged:
      return rank + " is in another collective than its peers";
  }
  return rank;
}

bool is_any_unheard(const StandingBoard& board) {
  for (int rank = 0; rank < board.world_size(); ++rank) {
    if (rank != board.rank() && !board.read(rank)) return true;
  }
  return false;
}

}  // namespace

std::string_view to_string(Verb verb) {
  switch (verb) {
    case Verb::kAllGather:
      return "all_gather";
    case Verb::kAllToAll:
      return "all_to_all";
    case Verb::kAllToAllInside:
      return "all_to_all inside hosts";
    case Verb::kAllToAllAcross:
      return "all_to_all across hosts";
  }
  return "";
}

Standing make_standing(uint64_t sequence, int64_t step, Verb verb, uint64_t slice_bytes,
                       std::string_view what) {
  Standing standing{.sequence = sequence, .step = step, .slice_bytes = slice_bytes, .verb = verb};
  const std::size_t length = std::min(what.size(), standing.what.size() - 1);
  std::memcpy(standing.what.data(), what.data(), length);
  return standing;
}

uint64_t fingerprint(const Standing& standing) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  mix(hash, &standing.sequence, sizeof standing.sequence);
  mix(hash, &standing.step, sizeof standing.step);
  mix(hash, &standing.slice_bytes, sizeof standing.slice_bytes);
  mix(hash, &standing.verb, sizeof standing.verb);
  mix(hash, standing.what.data(), standing.what.size());
  return hash;
}

std::string name_of(const Standing& standing) {
  const auto end = std::find(standing.what.begin(), standing.what.end(), '\0');
  return std::string(to_string(standing.verb)) + " of " + std::string(standing.what.begin(), end);
}

std::optional<int> find_divergent(std::span<const Standing> by_rank) {
  std::map<uint64_t, int> votes;
  for (const Standing& standing : by_rank) ++votes[fingerprint(standing)];
  if (votes.size() <= 1) return std::nullopt;
  uint64_t usual = fingerprint(by_rank.front());
  for (const auto& [print, count] : votes) {
    if (count > votes[usual]) usual = print;
  }
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (fingerprint(by_rank[rank]) != usual) return static_cast<int>(rank);
  }
  return std::nullopt;
}

Verdict diverged_verdict(const StandingBoard& board, const Standing& own, int found,
                         std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + std::min(limit, kWordLimit);
  std::vector<Standing> standings;
  std::vector<int> ranks;
  bool all_told = false;
  while (!all_told && !board.verdict()) {
    standings.clear();
    ranks.clear();
    all_told = true;
    for (int rank = 0; rank < board.world_size(); ++rank) {
      const std::optional<Standing> standing = board.read(rank);
      all_told = all_told && standing && standing->sequence >= own.sequence;
      if (!standing || standing->sequence != own.sequence) continue;
      standings.push_back(*standing);
      ranks.push_back(rank);
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
    if (!all_told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::optional<int> index = find_divergent(standings);
  return {index ? ranks[static_cast<std::size_t>(*index)] : found, Blame::kDiverged};
}

Verdict late_verdict(const StandingBoard& board, uint64_t sequence, int awaited) {
  // The least of (operation, is there).
  std::pair<uint64_t, bool> furthest{sequence, false};
  int behind = -1;
  for (int rank = 0; rank < board.world_size(); ++rank) {
    if (rank == board.rank()) continue;
    const std::optional<Standing> standing = board.read(rank);
    if (!standing) continue;
    const std::pair place{standing->sequence, board.presence(rank) == Presence::kThere};
    if (place >= furthest) continue;
    furthest = place;
    behind = rank;
  }
  if (behind >= 0) return {behind, Blame::kLate};
  for (int rank = 0; rank < board.world_size(); ++rank) {
    if (rank == board.rank()) continue;
    if (board.presence(rank) != Presence::kThere) return {rank, Blame::kLate};
  }
  const std::optional<Standing> word = awaited < 0 ? std::nullopt : board.read(awaited);
  const bool is_in = word && word->sequence >= sequence;
  return {is_in && is_any_unheard(board) ? -1 : awaited, Blame::kLate};
}

std::optional<Verdict> lost_verdict(const StandingBoard& board) {
  for (const Presence lost : {Presence::kDead, Presence::kSilent, Presence::kLeft}) {
    for (int rank = 0; rank < board.world_size(); ++rank) {
      if (rank == board.rank() || board.presence(rank) != lost) continue;
      return Verdict{rank, lost == Presence::kLeft ? Blame::kLeft : Blame::kDead};
    }
  }
  return std::nullopt;
}

std::string describe_ranks(const StandingBoard& board) {
  std::string text;
  for (int rank = 0; rank < std::min(board.world_size(), kMaxDescribed); ++rank) {
    const std::optional<Standing> standing = board.read(rank);
    if (rank > 0) text += "; ";
    text += "rank " + std::to_string(board.name(rank)) + " ";
    text +=
        !standing || standing->sequence == 0 ? "before its first operation" : describe(*standing);
  }
  if (board.world_size() > kMaxDescribed) text += "; ...";
  return text;
}

void give_up(StandingBoard& board, const Standing& own, const Verdict& mine,
             std::chrono::milliseconds timeout) {
  if (const std::optional<Verdict> first = board.accuse(mine)) throw_verdict(board, own, *first);
  if (mine.blame != Blame::kLate) throw_verdict(board, own, mine);
  const std::string who =
      mine.culprit < 0 ? "a peer" : "rank " + std::to_string(board.name(mine.culprit));
  throw CollectiveTimeoutError(name_of(own) + ": " + who + " did not arrive within " +
                               std::to_string(timeout.count()) + " ms; " + describe_ranks(board));
}

void throw_verdict(const StandingBoard& board, const Standing& own, const Verdict& verdict) {
  const std::string text =
      name_of(own) + ": " + accusation(board, verdict) + "; " + describe_ranks(board);
  if (verdict.blame == Blame::kDiverged && verdict.culprit == board.rank()) {
    throw std::logic_error(text);
  }
  throw PeerLostError(text);
}

}  // namespace lockstep::runtime
