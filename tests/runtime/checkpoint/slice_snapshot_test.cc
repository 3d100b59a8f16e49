#include "runtime/checkpoint/slice_snapshot.h"

#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/test_model.h"

namespace lockstep::runtime {
namespace {

TEST(SliceSnapshotTest, KeepsTheValuesThatTrainingChanges) {
  TestState state(1, 2);
  SliceSnapshot snapshot(state.slices());
  state.set_step(7);
  const std::vector<UnitSlice> copies = snapshot.copy(state.slices());
  state.set_step(8);
  ASSERT_EQ(copies.size(), test_units().size());
  for (const UnitSlice& copy : copies) {
    const auto elems = test_units()[static_cast<std::size_t>(copy.unit)].num_elems;
    for (const PieceKind kind : {PieceKind::kWeights, PieceKind::kMoment1, PieceKind::kMoment2}) {
      const std::vector<float> all = test_values(7, copy.unit, kind, elems);
      const std::span<const float> copied = kind == PieceKind::kWeights   ? copy.weights
                                            : kind == PieceKind::kMoment1 ? copy.moment1
                                                                          : copy.moment2;
      ASSERT_FALSE(copied.empty());
      EXPECT_TRUE(std::equal(copied.begin(), copied.end(), all.begin() + copy.begin_elem));
    }
  }
}

TEST(SliceSnapshotTest, TakesThreeFloatsPerElementAndNoOtherSize) {
  const TestState state(0, 1);
  SliceSnapshot snapshot(state.slices());
  EXPECT_EQ(snapshot.num_bytes(), (150'001 + 1000 + 3) * 3 * 4);
  const TestState other(0, 2);
  EXPECT_THROW(snapshot.copy(other.slices()), std::logic_error);
}

}  // namespace
}  // namespace lockstep::runtime
