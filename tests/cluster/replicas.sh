# Sourced by scenarios, after scenario.sh, whose operator it ends: replicas with leader election and the chart's rights, a letter each.
stop "operator-$scenario"  # the one without leader election
chart template "$scenario" --show-only templates/lease-role.yaml | sed "s/name: $scenario-operator, namespace/name: operator, namespace/" |
  kubectl apply -f - >/dev/null
lease_name=$scenario-operator
replica() { # letter
  start_operator "-$1" --leader-elect --leader-elect-resource-namespace "$scenario" --leader-elect-resource-name "$lease_name" \
    --leader-elect-lease-duration 3s --leader-elect-renew-deadline 2s --leader-elect-retry-period 400ms
}
lease() { kubectl get lease "$lease_name" -o "jsonpath={.spec.$1}"; }
pid_of() { cut -d' ' -f1 "$PIDS/operator-$scenario-$1"; }
identity_of() { grep -oE 'identity=[^ ]+' "$LOG/operator-$scenario-$1.log" | tail -n 1 | cut -d= -f2; }
leads() { local id; id=$(identity_of "$1") && [ -n "$id" ] && [ "$(lease holderIdentity)" = "$id" ]; }
