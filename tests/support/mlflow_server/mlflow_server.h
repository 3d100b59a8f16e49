// A server that speaks MLflow's REST protocol, as far as a training tells it anything, on a
// loopback port. It keeps what it was told, holds every request against the rules of the real one,
// and has faults. tests/parity/mlflow_parity.py has the real one in its place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/loopback_listener.h"

namespace lockstep::support {

struct ToldMetric {
  std::string key;
  nlohmann::json value;  // a number, or the text NaN
  int64_t timestamp = 0;
  int64_t step = 0;
};

struct ToldRun {
  std::string id;
  std::string experiment;
  std::string name;
  std::string status = "RUNNING";
  int64_t start_time = 0;
  int64_t end_time = 0;
  bool is_deleted = false;
  std::map<std::string, std::string> params;
  std::map<std::string, std::string> tags;
  std::vector<ToldMetric> metrics;

  // The steps of a metric, in the order in which they came.
  std::vector<int64_t> steps_of(const std::string& key) const;
};

// What goes wrong with the next request whose path contains `path`.
struct MlflowFault {
  std::string path;
  int status = 0;                      // answered in place of carrying it out; 0: carried out
  std::string body;                    // of that answer
  bool loses_answer = false;           // carried out, but the connection ends without an answer
  std::chrono::milliseconds delay{0};  // before the answer
};

class MlflowServer {
 public:
  MlflowServer();
  ~MlflowServer();
  MlflowServer(const MlflowServer&) = delete;
  MlflowServer& operator=(const MlflowServer&) = delete;

  std::string url() const { return listener_.url(); }

  void add_fault(MlflowFault fault);
  // While it is down, connections end without an answer.
  void set_down(bool is_down) { is_down_ = is_down; }
  // From now on only requests with this header are carried out.
  void require_authorization(const std::string& value);
  void delete_run(const std::string& id);

  std::vector<ToldRun> runs() const;
  // What MLflow would have refused, and what is none of its requests.
  std::vector<std::string> violations() const;
  int count(const std::string& path) const;
  int connections() const { return connections_; }

 private:
  struct Request {
    std::string method;
    std::string target;
    std::map<std::string, std::string> headers;  // names in small letters
    std::string body;
  };
  struct Answer {
    int status = 200;
    std::string body = "{}";
  };

  void serve(const std::stop_token& stop);
  void serve_one(int fd);
  static bool read_request(int fd, Request& request);
  Answer answer(const Request& request);
  Answer carry_out(const Request& request, const std::string& path, const nlohmann::json& body);
  Answer experiment_by_name(const std::string& target) const;
  Answer create_experiment(const nlohmann::json& body);
  Answer create_run(const nlohmann::json& body);
  Answer search_runs(const nlohmann::json& body) const;
  Answer get_run(const std::string& target) const;
  Answer update_run(const nlohmann::json& body);
  Answer log_batch(const nlohmann::json& body);
  Answer take_params(ToldRun& run, const nlohmann::json& params);
  Answer take_metrics(ToldRun& run, const nlohmann::json& metrics);
  Answer refuse(const std::string& message);
  ToldRun* find(const std::string& id);
  MlflowFault take_fault(const std::string& path);

  LoopbackListener listener_;
  std::atomic<bool> is_down_ = false;
  std::atomic<int> connections_ = 0;
  mutable std::mutex mutex_;
  std::string authorization_;                       // guarded by mutex_
  std::map<std::string, std::string> experiments_;  // id by name; guarded by mutex_
  std::vector<ToldRun> runs_;                       // guarded by mutex_
  std::vector<std::string> violations_;             // guarded by mutex_
  std::vector<std::string> paths_;                  // of requests; guarded by mutex_
  std::deque<MlflowFault> faults_;                  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace lockstep::support
