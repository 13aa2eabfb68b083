#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Flags alone go to the server, after the image's defaults so that they win; any other command runs
# as it is:  docker run dragonfly --maxmemory=1gb    docker run -it dragonfly bash
set -e
case "${1:-}" in
  "" | -*) set -- dragonfly --bind=0.0.0.0 --logtostderr "$@" ;;
esac
exec "$@"
