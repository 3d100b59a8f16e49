#include "runtime/train/reference_log_probs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

const json kKey = {{"data", "v1:9"}, {"pairs", 1}};

TEST(ReferenceLogProbsTest, AreReadAsTheyWereWritten) {
  EXPECT_THAT(decode_reference(encode_reference(kKey, {-1.5, -0.25}), kKey),
              ElementsAre(-1.5, -0.25));
}

TEST(ReferenceLogProbsTest, OfSomethingElseTheyAreNotTaken) {
  json other = kKey;
  other["data"] = "v1:8";
  EXPECT_THAT(decode_reference(encode_reference(other, {-1.5, -0.25}), kKey), IsEmpty());
}

TEST(ReferenceLogProbsTest, DamagedOnesAreNotTaken) {
  const std::string sound = encode_reference(kKey, {-1.5, -0.25});
  const std::size_t end = sound.find('\n');
  const std::string numbers = sound.substr(end);
  std::string flipped = sound;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  json head = json::parse(sound.substr(0, end));
  head["crc32c"] = 17;  // of another type
  for (const std::string& damaged :
       {std::string(), sound.substr(0, end), sound.substr(0, sound.size() - 8), flipped,
        "x" + sound, "[1]" + numbers, "null" + numbers, numbers, head.dump() + numbers}) {
    EXPECT_THAT(decode_reference(damaged, kKey), IsEmpty()) << damaged.substr(0, 80);
  }
}

}  // namespace
}  // namespace lockstep::runtime
