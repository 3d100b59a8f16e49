#!/usr/bin/env bash
# Undoes up.sh: pods through containerd, then the recorded processes, mounts, the namespace, control groups, the control plane.
set -uo pipefail
cd "$(dirname "$0")"
export NODE_NAMESPACE=${NODE_NAMESPACE:-lockstep-node}
. ../lib.sh
node=$CLUSTER_STATE/kubelet-node ctr=("$BIN/ctr" -a "$CLUSTER_STATE/kubelet-node/containerd.sock" -n k8s.io)
for name in kubelet proxy coredns; do stop $name; done
if alive containerd; then
  for task in $("${ctr[@]}" tasks ls -q 2>/dev/null); do "${ctr[@]}" tasks rm -f "$task" >/dev/null 2>&1 & done
  wait
  for container in $("${ctr[@]}" containers ls -q 2>/dev/null); do "${ctr[@]}" containers rm "$container" >/dev/null 2>&1; done
  stop containerd
fi
# A shim ends with its sandbox; one that does not names our socket in its arguments.
for process in /proc/[0-9]*; do
  { arguments=$(tr "\0" " " <"$process/cmdline"); } 2>/dev/null || continue
  case $arguments in "$BIN/containerd-shim-runc-v2 "*"-address $node/containerd.sock"*) kill -KILL "${process#/proc/}" 2>/dev/null ;; esac
done
awk -v below="$node/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do umount -l "$mount"; done
ip route del "$SERVICE_CIDR" via "$NODE_IP" 2>/dev/null
ip route del "$POD_CIDR" via "$NODE_IP" 2>/dev/null
ip link del v-lockstep 2>/dev/null
ip netns del "$NODE_NAMESPACE" 2>/dev/null
for group in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods; do [ -d "$group" ] && find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null; done
exec ../down.sh
