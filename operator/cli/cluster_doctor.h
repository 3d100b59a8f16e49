// What is wrong with a cluster for who wants to train on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/cli/cluster_session.h"
#include "operator/machine/examine.h"

namespace lockstep::cli {

struct ClusterDoctorOptions {
  std::string lease;    // "NAMESPACE/NAME" of an operator without a Deployment; empty: none
  std::string version;  // of this program
};

// A Lease, and whether somebody renews it.
struct LeaseView {
  std::string ns, name;
  std::string holder;
  bool is_renewed = false;
  std::string trouble;  // why it cannot be read
};

// An operator by its Deployment, or by its Lease alone (no name then).
struct OperatorView {
  std::string ns, name;
  std::string version;  // by its label
  int64_t num_ready = 0;
  std::string runtime_image;       // of jobs that name none, by its flags
  std::string gpu_runtime_image;   // of those of them that ask for GPUs; empty: runtime_image
  std::optional<LeaseView> lease;  // nothing: it runs without leader election
};

// kUnknown: the server failed to tell.
enum class CrdView { kAbsent, kOurs, kOther, kHidden, kUnknown };

struct ClusterView {
  std::string version;  // of this program
  std::string server, ns;
  std::optional<Complaint> refusal;  // of the very first request; then nothing else is known
  CrdView crd = CrdView::kAbsent;
  std::string crd_trouble;  // of kUnknown: what the server said
  bool sees_deployments = true;
  std::string operators_trouble;  // why Deployments could not be listed, but for lack of rights
  std::vector<OperatorView> operators;
  std::vector<std::string> denied;  // "create trainingjobs"
  std::string rights_trouble;       // why the server could not be asked about a right
};

// Asks the cluster; waits for the renewal of a Lease that looks old, up to its duration, and for a
// minute at most.
ClusterView observe_cluster(const Session& session, const ClusterDoctorOptions& options);

// The verdicts, in the order in which they are told. Pure.
std::vector<machine::Finding> judge_cluster(const ClusterView& view);

}  // namespace lockstep::cli
