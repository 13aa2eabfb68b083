#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the append-only log costs: SET from 50 clients, without pipelines and with pipelines of 10.
# To this server without a log, with appendfsync always and everysec, and to redis-server and Valkey
# (if tests/requirements.txt is installed) with both.
# All servers run from the beginning, on the first cores; the rounds go from one to the next, so
# that what the machine does otherwise is shared. redis-benchmark has the last core; the files are
# in the current directory's disk. Nothing is rewritten meanwhile.
# Medians of the rounds: requests a second, CPU microseconds of the server for each, and both as
# ratios to the first line.
#
#   tools/bench/append_log.sh [rounds [threads]]      default: 5 1
#
#   DFLY_BINARY=path   default build/release/dragonfly
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
binary=${DFLY_BINARY:-$root/build/release/dragonfly}
rounds=${1:-5}
threads=${2:-1}
cores=$(nproc)
last=$((cores - 1))
first=$((threads < cores ? threads - 1 : last - 1))
dir=$(mktemp -d ./append-log.XXXXXX)
names=() ports=() pids=()
stop_servers() {
  for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" && wait "$pid" || true; done
  rm -rf "$dir"
}
trap stop_servers EXIT

# start name command...: a server
start() {
  local name=$1 port=$((7940 + ${#ports[@]}))
  shift
  mkdir "$dir/$port"
  taskset -c "0-$first" "$@" --bind 127.0.0.1 --port "$port" --dir "$dir/$port" --save "" \
    --auto-aof-rewrite-percentage 0 > "$dir/$port/log" 2>&1 &
  names+=("$name") ports+=("$port") pids+=("$!")
  until redis-cli -p "$port" ping 2> /dev/null | grep -q PONG; do sleep 0.1; done
}

# round server pipeline: one line of the table $dir/rows
round() {
  local port=${ports[$1]} pid=${pids[$1]} pipeline=$2 requests before after rate
  requests=$((pipeline == 1 ? 100000 : 500000))
  before=$(awk '{print $14 + $15}' "/proc/$pid/stat")
  rate=$(taskset -c "$last" redis-benchmark -p "$port" -t set -c 50 -d 32 -r 100000 -n "$requests" \
    -P "$pipeline" --csv | tail -n 1 | cut -d '"' -f 4)
  after=$(awk '{print $14 + $15}' "/proc/$pid/stat")
  echo "$1 $pipeline $rate $((after - before)) $requests" >> "$dir/rows"
}

ours=("$binary" --proactor_threads "$threads" --logtostderr)
start "no log" "${ours[@]}"
start "always" "${ours[@]}" --appendonly yes --appendfsync always
start "everysec" "${ours[@]}" --appendonly yes --appendfsync everysec
start_peer() {
  start "$1 no log" "$2"
  start "$1 always" "$2" --appendonly yes --appendfsync always
  start "$1 everysec" "$2" --appendonly yes --appendfsync everysec
}
start_peer redis redis-server
valkey=$(find "$root/build/venv" -path "*linux-$(uname -m)/valkey-server" 2> /dev/null | head -n 1)
[[ -z $valkey ]] || start_peer valkey "$valkey"
for pipeline in 1 10; do
  for ((i = -1; i < rounds; ++i)); do  # the first one warms up
    for server in "${!ports[@]}"; do round "$server" "$pipeline"; done
    [[ $i -ge 0 ]] || sed -i "/^[0-9]* $pipeline /d" "$dir/rows"
  done
done

median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
for pipeline in 1 10; do
  base_rate= base_cpu=
  for server in "${!ports[@]}"; do
    rows=$(awk -v s="$server" -v p="$pipeline" '$1 == s && $2 == p' "$dir/rows")
    rate=$(awk '{print $3}' <<< "$rows" | median)
    cpu=$(awk -v hz="$(getconf CLK_TCK)" '{print $4 / hz * 1e6 / $5}' <<< "$rows" | median)
    base_rate=${base_rate:-$rate} base_cpu=${base_cpu:-$cpu}
    awk -v name="${names[$server]}" -v p="$pipeline" -v rate="$rate" -v cpu="$cpu" \
      -v base="$base_rate" -v base_cpu="$base_cpu" 'BEGIN {
        printf "%-15s P%-3d %8d/s %5.2f x", name, p, rate, rate / base
        printf "   %6.2f us %5.2f x\n", cpu, cpu / base_cpu }'
  done
done
