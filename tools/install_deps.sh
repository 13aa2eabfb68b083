#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian or Ubuntu packages that are missing; does nothing, quickly, when none is.
#
#   tools/install_deps.sh [build|test|all|fuzz|clients]      default: all, which is build and test
#
# Works as root and with sudo, on Debian 12 and Ubuntu 24.04.
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config git
  liburing-dev libboost-dev libboost-context-dev libabsl-dev libmimalloc-dev
  libgoogle-glog-dev libgflags-dev libgtest-dev libgmock-dev libbenchmark-dev
  libfmt-dev libxxhash-dev libisal-dev liblz4-dev libzstd-dev libsimdjson-dev libre2-dev
  liblua5.4-dev lua-cjson-dev libssl-dev liblzf-dev libsystemd-dev nlohmann-json3-dev dpkg-dev)
test_packages=(clang-format openssl redis-server redis-tools python3 python3-venv golang-go tcl
  tcl-tls ruby-sidekiq memcached prometheus prometheus-redis-exporter chromium)

fuzz_packages=(clang-14 libclang-rt-14-dev)
# Of tests/clients, which also want a cargo that is newer than Debian's.
client_packages=(gcc libhiredis-dev nodejs npm golang-go default-jdk-headless maven)

case "${1:-all}" in
  build) wanted=("${build_packages[@]}") ;;
  test) wanted=("${test_packages[@]}") ;;
  fuzz) wanted=("${fuzz_packages[@]}") ;;
  clients) wanted=("${client_packages[@]}") ;;
  all) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
  *) sed -n '3,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

missing_packages() {
  # pkg-config is a virtual package on newer systems, so a package that provides it counts too.
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}, ${Provides}\n' 2>/dev/null |
    sed -n 's/^ii  *//p' | tr ',' '\n' | sed 's/^ *//; s/ .*//')
  for package in "${wanted[@]}"; do
    grep -qxF -- "$package" <<<"$installed" || echo "$package"
  done
}

if ! command -v dpkg-query >/dev/null; then
  echo "This is no Debian or Ubuntu. Install by hand: ${wanted[*]}" >&2
  exit 1
fi

missing_text=$(missing_packages)  # not <(...): that hides a failure, and needs /dev/fd
read -r -a missing <<<"${missing_text//$'\n'/ }"
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "Missing packages, and neither root nor sudo: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
run_as_root() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@"; }

# A redis-server that starts by itself would sit on the port that ours wants. policy-rc.d keeps
# packages from starting services while we install; a policy that is already there is left alone.
policy=/usr/sbin/policy-rc.d
made_policy=0
remove_policy() { if [[ $made_policy -eq 1 ]]; then run_as_root rm -f "$policy"; fi; }
trap remove_policy EXIT
if [[ ! -e $policy ]]; then
  made_policy=1
  printf '#!/bin/sh\nexit 101\n' | run_as_root tee "$policy" >/dev/null
  run_as_root chmod 755 "$policy"
fi
redis_was_installed=1
if [[ " ${missing[*]} " == *" redis-server "* ]]; then redis_was_installed=0; fi

echo "Installing: ${missing[*]}"
run_as_root apt-get update -q || { sleep 3; run_as_root apt-get update -q; }
run_as_root apt-get install -q -y --no-install-recommends "${missing[@]}"

# Nor may it start at the next boot. Somebody's own service stays as it was.
if [[ $redis_was_installed -eq 0 ]] && command -v systemctl >/dev/null; then
  run_as_root systemctl disable redis-server >/dev/null 2>&1 || true
fi
