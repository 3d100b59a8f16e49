#include "runtime/train/telemetry.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/resource.h>

#include "runtime/train/loss_svg.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/event_reader.h"

namespace lockstep::runtime {
namespace {

class TelemetryTest : public testing::Test {
 protected:
  static StepStats stats(int64_t step) {
    return {.step = step,
            .loss = 5.0 / 3.0 + static_cast<double>(step),
            .gradient_norm = 0.1,
            .learning_rate = 3e-4,
            .step_tokens = 64,
            .loss_tokens = 60,
            .run_tokens = 64 * step,
            .step_seconds = 0.5,
            .busy_seconds = {0.25, 0.375},
            .stop = false};
  }

  // Steps `first` to `last` of 25, as one attempt sees them.
  void train(int64_t first, int64_t last, StatusBoard& board) const {
    Telemetry telemetry({.log_every_steps = 10, .total_steps = 25}, common::Log(), board,
                        {.metrics = std::move(MetricsFile::open(output_)).value(), .events = {}});
    for (int64_t step = first; step <= last; ++step) telemetry.step_done(stats(step));
  }

  TempFolder folder_;
  const std::string output_ = folder_.path();
};

TEST_F(TelemetryTest, LogsTheSameStepsWhereverARestartBegins) {
  StatusBoard board("tiny", 0, 0);
  train(1, 12, board);
  train(13, 25, board);
  std::vector<int64_t> steps;
  for (const LossPoint& point : read_losses(output_)) steps.push_back(point.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 10, 20, 25}));
}

TEST_F(TelemetryTest, LossesKeepAllDigits) {
  StatusBoard board("tiny", 0, 0);
  train(1, 1, board);
  ASSERT_EQ(read_losses(output_).size(), 1u);
  EXPECT_EQ(read_losses(output_).front().loss, 5.0 / 3.0 + 1.0);
  EXPECT_EQ(board.progress().loss, with_all_digits(5.0 / 3.0 + 1.0));
}

TEST_F(TelemetryTest, AnEvaluationHasALineOfItsOwnAndIsShown) {
  StatusBoard board("tiny", 0, 0);
  EXPECT_FALSE(board.progress().validation_loss);
  {
    Telemetry telemetry({.log_every_steps = 1, .total_steps = 25}, common::Log(), board,
                        {.metrics = std::move(MetricsFile::open(output_)).value(), .events = {}});
    telemetry.step_done(stats(1));
    telemetry.evaluation_done({.step = 1, .loss = 7.0 / 3.0, .loss_tokens = 12, .seconds = 0.5});
    telemetry.step_done(stats(2));
  }
  EXPECT_EQ(read_losses(output_).size(), 2u);
  ASSERT_EQ(read_validation_losses(output_).size(), 1u);
  EXPECT_EQ(read_validation_losses(output_)[0].step, 1);
  EXPECT_EQ(read_validation_losses(output_)[0].loss, 7.0 / 3.0);
  EXPECT_EQ(board.progress().validation_loss, with_all_digits(7.0 / 3.0));
  const std::string text = board.routes().at("/metrics")().body;
  EXPECT_NE(text.find("lockstep_validation_loss{rank=\"0\"} 2.33333"), std::string::npos) << text;
}

TEST_F(TelemetryTest, ASkippedStepHasNoNumbersAndKeepsTheLastLoss) {
  StatusBoard board("tiny", 0, 0);
  train(1, 1, board);
  StepStats skipped = stats(2);
  skipped.loss = skipped.gradient_norm = std::nan("");
  skipped.skipped = true;
  skipped.skipped_steps = 1;
  skipped.loss_scale = 65536;
  board.step_done(skipped);
  EXPECT_EQ(board.progress().step, 2);
  EXPECT_EQ(board.progress().loss, with_all_digits(stats(1).loss));

  const std::string text = encode_metrics_line({.last = skipped, .step_seconds = 1});
  const nlohmann::json line = nlohmann::json::parse(text);
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("grad_norm").is_null());
  EXPECT_EQ(line.at("loss_scale"), 65536);
  EXPECT_EQ(line.at("skipped"), true);
  const std::string usual = encode_metrics_line({.last = stats(1), .step_seconds = 1});
  EXPECT_EQ(usual.find("loss_scale"), std::string::npos);
  EXPECT_EQ(usual.find("skipped"), std::string::npos);
}

TEST_F(TelemetryTest, AFullDiskIsReportedWithPathReasonAndHint) {
  std::filesystem::create_symlink("/dev/full", output_ + "/metrics.jsonl");
  const auto appended = MetricsFile::open(output_)->append({.last = stats(1), .step_seconds = 1});
  ASSERT_FALSE(appended);
  EXPECT_NE(appended.error().message.find("metrics.jsonl: No space left"), std::string::npos)
      << appended.error().message;
  EXPECT_NE(appended.error().hint.find("free space"), std::string::npos);
}

// The limit cuts the line's first write short; what follows it tells the reason.
TEST_F(TelemetryTest, AShortWriteIsGoneOnWith) {
  auto file = MetricsFile::open(output_);
  ASSERT_TRUE(file);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto appended = file->append({.last = stats(1), .step_seconds = 1});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(appended);
  EXPECT_NE(appended.error().message.find("File too large"), std::string::npos)
      << appended.error().message;
  EXPECT_EQ(std::filesystem::file_size(output_ + "/metrics.jsonl"), 20u);
}

TEST_F(TelemetryTest, MetricsLineHasTheDocumentedFields) {
  LoggedStep logged{.last = stats(3),
                    .step_seconds = 0.5,
                    .parts = {0.125, 0.25, 0.5, 0.75, 1},
                    .busy = {.min = 0.25, .median = 0.5, .max = 0.75, .slowest_rank = 1},
                    .cost = {.flops = 64},
                    .memory = {1024, 2048, 4096, 8192}};
  EXPECT_EQ(
      encode_metrics_line(logged),
      "{\"step\": 3, \"loss\": 4.666666666666667, \"grad_norm\": 0.10000000000000001, "
      "\"learning_rate\": 0.00029999999999999997, \"tokens\": 192, \"loss_tokens\": 60, "
      "\"tokens_per_second\": 128, \"step_seconds\": 0.5, \"data_seconds\": 0.125, "
      "\"forward_seconds\": 0.25, \"backward_seconds\": 0.5, \"communication_seconds\": 0.75, "
      "\"optimizer_seconds\": 1, \"busy_seconds_min\": 0.25, \"busy_seconds_median\": 0.5, "
      "\"busy_seconds_max\": 0.75, \"slowest_rank\": 1, \"flops_per_second\": 128, "
      "\"buffer_bytes\": 1024, \"buffer_peak_bytes\": 2048, \"resident_bytes\": 4096, "
      "\"resident_peak_bytes\": 8192}");
  logged.cost.peak_flops_per_second = 256;
  EXPECT_NE(encode_metrics_line(logged).find("\"mfu\": 0.5,"), std::string::npos);
  logged.cost = {};
  EXPECT_EQ(encode_metrics_line(logged).find("flops"), std::string::npos);
}

// Steps 2 to 10 are one line: what was measured is their mean.
TEST_F(TelemetryTest, ALineTellsTheMeansSinceTheLastOne) {
  StatusBoard board("tiny", 0, 0);
  Telemetry telemetry({.log_every_steps = 10, .total_steps = 25}, common::Log(), board,
                      {.metrics = std::move(MetricsFile::open(output_)).value(), .events = {}});
  for (int64_t step = 1; step <= 10; ++step) {
    StepStats each = stats(step);
    each.step_seconds = step == 1 ? 100 : 2;
    each.parts[0] = step == 10 ? 9 : 0;
    each.busy_seconds = {step == 2 ? 9.0 : 0.0, 0.5};
    telemetry.step_done(each);
  }
  std::ifstream file(output_ + "/metrics.jsonl");
  std::string line;
  for (int i = 0; i < 2; ++i) std::getline(file, line);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("step"), 10);
  EXPECT_EQ(json.at("step_seconds"), 2.0);
  EXPECT_EQ(json.at("data_seconds"), 1.0);
  EXPECT_EQ(json.at("busy_seconds_max"), 1.0);
  EXPECT_EQ(json.at("slowest_rank"), 0);
  EXPECT_GT(json.at("resident_bytes"), 0);
  EXPECT_GE(json.at("resident_peak_bytes"), json.at("resident_bytes"));
}

TEST_F(TelemetryTest, EventFilesGetTheLoggedStepsAndEvaluations) {
  StatusBoard board("tiny", 0, 0);
  Telemetry telemetry({.log_every_steps = 10, .total_steps = 25}, common::Log(), board,
                      {.metrics = std::move(MetricsFile::open(output_)).value(),
                       .events = std::move(EventFile::create({.output = output_})).value()});
  for (int64_t step = 1; step <= 25; ++step) telemetry.step_done(stats(step));
  telemetry.evaluation_done({.step = 25, .loss = 1.5});
  const auto events = support::read_events(output_ + "/tensorboard");
  const std::map<int64_t, float> losses = support::shown_scalars(events, "train/loss");
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_EQ(losses.at(20), static_cast<float>(stats(20).loss));
  for (const char* const tag : {"train/grad_norm", "train/learning_rate", "speed/tokens_per_second",
                                "time/step", "time/forward", "time/communication"}) {
    EXPECT_EQ(support::shown_scalars(events, tag).size(), 4U) << tag;
  }
  EXPECT_EQ(support::shown_scalars(events, "train/validation_loss").at(25), 1.5F);
}

TEST(StatusBoardTest, RankZeroTellsEveryHeartbeatAndTheSlowestRank) {
  StatusBoard board("tiny", 2, 0);
  EXPECT_EQ(board.progress().phase, "starting");
  board.set_plan("zero3", 4, 10);
  board.set_backend("shared-memory+gloo");
  board.set_phase("training");
  board.step_done({.step = 5,
                   .loss = 2,
                   .step_tokens = 64,
                   .step_seconds = 0.5,
                   .busy_seconds = {0.2, 0.4, 0.3}});
  board.checkpoint_done(5, 0.1);
  const common::JobProgress progress = board.progress();
  EXPECT_EQ(progress.attempt, 2);
  EXPECT_EQ(progress.strategy, "zero3");
  EXPECT_EQ(progress.backend, "shared-memory+gloo");
  EXPECT_NE(board.routes().at("/metrics")().body.find(
                "lockstep_communication_info{backend=\"shared-memory+gloo\",rank=\"0\"} 1"),
            std::string::npos);
  EXPECT_EQ(progress.step, 5);
  EXPECT_EQ(progress.total_steps, 10);
  EXPECT_EQ(progress.tokens_per_second, 128);
  EXPECT_EQ(progress.eta_seconds, 3);
  EXPECT_EQ(progress.last_checkpoint_step, 5);
  ASSERT_EQ(progress.ranks.size(), 3u);
  EXPECT_EQ(progress.ranks[2].step, 5);
  EXPECT_EQ(progress.ranks[2].step_seconds, 0.3);
  EXPECT_TRUE(progress.ranks[0].age_seconds);
  EXPECT_EQ(progress.age_seconds, progress.ranks[0].age_seconds);
  EXPECT_FALSE(progress.ranks[2].age_seconds) << "rank 0's own age says nothing of rank 2";
  EXPECT_EQ(progress.slowest_rank, 1);
}

TEST(StatusBoardTest, TellsPartsCostSkewAndMemory) {
  StatusBoard board("tiny", 0, 0);
  board.set_cost({.flops = 100, .peak_flops_per_second = 800});
  board.step_done({.step = 1,
                   .gradient_norm = 1.5,
                   .learning_rate = 0.25,
                   .step_tokens = 64,
                   .step_seconds = 0.5,
                   .busy_seconds = {0.25, 0.5, 0.375},
                   .parts = {0, 0.125, 0.25, 0.0625, 0.0625}});
  const auto status = common::decode_progress(board.routes().at("/status")().body);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->flops_per_second, 200.0);
  EXPECT_EQ(status->mfu, 0.25);
  EXPECT_EQ(status->gradient_norm, 1.5);
  EXPECT_EQ(status->learning_rate, 0.25);
  EXPECT_EQ(status->step_parts, (common::StepParts{0, 0.125, 0.25, 0.0625, 0.0625}));
  ASSERT_TRUE(status->memory);
  EXPECT_GT(status->memory->resident_bytes, 0);
  const std::string metrics = board.routes().at("/metrics")().body;
  for (const char* const series :
       {"lockstep_step_part_seconds_total{part=\"forward\",rank=\"0\"} 0.125",
        "lockstep_step_part_seconds_total{part=\"communication\",rank=\"0\"} 0.0625",
        "lockstep_flops_per_second{rank=\"0\"} 200", "lockstep_mfu_ratio{rank=\"0\"} 0.25",
        "lockstep_busy_seconds{rank=\"0\"} 0.25", "lockstep_busy_min_seconds{rank=\"0\"} 0.25",
        "lockstep_busy_median_seconds{rank=\"0\"} 0.375",
        "lockstep_busy_max_seconds{rank=\"0\"} 0.5", "lockstep_slowest_rank{rank=\"0\"} 1",
        "lockstep_resident_peak_bytes{rank=\"0\"}"}) {
    EXPECT_NE(metrics.find(series), std::string::npos) << series << "\n" << metrics;
  }
}

TEST(StatusBoardTest, ShowsNoUtilisationWithoutAPeak) {
  StatusBoard board("tiny", 0, 1);
  board.set_cost({.flops = 100});
  board.step_done({.step = 1, .step_tokens = 1, .step_seconds = 1, .busy_seconds = {0.2, 0.4}});
  EXPECT_FALSE(board.progress().mfu);
  const std::string metrics = board.routes().at("/metrics")().body;
  EXPECT_EQ(metrics.find("lockstep_mfu_ratio"), std::string::npos);
  EXPECT_NE(metrics.find("lockstep_busy_seconds{rank=\"1\"} 0.4"), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("lockstep_slowest_rank"), std::string::npos) << "rank 0 tells of all";
}

TEST(StatusBoardTest, OtherRanksTellOnlyOfThemselves) {
  StatusBoard board("tiny", 0, 1);
  board.step_done({.step = 1, .step_tokens = 1, .step_seconds = 1, .busy_seconds = {0.2, 0.4}});
  EXPECT_TRUE(board.progress().ranks.empty());
  EXPECT_FALSE(board.progress().slowest_rank);
  EXPECT_TRUE(board.progress().age_seconds) << "of its own life every rank tells";
}

TEST(StatusBoardTest, ServesItsThreePages) {
  StatusBoard board("tiny", 0, 3);
  board.step_done(
      {.step = 1, .loss = 2.5, .step_tokens = 8, .step_seconds = 1, .busy_seconds = {1, 1, 1, 1}});
  const auto routes = board.routes();
  EXPECT_EQ(routes.at("/healthz")().status, 200);
  EXPECT_TRUE(common::decode_progress(routes.at("/status")().body));
  const std::string metrics = routes.at("/metrics")().body;
  for (const char* const series :
       {"lockstep_step{rank=\"3\"} 1", "lockstep_loss{rank=\"3\"} 2.5",
        "lockstep_tokens_total{rank=\"3\"} 8", "lockstep_step_seconds_count{rank=\"3\"} 1",
        "lockstep_phase{phase=\"starting\",rank=\"3\"} 1", "lockstep_resident_bytes{rank=\"3\"}",
        "lockstep_resident_peak_bytes{rank=\"3\"}", "lockstep_buffer_bytes{rank=\"3\"}",
        "lockstep_buffer_peak_bytes{rank=\"3\"}"}) {
    EXPECT_NE(metrics.find(series), std::string::npos) << series << "\n" << metrics;
  }
}

TEST(LossSvgTest, TicksAreRoundAndInside) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(1, 60, 8), (std::vector<double>{10, 20, 30, 40, 50, 60}));
}

TEST(LossSvgTest, DrawsOnePointAndManyAndNone) {
  EXPECT_NE(draw_loss("t", {}).find("no steps yet"), std::string::npos);
  EXPECT_NE(draw_loss("a<b", {{1, 2.5}}).find("a&lt;b"), std::string::npos);
  std::vector<LossPoint> many;
  for (int64_t step = 1; step <= 100000; ++step) {
    many.push_back({step, 1.0 / static_cast<double>(step)});
  }
  const std::string svg = draw_loss("many", many);
  EXPECT_LT(svg.size(), 50000u);
  EXPECT_NE(svg.find("polyline"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::runtime
