#include "runtime/launch/metrics_page.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

TEST(MetricsPageTest, EveryFamilyComesOnceWithTheSamplesOfAllPages) {
  EXPECT_EQ(join_pages({"# HELP a First.\n# TYPE a gauge\na{rank=\"0\"} 1\n"
                        "# HELP h Second.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 3\n",
                        "# HELP b Only here.\n# TYPE b counter\nb 9\n"
                        "# HELP a First.\n# TYPE a gauge\na{rank=\"1\"} 4\n"
                        "# HELP h Second.\n# TYPE h histogram\nh_bucket{le=\"1\"} 5\nh_sum 6\n"}),
            "# HELP a First.\n# TYPE a gauge\na{rank=\"0\"} 1\na{rank=\"1\"} 4\n"
            "# HELP h Second.\n# TYPE h histogram\n"
            "h_bucket{le=\"1\"} 2\nh_sum 3\nh_bucket{le=\"1\"} 5\nh_sum 6\n"
            "# HELP b Only here.\n# TYPE b counter\nb 9\n");
}

TEST(MetricsPageTest, OtherCommentsAndBlankLinesAreDropped) {
  EXPECT_EQ(join_pages({"# a comment\n\nuntyped 1\n", "", "untyped 2\n# EOF\n"}),
            "untyped 1\nuntyped 2\n");
  EXPECT_EQ(join_pages({}), "");
}

}  // namespace
}  // namespace lockstep::launch
