# Sourced by the scenarios and by the node's test: what they expect. Each defines kubectl() for its namespace, and fail().
expect_equal() { # what found expected
  [ "$2" = "$3" ] || fail "$1: expected '$3', found '$2'"
  echo "ok: $1 = $3"
}
expect_match() { # what found pattern
  grep -qE "$3" <<<"$2" || fail "$1: expected to match '$3', found '$2'"
  echo "ok: $1 matches '$3'"
}
status() { kubectl get trainingjob "$1" -o "jsonpath={.status.$2}"; } # job field
await() { # seconds what command...
  wait_for "$@" || fail "no $2 after $1 s"
}

# Waits for a job's end; a job that failed fails the scenario at once.
await_success() { # job
  local deadline=$((SECONDS + 900)) began conditions
  while [ $SECONDS -lt $deadline ]; do
    began=$(microseconds)
    conditions=$(kubectl get trainingjob "$1" -o 'jsonpath={range .status.conditions[*]}{.type}={.status} {end}')
    case " $conditions" in
      *" Succeeded=True "*) echo "ok: $1 succeeded"; return 0 ;;
      *" Failed=True "*) fail "$1 failed" ;;
    esac
    pause_after_look "$began"
  done
  fail "$1 did not end"
}
