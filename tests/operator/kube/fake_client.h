// A Client whose answers are scripted: gets, lists and watches are taken from three queues.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/client.h"
#include "operator/kube/mutex.h"

namespace lockstep::kube {

// One watch: its lines, then its end. Without an end it stays open until it is cancelled.
struct ScriptedWatch {
  std::vector<std::string> lines;
  bool stays_open = false;
  std::optional<ApiError> end;
};

class FakeClient final : public Client {
 public:
  using Answer = ApiResult<nlohmann::json>;

  void add_list(Answer answer) {
    const MutexLock lock(mutex_);
    lists_.push_back(std::move(answer));
  }
  void add_get(Answer answer) {
    const MutexLock lock(mutex_);
    gets_.push_back(std::move(answer));
  }
  void add_watch(ScriptedWatch watch) {
    const MutexLock lock(mutex_);
    watches_.push_back(std::move(watch));
  }
  // "get PATH", "list limit=... continue=..." or "watch QUERY", in order.
  std::vector<std::string> calls() const {
    const MutexLock lock(mutex_);
    return calls_;
  }

  Answer get(const ResourcePath& path) override {
    const MutexLock lock(mutex_);
    calls_.push_back("get " + url_path(path));
    return next_of(gets_);
  }
  using Client::create;
  Answer create(const ResourcePath& /*path*/, const nlohmann::json& /*body*/,
                Warnings& /*warnings*/) override {
    return unscripted();
  }
  Answer replace(const ResourcePath& /*path*/, const nlohmann::json& /*body*/) override {
    return unscripted();
  }
  Answer patch(const ResourcePath& /*path*/, PatchType /*type*/,
               const nlohmann::json& /*body*/) override {
    return unscripted();
  }
  Answer remove(const ResourcePath& /*path*/, const DeleteOptions& /*options*/) override {
    return unscripted();
  }

  Answer list(const ResourcePath& /*path*/, const ListOptions& options,
              std::stop_token /*stop*/) override {
    const MutexLock lock(mutex_);
    calls_.push_back("list limit=" + std::to_string(options.limit) +
                     " continue=" + options.continue_token);
    return next_of(lists_);
  }

  std::optional<ApiError> stream(const ResourcePath& /*path*/, const std::string& query,
                                 std::stop_token stop,
                                 const std::function<bool(std::string_view)>& on_line) override;

 private:
  static Answer unscripted() {
    return ApiError{{common::ErrorCode::kUnavailable, "not scripted", ""}, 0, "", std::nullopt};
  }

  static Answer next_of(std::deque<Answer>& answers) {
    if (answers.empty()) return unscripted();
    Answer answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }

  mutable Mutex mutex_;
  std::deque<Answer> gets_ GUARDED_BY(mutex_);
  std::deque<Answer> lists_ GUARDED_BY(mutex_);
  std::deque<ScriptedWatch> watches_ GUARDED_BY(mutex_);
  std::vector<std::string> calls_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::kube
