#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the append-only log costs: SET from 50 clients, without pipelines and with pipelines of 10.
# To this server without a log, with appendfsync always and everysec, and to redis-server with both.
# One thread on core 0, redis-benchmark on core 1; the files are in the current directory's disk.
# Each line: requests a second, and CPU microseconds of the server for each.
#
#   tools/bench/append_log.sh [rounds]      default: 3
#
#   DFLY_BINARY=path   default build/release/dragonfly
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary=${DFLY_BINARY:-$root/build/release/dragonfly}
rounds=${1:-3}
port=7933
pid=
dir=
stop_server() {
  [[ -z $pid ]] || { kill "$pid" && wait "$pid" || true; }
  [[ -z $dir ]] || rm -rf "$dir"
  pid= dir=
}
trap stop_server EXIT

cpu_ticks() { awk '{print $14 + $15}' "/proc/$pid/stat"; }

# measure name command...: of a server that is started by the command with --dir
measure() {
  local name=$1 pipeline requests round before after rate
  shift
  dir=$(mktemp -d ./append-log.XXXXXX)
  taskset -c 0 "$@" --dir "$dir" >"$dir/log" 2>&1 &
  pid=$!
  until redis-cli -p "$port" ping 2>/dev/null | grep -q PONG; do sleep 0.1; done
  for pipeline in 1 10; do
    requests=$((pipeline == 1 ? 200000 : 1000000))
    for ((round = 0; round < rounds; ++round)); do
      before=$(cpu_ticks)
      rate=$(taskset -c 1 redis-benchmark -p "$port" -t set -c 50 -d 32 -r 100000 -n "$requests" \
        -P "$pipeline" --csv | tail -n 1 | cut -d '"' -f 4)
      after=$(cpu_ticks)
      awk -v name="$name" -v p="$pipeline" -v rate="$rate" -v ticks=$((after - before)) \
        -v n="$requests" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%-16s P%-3d %8d/s %6.2f us\n", name, p, rate, ticks / hz * 1e6 / n }'
    done
  done
  stop_server
}

ours=("$binary" --port "$port" --proactor_threads 1 --save "" --logtostderr)
measure "no log" "${ours[@]}"
measure "always" "${ours[@]}" --appendonly yes --appendfsync always
measure "everysec" "${ours[@]}" --appendonly yes --appendfsync everysec
redis=(redis-server --port "$port" --save "" --appendonly yes)
measure "redis always" "${redis[@]}" --appendfsync always
measure "redis everysec" "${redis[@]}" --appendfsync everysec
