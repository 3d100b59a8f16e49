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

# What the browser asks for, it asks of a port of this machine where nobody listens: what it wants for itself, too.
browse() { # name page argument... : what the browser prints goes to name.out, its network log to name.net
  local name=$1 page=$2; shift 2
  timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update \
    --disable-sync --disable-extensions --proxy-server=http://127.0.0.1:9 --proxy-bypass-list='<-loopback>' --user-data-dir="$work/profile-$name" \
    --window-size=1200,2600 --enable-logging=stderr --log-net-log="$work/$name.net" "$@" "file://$page" >"$work/$name.out" 2>"$work/$name.err" \
    || fail "chromium: $(tail -n 5 "$work/$name.err")"
}
# A page's own requests have its origin for their initiator; those of the browser have none.
requests_of_page() { grep -E '"initiator":"(null|file:[^"]*)"' "$work/$1.net" | grep -oE '"url":"(https?|wss?)://[^"]*"' || true; }

page=$work/run/report.html
browse dom "$page" --dump-dom
grep -q '<title>&lt;b&gt;bold&lt;/b&gt; - not finished</title>' "$work/dom.out" || fail "the title: $(grep -o '<title>.*</title>' "$work/dom.out")"
[ "$(grep -o '<svg' "$work/dom.out" | wc -l)" = 7 ] || fail "not all charts are there"
! grep -q '<script' "$work/dom.out" || fail "a script came in"
! grep -E 'CONSOLE|Refused|violates' "$work/dom.err" || fail "the browser complains"
[ -z "$(requests_of_page dom)" ] || fail "the page asks for $(requests_of_page dom)"
# The same checks find what they look for: without the page's policy, and with it.
request='<img src="http://127.0.0.1:9/picture.png">'
echo "<!doctype html><title>x</title>$request" >"$work/asks.html"
browse asks "$work/asks.html" --dump-dom
[ -n "$(requests_of_page asks)" ] || fail "a request of a page is not seen"
sed "s|<h1>|$request<h1>|" "$page" >"$work/forbidden.html"
browse forbidden "$work/forbidden.html" --dump-dom
[ -z "$(requests_of_page forbidden)" ] || fail "the policy lets a request pass"
grep -q 'violates' "$work/forbidden.err" || fail "the policy is not the browser's"
echo "ok: seven charts, no script, no complaint, no request"

browse light "$page" --screenshot="$shots/light.png"
browse dark "$page" --blink-settings=preferredColorScheme=0 --screenshot="$shots/dark.png"
for shot in light dark; do
  [ "$(stat -c %s "$shots/$shot.png")" -gt 40000 ] || fail "$shot.png shows next to nothing"
done
! cmp -s "$shots/light.png" "$shots/dark.png" || fail "light and dark look the same"
echo "ok: light and dark differ"
