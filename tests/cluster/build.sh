#!/usr/bin/env bash
# usage: build.sh [node]
# Builds etcd, kube-apiserver, kube-controller-manager, kubectl and helm from the pinned Go modules into the cache, or with `node` what a
# real node has: kube-scheduler, kubelet, kube-proxy, containerd and CoreDNS. Skips what is current; builds no control plane when
# KUBEBUILDER_ASSETS names a ready-made one.
set -euo pipefail
cd "$(dirname "$0")"; here=$PWD
. ./lib.sh
if [ "${1:-}" != node ] && [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for name in etcd kube-apiserver kube-controller-manager kubectl helm; do
    [ -x "$BIN/$name" ] || { echo "cluster: KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no $name" >&2; exit 1; }
  done
  exit 0
fi
version=1.36.3
mkdir -p "$BIN"
go_build() { # out module-folder package linker-flags [tags]
  local out=$BIN/$1 dir=$here/gomod/$2 stamp begin=$SECONDS
  stamp=$({ cat "$dir"/*; echo "$3 $4${5:+ $5} $(go env GOVERSION)"; } | sha256sum)
  [ -x "$out" ] && [ "$(cat "$out.stamp" 2>/dev/null)" = "$stamp" ] && return 0
  (cd "$dir" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -p 2 -trimpath -buildvcs=false -tags "${5:-}" -ldflags "-s -w $4" -o "$out.tmp" "$3")
  mv "$out.tmp" "$out"
  echo "$stamp" >"$out.stamp"
  echo "cluster: built $1 in $((SECONDS - begin)) s"
}
flags=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=36 -X $package.gitCommit=go-modules"
  flags+=" -X $package.gitTreeState=clean -X $package.buildDate=1970-01-01T00:00:00Z"
done
if [ "${1:-}" = node ]; then
  for name in kube-scheduler kubelet kube-proxy; do
    go_build $name kubernetes k8s.io/kubernetes/cmd/$name "$flags"
  done
  containerd=github.com/containerd/containerd/v2 tags="no_btrfs no_zfs no_devmapper"
  for name in containerd containerd-shim-runc-v2 ctr; do
    go_build $name containerd $containerd/cmd/$name "-X $containerd/version.Version=v2.4.2" "$tags"
  done
  go_build coredns coredns . ""
  exit 0
fi
for name in kube-apiserver kube-controller-manager kubectl; do
  go_build $name kubernetes k8s.io/kubernetes/cmd/$name "$flags"
done
go_build etcd etcd . ""
go_build helm helm helm.sh/helm/v4/cmd/helm "-X helm.sh/helm/v4/internal/version.version=v4.3.1"
