#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the BullMQ of package.json under build/node_bullmq, unless it is there, and prints that
# folder.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder="$here/../../../build/node_bullmq"
for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "install.sh: $tool is not installed" >&2; exit 1; }
done
mkdir -p "$folder"
if ! cmp -s "$here/package.json" "$folder/package.json" || [[ ! -d "$folder/node_modules/bullmq" ]]
then
  rm -f "$folder/package.json"  # an installation that fails is tried again
  cp "$here/package.json" "$folder/wanted.json"
  (cd "$folder" && rm -rf node_modules package-lock.json && cp wanted.json package.json &&
    npm install --no-audit --no-fund --silent >&2) || { rm -f "$folder/package.json"; exit 1; }
fi
cd "$folder" && pwd
