#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one preset:  tools/build.sh [release|debug|tsan] [targets...]   Quiet in a pipe.
# BUILD_JOBS limits the compilers at once (default: the cores, but one for each 1.5 GB of memory).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-release}
shift || true

jobs=${BUILD_JOBS:-}
if [[ -z $jobs ]]; then
  memory_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
  by_memory=$((memory_kb / 1500000))
  jobs=$(nproc)
  ((by_memory < jobs)) && jobs=$by_memory
  ((jobs < 1)) && jobs=1
fi

cd "$root"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [[ ! -f build/$preset/build.ninja ]]; then
  cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
# Ninja runs cmake again by itself when a CMakeLists changed.
if [[ -t 1 ]]; then
  ninja -C "build/$preset" -j"$jobs" "$@" >&2
else
  ninja -C "build/$preset" -j"$jobs" "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
