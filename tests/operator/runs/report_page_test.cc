#include "operator/runs/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunRecord full_run() {
  RunRecord run;
  run.folder = "runs/mine";
  run.job = "mine";
  run.run = "c53871de";
  run.end = RunEnd::kFinished;
  run.finished_step = run.last_step = run.total_steps = 20;
  run.ranks = 2;
  run.has_model = true;
  for (const char* key :
       {"loss", "validation_loss", "learning_rate", "grad_norm", "tokens_per_second",
        "step_seconds", "data_seconds", "forward_seconds", "backward_seconds",
        "communication_seconds", "optimizer_seconds", "resident_bytes", "resident_peak_bytes",
        "buffer_bytes", "busy_seconds_min", "busy_seconds_median", "busy_seconds_max"}) {
    run.series[key] = {{10, 2.0}, {20, 1.5}};
  }
  run.slowest = {{0, 3}, {1, 1}};
  run.checkpoints = {{.step = 20, .bytes = 2048, .attempt = 1, .ranks = 2, .strategy = "zero3"}};
  run.attempts = {{.attempt = 0, .ranks = {0, 1}, .exits = {{1, 12, "NonFinite", "m", "h"}}},
                  {.attempt = 1, .ranks = {0, 1}, .resumed_step = 10}};
  run.num_restarts = 1;
  run.train = {{"seed", 42}, {"parallelism", {{"strategy", "zero3"}}}};
  return run;
}

TEST(ReportPageTest, ShowsWhatTheModelSays) {
  RunRecord run = full_run();
  EXPECT_THAT(report_page(run), Not(HasSubstr("Samples")));
  run.samples = {"Once <b>upon\na time", "Two"};
  const std::string page = report_page(run);
  EXPECT_THAT(page, HasSubstr("<h2>Samples"));
  EXPECT_THAT(page, HasSubstr("<pre>Once &lt;b&gt;upon\na time</pre>\n<pre>Two</pre>"));
}

TEST(ReportPageTest, ShowsEverythingThatARunTells) {
  RunRecord run = full_run();
  run.hub_commits = {{"hf://org/name@main", "0a1b2c"}};
  const std::string page = report_page(run);
  for (const char* part : {"<title>mine - finished</title>",
                           ">Loss<",
                           ">Learning rate<",
                           ">Gradient norm<",
                           ">Throughput ",
                           ">Where a step&#39;s time goes, rank 0 ",
                           ">Memory of rank 0<",
                           ">Work of the ranks in a step ",
                           "Which rank was slowest",
                           "<td>75 %</td>",
                           "Attempts",
                           "rank 1: NonFinite (m)",
                           "<td>step 10</td>",
                           "Checkpoints that are kept",
                           "<td>2 KiB</td>",
                           "train.parallelism.strategy",
                           "commit of hf://org/name@main",
                           "0a1b2c",
                           "<b>20 / 20</b>",
                           "lockstep generate --model runs/mine/model"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("nothing was logged")));
}

TEST(ReportPageTest, AsksForNothing) {
  const std::string page = report_page(full_run());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; style-src 'unsafe-inline'"));
  for (const char* request : {"<script", "<link", "<img", "<iframe", "src=", "href=", "url(",
                              "@import", "http://", "https://", "//"}) {
    EXPECT_THAT(page, Not(HasSubstr(request)));
  }
}

TEST(ReportPageTest, FollowsTheReadersScheme) {
  EXPECT_THAT(report_page({}), HasSubstr("prefers-color-scheme: dark"));
}

TEST(ReportPageTest, EscapesWhateverCameFromTheRun) {
  const std::string evil = "</title><script>alert(1)</script>\"'&";
  RunRecord run = full_run();
  run.folder = run.job = run.run = evil;
  run.end = RunEnd::kFailed;
  run.failure = RankExit{.rank = 1, .step = 2, .reason = evil, .message = evil, .hint = evil};
  run.attempts[0].exits[0] = *run.failure;
  run.attempts[0].begin_time = run.attempts[0].strategy = run.attempts[0].backend = evil;
  run.attempts[1].warnings = {evil};
  run.checkpoints[0].strategy = evil;
  run.train = {{evil, evil}, {"bad", "\xff"}, {"list", {"\xff", evil}}};
  run.troubles = {evil};
  const std::string page = report_page(run);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\xff")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
}

TEST(ReportPageTest, ShowsWhatWentWrongAndWhatToDo) {
  RunRecord run = full_run();
  run.end = RunEnd::kFailed;
  run.failure = RankExit{1, 120, "NonFinite", "the loss is not finite", "lower the rate"};
  const std::string page = report_page(run);
  for (const char* part :
       {">failed<", "<b>NonFinite</b> of rank 1 after step 120", "the loss is not finite",
        "lower the rate", "To go on: <code>lockstep run JOB.yaml --output runs/mine<"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(ReportPageTest, NamesTheNextCommand) {
  const struct {
    RunEnd end;
    bool has_model, has_checkpoint;
    const char* command;
  } cases[] = {
      {RunEnd::kFinished, true, true, "lockstep generate --model R/model --prompt TEXT"},
      {RunEnd::kFinished, false, true,
       "lockstep run JOB.yaml --output R --resume --set train.steps=N"},
      {RunEnd::kStopped, false, true, "lockstep run JOB.yaml --output R"},
      {RunEnd::kFailed, false, true, "lockstep run JOB.yaml --output R"},
      {RunEnd::kFailed, false, false, "lockstep run JOB.yaml --output R --overwrite"},
  };
  for (const auto& one : cases) {
    RunRecord run;
    run.folder = "R";
    run.end = one.end;
    run.has_model = one.has_model;
    if (one.has_checkpoint) run.checkpoints.emplace_back();
    EXPECT_EQ(next_command(run), one.command);
  }
}

TEST(ReportPageTest, ShowsAnEmptyRunAsOne) {
  RunRecord run;
  run.train = nlohmann::json::object();
  run.folder = "runs/empty";
  const std::string page = report_page(run);
  EXPECT_THAT(page, HasSubstr("not finished"));
  EXPECT_THAT(page, HasSubstr("nothing was logged"));
  EXPECT_THAT(page, Not(HasSubstr("<h2>Attempts")));
}

}  // namespace
}  // namespace lockstep::runs
