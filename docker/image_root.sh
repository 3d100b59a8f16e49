#!/usr/bin/env bash
# usage: image_root.sh ROOT BINARY...
# Makes ROOT the root file system of an image that runs the binaries, as /usr/local/bin/NAME, and nothing else: the libraries among
# them (*.so, which binaries load when they need them) where the loader looks, the shared objects that it takes for all of them and no others, certificates, users, and a bill of materials. No package manager, and no shell
# unless it is one of the binaries.
# Prints the objects by size. Runs where the binaries were built, for they must load here.
set -euo pipefail
root=$1
shift
folder=/usr/lib/$(uname -m)-linux-gnu # the loader looks there without being told
mkdir -p "$root/usr/local/bin" "$root$folder" "$root/etc/ssl/certs" "$root/usr/share/doc/lockstep" "$root"/{lib64,tmp,proc,sys,dev}
chmod 1777 "$root/tmp"
ln -s usr/local/bin "$root/bin"

printf '%s\n' 'root:x:0:0:root:/:/none' 'nonroot:x:65532:65532:nonroot:/tmp:/none' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'nonroot:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"

# What the loader takes, as "NAME PATH" lines. An object that it does not find is an error, not a gap in the image.
closure() {
  local binary said
  for binary; do
    said=$(ldd "$binary")
    if grep -q 'not found' <<<"$said"; then
      echo "image_root.sh: $binary: $(grep 'not found' <<<"$said" | head -n 1)" >&2
      return 1
    fi
    awk '/=>/ { print $1, $3 } /^\t\/.*ld-linux/ { print "loader", $1 }' <<<"$said"
  done | sort -u
}

objects=$(closure "$@")
for binary; do
  case $binary in
    *.so) install -m 644 -s "$binary" "$root$folder/" ;;
    *) install -m 755 -s "$binary" "$root/usr/local/bin/" ;;
  esac
done
while read -r name path; do
  if [ "$name" = loader ]; then
    install -m 755 "$path" "$root$path"
  else
    install -m 644 -s "$path" "$root$folder/$name"
  fi
done <<<"$objects"

# SPDX 2.3, tag and value: which package each object comes from. What is in no package came with a Python wheel.
wheel_of() { # path
  local path folder record
  path=$(realpath "$1")
  folder=${path%%/site-packages/*}/site-packages
  for record in "$folder"/*.dist-info/RECORD; do
    grep -qF "${path#"$folder"/}," "$record" || continue
    sed -E 's#.*/([^/]+)-([^-/]+)\.dist-info/RECORD#\1 \2#' <<<"$record"
  done
}
package_of() { # path
  local name
  name=$({ dpkg-query -S "$1" || dpkg-query -S "$(realpath "$1")" || dpkg-query -S "/usr$1"; } 2>/dev/null | head -n 1 | cut -d: -f1)
  if [ -n "$name" ]; then echo "$name $(dpkg-query -W -f '${Version}' "$name")"; else wheel_of "$1"; fi
}
{
  printf '%s\n' 'SPDXVersion: SPDX-2.3' 'DataLicense: CC0-1.0' 'SPDXID: SPDXRef-DOCUMENT' 'DocumentName: lockstep-image' \
    "DocumentNamespace: https://lockstep.dev/spdx/$(sha256sum <<<"$objects" | cut -c1-32)" 'Creator: Tool: image_root.sh' \
    "Created: $(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)"
  while read -r _ path; do
    package=$(package_of "$path")
    [ -n "$package" ] || { echo "image_root.sh: no package has $path" >&2; exit 1; }
    echo "$package"
  done <<<"$objects" | sort -u | while read -r name version; do
    id=SPDXRef-$(tr -c 'A-Za-z0-9.\n-' - <<<"$name")
    printf '\nPackageName: %s\nSPDXID: %s\nPackageVersion: %s\nPackageDownloadLocation: NOASSERTION\nFilesAnalyzed: false\n' "$name" "$id" "$version"
    echo "Relationship: SPDXRef-DOCUMENT DESCRIBES $id"
  done
} >"$root/usr/share/doc/lockstep/sbom.spdx"

du -ab "$root" --max-depth=6 | awk -v root="$root" '$2 ~ /\/(usr\/local\/bin|usr\/lib)\/.*[^\/]$/ && $2 !~ /linux-gnu$/ { printf "%9.1f KB  %s\n", $1 / 1000, substr($2, length(root) + 1) }' | sort -rn
echo "image_root.sh: $(du -sb "$root" | awk '{ printf "%.1f MB", $1 / 1000000 }') in $root"
