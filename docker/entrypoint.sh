#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Flags alone go to the server, after the image's defaults so that they win (in a container every
# client is another machine, so no protected mode, as in Redis' image); any other command runs
# as it is:  docker run dragonfly --maxmemory=1gb    docker run -it dragonfly bash
set -e
case "${1:-}" in
  "" | -*) set -- dragonfly --bind=0.0.0.0 --protected_mode=false --logtostderr "$@" ;;
esac
exec "$@"
