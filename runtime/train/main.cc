// lockstep-runtime: without a verb one rank of a job, described by its environment.
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/common/http_server.h"
#include "runtime/kernels/denormals.h"
#include "runtime/train/bench_verb.h"
#include "runtime/train/generate.h"
#include "runtime/train/rank_ending.h"
#include "runtime/train/termination.h"
#include "runtime/train/tokenizing.h"
#include "runtime/train/trainer.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::ExitCode;
using common::HttpServer;
using common::Log;

// Tells the launcher where this rank answers; complete once the file has its name.
void tell_port(const RankState& s, int port) {
  const std::string& path = s.env.metrics_port_file;
  if (path.empty()) return;
  const std::string draft = path + ".draft";
  std::ofstream file(draft);
  file << port << "\n";
  file.close();
  if (file && std::rename(draft.c_str(), path.c_str()) == 0) return;
  s.log.warning("port not told: the pod's pages lack this rank", {{"path", path}});
}

std::unique_ptr<HttpServer> serve_status(const RankState& s, StatusBoard& board) {
  if (std::optional<GpuUtilization> gpu = GpuUtilization::open(kNvmlLibrary, s.env.local_rank)) {
    board.watch_gpu(*std::move(gpu));
  }
  auto server = HttpServer::start(
      {.address = s.env.listen_address, .port = s.env.metrics_port, .routes = board.routes()});
  const bool taken = !server && server.error().code == ErrorCode::kAlreadyExists;
  std::unique_ptr<HttpServer> serving =
      value_or_raise(std::move(server), taken ? ExitCode::kPortInUse : ExitCode::kInvalidConfig);
  s.log.info("serving", {{"port", serving->port()}});
  tell_port(s, serving->port());
  return serving;
}

[[noreturn]] void run_rank() {
  block_stop_signals();
  // What outlives the try block is never destroyed (see RankEnding).
  RankEnding ending;
  RankState s;
  std::unique_ptr<StatusBoard> board;
  std::unique_ptr<StopSignal> stop;
  std::unique_ptr<HttpServer> server;
  const std::unique_ptr<Disk> disk = real_disk();
  try {
    s.env = read_environment();
    s.log = Log({{"rank", s.env.rank}, {"attempt", s.env.attempt}});
    load_job(s);
    s.log = Log({{"job", s.job.name}, {"rank", s.env.rank}, {"attempt", s.env.attempt}});
    board = std::make_unique<StatusBoard>(s.job.name, s.env.attempt, s.env.rank);
    // From here on s belongs to this thread alone: SIGTERM's has copies, and the board.
    stop = std::make_unique<StopSignal>([&ending, &shown = *board, env = s.env, log = s.log] {
      const int64_t step = shown.progress().step;
      ending.fail(env, log, step, preempted(step, false));
    });
    const OutputVerdict output = prepare_folder(s, *disk);
    server = serve_status(s, *board);
    const ExitCode code = run_job(s, output, *disk, *board, *stop);
    if (code == ExitCode::kPreempted) ending.fail(s.env, s.log, s.step, preempted(s.step, true));
    ending.succeed();
  } catch (...) {
    ending.fail(s.env, s.log, s.step, verdict_of(std::current_exception()));
  }
}

// Runs a verb that returns its exit code.
int run_verb(const std::string& name, const std::function<int()>& verb) {
  try {
    return verb();
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    std::cerr << "lockstep-runtime " << name << ": " << failure.message << "\n";
    if (!failure.hint.empty()) std::cerr << "hint: " << failure.hint << "\n";
    return static_cast<int>(failure.code);
  }
}

int print(const std::string& text) {
  std::cout << text << "\n";
  return 0;
}

CLI::App* add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* const verb = app.add_subcommand("generate", "write text with a trained model");
  verb->add_option("--model", options.model,
                   "folder with config.json and weights in safetensors files, one or many")
      ->required();
  verb->add_option("--prompt", options.prompt, "what the text starts with");
  verb->add_option("--tokens", options.num_tokens, "how many tokens to write")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--temperature", options.temperature, "0 = always the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--seed", options.seed, "of the random draws")->capture_default_str();
  return verb;
}

CLI::App* add_tokenize(CLI::App& app, TokenizeVerbOptions& options) {
  CLI::App* const verb = app.add_subcommand("tokenize", "make a token file of text or JSON lines");
  verb->add_option("input", options.input, "path, folder or glob, as train.data.train")->required();
  verb->add_option("--output", options.output, "the file to write, *.tokens")->required();
  verb->add_option("--format", options.format, "auto, text, jsonl or tokens (rows with input_ids)")
      ->check(CLI::IsMember({"auto", "text", "jsonl", "tokens"}))
      ->capture_default_str();
  verb->add_option("--tokenizer", options.tokenizer,
                   "a directory with a tokenizer.json, or that file; without it a token is a byte");
  verb->add_option("--column", options.text_column, "the field of a line that holds its text")
      ->capture_default_str();
  verb->add_flag("--overwrite", options.overwrite, "replace the output if it exists");
  return verb;
}

// Returns `bench collectives`.
CLI::App* add_bench(CLI::App& app, BenchArguments& arguments) {
  CLI::App* const bench = app.add_subcommand("bench", "measure this machine");
  bench->require_subcommand(1);
  CLI::App* const verb = bench->add_subcommand(
      "collectives",
      "time the operations by which ranks talk, and check what they bring: algorithm and bus\n"
      "bandwidth as nccl-tests has them");
  verb->add_option("--ranks", arguments.num_ranks, "ranks to start on this machine")->required();
  verb->add_option("--backend", arguments.backend, "auto, shared-memory or gloo")
      ->capture_default_str();
  verb->add_option("--min-bytes", arguments.min_bytes, "smallest buffer, e.g. 64Ki")
      ->capture_default_str();
  verb->add_option("--max-bytes", arguments.max_bytes, "largest buffer")->capture_default_str();
  verb->add_option("--step-factor", arguments.step_factor, "from one size to the next")
      ->capture_default_str();
  verb->add_option("--iterations", arguments.iterations, "timed operations of each kind")
      ->capture_default_str();
  verb->add_option("--warmup", arguments.warmup, "operations before them")->capture_default_str();
  verb->add_option("--timeout-seconds", arguments.timeout_seconds, "longest wait for a peer")
      ->capture_default_str();
  verb->add_option_function<std::string>(
          "--output", [&arguments](const std::string& form) { arguments.json = form == "json"; },
          "json: for machines")
      ->check(CLI::IsMember({"text", "json"}));
  return verb;
}

int run_program(int argc, char** argv) {
  CLI::App app(
      "Lockstep's training runtime. Without a verb: one rank of a job, described by the\n"
      "environment that `lockstep run` and the operator set (RANK, WORLD_SIZE, MASTER_ADDR,\n"
      "MASTER_PORT, LOCKSTEP_JOB, LOCKSTEP_OUTPUT, ...).",
      "lockstep-runtime");
  app.set_version_flag("--version", "lockstep-runtime " LOCKSTEP_VERSION);
  GenerateOptions generating;
  const CLI::App* const generate_verb = add_generate(app, generating);
  TokenizeVerbOptions tokenizing;
  const CLI::App* const tokenize_verb = add_tokenize(app, tokenizing);
  BenchArguments measuring;
  const CLI::App* const bench_collectives_verb = add_bench(app, measuring);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kInvalidConfig);
  }
  flush_denormals();  // before any other thread starts: all of them inherit it
  if (generate_verb->parsed())
    return run_verb("generate", [&] { return print(generate(generating)); });
  if (tokenize_verb->parsed()) {
    return run_verb("tokenize", [&] { return print(tokenize(tokenizing)); });
  }
  if (bench_collectives_verb->parsed()) {
    return run_verb("bench", [&] { return bench_verb(measuring); });
  }
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
