# Sourced by up.sh: keys and certificates of one test cluster (ECDSA P-256, 7 days), made once.
make_ca() { # name
  [ -s "$PKI/$1.crt" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 7 -subj "/CN=$1" \
    -keyout "$PKI/$1.key" -out "$PKI/$1.crt" -addext 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature' 2>/dev/null
}
make_certificate() { # name subject extended-key-usage [subject-alternative-names]
  [ -s "$PKI/$1.crt" ] && return 0
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$PKI/$1.key" -out "$PKI/$1.csr" 2>/dev/null
  printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n%s\n' "$3" "${4:+subjectAltName=$4}" >"$PKI/$1.ext"
  openssl x509 -req -in "$PKI/$1.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 7 -extfile "$PKI/$1.ext" -out "$PKI/$1.crt" 2>/dev/null
}
make_kubeconfig() { # file certificate-name [address]
  [ -s "$1" ] && return 0
  cat >"$1" <<K
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://${3:-127.0.0.1}:$API_PORT", certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")}}]
users: [{name: test, user: {client-certificate-data: $(base64 -w0 "$PKI/$2.crt"), client-key-data: $(base64 -w0 "$PKI/$2.key")}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: default}}]
K
}
make_ca ca
make_certificate apiserver /CN=kube-apiserver serverAuth \
  "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:$HOST_IP"
make_certificate admin /O=system:masters/CN=admin clientAuth
make_certificate controllers /CN=system:kube-controller-manager clientAuth
[ -s "$PKI/sa.key" ] || {
  openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/sa.key"
  openssl ec -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null
}
make_kubeconfig "$CLUSTER_STATE/admin.kubeconfig" admin
make_kubeconfig "$CLUSTER_STATE/controllers.kubeconfig" controllers
[ -z "$NODE_NAMESPACE" ] && return 0
make_certificate scheduler /CN=system:kube-scheduler clientAuth
make_certificate proxy /CN=system:kube-proxy clientAuth
make_certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
make_certificate kubelet /O=system:nodes/CN=system:node:node1 clientAuth
make_certificate kubelet-serving /O=system:nodes/CN=system:node:node1 serverAuth "DNS:node1,IP:$NODE_IP,IP:127.0.0.1"
make_kubeconfig "$CLUSTER_STATE/scheduler.kubeconfig" scheduler
make_kubeconfig "$CLUSTER_STATE/kubelet.kubeconfig" kubelet "$HOST_IP"
make_kubeconfig "$CLUSTER_STATE/proxy.kubeconfig" proxy "$HOST_IP"
make_kubeconfig "$CLUSTER_STATE/dns.kubeconfig" admin "$HOST_IP"
