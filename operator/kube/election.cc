#include "operator/kube/election.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep::kube {

using std::chrono::milliseconds;

namespace {

constexpr double kJitterFactor = 1.2;  // client-go's

common::Error wrong(const std::string& message) {
  return {common::ErrorCode::kInvalidArgument, message,
          "the defaults are 15s, 10s and 2s; a renewal must have time for more than one try"};
}

std::string text_of(milliseconds time) {
  return std::to_string(time.count()).append(" ms");
}

}  // namespace

common::Result<void> check_settings(const ElectionSettings& settings) {
  if (settings.retry_period <= milliseconds(0)) return wrong("the retry period must be positive");
  const std::chrono::duration<double, std::milli> least = settings.retry_period * kJitterFactor;
  if (settings.renew_deadline <= least) {
    return wrong("the renew deadline of " + text_of(settings.renew_deadline) +
                 " must be more than 1.2 times the retry period of " +
                 text_of(settings.retry_period));
  }
  if (settings.lease_duration <= settings.renew_deadline) {
    return wrong("the lease duration of " + text_of(settings.lease_duration) +
                 " must be more than the renew deadline of " + text_of(settings.renew_deadline));
  }
  if (settings.lease_duration % std::chrono::seconds(1) != milliseconds(0)) {
    return wrong("the lease duration of " + text_of(settings.lease_duration) +
                 " must be of whole seconds");
  }
  return {};
}

Election::Election(ElectionSettings settings)
    : settings_(std::move(settings)),
      random_(static_cast<uint32_t>(std::hash<std::string>{}(settings_.identity))) {}

bool Election::is_taken(Time now) const {
  if (!state_.known || state_.known->record.holder.empty()) return false;
  return state_.known->record.holder != settings_.identity &&
         now < state_.changed_at + state_.known->record.duration;
}

Election::Step Election::next(Time now, const std::string& wall_time) const {
  if (!state_.lost_why.empty()) return Lost{state_.lost_why};
  if (state_.leads && now >= state_.leads_until) {
    return Lost{"the Lease could not be renewed for " + text_of(settings_.renew_deadline)};
  }
  if (now < state_.rest_until)
    return Rest{state_.leads ? std::min(state_.rest_until, state_.leads_until) : state_.rest_until};
  if (!state_.is_fresh) return Read{};
  Write write{.record = {.holder = settings_.identity,
                         .duration = std::chrono::duration_cast<std::chrono::seconds>(
                             settings_.lease_duration),
                         .acquire_time = wall_time,
                         .renew_time = wall_time},
              .version = state_.exists ? state_.known->version : ""};
  if (state_.known) write.record.transitions = state_.known->record.transitions;
  if (state_.known && state_.known->record.holder == settings_.identity) {
    write.record.acquire_time = state_.known->record.acquire_time;
  } else if (state_.exists) {
    ++write.record.transitions;
  }
  return write;
}

void Election::rest(Time now) {
  state_.is_fresh = false;
  double factor = 1;
  if (!state_.leads)
    factor += settings_.jitter * std::uniform_real_distribution<double>(0, 1)(random_);
  state_.rest_until =
      now + std::chrono::duration_cast<BootClock::duration>(settings_.retry_period * factor);
}

void Election::on_read(const std::optional<Lease>& found, Time now) {
  state_.is_from_read = true;
  state_.exists = found.has_value();
  // A Lease that somebody deletes does not end the time of its holder, who may know nothing of it:
  // what was seen of it last goes on to count.
  if (found) {
    if (!state_.known || state_.known->record != found->record) state_.changed_at = now;
    state_.known = found;
  }
  if (state_.leads && found && found->record.holder != settings_.identity) {
    state_.lost_why = found->record.holder.empty() ? "the Lease was released by somebody else"
                                                   : found->record.holder + " has taken the Lease";
    return;
  }
  if (is_taken(now)) return rest(now);
  state_.is_fresh = true;
}

void Election::on_read_failed(Time now) {
  rest(now);
}

void Election::on_written(const Write& write, const Lease& written, Time sent, Time now) {
  state_.known = Lease{write.record, written.version, written.uid};
  state_.changed_at = now;
  state_.exists = true;
  state_.is_from_read = false;
  const Time until = sent + settings_.renew_deadline;
  if (!state_.leads &&
      now >= until) {  // elected too late to lead; the Lease is ours to renew, though
    state_.is_fresh = false;
    return;
  }
  state_.leads = true;
  state_.leads_until = until;
  state_.is_fresh = true;
  state_.rest_until = sent + settings_.retry_period;
}

void Election::on_write_failed(Time now) {
  // What we knew may be old: look, and try again at once. If we had just looked, others are at it.
  if (state_.is_from_read) return rest(now);
  state_.is_fresh = false;
}

std::optional<Election::Write> Election::release(Time now, const std::string& wall_time) const {
  if (!is_leader(now) || !state_.known || !state_.exists) return std::nullopt;
  return Write{.record = {.holder = "",
                          .duration = std::chrono::seconds(1),
                          .acquire_time = wall_time,
                          .renew_time = wall_time,
                          .transitions = state_.known->record.transitions},
               .version = state_.known->version};
}

}  // namespace lockstep::kube
