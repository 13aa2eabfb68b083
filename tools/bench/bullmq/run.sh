#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# BullMQ as a load on a running server; installs it under build/ first. The flags are bench.js':
#
#   tools/bench/bullmq/run.sh -h 127.0.0.1 -p 6379 -d 10 -r 0 -w 8 -q 8
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$("$here/install.sh")
NODE_PATH="$folder/node_modules" exec node "$here/bench.js" "$@"
