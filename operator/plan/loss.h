// Whether the gang has lost a rank, and whether it is time to act on it.
//
// Note [A vanished rank]
// A rank without a pod is either one that was not created yet (an operator died in the middle of
// creating the gang) or one whose pod somebody deleted. Before the whole gang had nodes, no rank
// can have passed the rendezvous, so the missing pod is created and joins its peers. Once Scheduled
// is True for the attempt, which is recorded in the status and stays, a rank cannot rejoin alone:
// the gang gets a new attempt, free of charge. If the operator was away while all of that happened,
// a rank that comes too late makes its peers end with PeerLost, and the gang starts over.
//
// Note [A node that is not ready]
// It may have lost its kubelet alone, and its ranks train on. So such a node counts as lost only if
// the ranks on it do not answer either, each asked twice, while another rank of the gang does: else
// nodes and ranks may live, cut off from the control plane and from us. A program of the user's own
// answers nobody: there the end of a peer has to tell, or the control plane, which deletes the
// pods.
#pragma once

#include <optional>

#include "operator/api/training_job.h"
#include "operator/plan/failure.h"
#include "operator/plan/situation.h"

namespace lockstep::plan {

struct Loss {
  RankFailure cause;
  // Until then its peers may tell more or save their work, and nobody is killed. Nothing = act now.
  std::optional<api::Time> wait_until;
};

// The loss that ends the present attempt, if there is one. A rank that only lost its peer waits
// 10 s for the cause to arrive; after a preemption the others have their grace period.
std::optional<Loss> find_loss(const Situation& s);

}  // namespace lockstep::plan
