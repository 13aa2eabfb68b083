# SPDX-License-Identifier: Apache-2.0
"""Random commands, valid and invalid, against ours and redis-server side by side: the replies must
be equal byte for byte, in RESP2 and RESP3, and so must the data sets at the end.

A failure prints its seed and the shortest sequence that differs. DFLY_SEED=n replays it,
DFLY_DIFF_COMMANDS=n changes the length, DFLY_DIFF_FAMILIES=sets,zsets the families.
"""

import math
import os
import re

import pytest

from harness.seeds import new_rng
from harness.server import SANITIZED, SLOWNESS

from .compare import AGGREGATES, Node, comparable, is_absolute, parse
from .grammar import Grammar
from .pair import Pair, as_request, data_set, differs, report, shortest

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

LENGTH = os.environ.get("DFLY_DIFF_COMMANDS")
COMMANDS = int(LENGTH or ("1000" if SANITIZED else "30000"))
FAMILIES = [name for name in os.environ.get("DFLY_DIFF_FAMILIES", "").split(",") if name]


def timeout_s(commands):
    """30,000 commands take some ten seconds; reducing what differs, up to a minute."""
    return 120 + commands // 50 * SLOWNESS


@pytest.mark.timeout(timeout_s(COMMANDS))
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("depth", [1, 50])
def test_replies_equal_those_of_redis_server_byte_for_byte(pair, protocol, depth):
    rng = new_rng()
    grammar = Grammar(rng, FAMILIES)
    count = COMMANDS if depth > 1 else COMMANDS // 4
    history = []
    with Pair(pair, protocol == 3) as both:
        while len(history) < count:
            batch = []
            while len(batch) < depth:
                batch += grammar.block()
            history += batch
            different = both.first_difference(batch, [as_request(rng, c) for c in batch])
            if different:
                at = len(history) - len(batch) + different[0]
                command = f"{history[at]}"[:300]
                found = report(pair, protocol == 3, history[: at + 1], grammar.allows)
                pytest.fail(f"{command}\n{found}")
    check_data_sets(pair)


def check_data_sets(pair):
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for db in (0, 1):
            expected = data_set(reference, db)
            assert data_set(ours, db) == expected
            for key in expected:
                at = reference.call("PEXPIRETIME", key)
                slack_ms = 0 if at < 0 or is_absolute(at) else 60_000 * SLOWNESS
                assert abs(ours.call("PEXPIRETIME", key) - at) <= slack_ms, key


COUNTERS = ("keyspace_hits", "keyspace_misses", "total_error_replies")


def counted_by(connection, watcher, command):
    """(its reply, what INFO counts because of it)"""
    before = watcher.info()
    reply = connection.raw(*command)
    after = watcher.info()
    names = (*COUNTERS, "rdb_changes_since_last_save")
    return reply, {name: int(after[name]) - int(before[name]) for name in names}


def looks_up_otherwise(command, reply):
    """SPOP of a whole set looks its key up once more in redis-server. SCAN with TYPE looks at every
    key, XREAD and XREADGROUP twice at some. A command of several keys stops at the first wrong type
    there, and asks all shards here."""
    name = command[0].upper()
    if name in (b"SPOP", b"SCAN", b"XREAD", b"XREADGROUP"):
        return True
    return reply.startswith(b"-WRONGTYPE") and len(command) > 2


def statistics(connection):
    counted = {}
    for section in ("commandstats", "errorstats"):
        for name, value in connection.info(section).items():
            counted[name] = re.sub(r"usec[^,]*,", "", value)
    return {name: value for name, value in counted.items() if "cmdstat_info" not in name}


@pytest.mark.timeout(timeout_s(COMMANDS))
def test_commands_errors_hits_and_changes_are_counted_alike(pair):
    rng = new_rng()
    grammar = Grammar(rng, FAMILIES)
    ours, reference = (server.connect() for server in pair)
    watchers = [server.connect() for server in pair]
    with ours, reference, watchers[0], watchers[1]:
        for c in (ours, reference):
            c.call("FLUSHALL"), c.call("CONFIG", "RESETSTAT")
        for _ in range(COMMANDS // 8):
            command = grammar.command()
            if [word.upper() for word in command[:2]] == [b"CONFIG", b"RESETSTAT"]:
                continue
            for first in grammar.with_before(command)[:-1]:
                ours.call(*first), reference.call(*first)
            reply, got = counted_by(ours, watchers[0], command)
            _, expected = counted_by(reference, watchers[1], command)
            if looks_up_otherwise(command, reply):
                got["keyspace_hits"] = expected["keyspace_hits"]
                got["keyspace_misses"] = expected["keyspace_misses"]
            assert got == expected, (command, reply)
        for c in (ours, reference):
            c.call("HELLO", "2")
        assert statistics(ours) == statistics(reference)


class WrongServer:
    """Answers as it does, but LLEN is one too many for lists of more than two."""

    def __init__(self, server):
        self.server = server

    def connect(self, resp3):
        return WrongConnection(self.server.connect(resp3=resp3))


class WrongConnection:
    def __init__(self, connection):
        self.connection = connection

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def send(self, data):
        self.requests = data.split(b"*")[1:]
        self.connection.send(data)

    def read_raw(self):
        raw, request = self.connection.read_raw(), self.requests.pop(0)
        if b"LLEN" in request and raw.startswith(b":") and int(raw[1:]) > 2:
            return b":%d\r\n" % (int(raw[1:]) + 1)
        return raw


def test_a_difference_is_found_and_reduced(pair):
    """The tester itself, against a server that is known to be wrong."""
    rng = new_rng()
    grammar = Grammar(rng, ["lists"])
    servers = (WrongServer(pair[0]), pair[1])
    commands = [[b"RPUSH", b"found", b"1", b"2"], [b"LLEN", b"found"]]
    commands += [grammar.data_command() for _ in range(200)]
    commands += [[b"RPUSH", b"found", b"3", b"4"], [b"SET", b"other", b"1"], [b"LLEN", b"found"]]
    commands = [c for c in commands if not any(b"*" in word for word in c)]
    assert differs(servers, False, commands, 50)
    reduced = shortest(servers, False, commands, budget_s=math.inf)
    assert differs(servers, False, reduced, 50) == reduced
    assert reduced[-1][0].upper() == b"LLEN"
    # Three elements have to get into one list, some perhaps by way of others.
    assert len(reduced) <= 20, reduced
    for i in range(len(reduced) - 1):
        assert not differs(servers, False, reduced[:i] + reduced[i + 1 :], 50), (i, reduced)
    assert "LLEN" in report(servers, False, reduced)


def test_replies_are_parsed_whole():
    raw = b"*3\r\n:1\r\n%1\r\n$1\r\na\r\n,0.5\r\n$-1\r\n"
    node, end = parse(raw)
    assert end == len(raw)
    assert [item.kind for item in node.items] == [b":", b"%", b"$"]
    assert node.items[1].items == (Node(b"$", b"a"), Node(b",", b"0.5"))
    assert all(kind in AGGREGATES for kind in (node.kind, node.items[1].kind))


def test_only_what_may_differ_is_left_out():
    a, b = Node(b"$", b"a"), Node(b"$", b"b")
    forth, back = Node(b"*", b"", (a, b)), Node(b"*", b"", (b, a))
    assert comparable([b"SMEMBERS", b"s"], forth) == comparable([b"smembers", b"s"], back)
    assert comparable([b"LRANGE", b"l"], forth) != comparable([b"LRANGE", b"l"], back)
    digits, few = Node(b"$", b"0.10000000000000001"), Node(b"$", b"0.1")
    assert comparable([b"ZSCORE"], digits) == comparable([b"ZSCORE"], few)
    assert comparable([b"GET"], digits) != comparable([b"GET"], few)
    assert comparable([b"ZSCORE"], Node(b"$", b"0.2")) != comparable([b"ZSCORE"], few)
