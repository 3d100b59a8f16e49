# Sourced by the scripts of the test bed: one real control plane on loopback, without containers.
#   KUBEBUILDER_ASSETS  folder with etcd, kube-apiserver, kube-controller-manager, kubectl, helm; wins if set
#   LOCKSTEP_CACHE      where build.sh puts its own (default ~/.cache/lockstep)
#   CLUSTER_STATE       state of one cluster: certificates, etcd's data, logs, process ids
#   API_PORT, ETCD_PORT ports on 127.0.0.1
#   NODE_NAMESPACE      if set: the network namespace of a real node, which reaches the control plane at HOST_IP
: "${LOCKSTEP_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
: "${CLUSTER_STATE:=${TMPDIR:-/tmp}/lockstep-cluster}" "${API_PORT:=16443}" "${ETCD_PORT:=12379}"
BIN=${KUBEBUILDER_ASSETS:-$LOCKSTEP_CACHE/kubernetes/bin}
: "${NODE_NAMESPACE:=}" "${HOST_IP:=198.51.100.1}" "${NODE_IP:=198.51.100.20}"
POD_CIDR=10.244.0.0/24 SERVICE_CIDR=10.96.0.0/16 DNS_IP=10.96.0.10
PKI=$CLUSTER_STATE/pki LOG=$CLUSTER_STATE/log PIDS=$CLUSTER_STATE/pids
export KUBECONFIG=$CLUSTER_STATE/admin.kubeconfig

start_time() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; s=${s##*) }; set -- $s; echo "${20}"; }

# True if the recorded process still runs and is the one recorded (a process id may be given out again).
alive() { # name
  local pid started
  [ -f "$PIDS/$1" ] || return 1
  read -r pid started <"$PIDS/$1"
  [ "$(start_time "$pid")" = "$started" ] && [ "$(sed 's/.*) //;s/ .*//' "/proc/$pid/stat" 2>/dev/null)" != Z ]
}

start() { # name command...
  local name=$1; shift
  alive "$name" && return 0
  setsid "$@" >>"$LOG/$name.log" 2>&1 </dev/null &
  local pid=$!
  sleep 0.02
  echo "$pid $(start_time "$pid")" >"$PIDS/$name"
}

stop() { # name [signal]: only the process recorded here
  local pid started i
  alive "$1" || { rm -f "$PIDS/$1"; return 0; }
  read -r pid started <"$PIDS/$1"
  kill "-${2:-TERM}" "$pid" 2>/dev/null || :
  for ((i = 0; i < 200; i++)); do alive "$1" || break; sleep 0.05; done
  if alive "$1"; then kill -KILL "$pid" 2>/dev/null || :; sleep 0.1; fi
  rm -f "$PIDS/$1"
}

wait_for() { # seconds what command...
  local deadline=$((SECONDS + $1)) what=$2 limit=$1
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { echo "cluster: no $what after $limit s; logs are in $LOG" >&2; return 1; }
    sleep 0.1
  done
}
