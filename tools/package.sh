#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package in build/release/packages.   tools/package.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/install_deps.sh" build
"$root/tools/build.sh" release
cd "$root/build/release"
cpack --config CPackConfig.cmake > cpack.log || { cat cpack.log >&2; exit 1; }
ls packages/*.deb
