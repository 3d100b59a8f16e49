#!/usr/bin/env bash
# lockstep as kubectl's plugin, every verb against the real API server: results, wrong names, missing rights, no server.
. "$(dirname "$0")/../scenario.sh"
mkdir -p "$work/bin" && ln -s "$LOCKSTEP_BIN/lockstep" "$work/bin/kubectl-lockstep"
plugin() { PATH=$work/bin:$PATH "$BIN/kubectl" lockstep "$@"; }
refused() { # status pattern argument...: one line on standard error, nothing on standard output
  local expected=$1 pattern=$2 rc=0; shift 2
  plugin "$@" >"$work/out" 2>"$work/err" || rc=$?
  expect_equal "exit status of $1" "$rc" "$expected"
  expect_match "what $1 says" "$(cat "$work/err")" "$pattern"
  [ ! -s "$work/out" ] && [ "$(grep -c '^error: ' "$work/err")" = 1 ] || fail "$1 says more: $(cat "$work/out" "$work/err")"
}
job() { # name shell-command
  printf 'apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: %s, labels: {team: a}}\nspec:\n  ranks: 2\n' "$1"
  printf '  failurePolicy: {maxRestarts: 0}\n  command: [/bin/sh, -c, "%s"]\n' "$2"
}
expect_match "help" "$(plugin --help)" 'kubectl lockstep'
job broken 'if [ $RANK = 1 ]; then exit 78; fi; exec sleep 600' >"$work/broken.yaml"
expect_equal "submit" "$(plugin submit "$work/broken.yaml" -n "$scenario")" "trainingjob.lockstep.dev/broken created"
refused 9 'there is a TrainingJob "broken" .* already' submit "$work/broken.yaml" -n "$scenario"
refused 3 'rnaks' submit "$work/broken.yaml" -n "$scenario" --set rnaks=3
ended() { kubectl get tjob broken -o 'jsonpath={.status.conditions[?(@.type=="Failed")].status}' | grep -q True; }
await 60 "failed job" ended
expect_match "describe" "$(plugin describe broken -n "$scenario")" 'It is failed'
expect_match "why" "$(plugin describe broken -n "$scenario" -o json | tr -d '\n')" '"headline": "failed".*"why": \[ *"[^]]*rank 1'
expect_match "get" "$(plugin get -n "$scenario" -l team=a)" '^broken +Failed'
expect_equal "get -l of others" "$(plugin get -n "$scenario" -l team=b -o name)" ""
expect_match "get -A" "$(plugin get -A)" "$scenario +broken"
expect_equal "get -o json" "$(plugin get broken -n "$scenario" -o json | "$BIN/kubectl" create --dry-run=client -f - -o 'jsonpath={.spec.ranks}')" 2
expect_equal "get -o yaml" "$(plugin get broken -n "$scenario" -o yaml | "$BIN/kubectl" create --dry-run=client -f - -o 'jsonpath={.metadata.name}')" broken
expect_match "events" "$(plugin events broken -n "$scenario")" 'trainingjob/broken'

# A training job of ours, as defaults and --set make it, passes the API server's strict checks and its CEL rules.
small_job trained 2 4 zero1 >"$work/trained.yaml"
plugin submit "$work/trained.yaml" -n "$scenario" --set suspend=true >/dev/null || fail "submit of a training job"
state() { [ "$(status "$1" state)" = "$2" ]; } # job state
await 60 "suspended job" state trained Suspended
expect_match "describe" "$(plugin describe trained -n "$scenario")" 'lockstep resume trained'
expect_match "scale" "$(plugin scale trained --ranks 4 -n "$scenario")" 'scaled to 4'
expect_equal "ranks" "$(kubectl get tjob trained -o 'jsonpath={.spec.ranks}')" 4

job steady 'exec sleep 600' >"$work/steady.yaml"
plugin submit "$work/steady.yaml" -n "$scenario" >/dev/null
await 60 "running job" state steady Running
PATH=$work/bin:$PATH "$BIN/kubectl" lockstep get steady -n "$scenario" --watch >"$work/watched" 2>/dev/null &
watcher=$!
expect_match "suspend" "$(plugin suspend steady -n "$scenario")" 'steady suspended'
await 60 "suspended job" state steady Suspended
expect_match "resume" "$(plugin resume steady -n "$scenario")" 'steady resumed'
await 60 "running job" state steady Running
await 20 "watched states" bash -c "grep -q Suspended '$work/watched' && tail -n 1 '$work/watched' | grep -q Running"
kill "$watcher"
expect_match "delete" "$(plugin delete steady trained -n "$scenario")" 'trained deleted'
expect_equal "jobs left" "$(plugin get -n "$scenario" -o name)" "trainingjob.lockstep.dev/broken"

# A job to its end, with the job's own exit status.
job good 'exit 0' >"$work/good.yaml"
expect_match "submit --watch" "$(plugin submit "$work/good.yaml" -n "$scenario" --watch)" 'good +Succeeded'
plugin delete broken -n "$scenario" >/dev/null
rc=0; plugin submit "$work/broken.yaml" -n "$scenario" --watch >"$work/out" 2>"$work/err" || rc=$?
expect_equal "exit status of a job that failed" "$rc" 1
expect_match "what it says" "$(cat "$work/err")" 'the job failed: rank 1'

for verb in get describe events logs suspend resume delete; do refused 6 'there is no TrainingJob "nope"' "$verb" nope -n "$scenario"; done
refused 6 'there is no TrainingJob "nope"' scale nope --ranks 2 -n "$scenario"
# The operator's own account may not create jobs.
refused 7 'you may not create trainingjobs' submit "$work/good.yaml" --kubeconfig "$work/operator.kubeconfig"
kubectl create serviceaccount nobody >/dev/null
with_token() { sed "s|token: \"[^\"]*\"|token: \"$1\"|" "$work/operator.kubeconfig"; }
with_token "$(kubectl create token nobody)" >"$work/nobody.kubeconfig"
with_token wrong >"$work/wrong.kubeconfig"
sed 's|127.0.0.1:[0-9]*|127.0.0.1:1|' "$work/operator.kubeconfig" >"$work/away.kubeconfig"
every_verb_refused() { # status pattern kubeconfig
  local verb
  for verb in get describe events logs suspend resume delete; do refused "$1" "$2" "$verb" broken --kubeconfig "$3"; done
  refused "$1" "$2" scale broken --ranks 2 --kubeconfig "$3"
  refused "$1" "$2" submit "$work/good.yaml" --kubeconfig "$3"
}
every_verb_refused 7 "you may not [a-z]+ trainingjobs in namespace \"$scenario\"" "$work/nobody.kubeconfig"
every_verb_refused 7 'does not accept the credentials' "$work/wrong.kubeconfig"
every_verb_refused 8 'https://127.0.0.1:1 does not answer' "$work/away.kubeconfig"
expect_equal "job that nobody could touch" "$(kubectl get tjob broken -o 'jsonpath={.spec.ranks}/{.spec.suspend}')" 2/false
refused 7 'you may not list trainingjobs in namespace' get --kubeconfig "$work/nobody.kubeconfig"
refused 8 'context' get --context nowhere --kubeconfig "$work/operator.kubeconfig"
refused 8 'no-such-file' get --kubeconfig "$work/no-such-file"
expect_match "top" "$(plugin top --cluster --once -n "$scenario")" "$scenario/broken"
top_status() { local rc=0; plugin top --cluster --once --kubeconfig "$1" >/dev/null 2>&1 || rc=$?; echo $rc; } # kubeconfig
expect_equal "exit statuses of top" "$(top_status "$work/nobody.kubeconfig") $(top_status "$work/away.kubeconfig")" "7 8"
