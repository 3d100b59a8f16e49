#include "runtime/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/faulty_disk.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<UnitLayout> layouts() {
  return {{{{"embed.weight", {7, 3}, 0, 21}}, 21},
          {{{"norm.weight", {5}, 0, 5}, {"proj.weight", {2, 2, 2}, 5, 8}}, 13},
          {{}, 0},
          {{{"scale", {}, 0, 1}}, 1}};
}

std::vector<float> values_of(std::size_t unit) {
  std::vector<float> values;
  for (int64_t i = 0; i < layouts()[unit].num_elems; ++i) {
    values.push_back(static_cast<float>(unit) * 100.0F + static_cast<float>(i) + 0.25F);
  }
  return values;
}

common::Result<void> write_share(SafetensorsWriter& writer, int64_t rank, int64_t ranks) {
  for (std::size_t unit = 0; unit < layouts().size(); ++unit) {
    const std::vector<float> values = values_of(unit);
    const auto size = static_cast<int64_t>(values.size());
    const int64_t begin = size * rank / ranks;
    const int64_t end = size * (rank + 1) / ranks;
    RETURN_IF_ERROR(writer.write_range(
        static_cast<int64_t>(unit), begin,
        std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin)))));
  }
  return writer.sync();
}

common::Result<void> save(Disk& disk, const std::string& path, int64_t ranks) {
  ASSIGN_OR_RETURN(const SafetensorsPlan plan, plan_safetensors(layouts()));
  ASSIGN_OR_RETURN(SafetensorsWriter first, SafetensorsWriter::create(disk, path, plan));
  for (int64_t rank = ranks - 1; rank > 0; --rank) {
    ASSIGN_OR_RETURN(SafetensorsWriter other, SafetensorsWriter::join(disk, path, plan));
    RETURN_IF_ERROR(write_share(other, rank, ranks));
  }
  RETURN_IF_ERROR(write_share(first, 0, ranks));
  return first.finish();
}

TEST(PlanSafetensorsTest, HeaderIsAlignedAndHoldsNamesAndShapesOnly) {
  const auto plan = plan_safetensors(layouts());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->header.size() % 8, 0u);
  EXPECT_THAT(plan->header.substr(8),
              ::testing::StartsWith(
                  R"({"__metadata__":{"format":"pt"},)"
                  R"("embed.weight":{"dtype":"F32","shape":[7,3],"data_offsets":[0,84]},)"
                  R"("norm.weight":{"dtype":"F32","shape":[5],"data_offsets":[84,104]},)"
                  R"("proj.weight":{"dtype":"F32","shape":[2,2,2],"data_offsets":[104,136]},)"
                  R"("scale":{"dtype":"F32","shape":[],"data_offsets":[136,140]}})"));
  const auto data = static_cast<int64_t>(plan->header.size());
  EXPECT_THAT(plan->unit_offsets_bytes, ElementsAre(data, data + 84, data + 136, data + 136));
  EXPECT_EQ(plan->total_bytes, data + 140);
}

TEST(PlanSafetensorsTest, RefusesTablesThatDoNotFit) {
  const auto refused = [](std::vector<UnitLayout> units) {
    const auto plan = plan_safetensors(units);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_THAT(refused({{{{"a", {2}, 0, 3}}, 3}}), HasSubstr("tensor a"));
  EXPECT_THAT(refused({{{{"a", {2}, 1, 2}}, 3}}), HasSubstr("tensor a"));
  EXPECT_THAT(refused({{{{"a", {2}, 0, 2}}, 3}}), HasSubstr("3 elements"));
  EXPECT_THAT(refused({{{{"a", {2}, 0, 2}}, 2}, {{{"a", {2}, 0, 2}}, 2}}), HasSubstr("twice: a"));
}

class SafetensorsTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::unique_ptr<Disk> disk_ = real_disk();
};

TEST_F(SafetensorsTest, AnyNumberOfRanksWritesTheSameFile) {
  ASSERT_TRUE(save(*disk_, folder_ / "one/model.safetensors", 1));
  const std::string expected = read_text(folder_ / "one/model.safetensors");
  for (const int64_t ranks : {2, 3, 4, 30}) {
    const std::string path = folder_ / (std::to_string(ranks) + "/model.safetensors");
    ASSERT_TRUE(save(*disk_, path, ranks));
    EXPECT_EQ(read_text(path), expected) << ranks;
  }
}

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  const std::string path = folder_ / "model.safetensors";
  ASSERT_TRUE(save(*disk_, path, 3));
  const auto reader = SafetensorsReader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->tensors().size(), 4u);
  EXPECT_THAT(reader->tensors().at("proj.weight").shape, ElementsAre(2, 2, 2));
  const StoredTensor& proj = reader->tensors().at("proj.weight");
  EXPECT_EQ(proj.dtype, "F32");
  const std::vector<float> unit = values_of(1);
  std::vector<float> values(6);
  ASSERT_TRUE(reader->read(proj, 2 * sizeof(float), std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, std::vector<float>(unit.begin() + 7, unit.end()));
}

// Offsets follow from the type: ranks that write in any order leave 16-bit tensors side by side.
TEST_F(SafetensorsTest, SixteenBitTensorsAreWrittenAndReadBack) {
  for (const common::DType dtype : {common::DType::kBf16, common::DType::kFp16}) {
    const std::string path = folder_ / (std::string(to_string(dtype)) + ".safetensors");
    const auto plan = plan_safetensors(layouts(), dtype);
    ASSERT_TRUE(plan);
    std::vector<std::vector<uint16_t>> units;
    for (const UnitLayout& layout : layouts()) {
      units.emplace_back(static_cast<std::size_t>(layout.num_elems));
      std::iota(units.back().begin(), units.back().end(),
                static_cast<uint16_t>(units.size() * 1000));
    }
    auto writer = SafetensorsWriter::create(*disk_, path, *plan);
    ASSERT_TRUE(writer);
    for (std::size_t unit = units.size(); unit-- > 0;) {
      const auto all = std::span(units[unit]);
      const auto index = static_cast<int64_t>(unit);
      const std::size_t half = all.size() / 2;
      ASSERT_TRUE(
          writer->write_range(index, static_cast<int64_t>(half), std::as_bytes(all.subspan(half))));
      ASSERT_TRUE(writer->write_range(index, 0, std::as_bytes(all.first(half))));
    }
    ASSERT_TRUE(writer->finish());
    const auto reader = SafetensorsReader::open(path);
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ(reader->tensors().at("proj.weight").dtype,
              dtype == common::DType::kBf16 ? "BF16" : "F16");
    std::vector<uint16_t> proj(8);
    ASSERT_TRUE(reader->read(reader->tensors().at("proj.weight"), 0,
                             std::as_writable_bytes(std::span(proj))));
    EXPECT_EQ(proj, std::vector<uint16_t>(units[1].begin() + 5, units[1].end()));
  }
}

TEST_F(SafetensorsTest, EveryTruncationAndExtensionIsRefused) {
  const std::string path = folder_ / "model.safetensors";
  ASSERT_TRUE(save(*disk_, path, 1));
  const std::string sound = read_text(path);
  for (std::size_t length = 0; length < sound.size(); ++length) {
    write_text(path, sound.substr(0, length));
    const auto reader = SafetensorsReader::open(path);
    ASSERT_FALSE(reader) << length;
    ASSERT_EQ(reader.error().code, ErrorCode::kDataLoss) << length;
  }
  write_text(path, sound + "x");
  EXPECT_FALSE(SafetensorsReader::open(path));
}

TEST_F(SafetensorsTest, HostileHeadersAreRefused) {
  const std::vector<std::string> headers = {
      "[]",
      "{",
      R"({"a":1})",
      R"({"a":{"dtype":"F32","shape":[1]}})",
      R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
      R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
  };
  for (const std::string& header : headers) {
    std::string file(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(file.data(), &length, 8);
    write_text(folder_ / "hostile", file + header + std::string(4, 'x'));
    const auto reader = SafetensorsReader::open(folder_ / "hostile");
    ASSERT_FALSE(reader) << header;
    EXPECT_EQ(reader.error().code, ErrorCode::kDataLoss) << header;
  }
  write_text(folder_ / "hostile", std::string(8, '\xFF') + "{}");
  EXPECT_EQ(SafetensorsReader::open(folder_ / "hostile").error().code, ErrorCode::kDataLoss);
}

TEST_F(SafetensorsTest, OldFileStaysUntilTheNewOneIsComplete) {
  const std::string path = folder_ / "model.safetensors";
  ASSERT_TRUE(save(*disk_, path, 1));
  const std::string sound = read_text(path);
  for (const Fault fault : {Fault::kFailOnce, Fault::kCrashBefore, Fault::kCrashAfter}) {
    bool reached = true;
    for (int64_t call = 0; reached; ++call) {
      FaultyDisk disk(fault, call);
      try {
        (void)save(disk, path, 2).has_value();
        reached = disk.num_calls() > call;
      } catch (const Crash&) {
        reached = true;
      }
      ASSERT_EQ(read_text(path), sound) << call;
    }
  }
}

TEST_F(SafetensorsTest, JoinWithoutCreateIsNotFound) {
  const auto plan = plan_safetensors(layouts());
  const auto writer = SafetensorsWriter::join(*disk_, folder_ / "model.safetensors", *plan);
  EXPECT_EQ(writer.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::runtime
