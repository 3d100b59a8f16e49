# What tests of the command line share; sourced with BIN_DIR as $1. The shell is then in $work, a folder that is gone at the end.
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $*"; tail -n 30 "$work"/*.log "$work"/*.out; exit 1; }
expect_status() { # what found expected
  [ "$2" = "$3" ] || fail "$1: exit status $2, expected $3"
  echo "ok: $1"
}
expect_text() { grep -qF -- "$3" "$2" || fail "$1: no '$3' in $2"; echo "ok: $1"; } # what file text
expect_match() { grep -qE -- "$3" "$2" || fail "$1: no '$3' in $2"; echo "ok: $1"; } # what file pattern
run() { local rc=0; "$bin/lockstep" "${@:2}" >"$1.out" 2>"$1.log" || rc=$?; echo $rc; } # name argument...
corpus() { for i in $(seq "$1"); do echo "line $i of a corpus that a small model can learn, again and again"; done; } # lines
losses() { sed 's/, "tokens_per_second".*//' "$1/metrics.jsonl"; } # without what was measured
