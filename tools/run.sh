#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds Release, and becomes the server:  tools/run.sh [flags]
#
#   tools/run.sh                                  port 6379, all cores
#   tools/run.sh --port=7000 --proactor_threads=2
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

"$root/tools/install_deps.sh" build
"$root/tools/build.sh" release dragonfly

# Logs go to the terminal unless the flags say where else.
logs=(--logtostderr)
for flag in "$@"; do
  case $flag in
    --log_dir* | --logtostderr* | --alsologtostderr* | --nologtostderr) logs=() ;;
  esac
done
exec "$root/build/release/dragonfly" "${logs[@]}" "$@"
