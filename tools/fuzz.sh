#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a fuzzer under libFuzzer:  tools/fuzz.sh [target|all] [seconds] [keep]
# Default: all, 60 seconds each.
#
# Targets are the *_fuzz programs that declare a FUZZ_TARGET (helio/base/fuzz_target.h). Installs
# clang 14 if it is missing, builds only the target, with the address and undefined sanitizers, into
# build/fuzz, has the target write valid inputs, and goes on from these and what earlier runs have
# found (build/fuzz/corpus). A failure leaves its input in build/fuzz/found and prints it in hex, as
# the ordinary test takes it (DFLY_FUZZ_INPUT). More options of libFuzzer: FUZZ_ARGS.
# `keep`: of all that was found, the least that reaches as much, shortest first and KEEP_BYTES at
# most, becomes tests/corpus/TARGET.hex, which each later run begins with, and ctest, too.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
target=${1:-all}
seconds=${2:-60}
keep=${3:-}
if [[ ! $seconds =~ ^[0-9]+$ || ! $keep =~ ^(keep)?$ ]]; then
  sed -n '3,12s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

known_text=$(grep -rl --include='*_fuzz.cc' FUZZ_TARGET helio src | sed 's:.*/::; s:\.cc$::' | sort)
read -r -a known <<<"${known_text//$'\n'/ }"
if [[ $target == all ]]; then
  targets=("${known[@]}")
elif [[ " ${known[*]} " == *" $target "* ]]; then
  targets=("$target")
else
  echo "No such fuzzer: $target. There are: ${known[*]}" >&2
  exit 2
fi

tools/install_deps.sh build
tools/install_deps.sh fuzz
tools/build.sh fuzz "${targets[@]}"

failed=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus" build/fuzz/found
  echo "==== $target, $seconds s"
  options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=0 -malloc_limit_mb=512 -max_len=4096
    -print_final_stats=1 "-artifact_prefix=build/fuzz/found/$target-")
  # libFuzzer's own watch over memory is a thread that allocates, and targets count allocations.
  log=build/fuzz/found/$target.log
  if [[ -f tests/corpus/$target.hex ]]; then
    export DFLY_FUZZ_KEPT=tests/corpus/$target.hex
  else
    unset DFLY_FUZZ_KEPT
  fi
  # shellcheck disable=SC2086
  if ! ASAN_OPTIONS=hard_rss_limit_mb=4096 DFLY_FUZZ_CORPUS=$corpus \
    "build/fuzz/$target" "$corpus" "${options[@]}" ${FUZZ_ARGS:-} 2>"$log"; then
    failed=1
    tail -60 "$log"
    for input in build/fuzz/found/"$target"-*; do
      echo "$input: DFLY_FUZZ_INPUT=$(od -An -v -tx1 "$input" | tr -d ' \n')"
    done
  fi
  grep -E '^stat::number_of_executed|cov:' "$log" | tail -2 || true
  if [[ -n $keep ]]; then
    least=build/fuzz/least/$target
    rm -rf "$least"
    mkdir -p "$least" tests/corpus
    env -u DFLY_FUZZ_CORPUS "build/fuzz/$target" -merge=1 -rss_limit_mb=0 -max_len=4096 \
      "$least" "$corpus" 2>>"$log"
    bytes=0
    while read -r size input; do
      ((bytes += size)) || true
      ((bytes <= ${KEEP_BYTES:-40000})) || break
      od -An -v -tx1 "$input" | tr -d ' \n'
      echo
    done < <(find "$least" -type f -size +0 -printf '%s %p\n' | sort -n) >"tests/corpus/$target.hex"
    kept=$(wc -l <"tests/corpus/$target.hex")
    echo "tests/corpus/$target.hex: $kept of $(find "$least" -type f | wc -l) inputs"
  fi
done
exit "$failed"
