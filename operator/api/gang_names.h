// What schedulers that know gangs call things on groups and pods. Sources: scheduler-plugins
// apis/scheduling/v1alpha1, volcano apis/scheduling/v1beta1, kubernetes api/scheduling/v1alpha2 and
// api/core/v1 (PodSchedulingGroup).
#pragma once

namespace lockstep::api {

// Each has a PodGroup of its own, in the version that we speak.
inline constexpr const char* kPodGroupKind = "PodGroup";
inline constexpr const char* kPodGroupPlural = "podgroups";
inline constexpr const char* kCoschedulingGroup = "scheduling.x-k8s.io";
inline constexpr const char* kCoschedulingVersion = "v1alpha1";
inline constexpr const char* kVolcanoGroup = "scheduling.volcano.sh";
inline constexpr const char* kVolcanoVersion = "v1beta1";
inline constexpr const char* kNativeGroup = "scheduling.k8s.io";
inline constexpr const char* kNativeVersion = "v1alpha2";

// How a pod names its group: a label, an annotation, a field of its spec.
inline constexpr const char* kCoschedulingLabel = "scheduling.x-k8s.io/pod-group";
inline constexpr const char* kVolcanoAnnotation = "scheduling.k8s.io/group-name";
// The same in Volcano's own domain; its scheduler reads both.
inline constexpr const char* kVolcanoOwnAnnotation = "scheduling.volcano.sh/group-name";
inline constexpr const char* kNativeField = "schedulingGroup";

// Names of schedulers.
inline constexpr const char* kVolcanoScheduler = "volcano";
inline constexpr const char* kDefaultScheduler = "default-scheduler";

// A label of the job: the queue of Volcano that its group waits in.
inline constexpr const char* kVolcanoQueueLabel = "scheduling.volcano.sh/queue-name";

}  // namespace lockstep::api
