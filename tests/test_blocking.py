# SPDX-License-Identifier: Apache-2.0
"""BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH, BZPOPMIN, BZPOPMAX, BZMPOP: who is served by what,
in which order, and how a wait ends otherwise. Each also passes on redis-server, unless marked."""

import contextlib
import random
import signal
import socket
import threading
import time

import pytest
import redis

from harness.resp import NOT_INT, OK, WRONGTYPE, Error, Status, arity, encode
from harness.server import (
    PATIENCE_S,
    REFERENCE,
    SANITIZED,
    only_dragonfly,
    wait_blocked,
    wait_until,
)

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

UNBLOCKED = Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")


def nobody_is_forgotten(r):
    if not REFERENCE:
        facts = r.info("transaction")
        assert facts["tx_ready_keys"] == "0" and facts["tx_queue_length"] == "0", facts


def apart(r, key, count=2):
    """Keys that are in other shards than `key`, if there are other shards."""
    if REFERENCE or int(r.info("server").get("num_shards", 4)) == 1:
        return [f"far{i}" for i in range(count)]
    found = []
    for i in range(200):
        name = f"far{i}"
        before = int(r.info("transaction")["tx_multi_shard"])
        r.call("MSETNX", key, "v", name, "v")
        r.call("DEL", key)
        r.call("DEL", name)
        if int(r.info("transaction")["tx_multi_shard"]) > before:
            found.append(name)
            if len(found) == count:
                return found
    return [f"far{i}" for i in range(count)]  # there is one shard


# --- What may make a key ready, or unusable ---

KEY = "{k}"
# What redis-server 7.0 answers to DUMP of a list, and of a string.
DUMPS = {
    "{list}": b"\x12\x01\x02\n\n\0\0\0\x01\0\x81e\x02\xff\n\0q\xcdv\x9b\xbaH\xcaA",
    "{string}": b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb",
}


def words_of(line, other):
    """The arguments of a command of an Operation."""
    return [DUMPS.get(word, word) for word in line.replace("{o}", other).split()]


class Operation:
    """`before` prepares, outside of any EXEC; then come `commands`. {o} is another key, of the same
    shard or not; {k} the one that is waited for. `plain` and `executed`: what the waiter gets when
    they come one by one, or in one EXEC; None: it waits on. `left`: one by one, the key is there
    in the end. `sweeps`: one by one, what a move has put elsewhere is gone again."""

    def __init__(self, commands, plain="e", executed="e", before=(), left=False, sweeps=False):
        self.before = before
        self.commands = commands
        self.plain = plain
        self.executed = executed
        self.left = left
        self.sweeps = sweeps


IN_DB_1 = ("SELECT 1", "RPUSH {k} e")
OPERATIONS = {
    "RPUSH": Operation(["RPUSH {k} e"]),
    "LPUSH": Operation(["LPUSH {k} e"]),
    "RPUSHX": Operation(["RPUSHX {k} e"], None, None),
    "LINSERT": Operation(["LINSERT {k} BEFORE a e"], None, None),
    "LMOVE": Operation(["LMOVE {o} {k} LEFT RIGHT"], before=["RPUSH {o} e"]),
    "RPOPLPUSH": Operation(["RPOPLPUSH {o} {k}"], before=["RPUSH {o} e"]),
    "LMOVE away": Operation(["LMOVE {k} {o} LEFT RIGHT"], None, None),
    "RENAME": Operation(["RENAME {o} {k}"], before=["RPUSH {o} e"]),
    "RENAME of a string": Operation(["RENAME {o} {k}"], None, None, before=["SET {o} e"]),
    "RENAMENX": Operation(["RENAMENX {o} {k}"], before=["RPUSH {o} e"]),
    "COPY": Operation(["COPY {o} {k}"], before=["RPUSH {o} e"]),
    "COPY over a string": Operation(
        ["COPY {o} {k} REPLACE"], before=["SET {k} v", "RPUSH {o} e"]
    ),
    "RESTORE": Operation(["RESTORE {k} 0 {list}"]),
    "RESTORE over a string": Operation(
        ["RESTORE {k} 0 {list} REPLACE"], before=["SET {k} v"]
    ),
    "RESTORE of a string": Operation(["RESTORE {k} 0 {string}"], None, None),
    "RESTORE, too late": Operation(["RESTORE {k} 1 {list} ABSTTL"], None, None),
    "SORT STORE": Operation(["SORT {o} ALPHA STORE {k}"], before=["RPUSH {o} e"]),
    "SORT STORE over a string": Operation(
        ["SORT {o} BY nosort STORE {k}"], before=["SET {k} v", "RPUSH {o} e"]
    ),
    "SORT STORE of nothing": Operation(["SORT {o} STORE {k}"], None, None),
    "MOVE": Operation(["MOVE {k} 0"], before=IN_DB_1),
    "SWAPDB": Operation(["SWAPDB 1 0"], before=IN_DB_1),
    "SWAPDB of a string": Operation(["SWAPDB 0 1"], None, None, before=["SELECT 1", "SET {k} e"]),
    "push in another database": Operation(["SELECT 1", "RPUSH {k} e", "SELECT 0"], None, None),
    "SET": Operation(["SET {k} e"], None, None),
    "SET, DEL": Operation(["SET {k} e", "DEL {k}"], None, None),
    "SET, DEL, push": Operation(["SET {k} v", "DEL {k}", "RPUSH {k} e"]),
    "SET, RENAME over it": Operation(["SET {k} v", "RENAME {o} {k}"], before=["RPUSH {o} e"]),
    "SET, push": Operation(["SET {k} v", "RPUSH {k} e"], None, None),
    "SET, expiry, push": Operation(["SET {k} v", "PEXPIREAT {k} 1", "RPUSH {k} e"]),
    "DEL": Operation(["DEL {k}"], None, None),
    "DEL, push": Operation(["DEL {k}", "RPUSH {k} e"]),
    "push, DEL": Operation(["RPUSH {k} e", "DEL {k}"], "e", None),
    "push, LPOP": Operation(["RPUSH {k} e", "LPOP {k}"], "e", None),
    "push, expiry": Operation(["RPUSH {k} e", "PEXPIREAT {k} 1"], "e", None),
    "push, SET": Operation(["RPUSH {k} e", "SET {k} v"], "e", None, left=True),
    "push, RENAME away": Operation(["RPUSH {k} e", "RENAME {k} {o}"], "e", None),
    "push, MOVE away": Operation(["RPUSH {k} e", "MOVE {k} 1"], "e", None),
    "push, LMOVE away": Operation(["RPUSH {k} e", "LMOVE {k} {o} LEFT LEFT"], "e", None),
    "push, DEL, push": Operation(["RPUSH {k} e", "DEL {k}", "RPUSH {k} f"], "e", "f", left=True),
    "push, FLUSHALL": Operation(["RPUSH {k} e", "FLUSHALL"], "e", None, sweeps=True),
    "push, SWAPDB away": Operation(["RPUSH {k} e", "SWAPDB 0 1"], "e", None, sweeps=True),
    "FLUSHDB": Operation(["FLUSHDB"], None, None),
    "FLUSHDB, push": Operation(["FLUSHDB", "RPUSH {k} e"]),
    "FLUSHALL": Operation(["FLUSHALL"], None, None),
    "FLUSHALL, push": Operation(["FLUSHALL ASYNC", "RPUSH {k} e"]),
    "ZADD": Operation(["ZADD {k} 1 e"], None, None),
}
ZSET_IN_DB_1 = ("SELECT 1", "ZADD {k} 1 e")
ZSET_OPERATIONS = {
    "ZADD": Operation(["ZADD {k} 1 e"]),
    "ZADD INCR": Operation(["ZADD {k} NX INCR 1 e"]),
    "ZADD XX": Operation(["ZADD {k} XX 1 e"], None, None),
    "ZINCRBY": Operation(["ZINCRBY {k} 1 e"]),
    "ZUNIONSTORE": Operation(["ZUNIONSTORE {k} 2 {o} none"], before=["ZADD {o} 1 e"]),
    "ZUNIONSTORE of a set": Operation(["ZUNIONSTORE {k} 1 {o}"], before=["SADD {o} e"]),
    "ZUNIONSTORE of nothing": Operation(["ZUNIONSTORE {k} 1 {o}"], None, None),
    "ZINTERSTORE": Operation(["ZINTERSTORE {k} 2 {o} {o}"], before=["ZADD {o} 1 e"]),
    "ZDIFFSTORE": Operation(["ZDIFFSTORE {k} 2 {o} none"], before=["ZADD {o} 1 e"]),
    "ZRANGESTORE": Operation(["ZRANGESTORE {k} {o} 1 1"], before=["ZADD {o} 1 a 2 e"]),
    "ZRANGESTORE of nothing": Operation(["ZRANGESTORE {k} {o} 1 1"], None, None),
    "GEOADD": Operation(["GEOADD {k} 1 2 e"]),
    "GEOSEARCHSTORE": Operation(
        ["GEOSEARCHSTORE {k} {o} FROMLONLAT 1 2 BYBOX 1 1 km"], before=["GEOADD {o} 1 2 e 5 6 a"]
    ),
    "GEORADIUS": Operation(
        ["GEORADIUS {o} 1 2 1 km STORE {k}"], before=["GEOADD {o} 1 2 e 5 6 a"]
    ),
    "GEORADIUSBYMEMBER": Operation(
        ["GEORADIUSBYMEMBER {o} e 1 km STOREDIST {k}"], before=["GEOADD {o} 1 2 e 5 6 a"]
    ),
    "RENAME": Operation(["RENAME {o} {k}"], before=["ZADD {o} 1 e"]),
    "RENAME of a list": Operation(["RENAME {o} {k}"], None, None, before=["RPUSH {o} e"]),
    "RENAMENX": Operation(["RENAMENX {o} {k}"], before=["ZADD {o} 1 e"]),
    "COPY": Operation(["COPY {o} {k}"], before=["ZADD {o} 1 e"]),
    "COPY over a string": Operation(
        ["COPY {o} {k} REPLACE"], before=["SET {k} v", "ZADD {o} 1 e"]
    ),
    "MOVE": Operation(["MOVE {k} 0"], before=ZSET_IN_DB_1),
    "SWAPDB": Operation(["SWAPDB 1 0"], before=ZSET_IN_DB_1),
    "in another database": Operation(["SELECT 1", "ZADD {k} 1 e", "SELECT 0"], None, None),
    "RPUSH": Operation(["RPUSH {k} e"], None, None),
    "SADD": Operation(["SADD {k} e"], None, None),
    "SET, DEL, ZADD": Operation(["SET {k} v", "DEL {k}", "ZADD {k} 1 e"]),
    "SET, store over it": Operation(
        ["SET {k} v", "ZUNIONSTORE {k} 1 {o}"], before=["ZADD {o} 1 e"]
    ),
    "ZADD, DEL": Operation(["ZADD {k} 1 e", "DEL {k}"], "e", None),
    "ZADD, ZPOPMIN": Operation(["ZADD {k} 1 e", "ZPOPMIN {k}"], "e", None),
    "ZADD, ZREMRANGEBYRANK": Operation(["ZADD {k} 1 e", "ZREMRANGEBYRANK {k} 0 -1"], "e", None),
    "ZADD, store of nothing": Operation(["ZADD {k} 1 e", "ZINTERSTORE {k} 1 none"], "e", None),
    "ZADD, expiry": Operation(["ZADD {k} 1 e", "PEXPIREAT {k} 1"], "e", None),
    "ZADD, RENAME away": Operation(["ZADD {k} 1 e", "RENAME {k} {o}"], "e", None),
    "ZADD, FLUSHALL": Operation(["ZADD {k} 1 e", "FLUSHALL"], "e", None, sweeps=True),
    "FLUSHALL, ZADD": Operation(["FLUSHALL", "ZADD {k} 1 e"]),
}


BLMOVEM = {} if REFERENCE else {  # it came with 8.10; see test_list_moves.py
    "BLMOVEM": ("BLMOVEM {k} {k}t LEFT LEFT 0 EXACTLY 1 BULK", lambda e: [e]),
}


def waiters(far):
    """name -> a command that waits for {k}, and its reply for an element."""
    pair = lambda e: [KEY.encode(), e]  # noqa: E731
    return {
        "BLPOP": ("BLPOP {k} 0", pair),
        "BLPOP of one shard": ("BLPOP {k}1 {k}2 {k} 0", pair),
        "BLPOP of several shards": (f"BLPOP {far[0]} {KEY} {far[1]} 0", pair),
        "BLPOP of a key twice": ("BLPOP {k} {k}1 {k} 0", pair),
        "BRPOP": ("BRPOP {k} 0", pair),
        "BRPOP of several shards": (f"BRPOP {far[0]} {far[1]} {KEY} 0", pair),
        "BLMPOP": ("BLMPOP 0 1 {k} LEFT COUNT 9", lambda e: [KEY.encode(), [e]]),
        "BLMPOP of several shards": (
            f"BLMPOP 0 3 {far[0]} {KEY} {far[1]} RIGHT",
            lambda e: [KEY.encode(), [e]],
        ),
        "BLMOVE in a shard": ("BLMOVE {k} {k}t LEFT RIGHT 0", lambda e: e),
        "BLMOVE to another": (f"BLMOVE {KEY} {far[0]} RIGHT LEFT 0", lambda e: e),
        "BRPOPLPUSH in a shard": ("BRPOPLPUSH {k} {k}t 0", lambda e: e),
        "BRPOPLPUSH to another": (f"BRPOPLPUSH {KEY} {far[1]} 0", lambda e: e),
        **BLMOVEM,
    }


def zset_waiters(far):
    """The same; without the scores, see `without_scores`."""
    one = lambda e: [KEY.encode(), e]  # noqa: E731
    many = lambda e: [KEY.encode(), [e]]  # noqa: E731
    return {
        "BZPOPMIN": ("BZPOPMIN {k} 0", one),
        "BZPOPMAX of one shard": ("BZPOPMAX {k}1 {k} {k}2 {k} 0", one),
        "BZPOPMIN of several shards": (f"BZPOPMIN {far[0]} {KEY} {far[1]} 0", one),
        "BZMPOP": ("BZMPOP 0 1 {k} MIN COUNT 9", many),
        "BZMPOP of several shards": (f"BZMPOP 0 3 {far[0]} {far[1]} {KEY} MAX", many),
    }


def without_scores(reply):
    if not isinstance(reply, list) or len(reply) < 2:
        return reply
    return [reply[0], [pair[0] for pair in reply[1]]] if len(reply) == 2 else reply[:2]


class Kind:
    """`add`: what makes the key one that can be taken from."""

    def __init__(self, operations, waiters_of, add, seen=lambda reply: reply):
        self.operations = operations
        self.waiters_of = waiters_of
        self.add = add
        self.seen = seen


LISTS = Kind(OPERATIONS, waiters, ["RPUSH", KEY])
ZSETS = Kind(ZSET_OPERATIONS, zset_waiters, ["ZADD", KEY, "1"], without_scores)
ROWS = [(kind, operation) for kind in (LISTS, ZSETS) for operation in kind.operations.values()]
ROW_NAMES = [*OPERATIONS, *[f"zset: {name}" for name in ZSET_OPERATIONS]]


def check_cells(server, kind, operation, executed, other, far):
    """One operation against all kinds of waiters."""
    with (
        server.connect() as r,
        server.connect() as actor,
        server.connect() as waiter,
    ):
        for name, (command, reply_of) in kind.waiters_of(far).items():
            cell = f"{name}, {operation.commands} executed={executed} other={other}"
            r.call("FLUSHALL")
            actor.call("SELECT", 0)
            if "SET {k} v" not in operation.before:
                waiter.send(encode(*command.split()))
                wait_blocked(r, 1)
            for line in operation.before:
                actor.call(*words_of(line, other))
            if "SET {k} v" in operation.before:
                # It cannot begin to wait for a string.
                actor.call("RENAME", KEY, "kept")
                waiter.send(encode(*command.split()))
                wait_blocked(r, 1)
                actor.call("RENAME", "kept", KEY)
            commands = [words_of(line, other) for line in operation.commands]
            if executed:
                assert actor.call("MULTI") == OK
                for args in commands:
                    assert actor.call(*args) == Status("QUEUED"), cell
                assert len(actor.call("EXEC")) == len(commands), cell
            else:
                for args in commands:
                    actor.call(*args)
                    is_push = operation.plain and args == ["RPUSH", KEY, "e"]
                    if is_push and "to another" in name and not REFERENCE:
                        # docs/differences.md: it is a moment later. It is not blocked any more
                        # when it begins to move, so that alone says too little.
                        wait_until(lambda: r.call("EXISTS", KEY) == 0, what=cell)
            expected = operation.executed if executed else operation.plain
            if expected is None:
                wait_blocked(r, 1)
                r.call("DEL", KEY)
                wait_blocked(r, 1)
                assert r.call(*kind.add, "late") == 1, cell
                expected = "late"
            try:
                reply = waiter.read()
            except TimeoutError:
                reply = "no reply"
            assert kind.seen(reply) == reply_of(expected.encode()), cell
            if ("MOVE" in name or "LPUSH" in name) and (executed or not operation.sweeps):
                target = command.split()[2]
                assert r.call("LRANGE", target, 0, -1) == [expected.encode()], cell
            assert r.call("EXISTS", KEY) == (operation.left and not executed), cell
            wait_blocked(r, 0)
            nobody_is_forgotten(r)


@pytest.mark.threads
@pytest.mark.parametrize("place", ["same shard", "other shard"])
@pytest.mark.parametrize("form", ["plain", "EXEC"])
@pytest.mark.parametrize("kind, operation", ROWS, ids=ROW_NAMES)
def test_what_makes_a_key_ready(server, r, kind, operation, form, place):
    stores = (ZSET_OPERATIONS["SET, store over it"], OPERATIONS["SORT STORE over a string"])
    if REFERENCE and operation in stores:
        pytest.skip("redis-server 7.0 forgets who waits when a value replaces one of another type")
    far = apart(r, KEY, 3)
    other = "{k}o" if place == "same shard" else far[2]
    check_cells(server, kind, operation, form == "EXEC", other, far)


@pytest.mark.parametrize(
    "kind, operation", [(LISTS, OPERATIONS["RPUSH"]), (ZSETS, ZSET_OPERATIONS["ZADD"])]
)
def test_each_kind_of_waiter_is_served(server, r, kind, operation):
    check_cells(server, kind, operation, False, "{k}o", apart(r, KEY, 3))


@only_dragonfly("it has no such flag")
def test_the_general_way_gives_the_same_results(start_server):
    server = start_server(proactor_threads=3, num_shards=5, singlehop_blocking=False)
    with server.connect() as r:
        far = apart(r, KEY, 3)
        for kind, operation in ROWS:
            for executed in (False, True):
                check_cells(server, kind, operation, executed, far[2], far)
        facts = r.info("transaction")
        assert facts["tx_blocking_single_hop"] == facts["tx_blocking_inline"] == "0"
        assert int(facts["tx_blocking_general"]) > 500


def test_an_expired_key_of_another_type_makes_room_for_a_list(server, r):
    with server.connect() as waiter:
        waiter.send(encode("BLPOP", "k", 0))
        wait_blocked(r, 1)
        r.do("SET k v PX 5")
        wait_until(lambda: r.do("EXISTS k") == 0, what="expiry")
        wait_blocked(r, 1)
        assert r.do("RPUSH k e") == 1
        assert waiter.read() == [b"k", b"e"]


# --- Order ---


@contextlib.contextmanager
def waiting(server, r, commands):
    """One connection for each command, which have begun to wait in this order."""
    with contextlib.ExitStack() as stack:
        connections = []
        for command in commands:
            c = stack.enter_context(server.connect())
            c.send(encode(*command.split()))
            connections.append(c)
            wait_blocked(r, len(connections))
        yield connections


def test_who_waits_first_is_served_first(server, r):
    far = apart(r, "k")
    for commands in (
        ["BLPOP k 0"] * 5,
        [f"BLPOP {far[0]} k {far[1]} 0"] * 5,
        [f"BLMOVE k {far[0]} LEFT LEFT 0"] * 5,
        ["BLPOP k 0", f"BLMOVE k {far[0]} LEFT LEFT 0", f"BLPOP {far[1]} k 0"]
        + ["BLMPOP 0 1 k LEFT", "BLMOVE k {k}t LEFT LEFT 0"],
    ):
        for one_by_one in (True, False):
            r.call("FLUSHALL")
            with waiting(server, r, commands) as connections:
                values = [b"%d" % i for i in range(5)]
                if one_by_one:
                    for value in values:
                        r.call("RPUSH", "k", value)
                else:
                    r.call("RPUSH", "k", *values)
                for c, value in zip(connections, values):
                    reply = c.read()
                    got = reply if isinstance(reply, bytes) else reply[1]
                    assert got in (value, [value]), commands
            assert r.call("LLEN", "k") == 0


def test_one_push_serves_as_many_as_it_has_elements(server, r):
    with waiting(server, r, ["BLPOP k 0", "BLMPOP 0 1 k LEFT COUNT 2", "BRPOP k 0"]) as (a, b, c):
        assert r.do("RPUSH k 1 2 3") == 3
        assert a.read() == [b"k", b"1"]
        assert b.read() == [b"k", [b"2", b"3"]]
        wait_blocked(r, 1)
        assert r.do("LPUSH k 4 5") == 2
        assert c.read() == [b"k", b"4"]
        assert r.do("LRANGE k 0 -1") == [b"5"]


def test_one_exec_serves_from_the_first_key_that_is_pushed_to(server, r):
    far = apart(r, "k")
    with waiting(server, r, [f"BLPOP {far[0]} k 0"]) as (a,):
        r.pipeline([["MULTI"], ["RPUSH", "k", "1"], ["EXEC"]])
        assert a.read() == [b"k", b"1"]
    assert r.call("RPUSH", far[0], "x") == 1
    assert r.call("RPUSH", "k", "y") == 1
    assert r.do(f"BLPOP k {far[0]} 1") == [b"k", b"y"]
    assert r.do(f"BLPOP k {far[0]} 1") == [far[0].encode(), b"x"]


def test_moves_wake_each_other_along_a_chain(server, r):
    keys = ["c0", "c1", "c2", "c3", "{c3}4", "c5"]
    commands = [f"BLMOVE {a} {b} LEFT RIGHT 0" for a, b in zip(keys, keys[1:])]
    random.Random(1).shuffle(commands)
    with waiting(server, r, commands + ["BLPOP c5 0"]) as connections:
        r.do("RPUSH c0 e")
        for c in connections[:-1]:
            assert c.read() == b"e"
        assert connections[-1].read() == [b"c5", b"e"]
    assert r.call("EXISTS", *keys) == 0


def test_a_move_onto_itself_turns_the_list(server, r):
    with waiting(server, r, ["BLMOVE k k LEFT RIGHT 0", "BRPOPLPUSH k k 0"]) as (a, b):
        r.do("RPUSH k 1 2")
        assert a.read() == b"1"
        assert b.read() == b"1"
        assert r.do("LRANGE k 0 -1") == [b"1", b"2"]


def test_a_target_of_another_type_is_an_error_and_keeps_the_element(server, r):
    for target in ("{k}t", *apart(r, "k")):
        r.call("FLUSHALL")
        command = f"BLMOVE k {target} LEFT LEFT 0"
        with waiting(server, r, [command, "BLPOP k 0"]) as (a, b):
            r.call("SET", target, "v")
            assert r.do("RPUSH k e") == 1
            assert a.read() == WRONGTYPE
            assert b.read() == [b"k", b"e"]
        r.do("RPUSH k e")
        assert r.do(command) == WRONGTYPE
        assert r.do("LRANGE k 0 -1") == [b"e"]


# --- Without a wait ---


def test_what_is_there_is_taken_at_once(r):
    far = apart(r, "k")
    r.do("RPUSH k a b c d e f")
    r.call("RPUSH", far[0], "x")
    assert r.do("BLPOP none k 0") == [b"k", b"a"]
    assert r.do("BRPOP k 0") == [b"k", b"f"]
    assert r.do(f"BLPOP {far[0]} k 0") == [far[0].encode(), b"x"]
    assert r.do("BLMPOP 0 2 none k RIGHT COUNT 2") == [b"k", [b"e", b"d"]]
    assert r.do(f"BLMOVE k {far[1]} LEFT LEFT 0") == b"b"
    assert r.do(f"BRPOPLPUSH k {far[1]} 0") == b"c"
    assert r.call("LRANGE", far[1], 0, -1) == [b"c", b"b"]
    assert r.do("EXISTS k") == 0


BAD_FLOAT = Error("ERR timeout is not a float or out of range")


@pytest.mark.parametrize(
    "line, error",
    [
        ("BLPOP k", arity("blpop")),
        ("BLPOP k x", BAD_FLOAT),
        ("BLPOP k nan", BAD_FLOAT),
        ("BLPOP k ''", BAD_FLOAT),
        ("BLPOP k -1", Error("ERR timeout is negative")),
        ("BRPOP k -0.5", Error("ERR timeout is negative")),
        ("BRPOP k 1e18", None if REFERENCE else Error("ERR timeout is out of range")),
        ("BRPOP k inf", None),
        ("BLMOVE k t LEFT UP 0", Error("ERR syntax error")),
        ("BLMOVE k t LEFT RIGHT x", BAD_FLOAT),
        ("BRPOPLPUSH k t -1", Error("ERR timeout is negative")),
        ("BLMPOP x 1 k LEFT", BAD_FLOAT),
        ("BLMPOP -1 1 k LEFT", Error("ERR timeout is negative")),
        ("BLMPOP 0 0 k LEFT", Error("ERR numkeys should be greater than 0")),
        ("BLMPOP 0 1 k UP", Error("ERR syntax error")),
        ("BLMPOP 0 1 k LEFT COUNT 0", Error("ERR count should be greater than 0")),
        ("BLPOP s 0", WRONGTYPE),
        ("BLPOP none s l 0", WRONGTYPE),
        ("BLMOVE s l LEFT LEFT 0", WRONGTYPE),
        ("BLMPOP 0 2 none s LEFT", WRONGTYPE),
    ],
)
def test_an_error_comes_at_once_and_changes_nothing(r, line, error):
    r.do("SET s v")
    r.do("RPUSH l a")
    reply = r.do(line)
    assert reply == error if error else isinstance(reply, Error)
    assert r.do("LRANGE l 0 -1") == [b"a"]
    assert r.do("DBSIZE") == 2


def test_in_exec_nobody_waits(server, r):
    far = apart(r, "k")
    lines = ["BLPOP k 0", f"BLPOP k {far[0]} 0", "BLMPOP 0 1 k LEFT", "BLMOVE k {k}t LEFT LEFT 0"]
    lines += [f"BLMOVE k {far[0]} LEFT LEFT 0", "BRPOPLPUSH k {k}t 0"]
    r.do("MULTI")
    for line in lines:
        r.do(line)
    r.send_command("EXEC")
    assert r.read() == [None] * len(lines)
    r.pipeline([["MULTI"], ["RPUSH", "k", "a", "b"], ["BLPOP", "k", "0"]])
    r.pipeline([["BLMOVE", "k", far[0], "LEFT", "LEFT", "0"], ["BRPOP", "k", far[0], "0"]])
    assert r.do("EXEC") == [2, [b"k", b"a"], b"b", [far[0].encode(), b"b"]]


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_shape_of_nothing(server, protocol):
    with server.connect(resp3=protocol == 3) as c:
        for line, resp2 in (
            ("BLPOP k 0.001", b"*-1\r\n"),
            ("BLPOP k far 0.001", b"*-1\r\n"),
            ("BLMPOP 0.001 1 k LEFT", b"*-1\r\n"),
            ("BLMOVE k {k}t LEFT LEFT 0.001", b"*-1\r\n"),
            ("BRPOPLPUSH k t 0.001", b"*-1\r\n"),
        ):
            assert c.raw(*line.split()) == (b"_\r\n" if protocol == 3 else resp2), line
        c.do("MULTI")
        c.do("BLPOP k 0")
        c.do("BLMOVE k {k}t LEFT LEFT 0")
        nulls = b"*2\r\n_\r\n_\r\n" if protocol == 3 else b"*2\r\n*-1\r\n$-1\r\n"
        assert c.raw("EXEC") == nulls


# --- How a wait ends otherwise ---


@pytest.mark.parametrize("line", ["BLPOP k {}", "BLPOP k far a b {}", "BLMOVE k far LEFT LEFT {}"])
def test_a_timeout_ends_the_wait_in_time(r, line):
    for seconds in ("0.05", "5e-2", "0.001"):
        begin = time.monotonic()
        assert r.do(line.format(seconds)) is None
        assert float(seconds) <= time.monotonic() - begin < PATIENCE_S
    wait_blocked(r, 0)
    r.do("RPUSH k e")
    assert r.do("LLEN k") == 1


def test_client_unblock_ends_a_wait(server, r):
    far = apart(r, "k")
    for line in ("BLPOP k 0", f"BLPOP k {far[0]} 0", f"BLMOVE k {far[0]} LEFT LEFT 100"):
        for how, reply in ((["TIMEOUT"], None), ([], None), (["ERROR"], UNBLOCKED)):
            with server.connect() as c:
                c_id = c.call("CLIENT", "ID")
                assert r.call("CLIENT", "UNBLOCK", c_id, *how) == 0
                c.send(encode(*line.split()) + encode("PING"))
                wait_blocked(r, 1)
                assert r.call("CLIENT", "UNBLOCK", c_id, *how) == 1
                assert c.read() == reply
                assert c.read() == Status("PONG")
                assert r.call("CLIENT", "UNBLOCK", c_id, *how) == 0
        assert r.do("RPUSH k e") == 1
        assert r.do("LPOP k") == b"e"
    assert r.do("CLIENT UNBLOCK 123456789") == 0
    assert r.do("CLIENT UNBLOCK x") == NOT_INT
    assert r.do("CLIENT UNBLOCK 1 2") == Error(
        "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
    )


def test_who_waits_is_seen(server, r):
    with waiting(server, r, ["BLPOP k 0"]):
        lines = r.call("CLIENT", "LIST").decode().splitlines()
        flags = [field for line in lines for field in line.split() if field.startswith("flags=")]
        assert sorted(flags) == ["flags=N", "flags=b"]
        assert any("cmd=blpop" in line for line in lines)
    wait_blocked(r, 0)


def end_by_close(c, r):
    c.close()


def end_by_reset(c, r):
    c.abort()


def end_by_half_close(c, r):
    c.sock.shutdown(socket.SHUT_WR)


def end_by_kill(c, r):
    assert r.call("CLIENT", "KILL", "ID", c.id) == 1


def test_what_was_answered_before_a_wait_reaches_a_client_that_shuts_down(server, r):
    with server.connect() as c:
        c.send(encode("SET", "k", "v") + encode("GET", "k") + encode("BLPOP", "none", 0))
        wait_blocked(r, 1)
        end_by_half_close(c, r)
        assert c.read_until_closed() == b"+OK\r\n$1\r\nv\r\n"
        wait_blocked(r, 0)


def test_so_it_does_if_the_end_comes_with_the_commands(server, r):
    for _ in range(20):  # the wait begins before the end is seen, or behind it
        with server.connect() as c:
            c.send(encode("SET", "k", "v") + encode("GET", "k") + encode("BLPOP", "none", 0))
            end_by_half_close(c, r)
            assert c.read_until_closed() == b"+OK\r\n$1\r\nv\r\n"
    wait_blocked(r, 0)


def test_wait_waits_for_replicas_that_never_come(server, r):
    for line in ("WAIT 0 0", "WAIT -1 0", "WAIT 1 1", "WAIT 100 1"):
        assert r.do(line) == 0, line
    assert r.do("WAIT x 1") == Error("ERR value is not an integer or out of range")
    for timeout in ("x", "1.5"):
        error = Error("ERR timeout is not an integer or out of range")
        assert r.do(f"WAIT 1 {timeout}") == error, timeout
    if not REFERENCE:  # 7.0 waits for ever
        assert r.do("WAIT 1 9223372036854775807") == Error("ERR timeout is out of range")
    assert r.do("WAIT 1 -1") == Error("ERR timeout is negative")
    r.pipeline([("MULTI",), ("SET", "k", "v"), ("WAIT", 1, 0)])
    assert r.do("EXEC") == [Status("OK"), 0]
    for how, reply in (([], 0), (["ERROR"], UNBLOCKED)):
        with server.connect() as c:
            number = c.call("CLIENT", "ID")
            c.send(encode("SET", "k", "v") + encode("WAIT", 1, 0) + encode("GET", "k"))
            assert c.read() == Status("OK")  # does not wait for what comes behind
            wait_blocked(r, 1)
            assert r.call("CLIENT", "UNBLOCK", number, *how) == 1
            assert c.read() == reply
            assert c.read() == b"v"
    with server.connect() as c:
        c.send_command("WAIT", 1, 0)
        wait_blocked(r, 1)
        c.close()
        wait_blocked(r, 0)


@pytest.mark.parametrize("end", [end_by_close, end_by_reset, end_by_half_close, end_by_kill])
def test_nothing_is_taken_for_a_client_that_is_gone(server, r, end):
    far = apart(r, "k")
    for line in (
        "BLPOP k 0",
        f"BLPOP {far[0]} k {far[1]} 0",
        "BLMOVE k {k}t LEFT LEFT 0",
        f"BLMOVE k {far[0]} LEFT LEFT 0",
        *[line.replace("{k}", "k", 1) for line, _ in BLMOVEM.values()],
    ):
        with server.connect() as c, server.connect() as next_one:
            c.id = c.call("CLIENT", "ID")
            c.send(encode(*line.split()) + encode("RPUSH", "k", "from the dead"))
            wait_blocked(r, 1)
            next_one.send(encode("BLPOP", "k", 0))
            wait_blocked(r, 2)
            end(c, r)
            wait_blocked(r, 1)
            assert r.do("RPUSH k e f") == 2
            assert next_one.read() == [b"k", b"e"], line
            assert r.do("LRANGE k 0 -1") == [b"f"], line
        wait_blocked(r, 0)
        r.do("DEL k")
        nobody_is_forgotten(r)


def test_commands_around_a_wait_keep_their_order(server, r):
    with server.connect() as c:
        c.send(
            encode("SET", "a", 1) + encode("PING") + encode("BLPOP", "k", 0) + encode("INCR", "a")
        )
        assert c.read() == OK
        assert c.read() == Status("PONG")
        wait_blocked(r, 1)
        c.send(encode("INCR", "a") + encode("BLPOP", "k2", 0) + encode("INCR", "a"))
        assert r.do("GET a") == b"1"
        assert r.do("RPUSH k e") == 1
        assert c.read() == [b"k", b"e"]
        assert [c.read(), c.read()] == [2, 3]
        wait_blocked(r, 1)
        assert r.do("GET a") == b"3"
        r.do("RPUSH k2 e")
        assert c.read() == [b"k2", b"e"]
        assert c.read() == 4


def test_a_long_pipeline_of_waits(server, r):
    with server.connect() as c:
        count = 200
        c.send(b"".join(encode("BRPOPLPUSH", "k", "t", 0) for _ in range(count)))
        for i in range(count):
            r.call("LPUSH", "k", i)
        assert [c.read() for _ in range(count)] == [b"%d" % i for i in range(count)]
        assert r.do("LLEN t") == count


def test_replies_that_are_off_are_off(server, r):
    with server.connect() as c:
        c.send(encode("CLIENT", "REPLY", "OFF") + encode("BLPOP", "k", 0))
        wait_blocked(r, 1)
        r.do("RPUSH k e f")
        wait_blocked(r, 0)
        c.send(encode("BLPOP", "k", 0) + encode("CLIENT", "REPLY", "ON"))
        assert c.read() == OK
        c.send(encode("CLIENT", "REPLY", "SKIP") + encode("BLPOP", "k", 0) + encode("PING"))
        wait_blocked(r, 1)
        r.do("RPUSH k e")
        assert c.read() == Status("PONG")
        assert r.do("EXISTS k") == 0


def test_a_pause_holds_up_the_push_and_nobody_is_lost(server, r):
    with server.connect() as actor, waiting(server, r, ["BLPOP k 0"]) as (c,):
        assert r.do("CLIENT PAUSE 60000 WRITE") == OK
        actor.send(encode("RPUSH", "k", "e"))
        wait_blocked(r, 2)  # who is paused counts as blocked
        assert r.do("CLIENT UNPAUSE") == OK
        assert actor.read() == 1
        assert c.read() == [b"k", b"e"]


def test_shutdown_does_not_wait_for_waiters(start_server):
    for how in ("signal", "command"):
        server = start_server() if REFERENCE else start_server(proactor_threads=3, num_shards=5)
        with server.connect() as r:
            far = apart(r, "k")
            lines = ["BLPOP k 0", f"BLPOP k {far[0]} 0", f"BLMOVE k {far[0]} LEFT LEFT 0"] * 5
            with waiting(server, r, lines) as connections:
                begin = time.monotonic()
                if how == "signal":
                    server.process.send_signal(signal.SIGTERM)
                else:
                    r.send(encode("SHUTDOWN", "NOSAVE"))
                server.wait_for_exit()
                assert time.monotonic() - begin < PATIENCE_S
                for c in connections:
                    # Redis tells nothing either.
                    assert c.read_until_closed() in (b"", b"*-1\r\n", b"$-1\r\n")


def test_an_idle_timeout_is_none_for_who_waits(start_server):
    server = start_server(timeout=1)
    with server.connect() as r, server.connect() as c:
        c.send(encode("BLPOP", "k", 0))
        wait_blocked(r, 1)
        for _ in range(2):  # others come later, and go for their silence
            with server.connect() as idle:
                idle.call("PING")
                assert idle.read_until_closed() == b""
        with server.connect() as again:
            wait_blocked(again, 1)
            again.call("RPUSH", "k", "e")
        assert c.read() == [b"k", b"e"]


# --- Many ---


@pytest.mark.parametrize("line", ["BLPOP k{} 0", "BLPOP k 0", "BLMOVE k{} t LEFT LEFT 0"])
def test_a_thousand_clients_wait_and_all_are_served(server, r, line):
    count = 200 if SANITIZED else 1000
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(count)]
        for i, c in enumerate(clients):
            c.send(encode(*line.format(i).split()))
        wait_blocked(r, count)
        if not REFERENCE:
            assert int(r.info("memory")["mem_clients_normal"]) < count * 20_000
        for i in range(count):
            r.call("RPUSH", line.split()[1].format(i), i)
        got = []
        for c in clients:
            reply = c.read()
            got.append(int(reply if isinstance(reply, bytes) else reply[1]))
        assert sorted(got) == list(range(count))
        if "{}" in line:
            assert got == list(range(count))
    nobody_is_forgotten(r)


def test_a_waiter_does_not_starve_among_transactions(server, r):
    """Its key always has locks, of EXECs over shards that push to it."""
    far = apart(r, "k")
    stop = threading.Event()
    errors = []

    def produce():
        try:
            with server.connect() as c:
                commands = [["MULTI"], ["RPUSH", "k", "e"], ["SET", far[0], "v"], ["EXEC"]]
                while not stop.is_set():
                    c.pipeline(commands * 20)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=produce) for _ in range(4)]
    with waiting(server, r, ["BLPOP k 0"]) as (c,):
        for thread in threads:
            thread.start()
        try:
            begin = time.monotonic()
            assert c.read() == [b"k", b"e"]
            assert time.monotonic() - begin < PATIENCE_S
            r.do("DEL k")
            for line in ("BLPOP k none 0", "BRPOP k 0", "BLMOVE k {k}t LEFT LEFT 0"):
                for _ in range(20):
                    assert c.do(line) is not None
                    r.do("DEL k")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert not errors


def test_fifty_threads_of_redis_py(server, r):
    """Producers, consumers and movers; each element arrives once."""
    pool = redis.ConnectionPool(
        host="127.0.0.1", port=server.port, socket_timeout=PATIENCE_S, max_connections=60
    )
    each = 20 if SANITIZED else 60
    queues = [f"queue{i}" for i in range(5)]
    got, errors = [], []
    lock = threading.Lock()

    def guarded(function, *args):
        def run():
            try:
                with redis.Redis(connection_pool=pool) as client:
                    function(client, *args)
            except BaseException as e:
                errors.append(e)

        return threading.Thread(target=run)

    def produce(client, n):
        for i in range(each):
            client.rpush(queues[(n + i) % len(queues)], f"{n}:{i}")
            if i % 3 == 0:
                with client.pipeline() as pipe:
                    pipe.rpush(queues[i % 5], f"{n}:{i}:x").rpush(queues[(i + 1) % 5], f"{n}:{i}:y")
                    pipe.execute()

    def consume(client):
        while True:
            reply = client.blpop(["done", *queues], timeout=0)
            if reply[1] == b"stop":
                return
            with lock:
                got.append(reply[1])

    def move(client, n):
        while True:
            element = client.blmove(queues[n % 5], "done", 0, "LEFT", "RIGHT")
            if element == b"end":
                return

    producers = [guarded(produce, n) for n in range(20)]
    consumers = [guarded(consume) for _ in range(20)]
    movers = [guarded(move, n) for n in range(10)]
    for thread in producers + consumers + movers:
        thread.start()
    for thread in producers:
        thread.join()
    per_producer = each + 2 * len(range(0, each, 3))
    wait_until(lambda: errors or len(got) >= 20 * per_producer, what="all elements")
    assert not errors
    assert len(got) == len(set(got)) == 20 * per_producer
    for thread in consumers:
        r.call("RPUSH", "done", "stop")
    for thread in consumers:
        thread.join()
    for n in range(10):
        r.call("RPUSH", queues[n % 5], "end")
    for thread in movers:
        thread.join()
    pool.disconnect()
    assert not errors
    nobody_is_forgotten(r)


@only_dragonfly("a limit of ours")
@pytest.mark.flags(blocked_clients_max="3", proactor_threads="1")
def test_more_clients_than_may_wait_get_an_error(server):
    with contextlib.ExitStack() as stack:
        r, *clients = [stack.enter_context(server.connect()) for _ in range(5)]
        for count, client in enumerate(clients[:3], 1):
            client.send_command("BLPOP", "k", "0")
            wait_blocked(r, count)
        refused = Error("ERR too many clients wait for keys (--blocked_clients_max)")
        for call in (("BLPOP", "k", "0"), ("BLMOVE", "k", "t", "LEFT", "LEFT", "1")):
            assert clients[3].call(*call) == refused
        # Who need not wait may come, and so may others when there is room.
        r.call("RPUSH", "full", "1", "2")
        assert clients[3].call("BLPOP", "full", "0") == [b"full", b"1"]
        r.call("RPUSH", "k", "x")
        assert clients[0].read() == [b"k", b"x"]
        clients[3].send_command("BLPOP", "k", "0")
        wait_blocked(r, 3)
