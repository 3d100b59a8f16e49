// lockstep-runtime: without a verb one rank of a job, described by its environment.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/common/http_server.h"
#include "runtime/kernels/denormals.h"
#include "runtime/train/bench_command.h"
#include "runtime/train/chat_verb.h"
#include "runtime/train/export_verb.h"
#include "runtime/train/fetch_verb.h"
#include "runtime/train/generate.h"
#include "runtime/train/rank_device.h"
#include "runtime/train/rank_ending.h"
#include "runtime/train/run_files.h"
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
    s.mlflow = mlflow_run(s, *disk);
    ending.tell(s.mlflow);
    choose_device(s.env, s.config());
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

constexpr char kFrontName[] = "lockstep";  // under which `lockstep VERB` starts us
constexpr int kFrontUsage = 2;             // its exit status for a wrong command line

// Runs a verb that returns its exit code.
int run_verb(const std::string& name, const std::function<int()>& verb) {
  try {
    return verb();
  } catch (...) {
    const RunFailure failure = verdict_of(std::current_exception());
    std::cerr << "error: " << name << ": " << failure.message << "\n";
    if (!failure.hint.empty()) std::cerr << "hint: " << failure.hint << "\n";
    return static_cast<int>(failure.code);
  }
}

int print(const std::string& text) {
  std::cout << text << "\n";
  return 0;
}

// What generate and chat share. Descriptions of defaults come from the values.
void add_writing(CLI::App& verb, WritingOptions& writing, uint64_t& seed) {
  verb.add_option("--max-new-tokens,--tokens", writing.max_new_tokens,
                  "how many tokens to write, at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--temperature", writing.sampling.temperature, "0 = always the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--top-k", writing.sampling.top_k,
                  "choose among the likeliest so many tokens; 0 = among all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--top-p", writing.sampling.top_p,
                  "choose among the likeliest tokens whose probabilities reach this sum")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb.add_option("--seed", seed, "of the random draws")->capture_default_str();
}

constexpr const char* kModelHelp =
    "folder with config.json and weights in safetensors files, one or many, or of a PEFT adapter, "
    "or the output of a run; or a model (no adapter) on the hub, hf://ORG/NAME[@REVISION][/PATH]";
constexpr const char* kBaseHelp =
    "of an adapter: the folder of the model that it is for, or its hf://ORG/NAME";

CLI::App* add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* const verb = app.add_subcommand("generate", "write text with a trained model");
  verb->add_option("--model", options.model, kModelHelp)->required();
  verb->add_option("--base", options.base, kBaseHelp);
  verb->add_option("--prompt", options.prompt, "what the text starts with");
  verb->add_option("--prompts", options.prompts,
                   "file with a prompt per line; prints a JSON object per line");
  add_writing(*verb, options.writing, options.seed);
  verb->footer("Example: lockstep generate --model runs/JOB --prompt 'Once upon' --tokens 100");
  return verb;
}

CLI::App* add_chat(CLI::App& app, ChatVerbOptions& options) {
  CLI::App* const verb = app.add_subcommand(
      "chat", "talk with a trained model: Ctrl-C stops an answer, Ctrl-D leaves");
  options.dialogue.writing.max_new_tokens = 512;
  verb->add_option("model", options.model, kModelHelp)->required();
  verb->add_option("--base", options.base, kBaseHelp);
  verb->add_option("--system", options.dialogue.system, "the system message to begin with");
  verb->add_option("--context", options.dialogue.max_tokens,
                   "tokens that the dialogue may have, at most what the model sees")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_writing(*verb, options.dialogue.writing, options.dialogue.seed);
  verb->footer("Example: lockstep chat runs/JOB --system 'Be brief.'");
  return verb;
}

CLI::App* add_tokenize(CLI::App& app, TokenizeVerbOptions& options) {
  CLI::App* const verb = app.add_subcommand("tokenize", "make a token file of texts or rows");
  verb->add_option("input", options.input, "path, folder or glob, as train.data.train")->required();
  verb->add_option("--output", options.output, "the file to write, *.tokens")->required();
  verb->add_option("--format", options.format, "auto, text, jsonl or tokens (rows with input_ids)")
      ->check(CLI::IsMember({"auto", "text", "jsonl", "tokens"}))
      ->capture_default_str();
  verb->add_option("--tokenizer", options.tokenizer,
                   "a directory with a tokenizer.json, or that file; without it a token is a byte");
  verb->add_option("--column", options.text_column, "the field of a row that holds its text")
      ->capture_default_str();
  verb->add_flag("--overwrite", options.overwrite, "replace the output if it exists");
  verb->footer("Example: lockstep tokenize 'books/*.txt' --tokenizer llama --output books.tokens");
  return verb;
}

CLI::App* add_export(CLI::App& app, ExportVerbOptions& options) {
  CLI::App* const verb =
      app.add_subcommand("export", "make a Hugging Face directory of a checkpoint");
  verb->add_option("source", options.source, "the output of a run, or the folder of a checkpoint")
      ->required();
  verb->add_option("--step", options.step, "of a run; default: its newest checkpoint")
      ->check(CLI::PositiveNumber);
  verb->add_option("--dtype", options.dtype, "fp32, bf16 or fp16; default: the job's export.dtype")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  verb->add_option("--output", options.output, "folder to create; default: model-step-N");
  verb->add_option("--model", options.model,
                   "folder that stands for the job's model.path, whose tokenizer goes along");
  verb->add_option("--tokenizer", options.tokenizer,
                   "folder that stands for the job's tokenizer.path");
  verb->footer("Example: lockstep export runs/JOB --step 400 --dtype bf16 --output model");
  return verb;
}

CLI::App* add_fetch(CLI::App& app, FetchVerbOptions& options) {
  CLI::App* const verb =
      app.add_subcommand("fetch", "fetch what jobs name by hf:// into the cache, and print where");
  verb->add_option("reference", options.reference, "hf://[datasets/]ORG/NAME[@REVISION][/PATH]");
  verb->add_flag("--data", options.is_data, "the reference names a data set, not a model");
  verb->add_flag("--validation", options.is_validation,
                 "of a data set, the part to validate on; else that to train on");
  verb->add_option("--train", options.train, "JSON text of a job's train: all that it names");
  return verb;
}

int complain_of_usage(CLI::App& app, const CLI::ParseError& error, const std::string& name) {
  if (app.get_name() != kFrontName || error.get_exit_code() == 0) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kInvalidConfig);
  }
  std::string message = error.what();
  while (message.ends_with('\n') || message.ends_with('.')) message.pop_back();
  std::cerr << "error: " << message << "; see lockstep " << name << " --help\n";
  return kFrontUsage;
}

int run_program(int argc, char** argv) {
  const bool is_front = std::filesystem::path(argv[0]).filename() == kFrontName;
  CLI::App app(
      "Lockstep's training runtime. Without a verb: one rank of a job, described by the\n"
      "environment that `lockstep run` and the operator set (RANK, WORLD_SIZE, MASTER_ADDR,\n"
      "MASTER_PORT, LOCKSTEP_JOB, LOCKSTEP_OUTPUT, ...).",
      is_front ? kFrontName : "lockstep-runtime");
  app.set_version_flag("--version", "lockstep-runtime " LOCKSTEP_VERSION ", " LOCKSTEP_LIBTORCH);
  GenerateOptions generating;
  const CLI::App* const generate_verb = add_generate(app, generating);
  ChatVerbOptions chatting;
  const CLI::App* const chat_subcommand = add_chat(app, chatting);
  TokenizeVerbOptions tokenizing;
  const CLI::App* const tokenize_verb = add_tokenize(app, tokenizing);
  ExportVerbOptions exporting;
  const CLI::App* const export_subcommand = add_export(app, exporting);
  FetchVerbOptions fetching;
  const CLI::App* const fetch_subcommand = add_fetch(app, fetching);
  BenchCommand bench;
  bench.add_to(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return complain_of_usage(app, error, argc > 1 ? argv[1] : "");
  }
  flush_denormals();  // before any other thread starts: all of them inherit it
  if (generate_verb->parsed()) {
    return run_verb("generate", [&] { return (generate(generating, std::cout), 0); });
  }
  if (chat_subcommand->parsed()) return run_verb("chat", [&] { return chat_verb(chatting); });
  if (tokenize_verb->parsed()) {
    return run_verb("tokenize", [&] { return print(tokenize(tokenizing)); });
  }
  if (export_subcommand->parsed()) {
    return run_verb("export", [&] { return print(export_verb(exporting)); });
  }
  if (fetch_subcommand->parsed()) {
    return run_verb("fetch", [&] { return print(fetch_verb(fetching)); });
  }
  if (bench.chosen) return run_verb("bench", bench.chosen);
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
