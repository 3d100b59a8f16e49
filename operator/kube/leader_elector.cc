#include "operator/kube/leader_elector.h"

#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <variant>

#include <sys/eventfd.h>
#include <unistd.h>

namespace lockstep::kube {

using nlohmann::json;

namespace {

std::string wall_time() {
  return format_micro_time(std::chrono::system_clock::now());
}

std::chrono::seconds seconds_since(BootClock::time_point then) {
  return std::chrono::floor<std::chrono::seconds>(BootClock::now() - then);
}

}  // namespace

std::string make_identity(const std::string& host) {
  std::random_device random;
  char digits[2 * 16 + 1];
  for (int word = 0; word < 4; ++word) {
    std::snprintf(digits + static_cast<ptrdiff_t>(8) * word, 9, "%08x",
                  static_cast<unsigned>(random()));
  }
  return host + "_" + digits;
}

LeaderElector::LeaderElector(Client& client, Options options)
    : client_(client),
      options_(std::move(options)),
      path_(lease_path(options_.ns, options_.name)),
      news_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      election_(options_.settings) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

LeaderElector::~LeaderElector() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  close(news_fd_);
}

// NOLINTNEXTLINE(readability-make-member-function-const): it changes what news_fd() says.
void LeaderElector::take_news() {
  eventfd_t count = 0;
  eventfd_read(news_fd_, &count);
}

LeaderElector::State LeaderElector::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

std::string LeaderElector::why_lost() const {
  const MutexLock lock(mutex_);
  return why_lost_;
}

std::string LeaderElector::lease_uid() const {
  const MutexLock lock(mutex_);
  return lease_uid_;
}

std::optional<std::chrono::seconds> LeaderElector::since_answer() const {
  const MutexLock lock(mutex_);
  if (!answered_at_) return std::nullopt;
  return seconds_since(*answered_at_);
}

std::chrono::seconds LeaderElector::since_turn() const {
  const MutexLock lock(mutex_);
  return seconds_since(turned_at_);
}

void LeaderElector::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex_);
      turned_at_ = BootClock::now();
    }
    const Election::Step step = election_.next(BootClock::now(), wall_time());
    if (const auto* lost = std::get_if<Election::Lost>(&step)) return lose(lost->why);
    if (const auto* rest = std::get_if<Election::Rest>(&step)) {
      rest_until(rest->until, stop);
    } else if (const auto* write = std::get_if<Election::Write>(&step)) {
      carry_out(*write);
    } else {
      carry_out(Election::Read{});
    }
    publish();
  }
}

void LeaderElector::note_answer() {
  const MutexLock lock(mutex_);
  answered_at_ = BootClock::now();
}

void LeaderElector::carry_out(const Election::Read& /*read*/) {
  const ApiResult<json> answer = client_.get(path_);
  const BootClock::time_point now = BootClock::now();
  if (election_.is_leader(now) && options_.observer.on_slow_path) options_.observer.on_slow_path();
  if (const auto* object = std::get_if<json>(&answer)) {
    note_answer();
    return election_.on_read(decode_lease(*object), now);
  }
  const auto& error = std::get<ApiError>(answer);
  if (error.error.code == common::ErrorCode::kNotFound) {
    note_answer();
    return election_.on_read(std::nullopt, now);
  }
  if (options_.observer.on_trouble) options_.observer.on_trouble(error.error.message);
  election_.on_read_failed(now);
}

ApiResult<json> LeaderElector::send(const Election::Write& write) {
  const json body = encode_lease(path_, write.record, write.version);
  return write.version.empty() ? client_.create(path_, body) : client_.replace(path_, body);
}

void LeaderElector::carry_out(const Election::Write& write) {
  const BootClock::time_point sent = BootClock::now();
  const ApiResult<json> answer = send(write);
  const BootClock::time_point now = BootClock::now();
  if (const auto* object = std::get_if<json>(&answer)) {
    note_answer();
    return election_.on_written(write, decode_lease(*object), sent, now);
  }
  const common::Error& error = std::get<ApiError>(answer).error;
  // That somebody else was faster is no trouble.
  const bool is_news =
      error.code != common::ErrorCode::kConflict && error.code != common::ErrorCode::kAlreadyExists;
  if (is_news && options_.observer.on_trouble) options_.observer.on_trouble(error.message);
  election_.on_write_failed(now);
}

// What the others read: fence, state, holder.
void LeaderElector::publish() {
  std::string news;
  {
    const MutexLock lock(mutex_);
    if (const std::optional<Lease>& known = election_.state().known) {
      lease_uid_ = known->uid;
      if (holder_ != known->record.holder) news = holder_ = known->record.holder;
    }
  }
  if (!news.empty() && options_.observer.on_holder) options_.observer.on_holder(news);
  if (!election_.is_leader(BootClock::now())) return;
  fence_.open_until(election_.state().leads_until);
  if (state() == State::kWaiting) announce(State::kLeading);
}

void LeaderElector::lose(const std::string& why) {
  fence_.close();
  {
    const MutexLock lock(mutex_);
    why_lost_ = why;
  }
  announce(State::kLost);
}

void LeaderElector::announce(State state) {
  {
    const MutexLock lock(mutex_);
    state_ = state;
  }
  eventfd_write(news_fd_, 1);
}

void LeaderElector::rest_until(BootClock::time_point until, const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  stopped_.wait_for(mutex_, stop, until - BootClock::now(), [] { return false; });
}

bool LeaderElector::release() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  const std::optional<Election::Write> write = election_.release(BootClock::now(), wall_time());
  fence_.close();
  return write && std::holds_alternative<json>(send(*write));
}

}  // namespace lockstep::kube
