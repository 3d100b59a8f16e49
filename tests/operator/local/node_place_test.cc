#include "operator/local/node_place.h"

#include <map>

#include <gtest/gtest.h>

namespace lockstep::local {
namespace {

using Variables = std::map<std::string, std::string>;

EnvLookup lookup(const Variables& variables) {
  return [variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

NodePlace place_of(const NodeFlags& flags, const Variables& variables = {}) {
  const common::Result<NodePlace> place = choose_place(flags, lookup(variables));
  EXPECT_TRUE(place.has_value()) << place.error().message;
  return place ? *place : NodePlace{};
}

std::string error_of(const NodeFlags& flags, const Variables& variables = {}) {
  const common::Result<NodePlace> place = choose_place(flags, lookup(variables));
  EXPECT_FALSE(place.has_value());
  return place ? "" : place.error().message;
}

const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "none"},
                             {"WORLD_SIZE", "4"},
                             {"RANK", "3"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "n0"},
                             {"MASTER_PORT", "29500"}};
const Variables kSlurm = {{"SLURM_STEP_NUM_TASKS", "5"},
                          {"SLURM_PROCID", "4"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURM_STEP_NODELIST", "gpu[07-09]"},
                          {"SLURM_JOB_ID", "1234567"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                            {"MASTER_ADDR", "10.0.0.1"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(NodePlaceTest, OneNodeWithoutFlagsAndLauncher) {
  const NodePlace place = place_of({}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(place.nodes, 1);
  EXPECT_TRUE(place.is_first());
  EXPECT_EQ(place.local_rank(3, 4), 3);
  EXPECT_EQ(place.local_world_size(4), 4);
}

TEST(NodePlaceTest, FlagsSayWhichNodeThisIsAndWinOverTheEnvironment) {
  const NodePlace place =
      place_of({.nodes = 3, .node_rank = 2, .master = "[fd00::1]:4000"}, kTorchrun);
  EXPECT_EQ(place.nodes, 3);
  EXPECT_EQ(place.node_rank, 2);
  EXPECT_EQ(place.master_host, "fd00::1");
  EXPECT_EQ(place.master_port, 4000);
  EXPECT_EQ(place.rendezvous_port(), 4001);
  EXPECT_EQ(place.node_of(3, 6), 1);
  EXPECT_EQ(place.local_rank(5, 6), 1);
  EXPECT_EQ(place.local_world_size(6), 2);
}

TEST(NodePlaceTest, TorchrunsProcessesAreNodesBesideItsOwnPort) {
  const NodePlace place = place_of({}, kTorchrun);
  EXPECT_EQ(place.nodes, 4);
  EXPECT_EQ(place.node_rank, 3);
  EXPECT_EQ(place.master_host, "n0");
  EXPECT_EQ(place.master_port, 29501);
  EXPECT_EQ(place.told_by, "torchrun");
  EXPECT_EQ(place.local_rank(6, 8), 2) << "behind the two ranks of the other process here";
  EXPECT_EQ(place.local_world_size(8), 4);
}

TEST(NodePlaceTest, TasksOfASlurmStepAreNodesOfItsFirstHost) {
  const NodePlace place = place_of({}, kSlurm);
  EXPECT_EQ(place.nodes, 5);
  EXPECT_EQ(place.node_rank, 4);
  EXPECT_EQ(place.local_count, 1);
  EXPECT_EQ(place.master_host, "gpu07");
  EXPECT_EQ(place.master_port, 15000 + 2 * (1234567 % 5000));
  EXPECT_EQ(place_of({}, with(kSlurm, "MASTER_PORT", "4000")).master_port, 4000);
  EXPECT_EQ(place_of({.master = "other:5000"}, kSlurm).master_host, "other");
}

TEST(NodePlaceTest, AnAllocationWithoutAStepIsOneNode) {
  EXPECT_EQ(place_of({}, {{"SLURM_NNODES", "2"}, {"SLURM_PROCID", "0"}}).nodes, 1);
}

TEST(NodePlaceTest, OpenMpiNeedsAMasterOnSeveralMachinesOnly) {
  const NodePlace place = place_of({}, kOpenMpi);
  EXPECT_EQ(place.node_rank, 1);
  EXPECT_EQ(place.master_host, "10.0.0.1");
  EXPECT_EQ(place.master_port, 29400);
  Variables variables = kOpenMpi;
  variables.erase("MASTER_ADDR");
  EXPECT_EQ(error_of({}, variables),
            "Open MPI set MASTER_ADDR: expected the address of node 0, found nothing");
  EXPECT_EQ(place_of({}, with(variables, "OMPI_COMM_WORLD_LOCAL_SIZE", "2")).master_host,
            "127.0.0.1");
}

TEST(NodePlaceTest, WrongFlagsAreNamed) {
  EXPECT_EQ(error_of({.nodes = 2, .master = "a:1"}), "--node-rank is missing");
  EXPECT_EQ(error_of({.node_rank = 0, .master = "a:1"}), "--nodes is missing");
  EXPECT_EQ(error_of({.nodes = 2, .node_rank = 0}), "--master is missing");
  EXPECT_EQ(error_of({.master = "a:1"}), "--master is given, but --nodes and --node-rank are not");
  EXPECT_EQ(error_of({.nodes = 2, .node_rank = 2, .master = "a:1"}),
            "--node-rank: expected a number from 0 to 1, as --nodes is 2, found 2");
  EXPECT_EQ(error_of({.nodes = 0, .node_rank = 0, .master = "a:1"}),
            "--nodes: expected a number from 1 to 65536, found 0");
  for (const char* const master : {"host", "host:", ":1", "host:x", "host:0", "host:65535"}) {
    EXPECT_EQ(error_of({.nodes = 2, .node_rank = 0, .master = master}),
              std::string("--master: expected HOST:PORT, the port from 1 to 65534, found '") +
                  master + "'");
  }
}

TEST(NodePlaceTest, WrongVariablesAreNamedWithTheirLauncher) {
  EXPECT_EQ(error_of({}, with(kTorchrun, "RANK", "4")),
            "torchrun set RANK: expected a number from 0 to 3, found '4'");
  EXPECT_EQ(error_of({}, with(kTorchrun, "MASTER_ADDR", "")),
            "torchrun set MASTER_ADDR: expected a value, found nothing");
  EXPECT_EQ(error_of({}, with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "2")),
            "Slurm set SLURM_STEP_TASKS_PER_NODE: expected the tasks of machine 2, found '2'");
}

TEST(NodePlaceTest, NodesMustDivideTheRanks) {
  const NodePlace place = place_of({.nodes = 2, .node_rank = 0, .master = "a:1"});
  EXPECT_TRUE(check_division(place, 4).has_value());
  const common::Result<void> refused = check_division(place, 3);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "spec.ranks is 3, which 2 nodes (--nodes) do not divide");
  EXPECT_EQ(refused.error().hint, "every node takes as many ranks: --set ranks=4");
}

TEST(NodePlaceTest, ReadsSlurmsLists) {
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("n1,n2"), "n1");
  EXPECT_EQ(first_host("m,n[1-2]"), "m");
  EXPECT_EQ(first_host("n[07-09,12],m1"), "n07");
  EXPECT_EQ(first_host("n[3]-ib,m"), "n3-ib");
  EXPECT_EQ(tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(tasks_on_node("2(x3),1", 3), 1);
  EXPECT_EQ(tasks_on_node("2(x3),1", 4), std::nullopt);
  EXPECT_EQ(tasks_on_node("two", 0), std::nullopt);
}

}  // namespace
}  // namespace lockstep::local
