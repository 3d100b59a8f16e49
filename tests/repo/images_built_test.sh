#!/usr/bin/env bash
# usage: images_built_test.sh BIN_DIR SOURCE_DIR WORK_DIR
# The Dockerfiles built by the real buildah, without a registry: the base is a root of this machine's own Debian, and every line of
# every stage runs but for two programs that are played, apt-get (its packages are here) and cmake (its binaries are BIN_DIR's). What comes
# out is, file by file, what image_folder.sh makes for the other tests, with the user, labels and command that the Dockerfile says.
set -euo pipefail
bin=$1 source=$2 work=$3/images-built
: "${LOCKSTEP_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"
buildah() { command buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
clean() {
  buildah umount --all >/dev/null 2>&1 || :
  buildah rm --all >/dev/null 2>&1 || :
  rm -rf "$work"
}
command -v buildah >/dev/null || { echo "FAILED: no buildah: run tools/setup.sh test-full"; exit 1; }
clean
mkdir -p "$work"
trap clean EXIT
fail() { echo "FAILED: $*"; exit 1; }

# The base: /usr is this machine's, mounted; the rest of a root, and what is played.
base=$work/base
mkdir -p "$base"/{usr,etc/ssl/certs,tmp,var/lib/dpkg,root/.cargo,root/.rustup,proc,sys,dev,cache,played,binaries} "$base$LOCKSTEP_CACHE"
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$base/$folder"; done
cp -a /etc/{passwd,group,nsswitch.conf,ld.so.cache,alternatives,debian_version} "$base/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/"
printf '#!/bin/sh\n' >"$base/played/apt-get"
cat >"$base/played/cmake" <<'S'
#!/bin/bash
# Puts what the targets make, from /binaries, where a build would: in the folder that the configuring call named, or the preset's.
set -euo pipefail
if [ "$1" = --preset ]; then
  grep -q "\"name\": \"$2\"" CMakePresets.json || { echo "cmake: no preset $2"; exit 1; }
  printf '%s\n' "$@" | sed -n 's/^-DLOCKSTEP_BINARY_DIR=//p' >/played.folder
  [ -s /played.folder ] || echo build/bin >/played.folder
  echo "build/$2" >/played.build
  exit 0
fi
[ "$1 $2 $3" = "--build $(cat /played.build) --target" ] || { echo "cmake: $*"; exit 1; }
folder=$(cat /played.folder)
mkdir -p "$folder"
for target in "${@:4}"; do
  case $target in
    lockstep-runtime) made="lockstep-runtime liblockstep-gloo.so" ;;
    lockstep_cuda) made=liblockstep-cuda.so ;;
    *) made=$target ;;
  esac
  for name in $made; do cp "/binaries/$name" "$folder/"; done
done
S
chmod +x "$base"/played/*
made=$(buildah from scratch)
tar -C "$base" -cf "$work/base.tar" .
buildah add "$made" "$work/base.tar" / >/dev/null
buildah config --env PATH=/played:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin "$made"
buildah commit --quiet "$made" localhost/base >/dev/null

mkdir "$work/context" "$work/binaries"
git -C "$source" ls-files -z | tar -C "$source" --null -T - -cf - | tar -C "$work/context" -xf -
for name in lockstep lockstep-operator lockstep-runtime lockstep-launch liblockstep-gloo.so liblockstep-cuda.so; do
  [ ! -e "$bin/$name" ] || cp "$bin/$name" "$work/binaries/"
done
mounts=(-v /usr:/usr:ro -v /var/lib/dpkg:/var/lib/dpkg:ro -v "$work/binaries:/binaries:ro" -v "$LOCKSTEP_CACHE:/cache:ro"
  -v "$LOCKSTEP_CACHE:$LOCKSTEP_CACHE:ro")
for folder in .cargo .rustup; do [ ! -d "$HOME/$folder" ] || mounts+=(-v "$HOME/$folder:$HOME/$folder:ro"); done

# A word of the last stage, with the lines that it goes on in.
said() { # word dockerfile
  sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$2" |
    awk -v word="$1" '/^FROM/ { text = "" } $1 == word { text = $0; sub(/^[A-Z]+ /, "", text) } END { printf "%s", text }'
}
lines() { xargs -n 1 | sed '/^$/d' | sort; } # words, quoted or not
config_is() { # image dockerfile word template: the image has what the last stage says, and nothing else
  local found wanted
  found=$(buildah inspect --type image --format "$4" "$1" | sed '/io.buildah.version/d' | lines)
  wanted=$(said "$3" "$2")
  case $3 in ENTRYPOINT | CMD) wanted=$(tr -d '[],' <<<"$wanted") ;; esac
  wanted=$(lines <<<"$wanted")
  [ "$found" = "$wanted" ] || fail "$1: $3 is '$found', the Dockerfile says '$wanted'"
}
files() { (cd "$1" && find . -mindepth 1 -printf '%P %M %l\n' | sort); }
build() { # image
  local file=$source/docker/$1.Dockerfile image=localhost/lockstep/$1 root began=$SECONDS
  buildah bud --isolation chroot --pull-never --build-arg BASE=localhost/base "${mounts[@]}" --tag "$image" \
    --file "docker/$1.Dockerfile" "$work/context" >"$work/log" 2>&1 || fail "buildah bud $file: $(tail -n 20 "$work/log")"
  "$source/tests/support/image_folder.sh" "$file" "$bin" "$source" "$work/folder" >/dev/null
  made=$(buildah from --pull-never "$image")
  root=$(buildah mount "$made")
  diff -r --no-dereference "$work/folder" "$root" >"$work/diff" || fail "$1: other files: $(head -n 20 "$work/diff")"
  diff <(files "$work/folder") <(files "$root") >"$work/diff" || fail "$1: other modes: $(head -n 20 "$work/diff")"
  config_is "$image" "$file" USER '{{.OCIv1.Config.User}}'
  config_is "$image" "$file" WORKDIR '{{.OCIv1.Config.WorkingDir}}'
  config_is "$image" "$file" ENV '{{range .OCIv1.Config.Env}}{{println .}}{{end}}'
  config_is "$image" "$file" LABEL '{{range $name, $value := .OCIv1.Config.Labels}}"{{$name}}={{$value}}"{{println}}{{end}}'
  config_is "$image" "$file" ENTRYPOINT '{{range .OCIv1.Config.Entrypoint}}{{println .}}{{end}}'
  config_is "$image" "$file" CMD '{{range .OCIv1.Config.Cmd}}{{println .}}{{end}}'
  echo "ok: buildah builds $1 in $((SECONDS - began)) s, $(du -sb "$root" | awk '{ printf "%.1f MB", $1 / 1000000 }')"
  buildah rm "$made" >/dev/null
  rm -rf "$work/folder"
}
build operator
build runtime-cpu
if [ -e "$bin/liblockstep-cuda.so" ]; then
  build runtime
else
  echo "the image for GPUs was not built: this build has no liblockstep-cuda.so (-DWITH_CUDA=ON)"
fi
echo "ok"
