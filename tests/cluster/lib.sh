# Sourced by the scripts of the test bed: one real control plane on loopback, without containers.
#   KUBEBUILDER_ASSETS  folder with etcd, kube-apiserver, kube-controller-manager, kubectl, helm; wins if set
#   LOCKSTEP_CACHE      where build.sh puts its own (default ~/.cache/lockstep)
#   CLUSTER_STATE       state of one cluster: certificates, etcd's data, logs, process ids
#   API_PORT, ETCD_PORT ports on 127.0.0.1
#   CONTROLLER_LIMITS   flags of the controller manager for its client; empty: its stock limits (unset: limits that no test waits for)
#   FEATURE_GATES       of API server and controller manager; RUNTIME_CONFIG: API versions beyond those that are served anyway
#   NODE_NAMESPACE      if set: the network namespace of a real node, which reaches the control plane at HOST_IP
: "${LOCKSTEP_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
: "${CLUSTER_STATE:=${TMPDIR:-/tmp}/lockstep-cluster}" "${API_PORT:=16443}" "${ETCD_PORT:=12379}"
BIN=${KUBEBUILDER_ASSETS:-$LOCKSTEP_CACHE/kubernetes/bin}
# All of them are Go's: with more room between two collections they compute a third less.
export GOGC=${GOGC:-400} GOMEMLIMIT=${GOMEMLIMIT:-2GiB}
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

microseconds() { echo "${EPOCHREALTIME/[.,]/}"; }

# Sleeps four times as long as the look took that began at `began`, from 0.1 s to 1.2 s: kubectl computes for a fifth of a second, and
# who waits leaves the processors to what it waits for.
pause_after_look() { # began, in microseconds
  local pause=$((($(microseconds) - $1) * 4))
  ((pause > 100000)) || pause=100000
  ((pause < 1200000)) || pause=1200000
  sleep "$(printf '%d.%06d' $((pause / 1000000)) $((pause % 1000000)))"
}

wait_for() { # seconds what command...
  local deadline=$((SECONDS + $1)) what=$2 limit=$1 began
  shift 2
  while :; do
    began=$(microseconds)
    ! "$@" >/dev/null 2>&1 || return 0
    [ $SECONDS -lt $deadline ] || { echo "cluster: no $what after $limit s; logs are in $LOG" >&2; return 1; }
    pause_after_look "$began"
  done
}
