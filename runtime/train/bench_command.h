// `bench` on the command line, with what it measures as subcommands.
#pragma once

#include <functional>

#include "runtime/train/bench_verb.h"

namespace CLI {
class App;
}

namespace lockstep::runtime {

struct BenchCommand {
  CollectivesArguments collectives;
  GemmArguments gemm;
  DiskArguments disk;
  std::function<int()> chosen;  // set by parsing one of them; borrows this object

  // This object must outlive `app`.
  void add_to(CLI::App& app);
};

}  // namespace lockstep::runtime
