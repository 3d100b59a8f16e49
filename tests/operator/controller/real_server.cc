#include "tests/operator/controller/real_server.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"

namespace lockstep::control {

using nlohmann::json;

std::string required_env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

int case_stride() {
  const char* wish = std::getenv("LOCKSTEP_CASE_STRIDE");
  return wish == nullptr ? 1 : std::stoi(wish);
}

std::unique_ptr<kube::Client> connect_to_real_server() {
  const auto config =
      kube::load_kubeconfig({.path = required_env("LOCKSTEP_TEST_KUBECONFIG"), .context = ""},
                            kube::read_env, kube::read_file);
  if (!config) throw std::runtime_error(config.error().message);
  auto client = kube::make_http_client(*config, {});
  if (!client) throw std::runtime_error(client.error().message);
  return std::move(client).value();
}

void await(const std::string& what, const std::function<bool()>& holds) {
  constexpr std::chrono::seconds kLimit{120};
  constexpr std::chrono::milliseconds kPoll{30};
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("no " + what + " in time");
    std::this_thread::sleep_for(kPoll);
  }
}

namespace {

std::string unique_name(const std::string& prefix) {
  static std::atomic<int> next{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return prefix + "-" + std::to_string(now) + "-" + std::to_string(next++);
}

}  // namespace

TestNamespace::TestNamespace(kube::Client& client, const std::string& prefix)
    : client_(client), name_(unique_name(prefix)) {
  const json body = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name_}}}};
  client_.create({{"", "v1", "namespaces"}, "", "", ""}, body);
  // Pods are refused until there is the account that they run as.
  await("default service account", [&] {
    return std::holds_alternative<json>(
        client_.get({{"", "v1", "serviceaccounts"}, name_, "default", ""}));
  });
}

TestNamespace::~TestNamespace() {
  client_.remove({{"", "v1", "namespaces"}, "", name_, ""}, {});
}

OperatorProcess::OperatorProcess(const std::string& ns, const Options& options) {
  std::vector<std::string> words = {required_env("LOCKSTEP_TEST_OPERATOR"),
                                    "--kubeconfig",
                                    required_env("LOCKSTEP_TEST_KUBECONFIG"),
                                    "--namespace",
                                    ns,
                                    "--call",
                                    std::to_string(options.call)};
  if (options.after) words.emplace_back("--after");
  if (options.deletes_upon_first_pod) words.emplace_back("--delete-upon-first-pod");
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

OperatorProcess::~OperatorProcess() {
  if (is_reaped_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool OperatorProcess::has_died() {
  if (is_reaped_) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  is_reaped_ = true;
  if (!WIFSIGNALED(status)) throw std::runtime_error("the operator ended by itself");
  return true;
}

}  // namespace lockstep::control
