#include "operator/cli/log_follow.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "operator/api/codec.h"
#include "operator/cli/exit_status.h"
#include "operator/cli/explain_job.h"
#include "operator/cli/log_choice.h"
#include "operator/kube/mutex.h"
#include "operator/kube/request.h"
#include "operator/plan/names.h"
#include "operator/plan/status.h"

namespace lockstep::cli {

using nlohmann::json;

namespace {

// "2026-11-23T01:02:03.000000004Z text": as the kubelet writes time stamps.
std::string_view stamp_of(std::string_view line) {
  constexpr std::size_t kShortest = sizeof("2026-11-23T01:02:03Z") - 1;
  const std::size_t end = line.find(' ');
  if (end == std::string_view::npos || end < kShortest || line[4] != '-' || line[10] != 'T') {
    return {};
  }
  return line.substr(0, end);
}

// Lines on their way from the readers to whoever prints them.
class LineBox {
 public:
  void put(std::string line) {
    const kube::MutexLock lock(mutex_);
    lines_.push_back(std::move(line));
    has_lines_.notify_all();
  }
  // What there is; waits for something until `deadline`.
  std::vector<std::string> take(std::chrono::steady_clock::time_point deadline) {
    const kube::MutexLock lock(mutex_);
    while (lines_.empty()) {
      if (has_lines_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
    }
    return std::exchange(lines_, {});
  }

 private:
  kube::Mutex mutex_;
  std::condition_variable_any has_lines_;
  std::vector<std::string> lines_ GUARDED_BY(mutex_);
};

// Reads the log of one pod in a thread of its own, one stream at a time.
class LogReader {
 public:
  LogReader(const Session& session, LineBox& box, LogSource source)
      : session_(session), box_(box), source_(std::move(source)) {}

  const std::string& pod() const { return source_.pod; }
  bool is_reading() const { return is_reading_; }
  // What the server refused the last stream with, once. Precondition: it is not reading.
  std::optional<kube::ApiError> take_refusal() { return std::exchange(refusal_, std::nullopt); }
  // Precondition: it is not reading.
  void read(int64_t tail) {
    is_reading_ = true;
    thread_ = std::jthread([this, tail](const std::stop_token& stop) {
      place_.reopen();
      const kube::ResourcePath path{{"", "v1", "pods"}, session_.ns, source_.pod, "log"};
      refusal_ = session_.client.stream(path, follow_query(place_, tail), stop,
                                        [this](std::string_view line) { return put(line); });
      is_reading_ = false;
    });
  }

 private:
  bool put(std::string_view line) {
    std::string_view text;
    if (place_.take(line, text)) box_.put(source_.prefix + std::string(text));
    return true;
  }

  const Session& session_;
  LineBox& box_;
  const LogSource source_;
  LogPlace place_;  // this and the refusal are the thread's while it reads
  std::optional<kube::ApiError> refusal_;
  std::atomic<bool> is_reading_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

// The container prints, or has printed.
bool has_log(const PodFact& pod) {
  return pod.phase != "Pending" || pod.exit_code.has_value();
}

bool prints_on(const PodFact& pod) {
  return pod.phase == "Running" && !pod.exit_code;
}

struct Look {
  std::optional<api::TrainingJob> job;
  std::vector<PodFact> pods;
  std::optional<Complaint> complaint;  // an answer that ends the following
};

// Nothing at all, if nobody answers for now.
Look look_at(const LogsArguments& arguments, const Session& session) {
  Look look;
  const auto refuse = [&](const kube::ApiError& error, const Asked& asked) {
    const bool may_pass = error.error.code == common::ErrorCode::kUnavailable;
    if (!may_pass) look.complaint = explain_refusal(error, asked, session.ns, session.server);
    return look;
  };
  const auto answer = session.client.get(job_path(session.ns, arguments.name));
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    return refuse(*error, {.verb = "get", .name = arguments.name});
  }
  common::Result<api::TrainingJob> job = api::decode_job(std::get<json>(answer));
  if (!job) {
    look.complaint = Complaint{kInvalidFile, job.error().message};
    return look;
  }
  kube::ListOptions options;
  options.label_selector = plan::pod_selector(arguments.name);
  const auto pods = session.client.list(pods_path(session.ns), options, {});
  if (const auto* error = std::get_if<kube::ApiError>(&pods)) {
    return refuse(*error, {.verb = "list", .name = "", .plural = "pods"});
  }
  look.job = std::move(job).value();
  look.pods = pods_of(*look.job, std::get<json>(pods).at("items"));
  return look;
}

class Following {
 public:
  Following(const LogsArguments& arguments, const Session& session)
      : arguments_(arguments), session_(session) {}

  // Takes up what `look` shows; true if there is nothing more to come.
  bool take_up(const Look& look) {
    for (const LogSource& source : sources(look)) {
      const auto pod = std::find_if(look.pods.begin(), look.pods.end(),
                                    [&](const PodFact& each) { return each.name == source.pod; });
      LogReader* const reader = find(source.pod);
      if (reader == nullptr && has_log(*pod)) {
        readers_.emplace_back(session_, box_, source).read(arguments_.tail);
      }
    }
    bool is_all = plan::is_finished(look.job->status);
    for (LogReader& reader : readers_) {
      if (reader.is_reading()) {
        is_all = false;
        continue;
      }
      const auto pod = std::find_if(look.pods.begin(), look.pods.end(),
                                    [&](const PodFact& each) { return each.name == reader.pod(); });
      const bool goes_on = pod != look.pods.end() && prints_on(*pod);
      const std::optional<kube::ApiError> refusal = reader.take_refusal();
      if (refusal && (!goes_on || refusal->error.code == common::ErrorCode::kPermissionDenied)) {
        status_ = complain(session_, *refusal,
                           {.verb = "get", .name = reader.pod(), .plural = "pods/log"});
        if (goes_on) return true;
      }
      if (!goes_on) continue;
      is_all = false;
      reader.read(arguments_.tail);  // it was cut
    }
    return is_all;
  }

  // kOk, or why a log could not be read.
  int status() const { return status_; }

  // Prints what comes until `deadline`; false if nobody reads it any more.
  bool print_until(std::chrono::steady_clock::time_point deadline) {
    do {
      for (const std::string& line : box_.take(deadline)) session_.out << line << "\n";
      session_.out << std::flush;
    } while (session_.out && std::chrono::steady_clock::now() < deadline);
    return static_cast<bool>(session_.out);
  }

 private:
  // Of the newest attempt, unless one was asked for.
  std::vector<LogSource> sources(const Look& look) const {
    int64_t newest = 0;
    for (const PodFact& pod : look.pods) newest = std::max(newest, pod.attempt);
    const LogWish wish = {.all_ranks = arguments_.all_ranks,
                          .rank = std::max<int64_t>(arguments_.rank, 0),
                          .attempt = arguments_.attempt >= 0 ? arguments_.attempt : newest};
    return choose_logs(*look.job, look.pods, wish);
  }

  LogReader* find(const std::string& pod) {
    const auto found = std::find_if(readers_.begin(), readers_.end(),
                                    [&](const LogReader& each) { return each.pod() == pod; });
    return found == readers_.end() ? nullptr : &*found;
  }

  const LogsArguments& arguments_;
  const Session& session_;
  int status_ = kOk;
  LineBox box_;
  std::list<LogReader> readers_;  // last: their threads use all of the above
};

}  // namespace

bool LogPlace::take(std::string_view line, std::string_view& text) {
  const std::string_view stamp = stamp_of(line);
  text = stamp.empty() ? line : line.substr(stamp.size() + 1);
  if (stamp.empty() || stamp > last_) {
    if (stamp.empty()) return true;
    last_ = stamp;
    num_at_last_ = num_seen_now_ = 1;
    return true;
  }
  if (stamp < last_) return false;
  if (++num_seen_now_ <= num_at_last_) return false;
  num_at_last_ = num_seen_now_;
  return true;
}

std::string follow_query(const LogPlace& place, int64_t tail) {
  std::string query = "container=trainer&follow=true&timestamps=true";
  if (!place.last().empty()) return query + "&sinceTime=" + kube::percent_encode(place.last());
  if (tail >= 0) query += "&tailLines=" + std::to_string(tail);
  return query;
}

int follow_logs(const LogsArguments& arguments, const Session& session,
                std::chrono::milliseconds look_again) {
  Following following(arguments, session);
  while (true) {
    const Look look = look_at(arguments, session);
    if (look.complaint) {
      following.print_until(std::chrono::steady_clock::now());
      session.err << "error: " << look.complaint->text << "\n";
      return look.complaint->status;
    }
    const bool is_all = look.job && following.take_up(look);
    const auto wait = is_all ? std::chrono::milliseconds(0) : look_again;
    if (!following.print_until(std::chrono::steady_clock::now() + wait)) return kFailed;
    if (!is_all) continue;
    if (following.status() != kOk) return following.status();
    return plan::is_true(look.job->status, plan::kSucceeded) ? kOk : kFailed;
  }
}

}  // namespace lockstep::cli
