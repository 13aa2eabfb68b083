#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian package in a clean debootstrap root, starts the server there as its unit would
# (user dragonfly, /etc/dragonfly/dragonfly.conf, a network of its own), asks its health check,
# saves, and removes the package. Needs root, debootstrap, unshare, nsenter and ip.
#
#   packaging/try_in_debootstrap.sh [package.deb]      default: what tools/package.sh has made
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $EUID -eq 0 ]] || { echo "root is needed for chroot" >&2; exit 1; }
for tool in debootstrap unshare nsenter ip; do
  command -v "$tool" >/dev/null ||
    { echo "apt-get install debootstrap util-linux iproute2: no $tool" >&2; exit 1; }
done
package=${1:-$(ls "$root"/build/release/packages/dragonfly_*.deb)}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

work=$(mktemp -d)
server=
cleanup() {
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  umount "$work/root/proc" 2>/dev/null || true
  umount "$work/root/dev" 2>/dev/null || true
  # Never through a mount that is still there.
  if ! grep -q " $work/" /proc/mounts; then rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT

debootstrap --variant=minbase bookworm "$work/root" "$mirror" >"$work/debootstrap.log" ||
  { tail "$work/debootstrap.log" >&2; exit 1; }
cp /etc/resolv.conf "$work/root/etc/resolv.conf"
mount -t proc proc "$work/root/proc"
mount --bind /dev "$work/root/dev"
inside() {
  chroot "$work/root" /usr/bin/env -i PATH="$PATH" HOME=/ DEBIAN_FRONTEND=noninteractive "$@"
}
inside apt-get update -q >/dev/null
cp "$package" "$work/root/tmp/dragonfly.deb"
inside apt-get install -q -y --no-install-recommends /tmp/dragonfly.deb >"$work/install.log" 2>&1 ||
  { tail "$work/install.log" >&2; exit 1; }
echo "installed: $(inside dragonfly --version)"

mkdir -p "$work/root/run/dragonfly"
inside chown dragonfly:dragonfly /run/dragonfly
unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
  chroot --userspec=dragonfly:dragonfly "$work/root" \
  /usr/bin/env -i PATH="$PATH" dragonfly /etc/dragonfly/dragonfly.conf >"$work/server.log" 2>&1 &
server=$!
state=unknown
for _ in $(seq 300); do
  if [[ $(readlink "/proc/$server/ns/net") != "$(readlink /proc/self/ns/net)" ]] &&
    nsenter --net="/proc/$server/ns/net" chroot --userspec=dragonfly:dragonfly "$work/root" \
      /usr/bin/env -i PATH="$PATH" dragonfly /etc/dragonfly/dragonfly.conf --healthcheck=ready \
      2>/dev/null; then
    state=healthy
    break
  fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
status=0
kill -TERM "$server" 2>/dev/null || true
wait "$server" || status=$?
server=
log=$work/root/var/log/dragonfly/dragonfly.log
if [[ $state != healthy || $status -ne 0 ]]; then
  echo "state $state, exit status $status; the server said:" >&2
  cat "$work/server.log" "$log" >&2
  exit 1
fi
grep -q "Ready to accept connections" "$log"
echo "healthy as user dragonfly, exit status after SIGTERM 0"

inside apt-get purge -q -y dragonfly >"$work/purge.log" 2>&1 ||
  { tail "$work/purge.log" >&2; exit 1; }
for left in usr/bin/dragonfly etc/dragonfly var/lib/dragonfly var/log/dragonfly; do
  [[ ! -e $work/root/$left ]] || { echo "purged, but /$left is still there" >&2; exit 1; }
done
echo "purged"
