#!/usr/bin/env bash
# The page of `lockstep report` in a real browser: it is laid out, asks for nothing, and looks other in the dark.
# usage: report_browser_test.sh BIN_DIR [FOLDER]     screenshots stay in FOLDER
set -euo pipefail
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shots=${2:-$work}
fail() { echo "FAILED: $*"; exit 1; }
command -v chromium >/dev/null || fail "no chromium; run tools/setup.sh test-full"

mkdir -p "$work/run/logs/attempt-0" "$work/run/logs/attempt-1"
awk 'BEGIN { for (s = 1; s <= 300; s++) printf "{\"step\": %d, \"loss\": %.6f, \"grad_norm\": %.4f, \"learning_rate\": %.6f, \"tokens_per_second\": %d, " \
  "\"step_seconds\": 0.1, \"data_seconds\": 0.001, \"forward_seconds\": 0.03, \"backward_seconds\": 0.06, \"communication_seconds\": %.4f, " \
  "\"optimizer_seconds\": 0.001, \"busy_seconds_min\": 0.07, \"busy_seconds_median\": 0.08, \"busy_seconds_max\": 0.09, \"slowest_rank\": %d, " \
  "\"buffer_bytes\": 29000000, \"resident_bytes\": 86000000, \"resident_peak_bytes\": 91000000}\n", \
  s, 2 + 4 / (1 + s / 20), 1 + s % 7 / 10, 0.001 * (1 - s / 400), 9000 + s % 50, 0.008 + s % 5 / 1000, s % 3 == 0 }' >"$work/run/metrics.jsonl"
echo '{"step": 150, "validation_loss": 2.9}' >>"$work/run/metrics.jsonl"
echo '{"run":"c53871de"}' >"$work/run/run.json"
echo '{"name":"<b>bold</b>","ranks":2,"train":{"steps":300,"evil":"<script>document.title=1</script>"}}' >"$work/run/logs/x-1.json"
echo '2026-11-21T13:20:04.811Z info strategy strategy=zero3' >"$work/run/logs/attempt-0/rank-0.log"
echo '{"rank":0,"step":100,"reason":"OutOfMemory","message":"m","hint":"h"}' >"$work/run/logs/attempt-0/rank-0.end"
echo '2026-11-21T13:21:04.811Z info resumed step=100 folder=x' >"$work/run/logs/attempt-1/rank-0.log"
"$bin/lockstep" report "$work/run" >/dev/null

browse() { # name argument... : what the browser prints goes to name.out, its requests to name.net
  local name=$1; shift
  timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update \
    --disable-sync --disable-extensions --user-data-dir="$work/profile-$name" --window-size=1200,2600 --enable-logging=stderr \
    --log-net-log="$work/$name.net" "$@" "file://$work/run/report.html" >"$work/$name.out" 2>"$work/$name.err" || fail "chromium: $(tail -n 5 "$work/$name.err")"
}
browse dom --dump-dom
grep -q '<title>&lt;b&gt;bold&lt;/b&gt; - not finished</title>' "$work/dom.out" || fail "the title: $(grep -o '<title>.*</title>' "$work/dom.out")"
[ "$(grep -o '<svg' "$work/dom.out" | wc -l)" = 7 ] || fail "not all charts are there"
! grep -q '<script' "$work/dom.out" || fail "a script came in"
! grep -E 'CONSOLE|Refused|violates' "$work/dom.err" || fail "the browser complains"
! grep -oE '"url":"(https?|ws)://[^"]*"' "$work/dom.net" || fail "the page asked for something"
echo "ok: seven charts, no script, no complaint, no request"

browse light --screenshot="$shots/light.png"
browse dark --blink-settings=preferredColorScheme=0 --screenshot="$shots/dark.png"
for shot in light dark; do
  [ "$(stat -c %s "$shots/$shot.png")" -gt 40000 ] || fail "$shot.png shows next to nothing"
done
! cmp -s "$shots/light.png" "$shots/dark.png" || fail "light and dark look the same"
echo "ok: light and dark differ"
