#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Instructions of the server for each command, counted by callgrind: exact where timings are noise.
#
#   tools/bench/instructions.sh [--flag=value ...] [-- command...]      default command: GET key:0
#
# Flags are the server's. One thread, epoll (valgrind has no io_uring), 10 connections with 50
# commands in a pipeline; the difference of two runs, so what the start takes is not counted.
#
#   DFLY_BINARY=path   default build/release/dragonfly
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
flags=()
while [[ $# -gt 0 && $1 != -- ]]; do
  flags+=("$1")
  shift
done
[[ ${1:-} == -- ]] && shift
command=("$@")
[[ $# -gt 0 ]] || command=(GET key:0)
for tool in valgrind redis-benchmark; do
  command -v $tool > /dev/null || { echo "instructions.sh: needs $tool" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# count N: all instructions of a server that answers N commands.
count() {
  local port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000)) server
  valgrind --tool=callgrind --callgrind-out-file="$work/out" \
    "${DFLY_BINARY:-$root/build/release/dragonfly}" --port=$port --bind=127.0.0.1 --save= \
    --dir="$work" --proactor_threads=1 --force_epoll --logtostderr \
    ${flags[@]+"${flags[@]}"} > "$work/log" 2>&1 &
  server=$!
  local deadline=$((SECONDS + 60))
  until redis-cli -p $port SET key:0 value 2> /dev/null | grep -q OK; do
    if ! kill -0 "$server" 2> /dev/null || ((SECONDS > deadline)); then
      cat "$work/log" >&2
      kill "$server" 2> /dev/null || true
      return 1
    fi
    sleep 0.2
  done
  timeout 300 redis-benchmark -p $port -P 50 -c 10 -n "$1" -q "${command[@]}" > /dev/null
  redis-cli -p $port SHUTDOWN NOSAVE > /dev/null 2>&1 || true
  wait "$server"
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/log"
}

few=50000 many=250000
first=$(count $few)
second=$(count $many)
echo "$(((second - first) / (many - few))) instructions for each: ${command[*]}"
