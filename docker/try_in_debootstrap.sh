#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where no Docker daemon runs: goes through the Dockerfile's steps in two debootstrap roots, starts
# the server there as the image would (user dfly, folder /data, port 6379 of a network of its own),
# on io_uring and on epoll, and asks its health check. Needs root, debootstrap, unshare, nsenter and
# ip; takes minutes and 2 GB.
#
#   docker/try_in_debootstrap.sh [folder]      default: a new one in $TMPDIR, removed at the end
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $EUID -eq 0 ]] || { echo "root is needed for chroot" >&2; exit 1; }
for tool in debootstrap unshare nsenter ip; do
  command -v "$tool" >/dev/null ||
    { echo "apt-get install debootstrap util-linux iproute2: no $tool" >&2; exit 1; }
done
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

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
cp "$work/build/dragonfly" "$root/docker/entrypoint.sh" "$work/run/usr/local/bin/"

# start_and_stop [FLAGS...]: healthy within 30 s (the machine may be busy), may write to /data, ends
# by SIGTERM with status 0.
start_and_stop() {
  local status=0 state=unknown
  # shellcheck disable=SC2016
  unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
    chroot --userspec=dfly:dfly "$work/run" /usr/bin/env -i PATH="$PATH" HOME=/data \
    sh -ec 'cd /data; : >writable; rm writable; exec entrypoint.sh "$@"' sh "$@" \
    >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    # Not before it has left our network: there may be a server on that port here.
    if [[ $(readlink "/proc/$server/ns/net") != "$(readlink /proc/self/ns/net)" ]] &&
      nsenter --net="/proc/$server/ns/net" chroot --userspec=dfly:dfly "$work/run" \
        /usr/bin/env -i PATH="$PATH" dragonfly --healthcheck=live 2>/dev/null; then
      state=healthy
      break
    fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || status=$?
  server=
  if [[ $state != healthy || $status -ne 0 ]]; then
    echo "state $state, exit status $status; the server said:" >&2
    cat "$work/server.log" >&2
    return 1
  fi
  echo "healthy, exit status after SIGTERM 0"
  grep -o "event loops on [a-z_]*" "$work/server.log" || echo "io_uring is refused here"
}

echo "==== start as the image does, and ask the health check"
start_and_stop
start_and_stop --force_epoll
grep -q 'event loops on epoll' "$work/server.log"
