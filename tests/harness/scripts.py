# SPDX-License-Identifier: Apache-2.0
"""Scripts of several clients, played to ours and to redis-server: lines of "client: command"."""

import math
import re
import time

from .server import wait_blocked, wait_until


class Late(Exception):
    """A deadline of a script has come before the time that it lets pass."""


class Client:
    """One name of a script, on one server."""

    def __init__(self, server, resp3):
        self.server = server
        self.connection = server.connect(resp3=resp3)

    def do(self, line):
        """The bytes of the reply; what needs none says so."""
        word, _, rest = line.partition(" ")
        if word == "<read>":
            return self.connection.read_raw()
        if word == "<send>":  # <read> comes later
            self.connection.send_command(*rest.split(" "))
            return b"sent"
        if word == "<blocked>":
            wait_blocked(self.connection, rest)
            return b"blocked"
        if word == "<close>":
            self.connection.close()
            return b"closed"
        if word == "<end>":
            return self.connection.read_until_closed()
        if word == "<pass>":  # so many milliseconds of the server's time
            wait_until(clock_passes(self.connection, int(rest)))
            return b"passed"
        words = ["" if w == "''" else w for w in line.split(" ")]
        raw = self.connection.raw(*words)
        if words[0] == "EXEC" and self.changes_subscriptions:
            self.changes_subscriptions = False
            raw += read_all_there_is(self.connection)
        if words[0] in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE"):
            self.changes_subscriptions = True
        return raw

    changes_subscriptions = False


def read_all_there_is(connection):
    """In EXEC a SUBSCRIBE's confirmation is an element in RESP2, and a push in between in RESP3."""
    connection.send_command("PING", "the end")
    raw = b""
    while not raw.endswith(b"the end\r\n"):
        raw += connection.read_raw()
    return raw


def clock_passes(connection, ms):
    def now_ms():
        seconds, micros = map(int, connection.call("TIME"))
        return seconds * 1000 + micros // 1000

    end = now_ms() + ms
    return lambda: now_ms() > end


def until_in_time(function):
    """Its value when it was not Late: on a busy machine it may need several attempts."""
    while True:
        try:
            return function()
        except Late:
            pass


def play(server, script, resp3):
    """[(line, bytes of the reply)]; or Late."""
    with server.connect() as c:
        c.call("FLUSHALL")
    clients = {}
    got = []
    due = math.inf  # the first deadline that is set before a <pass>
    for line in filter(None, map(str.strip, script.split("\n"))):
        name, command = line.split(": ", 1)
        if name not in clients:
            clients[name] = Client(server, resp3)
        if command.startswith("<pass>"):
            if time.monotonic() >= due:
                raise Late
            due = math.inf
        if deadline := re.search(r" PX (\d+)$", command):
            due = min(due, time.monotonic() + int(deadline[1]) / 1000)
        got.append((line, clients[name].do(command)))
    for client in clients.values():
        client.connection.close()
    return got


def counts(connection):
    """Commands and errors, without times and without what this itself calls."""
    got = {}
    for section in ("commandstats", "errorstats"):
        for name, value in connection.info(section).items():
            if "cmdstat_info" not in name:
                got[name] = ",".join(v for v in value.split(",") if not v.startswith("usec"))
    return got


def check_replies(pair, script, resp3, comparable=lambda raw: raw):
    """`comparable`: the part of a reply in which redis-server 7.0 and what we follow agree."""
    def replies(server):
        return until_in_time(lambda: play(server, script, resp3))

    ours, expected = (
        [(line, comparable(raw)) for line, raw in replies(server)] for server in pair)
    assert ours == expected


def check_counts(pair, script):
    def calls(server):
        with server.connect() as c:
            c.call("FLUSHALL")
            c.call("CONFIG", "RESETSTAT")
            play(server, script, resp3=False)
            got = counts(c)
            return {k: v for k, v in got.items() if "time" not in k and "flushall" not in k}

    ours, expected = (until_in_time(lambda: calls(server)) for server in pair)
    assert ours == expected
