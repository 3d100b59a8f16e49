#include "operator/cli/run_nodes.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "operator/cli/exit_status.h"
#include "operator/cli/verb.h"
#include "operator/local/node_agent.h"
#include "operator/local/node_meeting.h"
#include "runtime/common/exit_code.h"

namespace lockstep::cli {

namespace {

static_assert(kNodesNeverMet == static_cast<int>(common::ExitCode::kRendezvousTimeout));
static_assert(kNodeLost == static_cast<int>(common::ExitCode::kPeerLost));

std::optional<std::string> environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void print_node_error(const common::Error& error) {
  std::cerr << "error: " << error.message;
  if (!error.hint.empty()) std::cerr << " (" << error.hint << ")";
  std::cerr << "\n";
}

int meeting_status(const common::Error& error) {
  switch (error.code) {
    case common::ErrorCode::kUnavailable:
      return kNodesNeverMet;
    case common::ErrorCode::kConflict:
      return kInvalidFile;
    case common::ErrorCode::kGone:
      return kSuspended;
    case common::ErrorCode::kInvalidArgument:
      return kUsage;
    default:
      return kFailed;
  }
}

local::MeetingOptions meeting_of(const NodeRun& run) {
  const local::NodePlace& place = run.processes.place;
  const nlohmann::json::json_pointer timeout("/communication/timeoutSeconds");
  const nlohmann::json& train = run.manifest.job.spec.train;
  const int64_t seconds = train.is_object() ? train.value(timeout, int64_t{600}) : 600;
  return {.place = place,
          .hello = {.version = local::this_version(),
                    .name = run.manifest.job.meta.name,
                    .spec = run.manifest.spec,
                    .inputs = run.inputs,
                    .nodes = place.nodes,
                    .node_rank = place.node_rank},
          .output_mode = run.processes.output_mode,
          .patience = std::chrono::seconds(seconds),
          .signal_fd = run.signal_fd};
}

// "ranks 2 to 3"
std::string ranks_of(const local::NodePlace& place, int64_t world_size) {
  const int64_t here = place.ranks_here(world_size);
  const int64_t first = place.node_rank * here;
  if (here == 1) return "rank " + std::to_string(first);
  return "ranks " + std::to_string(first) + " to " + std::to_string(first + here - 1);
}

}  // namespace

void add_node_flags(CLI::App& verb, local::NodeFlags& flags) {
  verb.add_option("--nodes", flags.nodes, "run on so many machines, each with as many ranks")
      ->type_name("N");
  verb.add_option("--node-rank", flags.node_rank, "which of them this is, from 0 on")
      ->type_name("R");
  verb.add_option("--master", flags.master, "address of node 0, and a port that is free there")
      ->type_name("HOST:PORT");
}

std::optional<local::NodePlace> find_place(const local::NodeFlags& flags,
                                           const api::TrainingJob& job) {
  const common::Result<local::NodePlace> place = local::choose_place(flags, environment);
  const common::Result<void> divides =
      place ? local::check_division(*place, job.spec.ranks) : common::Result<void>{};
  if (place && divides) return *place;
  print_node_error(place ? divides.error() : place.error());
  return std::nullopt;
}

void print_place(const local::NodePlace& place, int64_t world_size) {
  if (place.nodes == 1) return;
  std::cerr << "node " << place.node_rank << " of " << place.nodes << " (" << place.told_by
            << ") would start " << ranks_of(place, world_size) << "; nodes meet at "
            << place.master_host << ":" << place.master_port << ", ranks at port "
            << place.rendezvous_port() << "\n";
}

std::optional<std::vector<local::NodeLink>> gather_nodes(const NodeRun& run, int& status) {
  const local::NodePlace& place = run.processes.place;
  if (place.nodes == 1) return std::vector<local::NodeLink>{};
  local::MeetingOptions options = meeting_of(run);
  options.on_joined = [](int64_t node, const std::string& address) {
    std::cerr << "node " << node << " is " << address << "\n";
  };
  std::cerr << "node 0 of " << place.nodes << " (" << place.told_by << "), at " << place.master_host
            << ":" << place.master_port << ": waiting for the others\n";
  common::Result<std::vector<local::NodeLink>> links = local::await_nodes(options);
  if (links) return std::move(links).value();
  print_node_error(links.error());
  status = meeting_status(links.error());
  return std::nullopt;
}

int follow_first_node(const NodeRun& run) {
  const local::NodePlace& place = run.processes.place;
  std::cerr << "node " << place.node_rank << " of " << place.nodes << " (" << place.told_by << "), "
            << ranks_of(place, run.manifest.job.spec.ranks) << ": looking for node 0 at "
            << place.master_host << ":" << place.master_port << "\n";
  common::Result<local::Joined> joined = local::join_nodes(meeting_of(run));
  if (!joined) {
    print_node_error(joined.error());
    return meeting_status(joined.error());
  }
  std::cerr << "joined; node 0 shows the progress\n";
  local::ProcessClusterOptions processes = run.processes;
  processes.output_mode = joined->output_mode;
  const local::NodeReport report =
      local::serve_node(std::move(joined->link), processes, run.signal_fd);
  if (!report.message.empty()) {
    print_node_error({common::ErrorCode::kUnavailable, report.message, report.hint});
  }
  return exit_status_of(report.run_end);
}

int exit_status_of(local::RunEnd end) {
  switch (end) {
    case local::RunEnd::kSucceeded:
      return kOk;
    case local::RunEnd::kFailed:
      return kFailed;
    case local::RunEnd::kSuspended:
    case local::RunEnd::kKilled:
      return kSuspended;
    case local::RunEnd::kNodeLost:
      return kNodeLost;
  }
  return kFailed;
}

}  // namespace lockstep::cli
