#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Healthy: the port answers PING. An answer that asks for a password, or says that the data set is
# still loading, is an answer too: the process serves. bash and no other program, so that no zombie
# is left behind and the image needs no client.  HEALTHCHECK_PORT: when --port is not 6379.
exec 3<>"/dev/tcp/127.0.0.1/${HEALTHCHECK_PORT:-6379}" || exit 1
printf 'PING\r\n' >&3
IFS= read -r -t 2 answer <&3 || exit 1
case $answer in
  +PONG* | -NOAUTH* | -LOADING* | -DENIED*) exit 0 ;;
esac
exit 1
