#!/usr/bin/env bash
# What guide.sh must notice in a page.   usage: guide_test.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# page NAME: makes a page of the block on standard input.
page() { { echo '```sh'; cat; echo '```'; } > "$work/$1.md"; }
passes() { "$here/guide.sh" /nowhere "$work/$1.md" > "$work/$1.log" 2>&1 || { cat "$work/$1.log"; echo "FAILED: $1 does not pass"; exit 1; }; }
fails() {
  if "$here/guide.sh" /nowhere "$work/$1.md" > "$work/$1.log" 2>&1; then echo "FAILED: $1 passes"; exit 1; fi
  grep -q "$2" "$work/$1.log" || { cat "$work/$1.log"; echo "FAILED: $1 does not say: $2"; exit 1; }
}

page whole <<'SH'
! false
! grep absent /dev/null 2> said
[ ! -s said ]
SH
passes whole
page failure <<'SH'
false
true
SH
fails failure '+ false'
page success <<'SH'
! true
echo unreached
SH
fails success 'FAILED: did not fail: true'
page function <<'SH'
job() { true; }
! job one 2> said
echo unreached
SH
fails function '+ job one'
echo 'no block' > "$work/empty.md"
fails empty 'has no sh block'
echo "ok: a page that is wrong fails"
