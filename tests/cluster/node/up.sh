#!/usr/bin/env bash
# A real node in a network namespace of its own: containerd, kubelet, kube-proxy, the bridge of CNI and CoreDNS, beside a control plane
# that it reaches. Loads every image of IMAGES. Idempotent; down.sh undoes it. Needs root.
# usage: up.sh IMAGES     a folder of image archives
set -euo pipefail
images=$1
cd "$(dirname "$0")"
export NODE_NAMESPACE=${NODE_NAMESPACE:-lockstep-node}
. ../lib.sh
../up.sh
node=$CLUSTER_STATE/kubelet-node
mkdir -p "$node"/{cni,logs}

if [ ! -e "/run/netns/$NODE_NAMESPACE" ]; then
  ip netns add "$NODE_NAMESPACE"
  ip link add v-lockstep type veth peer name eth0 netns "$NODE_NAMESPACE"
  ip addr add "$HOST_IP/24" dev v-lockstep
  ip link set v-lockstep up
  ip -n "$NODE_NAMESPACE" link set lo up
  ip -n "$NODE_NAMESPACE" addr add "$NODE_IP/24" dev eth0
  ip -n "$NODE_NAMESPACE" link set eth0 up
  ip -n "$NODE_NAMESPACE" route add default via "$HOST_IP"
  ip route replace "$POD_CIDR" via "$NODE_IP"
  ip route replace "$SERVICE_CIDR" via "$NODE_IP"
fi
inside=(nsenter "--net=/run/netns/$NODE_NAMESPACE")  # `ip netns exec` would remount /sys, and hide the control groups
"${inside[@]}" sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1

cat >"$node/cni/10-bridge.conflist" <<C
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_CIDR"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$node/addresses"}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
C
cat >"$node/containerd.toml" <<C
version = 3
root = "$node/containerd/root"
state = "$node/containerd/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "$node/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "localhost/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true  # where down.sh finds them: a node that goes does not run CNI's DEL
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "$node/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      runtime_path = "$BIN/containerd-shim-runc-v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "/usr/sbin/runc"
        SystemdCgroup = false
C
start containerd "${inside[@]}" "$BIN/containerd" --config "$node/containerd.toml"
ctr=("$BIN/ctr" -a "$node/containerd.sock" -n k8s.io)
wait_for 60 containerd "${ctr[@]}" version
for image in "$images"/*.tar; do "${ctr[@]}" images import "$image" >>"$LOG/images.log" 2>&1; done

echo "nameserver $HOST_IP" >"$node/resolv.conf"
cat >"$node/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
tlsCertFile: $PKI/kubelet-serving.crt
tlsPrivateKeyFile: $PKI/kubelet-serving.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
containerRuntimeEndpoint: unix://$node/containerd.sock
resolvConf: $node/resolv.conf
clusterDNS: ["$DNS_IP"]
clusterDomain: cluster.local
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
podLogsDir: $node/logs
volumePluginDir: $node/volume-plugins
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%, imagefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
C
start kubelet "${inside[@]}" "$BIN/kubelet" --config "$node/kubelet.yaml" --kubeconfig "$CLUSTER_STATE/kubelet.kubeconfig" \
  --root-dir "$node/kubelet" --hostname-override node1 --node-ip "$NODE_IP" --cert-dir "$node/kubelet-certificates"

cat >"$node/proxy.yaml" <<C
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $CLUSTER_STATE/proxy.kubeconfig}
mode: iptables
clusterCIDR: $POD_CIDR
hostnameOverride: node1
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
C
start proxy "${inside[@]}" "$BIN/kube-proxy" --config "$node/proxy.yaml"

# DNS as a process of the node's namespace, behind the Service of its usual name.
cat >"$node/Corefile" <<C
.:53 {
  bind $NODE_IP
  errors
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $CLUSTER_STATE/dns.kubeconfig
    pods insecure
    ttl 1
  }
}
C
start coredns "${inside[@]}" "$BIN/coredns" -conf "$node/Corefile"
"$BIN/kubectl" apply -f - >/dev/null <<C
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {clusterIP: $DNS_IP, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-0, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: ["$NODE_IP"], conditions: {ready: true}}]
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
C
wait_for 120 "ready node" "$BIN/kubectl" wait --for=condition=Ready node/node1 --timeout=10s
wait_for 60 "ready DNS" "${inside[@]}" curl -fsS http://127.0.0.1:8181/ready
