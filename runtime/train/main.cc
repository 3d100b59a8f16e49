// lockstep-runtime: without a verb one rank of a job, described by its environment.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "runtime/common/http_server.h"
#include "runtime/train/generate.h"
#include "runtime/train/termination.h"
#include "runtime/train/trainer.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::ExitCode;
using common::HttpServer;
using common::Log;

constexpr char kVersion[] = "lockstep-runtime 0.1.0";

// Ends the process without unwinding: destructors of a rank wait for collectives that a lost peer
// will never finish.
[[noreturn]] void exit_with(ExitCode code) {
  std::cout.flush();
  _exit(static_cast<int>(code));
}

std::unique_ptr<HttpServer> serve_status(const RankState& s, StatusBoard& board) {
  auto server = HttpServer::start(
      {.address = s.env.listen_address, .port = s.env.metrics_port, .routes = board.routes()});
  const bool taken = !server && server.error().code == ErrorCode::kAlreadyExists;
  std::unique_ptr<HttpServer> serving =
      value_or_raise(std::move(server), taken ? ExitCode::kPortInUse : ExitCode::kInvalidConfig);
  s.log.info("serving", {{"port", serving->port()}});
  return serving;
}

[[noreturn]] void run_rank() {
  // What outlives the try block is never destroyed (see exit_with).
  RankState s;
  std::unique_ptr<StatusBoard> board;
  std::unique_ptr<HttpServer> server;
  const std::unique_ptr<Disk> disk = real_disk();
  StopSignal stop([&] {
    const int64_t step = board->progress().step;  // the training thread may be at work on s
    report_failure(s.env, s.log, step, preempted(step, false));
    exit_with(ExitCode::kPreempted);
  });
  try {
    s.env = value_or_raise(common::read_worker_env([](const std::string& name) {
                             const char* const value = std::getenv(name.c_str());
                             return value ? std::optional<std::string>(value) : std::nullopt;
                           }),
                           ExitCode::kInvalidConfig);
    s.log = Log({{"rank", s.env.rank}, {"attempt", s.env.attempt}});
    load_job(s);
    s.log = Log({{"job", s.job.name}, {"rank", s.env.rank}, {"attempt", s.env.attempt}});
    board = std::make_unique<StatusBoard>(s.job.name, s.env.attempt, s.env.rank);
    stop.release();  // there is nothing to save before the first step
    const OutputVerdict output = prepare_folder(s, *disk);
    server = serve_status(s, *board);
    const ExitCode code = run_job(s, output, *disk, *board, stop);
    if (code == ExitCode::kPreempted) {
      report_failure(s.env, s.log, s.step, preempted(s.step, true));
    }
    exit_with(code);
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    report_failure(s.env, s.log, s.step, failure);
    exit_with(failure.code);
  }
}

int run_generate(const GenerateOptions& options) {
  try {
    std::cout << generate(options) << "\n";
    return 0;
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    std::cerr << "lockstep-runtime generate: " << failure.message << "\n";
    if (!failure.hint.empty()) std::cerr << "hint: " << failure.hint << "\n";
    return static_cast<int>(failure.code);
  }
}

int run_program(int argc, char** argv) {
  CLI::App app(
      "Lockstep's training runtime. Without a verb: one rank of a job, described by the\n"
      "environment that `lockstep run` and the operator set (RANK, WORLD_SIZE, MASTER_ADDR,\n"
      "MASTER_PORT, LOCKSTEP_JOB, LOCKSTEP_OUTPUT, ...).",
      "lockstep-runtime");
  app.set_version_flag("--version", kVersion);
  GenerateOptions options;
  CLI::App* const generate_verb = app.add_subcommand("generate", "write text with a trained model");
  generate_verb->add_option("--model", options.model, "folder with config.json, model.safetensors")
      ->required();
  generate_verb->add_option("--prompt", options.prompt, "what the text starts with");
  generate_verb->add_option("--tokens", options.num_tokens, "how many tokens to write")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  generate_verb->add_option("--temperature", options.temperature, "0 = always the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  generate_verb->add_option("--seed", options.seed, "of the random draws")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (generate_verb->parsed()) return run_generate(options);
  run_rank();
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  try {
    return lockstep::runtime::run_program(argc, argv);
  } catch (...) {
    // Only what reading the command line may throw comes here: a rank reports and exits by itself.
    std::fputs("lockstep-runtime: cannot read the command line\n", stderr);
    return static_cast<int>(lockstep::common::ExitCode::kInternal);
  }
}
