#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where no Docker daemon runs: goes through the Dockerfile's steps in two debootstrap roots, starts
# the server there as the user dfly, and asks its health check. Needs root, debootstrap and chroot;
# takes minutes and 2 GB.
#
#   docker/try_in_debootstrap.sh [folder]      default: a new one in $TMPDIR, removed at the end
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $EUID -eq 0 ]] || { echo "root is needed for chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "apt-get install debootstrap" >&2; exit 1; }
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
port=${TRY_PORT:-16379}

work=${1:-}
remove=0
if [[ -z $work ]]; then work=$(mktemp -d); remove=1; fi
server=
cleanup() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  for stage in build run; do
    umount "$work/$stage/proc" 2>/dev/null || true
    umount "$work/$stage/dev" 2>/dev/null || true
  done
  # Never through a mount that is still there.
  if [[ $remove -eq 1 ]] && ! grep -q " $work/" /proc/mounts; then
    rm -rf --one-file-system "$work"
  fi
}
trap cleanup EXIT

make_root() {  # make_root STAGE: debian:12 as the image would have it
  if [[ ! -d $work/$1/usr ]]; then
    debootstrap --variant=minbase bookworm "$work/$1" "$mirror" >"$work/debootstrap-$1.log"
  fi
  cp /etc/resolv.conf "$work/$1/etc/resolv.conf"
  mount -t proc proc "$work/$1/proc"
  mount --bind /dev "$work/$1/dev"
}
inside() { local stage=$1; shift; chroot "$work/$stage" /usr/bin/env -i PATH="$PATH" HOME=/ "$@"; }

echo "==== build stage"
mkdir -p "$work"
make_root build
mkdir -p "$work/build/src"
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/build/src" -xf -
inside build /src/tools/install_deps.sh build
# The Dockerfile's own lines, so that this tries them and no copy of them.
run_line() {
  sed -n "/^$1/,/[^\\\\]\$/p" "$root/docker/Dockerfile" | sed '1s/^RUN //'
}
(cd /; run_line 'RUN tools\/build.sh') >"$work/build/src/.stage.sh"
inside build sh -ec 'cd /src && . ./.stage.sh'
rm -f "$work/build/src/.stage.sh"

echo "==== runtime stage, with the packages:"
cat "$work/build/runtime_packages"
make_root run
cp "$work/build/runtime_packages" "$work/run/tmp/"
run_line 'RUN apt-get update' >"$work/run/tmp/stage.sh"
inside run sh -e /tmp/stage.sh
rm -f "$work/run/tmp/stage.sh"
cp "$work/build/dragonfly" "$root/docker/entrypoint.sh" "$root/docker/healthcheck.sh" \
  "$work/run/usr/local/bin/"

echo "==== start and ask the health check"
chroot --userspec=999:999 "$work/run" /usr/bin/env -i PATH="$PATH" \
  /usr/local/bin/entrypoint.sh --bind=127.0.0.1 --port="$port" >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
  if inside run HEALTHCHECK_PORT="$port" /usr/local/bin/healthcheck.sh 2>/dev/null; then
    echo "healthy"
    kill -TERM "$server"
    status=0
    wait "$server" || status=$?
    server=
    echo "exit status after SIGTERM: $status"
    exit "$status"
  fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
echo "not healthy; the server said:" >&2
cat "$work/server.log" >&2
exit 1
