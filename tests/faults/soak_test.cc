// A run that is interrupted again and again ends with the bits of one that never was.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::faults {
namespace {

using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;
using support::TemporaryFolder;
using support::TinyJob;

int64_t setting(const char* name, int64_t value) {
  const char* const text = std::getenv(name);
  return text == nullptr ? value : std::stoll(text);
}

// The newest published step; 0 if there is none.
int64_t newest_checkpoint(const std::string& output) {
  int64_t newest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(output + "/checkpoints", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step-")) newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  }
  return newest;
}

// `make soak` sets the variables to half an hour; without them it takes seconds.
//   LOCKSTEP_SOAK_KILLS: interruptions; LOCKSTEP_SOAK_PERIOD_SECONDS: between them, at least until
//   a new checkpoint is published; LOCKSTEP_SOAK_STEPS: of the job.
TEST(SoakTest, InterruptedAgainAndAgainARunKeepsItsBitsAndEverySample) {
  const int64_t num_kills = setting("LOCKSTEP_SOAK_KILLS", 6);
  const std::chrono::seconds period(setting("LOCKSTEP_SOAK_PERIOD_SECONDS", 0));
  TemporaryFolder folder;
  support::write_text(folder.path("corpus.txt"), support::tiny_corpus(40000));
  const TinyJob job{.ranks = 3,
                    .strategy = "zero3",
                    .data = folder.path("corpus.txt"),
                    .steps = setting("LOCKSTEP_SOAK_STEPS", 160)};
  const auto options = [&](const std::string& name, int64_t attempt) {
    return GangOptions{.runtime = support::kRuntimeProgram,
                       .job = to_json(job),
                       .folder = folder.path(name + ".files"),
                       .output = folder.path(name),
                       .num_ranks = job.ranks,
                       .attempt = static_cast<int>(attempt)};
  };
  const std::vector<int> success(static_cast<std::size_t>(job.ranks), 0);
  ASSERT_EQ(Gang(options("undisturbed", 0)).wait(), success);

  int64_t num_interrupted = 0;
  std::vector<int> exit_codes;
  for (int64_t attempt = 0; exit_codes != success; ++attempt) {
    Gang gang(options("soaked", attempt));
    const auto due = std::chrono::steady_clock::now() + period;
    const int64_t before = newest_checkpoint(folder.path("soaked"));
    if (attempt < num_kills && gang.wait_until([&] {
          return std::chrono::steady_clock::now() >= due &&
                 newest_checkpoint(folder.path("soaked")) > before;
        })) {
      gang.send(static_cast<int>(attempt) % job.ranks, attempt % 4 == 3 ? SIGTERM : SIGKILL);
    }
    exit_codes = gang.wait();
    if (exit_codes != success) ++num_interrupted;
    ASSERT_LE(num_interrupted, num_kills) << gang.log(0);
  }
  EXPECT_GT(num_interrupted, num_kills / 2) << "the run ended before it was soaked";

  const auto weights = [&](const std::string& name) {
    return read_text(folder.path(name) + "/model/model.safetensors");
  };
  ASSERT_FALSE(weights("undisturbed").empty());
  EXPECT_TRUE(weights("soaked") == weights("undisturbed"));
  const std::vector<std::string> curve = read_curve(folder.path("soaked"));
  EXPECT_EQ(curve.size(), static_cast<std::size_t>(job.steps)) << "every step once";
  EXPECT_TRUE(curve == read_curve(folder.path("undisturbed")));
}

}  // namespace
}  // namespace lockstep::faults
