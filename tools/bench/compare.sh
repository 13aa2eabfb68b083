#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the server's CPU time for each request, and its memory, with redis-server's and Valkey's;
# writes the table to docs/benchmarks.md.  tools/bench/compare.sh --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ " $* " != *" --help "* && " $* " != *" -h "* ]]; then
  "$root/tools/install_deps.sh" all
  "$root/tools/build.sh" release
fi
exec python3 "$root/tools/bench/compare.py" "$@"
