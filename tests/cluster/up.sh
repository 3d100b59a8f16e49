#!/usr/bin/env bash
# Starts etcd, kube-apiserver and kube-controller-manager on loopback (about 4 s), and for a real node a scheduler too, with an API
# server that the node reaches. Idempotent.
set -euo pipefail
cd "$(dirname "$0")"
. ./lib.sh
mkdir -p "$PKI" "$LOG" "$PIDS"
. ./pki.sh

etcd_url=http://127.0.0.1:$ETCD_PORT peer_url=http://127.0.0.1:$((ETCD_PORT + 1))
start etcd "$BIN/etcd" --name test --data-dir "$CLUSTER_STATE/etcd" --unsafe-no-fsync --log-level warn \
  --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
  --listen-peer-urls "$peer_url" --initial-advertise-peer-urls "$peer_url" --initial-cluster "test=$peer_url"
wait_for 60 "healthy etcd" curl -fsS "$etcd_url/health"

features=()
[ -z "${FEATURE_GATES:-}" ] || features=(--feature-gates "$FEATURE_GATES")
reach=(--bind-address 127.0.0.1 --advertise-address 127.0.0.1 --endpoint-reconciler-type none)
[ -z "$NODE_NAMESPACE" ] || reach=(--bind-address 0.0.0.0 --advertise-address "$HOST_IP" --endpoint-reconciler-type master-count
  --kubelet-client-certificate "$PKI/kubelet-client.crt" --kubelet-client-key "$PKI/kubelet-client.key"
  --kubelet-certificate-authority "$PKI/ca.crt" --kubelet-preferred-address-types InternalIP
  --allow-privileged=true --enable-admission-plugins NodeRestriction)
start apiserver "$BIN/kube-apiserver" --etcd-servers "$etcd_url" "${reach[@]}" --secure-port "$API_PORT" \
  --service-cluster-ip-range "$SERVICE_CIDR" \
  --authorization-mode Node,RBAC --client-ca-file "$PKI/ca.crt" \
  --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
  --service-account-issuer https://kubernetes.default.svc.cluster.local \
  --service-account-key-file "$PKI/sa.pub" --service-account-signing-key-file "$PKI/sa.key" --shutdown-delay-duration 0s \
  "${features[@]}" ${RUNTIME_CONFIG:+--runtime-config "$RUNTIME_CONFIG"}
wait_for 120 "ready API server" "$BIN/kubectl" get --raw /readyz

# With a node that only pretends, without its collector of pods: every 20 s it would delete by force what waits unscheduled for its
# finalizers, or is on a node that is gone. What becomes of such pods is what the tests are about.
controllers='*'
[ -n "$NODE_NAMESPACE" ] || controllers+=',-pod-garbage-collector-controller'
start controllers "$BIN/kube-controller-manager" --controllers="$controllers" \
  --kubeconfig "$CLUSTER_STATE/controllers.kubeconfig" \
  --authentication-kubeconfig "$CLUSTER_STATE/controllers.kubeconfig" --authorization-kubeconfig "$CLUSTER_STATE/controllers.kubeconfig" \
  --bind-address 127.0.0.1 --secure-port $((API_PORT + 1)) --leader-elect=false --use-service-account-credentials=true \
  --service-account-private-key-file "$PKI/sa.key" --root-ca-file "$PKI/ca.crt" --allocate-node-cidrs=false \
  --cert-dir "$CLUSTER_STATE/controllers-cert" "${features[@]}" ${CONTROLLER_LIMITS---kube-api-qps 500 --kube-api-burst 1000}
wait_for 120 "default service account" "$BIN/kubectl" get serviceaccount default
[ -z "$NODE_NAMESPACE" ] || start scheduler "$BIN/kube-scheduler" --kubeconfig "$CLUSTER_STATE/scheduler.kubeconfig" \
  --authentication-kubeconfig "$CLUSTER_STATE/scheduler.kubeconfig" --authorization-kubeconfig "$CLUSTER_STATE/scheduler.kubeconfig" \
  --bind-address 127.0.0.1 --secure-port $((API_PORT + 2)) --leader-elect=false --cert-dir "$CLUSTER_STATE/scheduler-cert"
