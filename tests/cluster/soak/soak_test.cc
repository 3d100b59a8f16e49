// Random jobs and faults for operators on a real API server: ranks that fail, pods that are evicted
// and deleted, nodes that go, users who suspend, resume, scale and delete, operators that are
// killed, paused and ended, and a network that loses answers, cuts watches and refuses. What an
// API server saw of it is held against soak_rules.h, and every job comes to its end.
// Needs LOCKSTEP_TEST_KUBECONFIG and LOCKSTEP_SOAK_OPERATOR; run by the cluster tests and by
// `make soak-operator`.
//   LOCKSTEP_SOAK_SECONDS: of faults; LOCKSTEP_SOAK_SEED: of its choices, not of their moments.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/kubeconfig.h"
#include "tests/cluster/soak/soak_nodes.h"
#include "tests/cluster/soak/soak_operators.h"
#include "tests/cluster/soak/soak_rules.h"
#include "tests/cluster/soak/soak_watch.h"
#include "tests/operator/controller/real_server.h"
#include "tests/support/fault_proxy/fault_proxy.h"

namespace lockstep::soak {
namespace {

using control::kTrainingJobs;
using nlohmann::json;
using testing::Fault;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kNumJobs = 6;  // that live at a time
constexpr int64_t kMaxRestarts = 3;
constexpr seconds kLong{600};
constexpr seconds kRestLimit{120};  // of liveness only

int64_t setting(const char* name, int64_t value) {
  const char* const text = std::getenv(name);
  return text == nullptr ? value : std::stoll(text);
}

kube::ClientConfig server_config() {
  const auto config = kube::load_kubeconfig({control::required_env("LOCKSTEP_TEST_KUBECONFIG"), ""},
                                            kube::read_env, kube::read_file);
  if (!config) throw std::runtime_error(config.error().message);
  return *config;
}

class OperatorSoak : public ::testing::Test {
 protected:
  OperatorSoak() : random_(seed_), proxy_(server_config(), seed_) {
    folder_ = ::testing::TempDir() + "operator-soak-XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
    grant();
    operators_ = std::make_unique<SoakOperators>(
        SoakOperators::Options{.program = control::required_env("LOCKSTEP_SOAK_OPERATOR"),
                               .kubeconfig = folder_ + "/kubeconfig",
                               .ns = ns_.name(),
                               .folder = folder_});
    nodes_.begin(watch_);
  }
  ~OperatorSoak() override {
    proxy_.end();
    operators_.reset();
    nodes_.end();
    client_->remove({kBindings, "", ns_.name(), ""}, {});
    if (!HasFailure()) std::filesystem::remove_all(folder_);
  }

  // An account with all rights, and a kubeconfig that leads through the proxy.
  void grant() {
    value_of(client_->create(
        {kAccounts, ns_.name(), "", ""},
        {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", {{"name", "operator"}}}}));
    value_of(client_->create({kBindings, "", "", ""},
                             {{"apiVersion", "rbac.authorization.k8s.io/v1"},
                              {"kind", "ClusterRoleBinding"},
                              {"metadata", {{"name", ns_.name()}}},
                              {"roleRef",
                               {{"apiGroup", "rbac.authorization.k8s.io"},
                                {"kind", "ClusterRole"},
                                {"name", "cluster-admin"}}},
                              {"subjects", json::array({{{"kind", "ServiceAccount"},
                                                         {"name", "operator"},
                                                         {"namespace", ns_.name()}}})}}));
    const json token = value_of(client_->create({kAccounts, ns_.name(), "operator", "token"},
                                                {{"apiVersion", "authentication.k8s.io/v1"},
                                                 {"kind", "TokenRequest"},
                                                 {"spec", {{"expirationSeconds", 14400}}}}));
    const json config = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "soak"},
        {"clusters", json::array({{{"name", "soak"}, {"cluster", {{"server", proxy_.url()}}}}})},
        {"users",
         json::array({{{"name", "soak"}, {"user", {{"token", token["status"]["token"]}}}}})},
        {"contexts",
         json::array(
             {{{"name", "soak"},
               {"context", {{"cluster", "soak"}, {"user", "soak"}, {"namespace", ns_.name()}}}}})}};
    std::ofstream(folder_ + "/kubeconfig") << config.dump();
  }

  int64_t choose(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }

  void create_job() {
    json spec = {{"ranks", 1 + choose(4)},
                 {"command", {"/bin/true"}},
                 {"failurePolicy", {{"maxRestarts", kMaxRestarts}}},
                 {"template", {{"spec", {{"schedulerName", kSoakScheduler}}}}}};
    if (choose(3) == 0) spec["ttlSecondsAfterFinished"] = 2;
    // A name comes again now and then, while what the job before it left is still being deleted.
    const int64_t number = choose(5) == 0 && num_created_ > 0 ? choose(num_created_) : num_created_;
    ++num_created_;
    client_->create({kTrainingJobs, ns_.name(), "", ""},
                    {{"apiVersion", "lockstep.dev/v1alpha1"},
                     {"kind", "TrainingJob"},
                     {"metadata", {{"name", "soak" + std::to_string(number)}}},
                     {"spec", spec}});
  }

  static bool is_finished(const JobRecord& job) { return job.has_succeeded || job.has_failed; }

  void delete_job(const JobRecord& job) {
    client_->remove({kTrainingJobs, ns_.name(), job.name, ""},
                    {.grace_period_seconds = {}, .uid = job.uid, .propagation = "Background"});
  }

  // New jobs for those that ended.
  void tend_jobs() {
    std::size_t num_living = 0;
    for (const JobRecord& job : watch_.jobs()) {
      if (is_finished(job)) {
        if (choose(4) == 0) delete_job(job);  // unless its time to live is over first
      } else {
        ++num_living;
      }
    }
    if (num_living < kNumJobs) create_job();
  }

  void patch_some_job(const json& spec) {
    std::vector<JobRecord> living;
    for (const JobRecord& job : watch_.jobs()) {
      if (!is_finished(job)) living.push_back(job);
    }
    if (living.empty()) return;
    const JobRecord& job = living[static_cast<std::size_t>(choose(std::ssize(living)))];
    watch_.note_disturbance(job.uid);
    client_->patch({kTrainingJobs, ns_.name(), job.name, ""}, kube::PatchType::kMerge,
                   {{"metadata", {{"uid", job.uid}}}, {"spec", spec}});
  }

  void note(const std::optional<std::string>& owner) {
    if (owner) watch_.note_disturbance(*owner);
  }

  void lose_node() {
    for (const JobRecord& job : watch_.jobs()) watch_.note_disturbance(job.uid);
    nodes_.lose_some_node();
  }

  void disturb_jobs() {
    switch (choose(10)) {
      case 0:
        return patch_some_job({{"suspend", true}});
      case 1:
      case 2:
        return patch_some_job({{"suspend", false}});
      case 3:
        return patch_some_job({{"ranks", 1 + choose(4)}});
      case 4: {
        const std::vector<JobRecord> jobs = watch_.jobs();
        if (!jobs.empty()) delete_job(jobs[static_cast<std::size_t>(choose(std::ssize(jobs)))]);
        return;
      }
      case 5:
        return lose_node();
      case 6:
        return note(nodes_.evict_some_pod());
      case 7:
        return note(nodes_.delete_some_pod());
      default:
        return note(nodes_.fail_some_pod());
    }
  }

  // Faults of the network under which a leader can go on, or all of them.
  void disturb_network(bool all) {
    static const std::vector<Fault> kFaults = {
        Fault::kDelayedWatches, Fault::kCutWatches,      Fault::kExpiredWatches,
        Fault::kLostResponses,  Fault::kTooManyRequests, Fault::kInternalError,
        Fault::kUnavailable,    Fault::kRefused,         Fault::kHalfOpen};
    constexpr int64_t kMild = 3;
    proxy_.begin(kFaults[static_cast<std::size_t>(choose(all ? std::ssize(kFaults) : kMild))]);
    end_of_fault_ = Clock::now() + milliseconds(500 + choose(3000));
  }

  void disturb_operators() {
    const int replica = static_cast<int>(choose(2));
    switch (choose(3)) {
      case 0:
        return operators_->signal(replica, SIGKILL);
      case 1:
        return operators_->signal(replica, SIGTERM);
      default:
        operators_->signal(replica, SIGSTOP);
        paused_.emplace_back(replica, Clock::now() + seconds(1 + choose(6)));
    }
  }

  void end_what_is_over(Clock::time_point now) {
    if (now >= end_of_fault_) {
      proxy_.end();
      end_of_fault_ = Clock::time_point::max();
    }
    std::erase_if(paused_, [&](const auto& pause) {
      if (pause.second > now) return false;
      operators_->signal(pause.first, SIGCONT);
      return true;
    });
  }

  // `harsh`: operators are disturbed too; otherwise each lives on, and shows whether it grows.
  void soak(seconds length, bool harsh) {
    const Clock::time_point end = Clock::now() + length;
    while (Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(100 + choose(400)));
      operators_->tend();
      end_what_is_over(Clock::now());
      tend_jobs();
      disturb_jobs();
      if (choose(8) == 0) disturb_network(harsh);
      if (harsh && choose(12) == 0) disturb_operators();
    }
    end_what_is_over(Clock::time_point::max());
  }

  bool has_settled() const {
    for (const JobRecord& job : watch_.jobs()) {
      if (!is_finished(job)) return false;
    }
    return true;
  }

  // Nothing is disturbed any more: every job ends, and then nothing is written.
  void come_to_rest() {
    control::await("end of all jobs", [&] {
      operators_->tend();
      for (const JobRecord& job : watch_.jobs()) {
        if (!job.is_suspended || is_finished(job)) continue;
        watch_.note_disturbance(job.uid);
        client_->patch({kTrainingJobs, ns_.name(), job.name, ""}, kube::PatchType::kMerge,
                       {{"spec", {{"suspend", false}}}});
      }
      return has_settled();
    });
    const Clock::time_point limit = Clock::now() + kRestLimit;
    std::vector<std::string> left;
    for (std::size_t before = 0; Clock::now() < limit; before = watch_.num_events()) {
      operators_->tend();
      std::this_thread::sleep_for(seconds(3));
      left = violations_at_rest(watch_.history());
      if (watch_.num_events() == before && left.empty()) return;
    }
    for (const std::string& line : left) ADD_FAILURE() << line;
    ADD_FAILURE() << "the cluster does not come to rest";
  }

  static inline const kube::ResourceType kAccounts{"", "v1", "serviceaccounts"};
  static inline const kube::ResourceType kBindings{"rbac.authorization.k8s.io", "v1",
                                                   "clusterrolebindings"};
  const uint64_t seed_ = static_cast<uint64_t>(setting("LOCKSTEP_SOAK_SEED", 8));
  std::mt19937_64 random_;
  std::string folder_;
  std::unique_ptr<kube::Client> client_ = control::connect_to_real_server();
  control::TestNamespace ns_{*client_, "soak"};
  testing::FaultProxy proxy_;
  SoakNodes nodes_{*client_, ns_.name(), seed_};
  SoakWatch watch_{*client_, ns_.name(), [this](const json& event) { nodes_.on_pod(event); }};
  std::unique_ptr<SoakOperators> operators_;
  std::vector<std::pair<int, Clock::time_point>> paused_;  // replicas, until when
  Clock::time_point end_of_fault_ = Clock::time_point::max();
  int64_t num_created_ = 0;
};

double mean(const std::vector<double>& all, std::size_t begin, std::size_t end) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = all.begin() + static_cast<std::ptrdiff_t>(end);
  return std::accumulate(first, last, 0.0) / static_cast<double>(end - begin);
}

TEST_F(OperatorSoak, KeepsEveryInvariantUnderRandomFaultsAndDoesNotGrow) {
  const seconds length(setting("LOCKSTEP_SOAK_SECONDS", 60));
  soak(length / 2, true);
  soak(length - length / 2, false);
  const std::vector<MemoryTrack> tracks = operators_->tracks(40);
  come_to_rest();

  const History history = watch_.history();
  for (const std::string& line : violations(history)) ADD_FAILURE() << line;
  std::set<std::string> uids;
  int64_t num_attempts = 0;
  int64_t num_failed = 0;
  for (const JobRecord& job : history.jobs) {
    uids.insert(job.uid);
    num_attempts = std::max(num_attempts, job.attempt);
    if (job.has_failed) ++num_failed;
  }
  std::cout << "seed " << seed_ << ": " << uids.size() << " jobs, " << history.pods.size()
            << " events of pods, " << history.lost_nodes.size() << " nodes lost, "
            << operators_->num_starts() << " operators started, up to " << num_attempts
            << " restarts of a gang, " << num_failed << " writes of failed jobs; logs in "
            << folder_ << "\n";
  EXPECT_GT(uids.size(), kNumJobs);
  EXPECT_GT(num_attempts, 0);
  EXPECT_EQ(watch_.trouble(), "");
  if (length < kLong) return;  // memory is judged where there was time for it to grow
  EXPECT_FALSE(tracks.empty()) << "no operator lived long enough to tell whether it grows";
  for (const MemoryTrack& track : tracks) {
    const std::size_t size = track.resident_mb.size();
    const double early = mean(track.resident_mb, size / 4, size / 2);
    const double late = mean(track.resident_mb, 3 * size / 4, size);
    std::cout << "memory of process " << track.pid << ": " << early << " MB, later " << late
              << " MB over " << size << " samples\n";
    constexpr double kNoise = 3;  // MB: pages that malloc keeps
    EXPECT_LT(late, early + kNoise);
  }
}

}  // namespace
}  // namespace lockstep::soak
