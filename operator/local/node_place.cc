#include "operator/local/node_place.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace lockstep::local {

using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

constexpr int64_t kMaxNodes = 65536;
constexpr int kMaxPort = 65534;  // the ranks take the one after it
constexpr int kMpiPort = 29400;  // torchrun's default
constexpr int kFirstSlurmPort = 15000;
constexpr int kNumSlurmPorts = 10000;

Error invalid(const std::string& message, const std::string& hint) {
  return Error{ErrorCode::kInvalidArgument, message, hint};
}

std::optional<int64_t> to_number(std::string_view text) {
  int64_t value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// "HOST:PORT", "[::1]:PORT" into `place`.
Result<void> read_master(const std::string& text, const std::string& name, NodePlace& place) {
  const size_t colon = text.rfind(':');
  std::optional<int64_t> port;
  if (colon != std::string::npos) port = to_number(std::string_view(text).substr(colon + 1));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || !port || *port < 1 || *port > kMaxPort) {
    return invalid(name + ": expected HOST:PORT, the port from 1 to " + std::to_string(kMaxPort) +
                       ", found '" + text + "'",
                   "name an address of node 0 that every machine reaches, and a port that is free "
                   "there, as is the one after it");
  }
  place.master_host = host;
  place.master_port = static_cast<int>(*port);
  return {};
}

// Variables of one launcher.
class Variables {
 public:
  Variables(const EnvLookup& env, std::string launcher)
      : env_(env), launcher_(std::move(launcher)) {}

  Result<std::string> text(const std::string& name) const {
    std::optional<std::string> found = env_(name);
    if (found && !found->empty()) return *std::move(found);
    return refuse(name, "nothing", "a value");
  }
  Result<int64_t> number(const std::string& name, int64_t least, int64_t most) const {
    ASSIGN_OR_RETURN(const std::string found, text(name));
    const std::optional<int64_t> value = to_number(found);
    if (value && *value >= least && *value <= most) return *value;
    return refuse(name, "'" + found + "'",
                  "a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  Error refuse(const std::string& name, const std::string& found,
               const std::string& expected) const {
    return invalid(launcher_ + " set " + name + ": expected " + expected + ", found " + found,
                   "give --nodes, --node-rank and --master");
  }

 private:
  const EnvLookup& env_;
  const std::string launcher_;
};

Result<NodePlace> from_flags(const NodeFlags& flags) {
  if (!flags.nodes || !flags.node_rank || flags.master.empty()) {
    const char* const missing = !flags.nodes       ? "--nodes"
                                : !flags.node_rank ? "--node-rank"
                                                   : "--master";
    return invalid(std::string(missing).append(" is missing"),
                   "--nodes N, --node-rank R and --master HOST:PORT go together");
  }
  if (*flags.nodes < 1 || *flags.nodes > kMaxNodes) {
    return invalid("--nodes: expected a number from 1 to " + std::to_string(kMaxNodes) +
                       ", found " + std::to_string(*flags.nodes),
                   "give the number of machines");
  }
  if (*flags.node_rank < 0 || *flags.node_rank >= *flags.nodes) {
    return invalid("--node-rank: expected a number from 0 to " + std::to_string(*flags.nodes - 1) +
                       ", as --nodes is " + std::to_string(*flags.nodes) + ", found " +
                       std::to_string(*flags.node_rank),
                   "count the machines from 0; the one of --master is 0");
  }
  NodePlace place{.nodes = *flags.nodes, .node_rank = *flags.node_rank, .told_by = "--nodes"};
  RETURN_IF_ERROR(read_master(flags.master, "--master", place));
  return place;
}

// Where a launcher counts: nodes over all machines, and those of this one.
struct Counters {
  const char* nodes;
  const char* node_rank;
  const char* local_count;
  const char* local_index;
};

Result<NodePlace> read_counters(const Variables& variables, const std::string& launcher,
                                const Counters& names) {
  NodePlace place{.told_by = launcher};
  ASSIGN_OR_RETURN(place.nodes, variables.number(names.nodes, 1, kMaxNodes));
  ASSIGN_OR_RETURN(place.node_rank, variables.number(names.node_rank, 0, place.nodes - 1));
  ASSIGN_OR_RETURN(place.local_count, variables.number(names.local_count, 1, place.nodes));
  ASSIGN_OR_RETURN(place.local_index,
                   variables.number(names.local_index, 0, place.local_count - 1));
  return place;
}

Result<NodePlace> from_torchrun(const EnvLookup& env, const std::string& master) {
  const Variables variables(env, "torchrun");
  ASSIGN_OR_RETURN(NodePlace place, read_counters(variables, "torchrun",
                                                  {.nodes = "WORLD_SIZE",
                                                   .node_rank = "RANK",
                                                   .local_count = "LOCAL_WORLD_SIZE",
                                                   .local_index = "LOCAL_RANK"}));
  if (!master.empty()) {
    RETURN_IF_ERROR(read_master(master, "--master", place));
    return place;
  }
  ASSIGN_OR_RETURN(place.master_host, variables.text("MASTER_ADDR"));
  ASSIGN_OR_RETURN(const int64_t port, variables.number("MASTER_PORT", 1, kMaxPort - 1));
  // torchrun's own store may hold the port itself.
  place.master_port = static_cast<int>(port) + 1;
  return place;
}

// MASTER_ADDR and MASTER_PORT, or what stands for those that are not set.
Result<void> read_usual_master(const EnvLookup& env, const Variables& variables,
                               const std::string& host, int port, NodePlace& place) {
  place.master_host = env("MASTER_ADDR").value_or(host);
  place.master_port = port;
  if (env("MASTER_PORT")) {
    ASSIGN_OR_RETURN(const int64_t told, variables.number("MASTER_PORT", 1, kMaxPort));
    place.master_port = static_cast<int>(told);
  }
  if (!place.master_host.empty()) return {};
  return variables.refuse("MASTER_ADDR", "nothing", "the address of node 0");
}

Result<NodePlace> from_slurm(const EnvLookup& env, const std::string& master) {
  const Variables variables(env, "Slurm");
  NodePlace place{.told_by = "Slurm"};
  ASSIGN_OR_RETURN(place.nodes, variables.number("SLURM_STEP_NUM_TASKS", 1, kMaxNodes));
  ASSIGN_OR_RETURN(place.node_rank, variables.number("SLURM_PROCID", 0, place.nodes - 1));
  ASSIGN_OR_RETURN(const int64_t machine, variables.number("SLURM_NODEID", 0, kMaxNodes));
  ASSIGN_OR_RETURN(const std::string tasks, variables.text("SLURM_STEP_TASKS_PER_NODE"));
  const std::optional<int64_t> here = tasks_on_node(tasks, machine);
  if (!here || *here < 1) {
    return variables.refuse("SLURM_STEP_TASKS_PER_NODE", "'" + tasks + "'",
                            "the tasks of machine " + std::to_string(machine));
  }
  place.local_count = *here;
  ASSIGN_OR_RETURN(place.local_index, variables.number("SLURM_LOCALID", 0, *here - 1));
  if (!master.empty()) {
    RETURN_IF_ERROR(read_master(master, "--master", place));
    return place;
  }
  ASSIGN_OR_RETURN(const std::string list, variables.text("SLURM_STEP_NODELIST"));
  // Jobs that share a machine have ports of their own.
  const int64_t job = to_number(env("SLURM_JOB_ID").value_or("0")).value_or(0);
  const int port = kFirstSlurmPort + 2 * static_cast<int>(job % (kNumSlurmPorts / 2));
  RETURN_IF_ERROR(read_usual_master(env, variables, first_host(list), port, place));
  return place;
}

Result<NodePlace> from_open_mpi(const EnvLookup& env, const std::string& master) {
  const Variables variables(env, "Open MPI");
  ASSIGN_OR_RETURN(NodePlace place, read_counters(variables, "Open MPI",
                                                  {.nodes = "OMPI_COMM_WORLD_SIZE",
                                                   .node_rank = "OMPI_COMM_WORLD_RANK",
                                                   .local_count = "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                   .local_index = "OMPI_COMM_WORLD_LOCAL_RANK"}));
  if (!master.empty()) {
    RETURN_IF_ERROR(read_master(master, "--master", place));
    return place;
  }
  const std::string host = place.local_count == place.nodes ? "127.0.0.1" : "";
  RETURN_IF_ERROR(read_usual_master(env, variables, host, kMpiPort, place));
  return place;
}

Result<NodePlace> from_environment(const EnvLookup& env, const std::string& master) {
  if (env("TORCHELASTIC_RUN_ID")) return from_torchrun(env, master);
  if (env("OMPI_COMM_WORLD_SIZE")) return from_open_mpi(env, master);
  if (env("SLURM_STEP_NUM_TASKS")) return from_slurm(env, master);
  if (master.empty()) return NodePlace{};
  return invalid("--master is given, but --nodes and --node-rank are not",
                 "--nodes N, --node-rank R and --master HOST:PORT go together");
}

}  // namespace

Result<NodePlace> choose_place(const NodeFlags& flags, const EnvLookup& env) {
  const bool has_flags = flags.nodes || flags.node_rank;
  ASSIGN_OR_RETURN(const NodePlace place,
                   has_flags ? from_flags(flags) : from_environment(env, flags.master));
  return place.nodes == 1 ? NodePlace{} : place;
}

Result<void> check_division(const NodePlace& place, int64_t ranks) {
  if (ranks % place.nodes == 0) return {};
  const std::string nodes = std::to_string(place.nodes);
  return invalid("spec.ranks is " + std::to_string(ranks) + ", which " + nodes + " nodes (" +
                     place.told_by + ") do not divide",
                 "every node takes as many ranks: --set ranks=" +
                     std::to_string((ranks + place.nodes - 1) / place.nodes * place.nodes));
}

std::string first_host(const std::string& node_list) {
  const size_t bracket = node_list.find('[');
  const size_t comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const size_t end = node_list.find_first_of("-,]", bracket);
  const size_t close = node_list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return node_list;
  const size_t next = node_list.find(',', close);
  const size_t rest = next == std::string::npos ? node_list.size() : next;
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1) +
         node_list.substr(close + 1, rest - close - 1);
}

std::optional<int64_t> tasks_on_node(const std::string& tasks_per_node, int64_t node) {
  std::string_view rest = tasks_per_node;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t times = part.find("(x");
    const std::optional<int64_t> tasks = to_number(part.substr(0, times));
    std::optional<int64_t> nodes = 1;
    if (times != std::string_view::npos && part.ends_with(')')) {
      nodes = to_number(part.substr(times + 2, part.size() - times - 3));
    }
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

}  // namespace lockstep::local
