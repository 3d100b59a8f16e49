#include "runtime/train/bench_command.h"

#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::runtime {
namespace {

void add_output(CLI::App& verb, bool& json) {
  verb.add_option_function<std::string>(
          "--output", [&json](const std::string& form) { json = form == "json"; },
          "json: for machines")
      ->check(CLI::IsMember({"text", "json"}));
}

CLI::App& add_collectives(CLI::App& bench, CollectivesArguments& arguments) {
  CLI::App* const verb = bench.add_subcommand(
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
  add_output(*verb, arguments.json);
  return *verb;
}

CLI::App& add_gemm(CLI::App& bench, GemmArguments& arguments) {
  CLI::App* const verb =
      bench.add_subcommand("gemm",
                           "time the matrix products of a layer on one thread, as a rank computes "
                           "them, and check them:\n"
                           "which precision is fast here, and how fast a step can be at best");
  verb->add_option("--dtypes", arguments.dtypes, "of fp32, bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  verb->add_option("--sizes", arguments.sizes, "inputs and outputs of the layer")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--tokens", arguments.num_tokens, "rows of a micro-batch")
      ->capture_default_str();
  verb->add_option("--iterations", arguments.iterations, "timed products of each kind")
      ->capture_default_str();
  add_output(*verb, arguments.json);
  return *verb;
}

CLI::App& add_disk(CLI::App& bench, DiskArguments& arguments) {
  CLI::App* const verb = bench.add_subcommand(
      "disk", "time what checkpoints ask of a folder: write, sync, read back, replace durably");
  verb->add_option("folder", arguments.folder, "where checkpoints would lie")->required();
  verb->add_option("--size", arguments.size, "of the file to write, e.g. 1Gi")
      ->capture_default_str();
  add_output(*verb, arguments.json);
  return *verb;
}

}  // namespace

void BenchCommand::add_to(CLI::App& app) {
  CLI::App* const bench = app.add_subcommand("bench", "measure this machine");
  bench->require_subcommand(1);
  add_collectives(*bench, collectives).callback([this] {
    chosen = [this] { return bench_collectives_verb(collectives); };
  });
  add_gemm(*bench, gemm).callback([this] { chosen = [this] { return bench_gemm_verb(gemm); }; });
  add_disk(*bench, disk).callback([this] { chosen = [this] { return bench_disk_verb(disk); }; });
}

}  // namespace lockstep::runtime
