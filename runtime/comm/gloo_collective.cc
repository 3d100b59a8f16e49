#include "runtime/comm/gloo_collective.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/comm/beacon.h"
#include "runtime/comm/collective.h"
#include "runtime/comm/rendezvous.h"

namespace lockstep::runtime {
namespace {

// The ranks' store, as c10d's groups use one: they tell addresses and await those of the others.
class GlooStore final : public c10d::Store {
 public:
  using c10d::Store::set;

  explicit GlooStore(KeyStore keys) : keys_(std::move(keys)) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<GlooStore>(keys_); }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    keys_.set(key, {reinterpret_cast<const char*>(value.data()), value.size()}, limit(timeout_));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    const std::string value = await(key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    for (const std::string& key : keys) await(key, timeout);
  }
  bool check(const std::vector<std::string>& keys) override {
    return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) {
      return keys_.get(key, std::chrono::steady_clock::now()).has_value();
    });
  }
  int64_t add(const std::string&, int64_t) override { throw_unused("add"); }
  bool deleteKey(const std::string&) override { throw_unused("deleteKey"); }
  int64_t getNumKeys() override { throw_unused("getNumKeys"); }

 private:
  static KeyClient::Deadline limit(std::chrono::milliseconds timeout) {
    return std::chrono::steady_clock::now() + timeout;
  }
  std::string await(const std::string& key, std::chrono::milliseconds timeout) {
    if (std::optional<std::string> value = keys_.get(key, limit(timeout))) return *std::move(value);
    throw RendezvousTimeoutError("Gloo timed out after " + std::to_string(timeout.count()) +
                                 " ms without the key " + key);
  }
  [[noreturn]] static void throw_unused(const char* call) {
    throw std::logic_error(std::string("GlooStore: no group of Gloo calls ") + call);
  }

  KeyStore keys_;
};

std::unique_ptr<Transport> make_gloo_group(Transport& world, const KeyStore& store,
                                           const GlooOptions& options, const BoardView& view,
                                           std::span<const int> members, const Standing& own);

at::Tensor as_tensor(std::span<std::byte> bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

// c10d takes inputs as mutable tensors and does not write them.
at::Tensor as_input(std::span<const std::byte> bytes) {
  return as_tensor({const_cast<std::byte*>(bytes.data()), bytes.size()});
}

// Operations that c10d itself gives up end this much after those that we give up.
constexpr std::chrono::milliseconds kMargin{2000};
// How often a waiting rank looks for a verdict, and how long after one rank's timeout the next
// rank's comes.
constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::milliseconds kTurn{50};
constexpr int kMaxTurns = 20;
// How long a lost connection may take to show as a silent rank.
constexpr std::chrono::milliseconds kNamingLimit = 2 * Beacon::kSilence;

// gloo throws one type for all that happens on the wire; only its words tell a late peer from a
// lost one. "Application timeout caused pair closure" is what operations after a timeout report.
bool is_timeout(const std::exception& error) {
  const std::string message = error.what();
  return message.find("imed out") != std::string::npos ||
         message.find("timeout") != std::string::npos;
}

std::string first_line(const std::exception& error) {
  const std::string message = error.what();
  return message.substr(0, message.find('\n'));
}

// Our own mistake, unlike a store or a socket that went away with a rank.
bool is_misuse(const std::exception& error) {
  return dynamic_cast<const c10::Error*>(&error) != nullptr &&
         dynamic_cast<const c10::DistNetworkError*>(&error) == nullptr &&
         dynamic_cast<const c10::DistStoreError*>(&error) == nullptr;
}

// A connection tells that something broke, but not which rank: the silent one did.
[[noreturn]] void give_up_after(const std::exception& error, StandingBoard& board,
                                const Standing& own, std::chrono::milliseconds timeout) {
  if (const auto verdict = board.verdict()) throw_verdict(board, own, *verdict);
  if (is_timeout(error)) give_up(board, own, late_verdict(board, own.sequence, -1), timeout);
  if (is_misuse(error)) throw std::runtime_error(name_of(own) + ": " + first_line(error));
  const auto limit = std::chrono::steady_clock::now() + kNamingLimit;
  while (std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(Beacon::kInterval);
    if (const auto verdict = board.verdict()) throw_verdict(board, own, *verdict);
    if (const auto lost = lost_verdict(board)) give_up(board, own, *lost, timeout);
  }
  throw PeerLostError(name_of(own) + ": " + first_line(error) + "; " + describe_ranks(board));
}

// What `work` returns. What c10d and gloo throw becomes the ranks' verdict; ours passes.
template <typename Work>
auto or_give_up(StandingBoard& board, const Standing& own, std::chrono::milliseconds timeout,
                const Work& work) {
  try {
    return work();
  } catch (const PeerLostError&) {
    throw;
  } catch (const CollectiveTimeoutError&) {
    throw;
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::exception& error) {
    give_up_after(error, board, own, timeout);
  }
}

// Note [One issue at a time]
// c10d records every operation when it is issued, in one FlightRecorder of the process. That looks
// up the operation's group in a std::map, and adds a group that it does not know, before it takes
// its lock (FlightRecorderDetail.hpp). Groups of a rank issue in threads of their own: a first
// operation that meets one of another group would write a tree that is being read or written, and
// the rank dies of SIGSEGV. So this lock is held while an operation is issued; that only puts it
// into a queue of c10d, so that nobody waits here for a peer.
std::mutex issue_mutex;

// Note [Headers]
// Gloo matches operations by their order alone: ranks in different ones would wait for the timeout,
// or mix their bytes. So each operation begins with an all-gather of the ranks' standings, the same
// on all ranks whatever they are in, and goes on only if all are in the same. It costs a round of
// small messages, and it is where a rank waits for late peers: in memory that c10d owns, so that
// the wait can be given up before gloo does.
class GlooTransport final : public Transport {
 public:
  GlooTransport(KeyStore store, const GlooOptions& options, BoardView view)
      : options_(options),
        topology_{.backend = "gloo", .reason = options.reason},
        store_(std::move(store)),
        view_(std::move(view)) {
    const auto group_options = c10d::ProcessGroupGloo::Options::create(options.timeout + kMargin);
    group_options->devices.push_back(
        c10d::ProcessGroupGloo::createDeviceForHostname(options.local_address));
    auto met = c10::make_intrusive<GlooStore>(store_);
    met->setTimeout(options.timeout + kMargin);
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(met), options.rank,
                                                         options.world_size, group_options);
  }

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  const Topology& topology() const override { return topology_; }

  void all_gather(std::span<const std::byte> shard, std::span<std::byte> full,
                  const Standing& own) override {
    at::Tensor output = as_tensor(full);
    at::Tensor input = as_input(shard);
    c10d::AllgatherOptions options;
    options.timeout = options_.timeout;
    carry_out(own, [&] { return group_->_allgather_base(output, input, options); });
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> recv,
                  const Standing& own) override {
    at::Tensor output = as_tensor(recv);
    at::Tensor input = as_input(send);
    std::vector<int64_t> equal_split;
    c10d::AllToAllOptions options;
    options.timeout = options_.timeout;
    carry_out(own, [&] {
      return group_->alltoall_base(output, input, equal_split, equal_split, options);
    });
  }

  std::unique_ptr<Transport> split(std::span<const int> members, const Standing& own) override {
    const std::string prefix = "split-" + std::to_string(num_splits_++);
    return make_gloo_group(*this, store_.under(prefix), options_, view_, members, own);
  }

 private:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  StandingBoard& board() { return *view_.board; }

  // Note [One issue at a time]
  template <typename Issue>
  static WorkPtr issue_alone(const Issue& issue) {
    const std::lock_guard lock(issue_mutex);
    return issue();
  }

  template <typename Issue>
  void carry_out(const Standing& own, const Issue& issue) {
    board().post(own);
    or_give_up(board(), own, options_.timeout, [&] {
      exchange_headers(own);
      issue_alone(issue)->wait();
    });
    Standing past = own;
    past.is_past = 1;
    board().post(past);
  }

  // Note [Headers]
  void exchange_headers(const Standing& own) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Standing));
    at::Tensor mine = at::empty({kBytes}, at::kByte);
    at::Tensor all = at::empty({kBytes * world_size()}, at::kByte);
    std::memcpy(mine.data_ptr(), &own, sizeof(own));
    const WorkPtr work = issue_alone([&] { return group_->_allgather_base(all, mine); });
    await_or_give_up(work, own);
    std::vector<Standing> standings(static_cast<std::size_t>(world_size()));
    std::memcpy(standings.data(), all.data_ptr(), standings.size() * sizeof(Standing));
    if (const std::optional<int> divergent = find_divergent(standings)) {
      for (int rank = 0; rank < world_size(); ++rank) {
        board().learn(view_.place(rank), standings[static_cast<std::size_t>(rank)]);
      }
      give_up(board(), own,
              diverged_verdict(board(), own, view_.place(*divergent), options_.timeout),
              options_.timeout);
    }
  }

  void await_or_give_up(const WorkPtr& work, const Standing& own) {
    const auto done = std::make_shared<std::promise<void>>();
    const std::future<void> completed = done->get_future();
    work->getFuture()->addCallback([done](c10::ivalue::Future&) { done->set_value(); });
    // Ranks that wait for the same peer do not find out at once: the first tells the others.
    const auto deadline = std::chrono::steady_clock::now() + options_.timeout +
                          std::min(board().rank(), kMaxTurns) * kTurn;
    while (completed.wait_for(kLook) != std::future_status::ready) {
      if (const auto verdict = board().verdict()) throw_verdict(board(), own, *verdict);
      if (std::chrono::steady_clock::now() < deadline) continue;
      give_up(board(), own, late_verdict(board(), own.sequence, -1), options_.timeout);
    }
    work->wait();  // throws what went wrong
  }

  GlooOptions options_;
  Topology topology_;
  KeyStore store_;
  int num_splits_ = 0;  // equal on all ranks
  BoardView view_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

// Ranks tell their beacons' endpoints over `world`, and the first member a token.
std::shared_ptr<Beacon> start_group_beacon(Transport& world, const BoardView& view,
                                           std::span<const int> members, const GlooOptions& options,
                                           const Standing& own) {
  std::vector<int> names;
  names.reserve(members.size());
  for (const int member : members) names.push_back(view.board->name(view.place(member)));
  auto beacon = std::make_shared<Beacon>(BeaconOptions{.rank = options.rank,
                                                       .world_size = options.world_size,
                                                       .local_address = options.local_address,
                                                       .names = std::move(names)});
  std::random_device random;
  const uint64_t token = uint64_t{random()} << 32 | random();
  const std::vector<std::string> tokens = gather_group_texts(world, std::to_string(token), own);
  const std::vector<std::string> all = gather_group_texts(world, beacon->endpoint(), own);
  std::vector<std::string> endpoints;
  endpoints.reserve(members.size());
  for (const int member : members) endpoints.push_back(all[static_cast<size_t>(member)]);
  beacon->start(endpoints, std::stoull(tokens[static_cast<size_t>(members.front())]));
  return beacon;
}

std::unique_ptr<Transport> make_gloo_group(Transport& world, const KeyStore& store,
                                           const GlooOptions& options, const BoardView& view,
                                           std::span<const int> members, const Standing& own) {
  GlooOptions of_group = options;
  const auto place = std::find(members.begin(), members.end(), world.rank());
  of_group.rank = static_cast<int>(place - members.begin());
  of_group.world_size = static_cast<int>(members.size());
  const std::shared_ptr<Beacon> beacon = start_group_beacon(world, view, members, of_group, own);
  return or_give_up(*view.board, own, options.timeout, [&] {
    return std::make_unique<GlooTransport>(store.under(std::to_string(members.front())), of_group,
                                           BoardView{.board = beacon});
  });
}

class TorchGloo final : public Gloo {
 public:
  std::unique_ptr<Transport> make_transport(const KeyStore& store, const GlooOptions& options,
                                            BoardView view) const override {
    return std::make_unique<GlooTransport>(store, options, std::move(view));
  }
  std::unique_ptr<Transport> make_group(Transport& world, const KeyStore& store,
                                        const GlooOptions& options, const BoardView& view,
                                        std::span<const int> members,
                                        const Standing& own) const override {
    return make_gloo_group(world, store, options, view, members, own);
  }
};

}  // namespace
}  // namespace lockstep::runtime

extern "C" {
const char* lockstep_gloo_version() {
  return LOCKSTEP_VERSION;
}

const lockstep::runtime::Gloo* lockstep_gloo() {
  static const lockstep::runtime::TorchGloo gloo;
  return &gloo;
}
}
