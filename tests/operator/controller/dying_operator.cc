// lockstep-operator whose process is killed by SIGKILL at its CALL-th write: before the request is
// sent, or (--after) once the API server has done it and before the operator learns so. With
// --delete-upon-first-pod a user deletes a job in the moment in which its first pod is there: only
// in here that moment is the same in every run.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <CLI/CLI.hpp>
#include <sys/signalfd.h>
#include <unistd.h>

#include "operator/controller/controller.h"
#include "operator/kube/kubeconfig.h"

namespace {

namespace common = lockstep::common;
namespace control = lockstep::control;
namespace kube = lockstep::kube;
using nlohmann::json;

class DyingClient final : public kube::Client {
 public:
  using Answer = kube::ApiResult<json>;

  struct Options {
    int call = 0;
    bool after = false;
    bool deletes_upon_first_pod = false;
  };
  DyingClient(std::unique_ptr<kube::Client> client, const Options& options)
      : client_(std::move(client)), options_(options) {}

  Answer get(const kube::ResourcePath& path) override { return client_->get(path); }
  Answer list(const kube::ResourcePath& path, const kube::ListOptions& options,
              std::stop_token stop) override {
    return client_->list(path, options, std::move(stop));
  }
  using Client::create;
  Answer create(const kube::ResourcePath& path, const json& body,
                kube::Warnings& warnings) override {
    return write([&] {
      Answer answer = client_->create(path, body, warnings);
      const bool is_pod = path.type.plural == "pods" && std::holds_alternative<json>(answer);
      if (is_pod && options_.deletes_upon_first_pod) delete_owner(path.ns, body);
      return answer;
    });
  }
  Answer replace(const kube::ResourcePath& path, const json& body) override {
    return write([&] { return client_->replace(path, body); });
  }
  Answer patch(const kube::ResourcePath& path, kube::PatchType type, const json& body) override {
    return write([&] { return client_->patch(path, type, body); });
  }
  Answer remove(const kube::ResourcePath& path, const kube::DeleteOptions& options) override {
    return write([&] { return client_->remove(path, options); });
  }
  std::optional<kube::ApiError> stream(
      const kube::ResourcePath& path, const std::string& query, std::stop_token stop,
      const std::function<bool(std::string_view)>& on_line) override {
    return client_->stream(path, query, std::move(stop), on_line);
  }

 private:
  template <typename Request>
  Answer write(Request request) {
    const bool dies = ++num_writes_ == options_.call;
    if (dies && !options_.after) kill(getpid(), SIGKILL);
    Answer answer = request();
    if (dies) kill(getpid(), SIGKILL);
    return answer;
  }

  // Of the pod's job; again and again, which changes nothing.
  void delete_owner(const std::string& ns, const json& pod) {
    const std::string job = pod["metadata"]["ownerReferences"][0]["name"];
    client_->remove({{"lockstep.dev", "v1alpha1", "trainingjobs"}, ns, job, ""},
                    {.grace_period_seconds = {}, .propagation = "Background"});
  }

  const std::unique_ptr<kube::Client> client_;
  const Options options_;
  std::atomic<int> num_writes_ = 0;
};

int run(int argc, char** argv) {
  CLI::App app("An operator that dies at a chosen write.");
  std::string kubeconfig;
  DyingClient::Options dying;
  control::ControllerOptions options;
  options.listen_address = "127.0.0.1";
  options.port = 0;
  options.settings.runtime_image = "example.invalid/runtime:test";
  app.add_option("--kubeconfig", kubeconfig)->required();
  app.add_option("--namespace", options.namespaces)->required();
  app.add_option("--call", dying.call, "0 = never");
  app.add_flag("--after", dying.after);
  app.add_flag("--delete-upon-first-pod", dying.deletes_upon_first_pod);
  CLI11_PARSE(app, argc, argv);

  const auto cluster = kube::load_kubeconfig({kubeconfig, ""}, kube::read_env, kube::read_file);
  if (!cluster) {
    std::cerr << cluster.error().message << "\n";
    return 1;
  }
  options.cluster = *cluster;
  options.connect =
      [&](const kube::ClientConfig& config,
          kube::HttpClientOptions client) -> common::Result<std::unique_ptr<kube::Client>> {
    ASSIGN_OR_RETURN(std::unique_ptr<kube::Client> real,
                     kube::make_http_client(config, std::move(client)));
    return std::unique_ptr<kube::Client>(std::make_unique<DyingClient>(std::move(real), dying));
  };
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const common::Result<void> ran =
      control::run_controller(options, signalfd(-1, &signals, SFD_CLOEXEC));
  if (!ran) std::cerr << ran.error().message << "\n";
  return ran ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dying-operator: %s\n", error.what());
    return 1;
  }
}
