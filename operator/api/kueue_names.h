// What Kueue calls things on jobs and pods. Source: kueue pkg/controller/constants,
// pkg/controller/jobs/pod/constants, apis/kueue/v1beta2.
#pragma once

namespace lockstep::api {

inline constexpr const char* kKueueGroup = "kueue.x-k8s.io";
// Labels of a job, which its pods inherit.
inline constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr const char* kPriorityClassLabel = "kueue.x-k8s.io/priority-class";
// Of the pods of a group: a label, and annotations.
inline constexpr const char* kPodGroupLabel = "kueue.x-k8s.io/pod-group-name";
inline constexpr const char* kPodGroupSize = "kueue.x-k8s.io/pod-group-total-count";
inline constexpr const char* kRetriableInGroup = "kueue.x-k8s.io/retriable-in-group";
// What else begins so is of a group too: the place of a pod in it, and which label tells that.
inline constexpr const char* kPodGroupPrefix = "kueue.x-k8s.io/pod-group-";
// The scheduling gate of a pod that waits, and what keeps a pod until Kueue has counted its end: a
// finalizer, and a label of the same name.
inline constexpr const char* kQueueGate = "kueue.x-k8s.io/admission";
inline constexpr const char* kQueueFinalizer = "kueue.x-k8s.io/managed";

}  // namespace lockstep::api
