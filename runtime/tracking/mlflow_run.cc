#include "runtime/tracking/mlflow_run.h"

#include <algorithm>
#include <span>

#include <pthread.h>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/output_folder.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using std::chrono::milliseconds;

// Lines of which we know when they were written: 1 MiB. Older ones have the oldest time known.
constexpr std::size_t kMaxTimes = 65536;
// What the end of a run waits for a server that did not answer the last time.
constexpr milliseconds kPatienceWhenAway{2000};

int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

std::string checksum(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return crc32c_hex(std::as_bytes(std::span(text)));
}

}  // namespace

MlflowRun::MlflowRun(MlflowRunOptions options, common::Log log, Disk& disk)
    : options_(std::move(options)),
      log_(std::move(log)),
      disk_(disk),
      settings_(checksum(options_.params.at("train"))),
      tail_(options_.output + "/metrics.jsonl") {}

MlflowRun::~MlflowRun() = default;

void MlflowRun::start(int64_t step, MlflowTexts tags) {
  start_step_ = step;
  start_ms_ = now_ms();  // a server may be asked for the run long after that
  tags_ = std::move(tags);
  {
    const std::lock_guard lock(mutex_);
    is_started_ = true;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "mlflow");
    work(stop);
  });
}

void MlflowRun::line_written(int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    times_.emplace_back(step, now_ms());
    if (times_.size() > kMaxTimes) times_.pop_front();
    has_news_ = true;
  }
  changed_.notify_all();
}

void MlflowRun::finish(MlflowStatus status, milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!is_started_ || is_over_ || ending_) return;
  ending_ = Ending{status, now_ms()};
  changed_.notify_all();
  if (is_away_) patience = std::min(patience, kPatienceWhenAway);
  if (changed_.wait_for(lock, patience, [this] { return is_over_; }) && !has_missed_) return;
  log_.warning("mlflow not told all",
               {{"hint", "metrics.jsonl has it; a resumed run tells the rest"}});
}

std::optional<MlflowRun::Ending> MlflowRun::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

int64_t MlflowRun::time_of(int64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::lower_bound(times_.begin(), times_.end(), std::pair{step, int64_t{0}});
  return found == times_.end() ? now_ms() : found->second;
}

void MlflowRun::rest(const std::stop_token& stop, milliseconds pause, bool was_ending) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, pause, [&] { return ending_.has_value() && !was_ending; });
}

void MlflowRun::end(bool has_missed) {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    has_missed_ = has_missed;
  }
  changed_.notify_all();
}

void MlflowRun::say_away(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (is_away_) return;
    is_away_ = true;
  }
  log_.warning("mlflow is away", {{"reason", error.message},
                                  {"message", "training goes on; what it misses is told later"}});
}

void MlflowRun::say_back() {
  {
    const std::lock_guard lock(mutex_);
    if (!is_away_) return;
    is_away_ = false;
  }
  log_.info("mlflow is back");
}

void MlflowRun::work(const std::stop_token& stop) {
  const MlflowClient client(options_.server, stop);
  milliseconds pause = options_.first_pause;
  while (!stop.stop_requested()) {
    const bool was_ending = ending().has_value();
    const Result<bool> advanced = advance(client);
    if (stop.stop_requested()) return;
    if (advanced && *advanced) return end(false);
    if (advanced) {
      say_back();
      pause = options_.first_pause;
      rest(stop, options_.pace, was_ending);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [this] { return has_news_ || ending_.has_value(); });
      continue;
    }
    if (advanced.error().code != ErrorCode::kUnavailable) {
      log_.warning("mlflow given up",
                   {{"reason", advanced.error().message},
                    {"hint", advanced.error().hint},
                    {"message", "training goes on; this attempt tells MLflow no more"}});
      return end(false);
    }
    say_away(advanced.error());
    if (was_ending) return end(true);  // one try for the end of a run
    rest(stop, pause, was_ending);
    pause = std::min(2 * pause, options_.longest_pause);
  }
}

Result<bool> MlflowRun::advance(const MlflowClient& client) {
  if (!is_connected_) RETURN_IF_ERROR(connect(client));
  if (!is_described_) RETURN_IF_ERROR(describe(client));
  for (bool has_more = true; has_more;) {
    ASSIGN_OR_RETURN(has_more, tell_lines(client));
  }
  const std::optional<Ending> end = ending();
  if (!end) return false;
  // Lines that came before the end are told before it.
  for (bool has_more = true; has_more;) {
    ASSIGN_OR_RETURN(has_more, tell_lines(client));
  }
  RETURN_IF_ERROR(check_fence(options_.output, options_.run, options_.attempt));
  RETURN_IF_ERROR(client.set_status(state_.run_id, end->status, end->time_ms));
  return true;
}

Result<void> MlflowRun::keep_state() {
  RETURN_IF_ERROR(check_fence(options_.output, options_.run, options_.attempt));
  const Result<void> written = write_mlflow_state(disk_, options_.output, state_);
  if (written) return {};
  return Error{ErrorCode::kInternal, written.error().message, written.error().hint};
}

Result<void> MlflowRun::connect(const MlflowClient& client) {
  if (state_.key.empty()) {
    state_ = state_to_go_on_with(options_.output, options_.config, settings_, start_step_);
  }
  ASSIGN_OR_RETURN(const std::string experiment, client.experiment_id(options_.config.experiment));
  if (!state_.run_id.empty()) {
    ASSIGN_OR_RETURN(const bool is_there, client.has_run(state_.run_id));
    if (!is_there) {
      log_.warning("mlflow run is gone", {{"run", state_.run_id}, {"message", "a new one begins"}});
      state_ = new_mlflow_state(options_.config, settings_);
    }
  }
  if (state_.run_id.empty()) {
    RETURN_IF_ERROR(keep_state());  // the key first: Note [One run of MLflow]
    const std::string& named = options_.config.run_name;
    ASSIGN_OR_RETURN(state_.run_id,
                     client.create_run({.experiment_id = experiment,
                                        .name = named.empty() ? options_.name : named,
                                        .key = state_.key,
                                        .start_ms = start_ms_}));
    RETURN_IF_ERROR(keep_state());
  }
  RETURN_IF_ERROR(client.set_status(state_.run_id, MlflowStatus::kRunning, 0));
  is_connected_ = true;
  log_.info("mlflow", {{"uri", options_.config.tracking_uri},
                       {"experiment", options_.config.experiment},
                       {"experiment_id", experiment},
                       {"run", state_.run_id}});
  return {};
}

Result<void> MlflowRun::describe(const MlflowClient& client) {
  if (!state_.has_params) {
    RETURN_IF_ERROR(client.log_params(state_.run_id, flatten_params(options_.params, "")));
    state_.has_params = true;
    RETURN_IF_ERROR(keep_state());
  }
  RETURN_IF_ERROR(client.set_tags(state_.run_id, tags_));
  is_described_ = true;
  return {};
}

// Returns whether there may be more.
Result<bool> MlflowRun::tell_lines(const MlflowClient& client) {
  {
    const std::lock_guard lock(mutex_);
    has_news_ = false;
  }
  const MlflowBatch batch = tail_.next(state_, [this](int64_t step) { return time_of(step); });
  if (batch.metrics.empty()) {
    tail_.told(batch, state_);
    return false;
  }
  RETURN_IF_ERROR(client.log_metrics(state_.run_id, batch.metrics));
  tail_.told(batch, state_);
  RETURN_IF_ERROR(keep_state());
  const std::lock_guard lock(mutex_);
  while (!times_.empty() && times_.front().first < state_.told_step) times_.pop_front();
  return true;
}

}  // namespace lockstep::runtime
