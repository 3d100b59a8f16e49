#include "runtime/train/profile_window.h"

#include <chrono>
#include <utility>
#include <vector>

#include "runtime/common/text_file.h"
#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;
using Clock = TraceSpan::Clock;

std::string folder_of(const RankState& s) {
  return s.env.output + "/" + kProfileFolder;
}

// A rank's events on their way to rank 0.
std::string own_name(int rank) {
  return ".rank-" + std::to_string(rank) + ".events";
}

// Now, as every rank sees it, in the steady clock of this one.
Clock::time_point agree_on_origin(RankState& s) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const Clock::time_point now = Clock::now();
  const std::chrono::nanoseconds mine = since_1970;
  const std::string told =
      gather_texts(*s.collective, std::to_string(mine.count()), "origin of the profile").front();
  return now + (std::chrono::nanoseconds(std::stoll(told)) - mine);
}

}  // namespace

ProfileWindow::ProfileWindow(RankState& s, Disk& disk)
    : s_(s), disk_(disk), window_(s.config().logging.profile) {}

bool ProfileWindow::is_inside(int64_t step) const {
  return step >= window_.from_step && step < window_.from_step + window_.steps;
}

void ProfileWindow::step_begins(int64_t step) {
  if (!is_inside(step) || s_.clock->trace().is_on()) return;
  // What a step takes: parts and waits of two passes over the blocks, and their collectives.
  const auto passes = 2 * static_cast<int64_t>(s_.parallelism->micro_batches().size());
  const int64_t spans_of_step = passes * s_.decoder->num_blocks() * 4 + 64;
  origin_ = agree_on_origin(s_);
  s_.clock->trace().start(static_cast<std::size_t>(window_.steps * spans_of_step));
}

void ProfileWindow::step_ended(int64_t step) {
  if (is_inside(step) && !is_inside(step + 1)) finish();
}

void ProfileWindow::finish() {
  if (!s_.clock->trace().is_on()) return;
  const std::vector<TraceSpan> spans = s_.clock->trace().stop();
  agree_on(*s_.collective, write_own(encode_trace_events(s_.env.rank, spans, origin_)),
           ExitCode::kOutputUnwritable, "writing a rank's profile");
  Result<void> joined;
  if (s_.is_rank0()) joined = join_all();
  agree_on(*s_.collective, std::move(joined), ExitCode::kOutputUnwritable, "joining the profiles");
  if (s_.is_rank0()) s_.log.info("profile", {{"path", folder_of(s_) + "/trace.json"}});
}

Result<void> ProfileWindow::write_own(const std::string& events) {
  RETURN_IF_ERROR(disk_.make_folder(folder_of(s_)));
  return replace_file(disk_, folder_of(s_), own_name(s_.env.rank), events);
}

Result<void> ProfileWindow::join_all() {
  std::vector<std::string> events_by_rank;
  events_by_rank.reserve(static_cast<std::size_t>(s_.env.world_size));
  for (int rank = 0; rank < s_.env.world_size; ++rank) {
    ASSIGN_OR_RETURN(std::string events,
                     common::read_text_file(folder_of(s_) + "/" + own_name(rank)));
    events_by_rank.push_back(std::move(events));
  }
  RETURN_IF_ERROR(replace_file(disk_, folder_of(s_), "trace.json", encode_trace(events_by_rank)));
  for (int rank = 0; rank < s_.env.world_size; ++rank) {
    RETURN_IF_ERROR(disk_.remove_tree(folder_of(s_) + "/" + own_name(rank)));
  }
  return {};
}

}  // namespace lockstep::runtime
