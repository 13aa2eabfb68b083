#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Client libraries against our server, each with a small program that uses it as programs do:
#   tests/clients/run.sh [client...]        default: all
#
# A scenario runs commands of all types, pipelines, transactions, publish/subscribe, scripts and
# blocking commands, over RESP2 and RESP3 where the library has both (not Debian's hiredis), and the
# library's cluster client, if it has one, against a second server with --cluster_mode=emulated. The
# versions are pinned beside each scenario; what they need is installed below build/clients.
#
#   DFLY_BINARY=path   default build/release/dragonfly
#   REFERENCE=redis    redis-server instead, without the cluster: do the scenarios themselves hold?
#
# Prints a line for each client; exits 1 if one failed, or could not be built or run.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/clients
work=$root/build/clients
known=(redis-py hiredis ioredis node-redis go-redis jedis redis-rs)
clients=("$@")
[[ $# -gt 0 ]] || clients=("${known[@]}")
for client in "${clients[@]}"; do
  if [[ " ${known[*]} " != *" $client "* ]]; then
    sed -n '3,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
  fi
done
mkdir -p "$work"
for tool in cc node npm go java mvn; do
  command -v "$tool" > /dev/null || { "$root/tools/install_deps.sh" clients; break; }
done
[[ -e /usr/include/hiredis/hiredis.h ]] || "$root/tools/install_deps.sh" clients

# build CLIENT: makes it runnable; its output is shown only if that fails.
build() {
  local folder=$here/$1 out=$work/$1
  mkdir -p "$out"
  case $1 in
    redis-py)
      [[ -x $root/build/venv/bin/python ]] || python3 -m venv "$root/build/venv"
      "$root/build/venv/bin/pip" install -q --disable-pip-version-check \
        -r "$root/tests/requirements.txt"
      ;;
    hiredis)
      cc -std=gnu11 -Wall -Wextra -Werror -O1 -o "$out/scenario" "$folder/scenario.c" -lhiredis
      ;;
    ioredis | node-redis)
      cp "$folder"/* "$out/" && (cd "$out" && npm ci --silent --no-audit --no-fund)
      ;;
    go-redis)
      (cd "$folder" && go build -o "$out/scenario" .)
      ;;
    jedis)
      mvn -q -B -f "$folder/pom.xml" "-Dscenario.build=$out" compile dependency:build-classpath \
        "-Dmdep.outputFile=$out/classpath"
      ;;
    redis-rs)
      (cd "$folder" && cargo build -q --locked --target-dir "$out")
      ;;
  esac
}

run() {
  local out=$work/$1
  case $1 in
    redis-py) "$root/build/venv/bin/python" "$here/redis-py/scenario.py" ;;
    hiredis | go-redis) "$out/scenario" ;;
    ioredis | node-redis) (cd "$out" && node scenario.js) ;;
    jedis) java -cp "$out/classes:$(cat "$out/classpath")" Scenario ;;
    redis-rs) "$out/debug/scenario" ;;
  esac
}

version() {
  case $1 in
    redis-py) "$root/build/venv/bin/pip" show redis 2> /dev/null | sed -n 's/^Version: //p' ;;
    hiredis) dpkg-query -W -f '${Version}' libhiredis-dev 2> /dev/null ;;
    ioredis | node-redis)
      sed -n 's/.*redis": "\([0-9.]*\)".*/\1/p' "$here/$1/package.json" ;;
    go-redis) sed -n 's/.*go-redis\/v9 v\([0-9.]*\)$/\1/p' "$here/$1/go.mod" ;;
    jedis) sed -n '/<artifactId>jedis</{n;s/.*>\([0-9.]*\)<.*/\1/p}' "$here/$1/pom.xml" ;;
    redis-rs) sed -n 's/^redis = .*"=\([0-9.]*\)".*/\1/p' "$here/$1/Cargo.toml" ;;
  esac
}

servers=()
stop_servers() {
  for server in ${servers[@]+"${servers[@]}"}; do
    kill "$server" 2> /dev/null
    wait "$server" 2> /dev/null
  done
}
trap stop_servers EXIT

# start LOG FLAG...: into $port
start() {
  local log=$work/$1 attempt
  shift
  for attempt in 1 2 3 4 5; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    if [[ ${REFERENCE:-} == redis ]]; then
      redis-server --port $port --bind 127.0.0.1 --save '' --dir "$work" > "$log" 2>&1 &
    else
      "${DFLY_BINARY:-$root/build/release/dragonfly}" --port=$port --bind=127.0.0.1 --save= \
        --dir="$work" --logtostderr "$@" > "$log" 2>&1 &
    fi
    local server=$! deadline=$((SECONDS + 20))
    while kill -0 "$server" 2> /dev/null && ((SECONDS < deadline)); do
      if { exec 3<> "/dev/tcp/127.0.0.1/$port"; } 2> /dev/null; then
        exec 3>&-
        servers+=("$server")
        return 0
      fi
      read -rt 0.05 <> <(:)
    done
    kill "$server" 2> /dev/null
  done
  echo "run.sh: the server does not start, see $log" >&2
  exit 2
}

start server.log
export PORT=$port
if [[ ${REFERENCE:-} != redis ]]; then
  start cluster.log --cluster_mode=emulated --proactor_threads=4
  export CLUSTER_PORT=$port
fi
export -f run
export root here work

failed=0
printf '%-12s %-12s %s\n' client version result
for client in "${clients[@]}"; do
  begin=$SECONDS
  log=$work/$client.log
  if ! build "$client" > "$log" 2>&1; then
    result="FAILED to build"
  elif ! timeout 120 bash -c 'run "$1"' _ "$client" > "$log" 2>&1; then
    result="FAILED"
  else
    result="ok"
  fi
  printf '%-12s %-12s %s, %d s\n' "$client" "$(version "$client")" "$result" $((SECONDS - begin))
  if [[ $result != ok ]]; then
    failed=1
    tail -20 "$log" | sed 's/^/    /'
  fi
done
for server in "${servers[@]}"; do
  kill -0 "$server" 2> /dev/null || { echo "a server has ended: see $work/*.log"; failed=1; }
done
exit $failed
