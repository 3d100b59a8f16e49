// Limits of control groups, of version 2 or 1.
// Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of Linux.
#pragma once

#include "operator/machine/facts.h"
#include "operator/machine/proc_text.h"

namespace lockstep::machine {

// Reads /proc/self/cgroup and, of the group and all above it that are seen, its limits. In a
// container the group's own folder is the root of what is seen.
CgroupFacts read_cgroup(const ReadFile& read);

}  // namespace lockstep::machine
