#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, builds and tests.  tools/test.sh [tier...]
#
#   release   unit tests (ctest), Release build
#   pytest    tests/ against the Release server
#   debug     unit tests and a part of tests/ with the address and undefined-behaviour sanitizers
#   tsan      the same with the thread sanitizer, without what one thread or one client does alone
#   reference tests/ against redis-server: do the tests themselves hold?
#   clients   client libraries of other languages (tests/clients), which are fetched
#   seeds     20,000 seeds of each schedule that ends a server at a random moment; 1.5 hours
#
# Without a tier: the first five. PYTEST_ARGS and CTEST_ARGS are added to every pytest and ctest.
# TEST_BUDGET_S=n: after so many seconds no step begins, and the summary names those that were left
# out; .ci/run sets it, as it has 90 minutes. There are 1.5 tests at a time for each core, and one
# against redis-server. Exits non-zero when anything failed, after running all that could still run.
# A failed test is tried once more, alone, unless it crashed, hung, or has a seed
# (tools/may_try_again.py); if it passes, the summary calls it flaky.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

tiers=("$@")
[[ ${#tiers[@]} -eq 0 ]] && tiers=(release pytest debug tsan reference)
for tier in "${tiers[@]}"; do
  case $tier in
    release | pytest | debug | tsan | reference | clients | seeds) ;;
    *) sed -n '3,19s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

jobs=$(nproc)
((jobs > 4)) && jobs=4
summary=()
flaky=()
lost=()
failed=0
left_out=0
started=$SECONDS

# step NAME COMMAND...: runs it, notes the outcome and the time.
step() {
  local name=$1 begin=$SECONDS outcome=ok
  shift
  if ((SECONDS - started > ${TEST_BUDGET_S:-SECONDS})); then
    summary+=("not run         $name")
    left_out=1
    return 1
  fi
  printf '\n==== %s\n' "$name"
  "$@" || { outcome=FAILED; failed=1; }
  summary+=("$(printf '%-7s %5ds  %s' "$outcome" $((SECONDS - begin)) "$name")")
  [[ $outcome == ok ]]
}

# The thread sanitizer of g++ 12 and 13 cannot place its shadow in a more random address space, and
# about one program in four of g++ 12's address sanitizer dies there at its start.
wrapper() {
  local bits
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
  if [[ $1 != release && $bits -gt 28 ]] && setarch -R true 2>/dev/null; then echo "setarch -R"; fi
}

# or_again REPORT COMMAND...: REPORT is of a run that failed. Runs COMMAND, which tries its failed
# tests again, if they may be.
or_again() {
  local report=$1 names
  shift
  names=$(python3 tools/may_try_again.py "$report") || { lost+=("$names"); return 1; }
  printf '\n== Again, alone:\n%s\n' "$names"
  "$@" || { lost+=("$names"); return 1; }
  flaky+=("$names")
}

# Tests often wait: listener_schedule_test, for one, takes 86 s, and 6 of a core.
at_a_time=$((jobs + jobs / 2))

unit_tests() {
  local preset=$1
  local select=()
  [[ $preset != release ]] && select=(-E '^tidy')  # it looks at the source
  local report=$root/build/$preset/ctest.xml
  rm -f "$report"
  # shellcheck disable=SC2086
  $(wrapper "$preset") ctest --test-dir "build/$preset" -j"$at_a_time" --output-on-failure \
    --no-tests=error --output-junit "$report" "${select[@]}" ${CTEST_ARGS:-} ||
    or_again "$report" $(wrapper "$preset") ctest --test-dir "build/$preset" --rerun-failed \
      --output-on-failure "${select[@]}"
}

# Python packages live under build/, pinned; made once and again when the list changes.
venv() {
  local stamp=build/venv/requirements.txt
  cmp -s tests/requirements.txt "$stamp" && return 0
  python3 -m venv build/venv &&
    build/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt &&
    cp tests/requirements.txt "$stamp"
}

# run_pytest PROCESSES ARGS...
run_pytest() {
  local processes=$1 report=build/pytest.xml
  shift
  local pytest="${TEST_WRAPPER:-} build/venv/bin/python -m pytest -c tests/pytest.ini"
  pytest+=" --rootdir tests -q"
  rm -f "$report"
  # shellcheck disable=SC2086
  $pytest -n "$processes" --dist worksteal --maxfail=50 --junit-xml="$report" \
    -o junit_logging=system-out tests "$@" ${PYTEST_ARGS:-} ||
    or_again "$report" $pytest -n 0 --last-failed --last-failed-no-failures=none tests "$@"
}

black_box_tests() {
  case $1 in
    release) run_pytest "$at_a_time" ;;
    reference) REFERENCE=redis run_pytest "$jobs" ;;
    # One configuration instead of four, and only what is marked: a sanitized server is slow.
    *) local select=sanitized
      [[ $1 == tsan ]] && select="sanitized and not alone"
      DFLY_BINARY="$root/build/$1/dragonfly" DFLY_SANITIZED=1 DFLY_MATRIX=small \
        TEST_WRAPPER="$(wrapper "$1")" run_pytest "$at_a_time" -m "$select" \
        --timeout=600 ;;
  esac
}

# The two have parts of their own for a small and for a large reach.
many_seeds() {
  printf '%s\n' log_crash log_order |
    DFLY_SEEDS=20000 xargs -P "$jobs" -I NAME build/release/NAME_schedule_test
}

finish() {
  printf '\n==== Summary (%d s)\n' $((SECONDS - started))
  printf '%s\n' "${summary[@]}"
  ((${#flaky[@]})) && printf 'flaky (failed, then passed alone): %s\n' "${flaky[@]}"
  # What failed stands at the end: of a long run, often only the end is kept.
  ((${#lost[@]})) && printf 'failed: %s\n' "${lost[@]}"
  if ((failed)); then
    echo "FAILED"
  elif ((left_out)); then
    echo "Passed, but not all was run: the time was over (TEST_BUDGET_S)."
  else
    echo "All passed."
  fi
  exit "$failed"
}

step "install packages" tools/install_deps.sh all || finish
for tier in "${tiers[@]}"; do
  case $tier in
    release)
      step "build release" tools/build.sh release && step "unit tests, release" unit_tests release
      ;;
    reference)
      step "python packages" venv && step "tests/ against redis-server" black_box_tests reference
      ;;
    pytest)
      step "build release" tools/build.sh release && step "python packages" venv &&
        step "tests/, release" black_box_tests release
      ;;
    seeds)
      step "build release" tools/build.sh release log_crash_schedule_test log_order_schedule_test &&
        step "20,000 seeds" many_seeds
      ;;
    clients)
      step "build release" tools/build.sh release && step "client libraries" tests/clients/run.sh
      ;;
    debug | tsan)
      if step "build $tier" tools/build.sh "$tier"; then
        step "unit tests, $tier" unit_tests "$tier"
        step "python packages" venv &&
          step "tests/, $tier (a part)" black_box_tests "$tier"
      fi
      ;;
  esac
done
finish
