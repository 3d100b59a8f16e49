#!/usr/bin/env bash
# usage: manifest.sh VERSION BASE_URL ARCHIVE...
# Prints krew's manifest for the release archives lockstep-OS-ARCH.tar.gz, each with `lockstep` and `LICENSE` at its top, as they will be
# found below BASE_URL. Checksums are those of the files given.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 's/^# //p' "$0" >&2; exit 2; }
version=$1 base=$2; shift 2
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "manifest.sh: $version is not vX.Y.Z" >&2; exit 2; }
cat <<Y
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: lockstep
spec:
  version: $version
  shortDescription: Check, plan and estimate TrainingJobs of Lockstep
  description: |
    Checks a TrainingJob's manifest field by field, prints the pods that the
    operator would create and the memory that its ranks will need, and makes
    manifests of other trainers' configurations.
  caveats: |
    TrainingJobs run where Lockstep's operator is installed; checking,
    planning and estimating need no cluster.
  platforms:
Y
for archive in "$@"; do
  [[ $(basename "$archive") =~ ^lockstep-([a-z]+)-([a-z0-9]+)\.tar\.gz$ ]] || { echo "manifest.sh: $archive is not lockstep-OS-ARCH.tar.gz" >&2; exit 2; }
  os=${BASH_REMATCH[1]} arch=${BASH_REMATCH[2]}
  for file in lockstep LICENSE; do
    tar -tzf "$archive" | grep -E "^(\./)?$file\$" >/dev/null || { echo "manifest.sh: $archive has no $file" >&2; exit 1; }
  done
  cat <<Y
    - selector: {matchLabels: {os: $os, arch: $arch}}
      uri: $base/$(basename "$archive")
      sha256: $(sha256sum "$archive" | cut -d' ' -f1)
      bin: lockstep
      files: [{from: lockstep, to: .}, {from: LICENSE, to: .}]
Y
done
