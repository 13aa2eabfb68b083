# SPDX-License-Identifier: Apache-2.0
"""Commands with very many arguments run in pieces, and are one command for everybody else. Every
test also passes on redis-server, unless marked."""

import itertools
import threading

import pytest

from harness.beside import hops
from harness.log_files import logged_commands
from harness.resp import OK, Error, Push, Status
from harness.server import PATIENCE_S, only_dragonfly, wait_blocked, wait_until

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

COUNT = 10_000
NAMES = [b"name:%d" % i for i in range(COUNT)]
OTHERS = [b"other:%d" % i for i in range(COUNT)]
TAGS = [f"{{{i}}}" for i in range(4)]  # in shards of all threads


def pairs(names, values):
    return itertools.chain.from_iterable(zip(names, values, strict=True))


def scored(names, add=0):
    return pairs((b"%d" % (i * 7919 % COUNT + add) for i in range(len(names))), names)


# What is run with a key, one behind the other, and what it replies.
LINES = [
    (("HSET", "{}h", *pairs(NAMES, OTHERS)), COUNT),
    (("HSET", "{}h", *pairs(NAMES, NAMES)), 0),
    (("HMSET", "{}h", *pairs(OTHERS, NAMES)), OK),
    (("HSET", "{}h", *pairs(NAMES, NAMES), "odd"), Error),
    (("HLEN", "{}h"), 2 * COUNT),
    (("HMGET", "{}h", *NAMES, "none"), [*NAMES, None]),
    (("HDEL", "{}h", "none", *OTHERS, *OTHERS), COUNT),
    (("HDEL", "{}h", *NAMES), COUNT),
    (("EXISTS", "{}h"), 0),
    (("HMGET", "{}h", *NAMES), [None] * COUNT),
    (("SADD", "{}s", *NAMES, *NAMES), COUNT),
    (("SADD", "{}s", *NAMES[5:], *OTHERS), COUNT),
    (("SMISMEMBER", "{}s", *NAMES, "none", *OTHERS), [1] * COUNT + [0] + [1] * COUNT),
    (("SREM", "{}s", *NAMES, *NAMES, "none"), COUNT),
    (("SCARD", "{}s"), COUNT),
    (("SREM", "{}s", *OTHERS), COUNT),
    (("EXISTS", "{}s"), 0),
    (("ZADD", "{}z", *scored(NAMES)), COUNT),
    (("ZADD", "{}z", "CH", *scored(NAMES, 1), *scored(OTHERS)), 2 * COUNT),
    (("ZADD", "{}z", "NX", *scored(NAMES, 5)), 0),
    (("ZADD", "{}z", "XX", "GT", "CH", *scored(NAMES, 2)), COUNT),
    (("ZADD", "{}z", "LT", "CH", *scored(NAMES, 3)), 0),
    (("ZADD", "{}z", *scored(NAMES, 9), "no float", "member"), Error),
    (("ZADD", "{}z", *scored(NAMES, 9), "1"), Error),
    (("ZMSCORE", "{}z", NAMES[0], "none", *OTHERS[:2]), [b"2", None, b"0", b"7919"]),
    (("ZREM", "{}z", *NAMES, "none", *NAMES), COUNT),
    (("ZCARD", "{}z"), COUNT),
    (("ZREM", "{}z", *OTHERS), COUNT),
    (("EXISTS", "{}z"), 0),
    (("RPUSH", "{}l", *NAMES), COUNT),
    (("LPUSH", "{}l", *OTHERS), 2 * COUNT),
    (("LRANGE", "{}l", "0", "-1"), [*reversed(OTHERS), *NAMES]),
    (("RPUSHX", "{}none", *NAMES), 0),
    (("LPUSHX", "{}l", *NAMES), 3 * COUNT),
    (("HSET", "{}l", *pairs(NAMES, NAMES)), Error),
    (("SADD", "{}l", *NAMES), Error),
    (("ZADD", "{}l", *scored(NAMES)), Error),
    (("LLEN", "{}l"), 3 * COUNT),
    (("DEL", "{}l"), 1),
]


def is_as_wanted(reply, wanted):
    return isinstance(reply, Error) if wanted is Error else reply == wanted


def test_replies_and_values_are_those_of_few_arguments(r):
    for tag in TAGS[:2]:
        for (name, key, *rest), wanted in LINES:
            reply = r.call(name, key.replace("{}", tag), *rest)
            assert is_as_wanted(reply, wanted), (name, str(reply)[:100])


@pytest.mark.parametrize("of_one_tag", [True, False])
def test_many_keys(r, of_one_tag):
    def named(names):
        return [b"{t}" + name for name in names] if of_one_tag else names

    keys, others = named(NAMES), named(OTHERS)
    assert r.call("MSET", *pairs(keys, OTHERS), *pairs(keys, NAMES)) == OK
    assert isinstance(r.call("MSET", *pairs(keys, OTHERS), "odd"), Error)
    assert r.call("MGET", *keys, "none", *keys) == [*NAMES, None, *NAMES]
    assert r.call("EXISTS", *keys, *others, *keys) == 2 * COUNT
    assert r.call("TOUCH", *others, *keys) == COUNT
    assert r.call("DEL", *others, *keys[:COUNT // 2], *keys[:COUNT // 2]) == COUNT // 2
    assert r.call("UNLINK", *keys, "none") == COUNT - COUNT // 2
    assert r.call("DBSIZE") == 0
    assert r.call("MGET", *keys) == [None] * COUNT


@only_dragonfly("a command is one step")
def test_they_run_in_pieces(r):
    for (name, key, *rest), wanted in LINES:
        many = hops(r, name, key.replace("{}", "{t}"), *rest)
        if len(rest) >= COUNT and wanted is not Error and "PUSHX" not in name:
            assert many > 10, name
    for line in (("MSET", *pairs(NAMES, NAMES)), ("MGET", *NAMES), ("EXISTS", *NAMES)):
        assert hops(r, *line) > 10, line[0]
    assert hops(r, "UNLINK", *NAMES) > 10


@only_dragonfly("a command is one step")
def test_few_arguments_exec_and_scripts_are_one_step(r, server):
    assert hops(r, "HSET", "{t}h", *pairs(NAMES[:1000], NAMES[:1000])) <= 1
    script = "return redis.call('SADD', KEYS[1], unpack(ARGV))"
    assert hops(r, "EVAL", script, 1, "{t}s", *NAMES[:5000]) < 10
    assert r.call("SCARD", "{t}s") == 5000
    with server.connect() as other:
        other.call("MULTI")
        other.call("HSET", "{t}h", *pairs(NAMES, NAMES))
        assert hops(Executing(r, other), "EXEC") < 10


class Executing:
    """A client that asks for INFO, and another one that runs the command."""

    def __init__(self, asks, runs):
        self.info, self.call = asks.info, runs.call


class Racing:
    """Writers and readers, until each reader has looked often enough."""

    ROUNDS = 12

    def __init__(self, server):
        self.server = server
        self.failed = []
        self.is_done = threading.Event()

    def write(self, line_of):
        with self.server.connect() as c:
            for i in itertools.count():
                for line in line_of(i):
                    if isinstance(reply := c.call(*line), Error):
                        self.failed.append(reply)
                if self.is_done.is_set() or self.failed:
                    return

    def read(self, line, is_whole):
        with self.server.connect() as c:
            seen = set()
            while len(seen) < self.ROUNDS and not self.failed:
                reply = c.call(*line)
                if not is_whole(reply):
                    self.failed.append((line[0], str(reply)[:200]))
                seen.add(str(reply)[:100])
                if self.is_done.is_set():
                    return

    def run(self, line_of, readers):
        writer = threading.Thread(target=self.write, args=(line_of,))
        threads = [threading.Thread(target=self.read, args=reader) for reader in readers]
        for thread in (writer, *threads):
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        self.is_done.set()
        for thread in (writer, *threads):
            thread.join()
        assert not self.failed


def are_equal(reply):
    return len(set(reply)) == 1


EDGES = [NAMES[i] for i in (0, 1, 255, 256, 2047, COUNT // 2, COUNT - 2, COUNT - 1)]
HALF = COUNT // 2


def test_nobody_sees_half_of_a_hash(server):
    def lines(i):
        yield ("HSET", "{t}h", *pairs(NAMES, [b"%d" % i] * COUNT))

    reads = [
        (("HMGET", "{t}h", *EDGES), are_equal),
        (("HMGET", "{t}h", *reversed(EDGES)), are_equal),
        (("HMGET", "{t}h", *NAMES), are_equal),
        (("HVALS", "{t}h"), lambda reply: len(set(reply)) <= 1 and len(reply) in (0, COUNT)),
    ]
    Racing(server).run(lines, reads)


def test_nobody_sees_half_of_many_keys(server):
    def lines(i):
        yield ("MSET", *pairs(NAMES, [b"%d" % i] * COUNT))

    reads = [
        (("MGET", *EDGES), are_equal),
        (("MGET", *reversed(EDGES)), are_equal),
        (("MGET", *NAMES), are_equal),
    ]
    Racing(server).run(lines, reads)


def test_nobody_sees_half_of_what_comes_and_goes(server):
    """A set, a sorted set, a list, and keys."""

    def lines(i):
        yield ("SADD", "{t}s", *NAMES)
        yield ("ZADD", "{t}z", *scored(NAMES, i))
        yield ("RPUSH", "{t}l", *NAMES)
        yield ("MSET", *pairs(NAMES, NAMES))
        yield ("DEL", *NAMES)
        yield ("SREM", "{t}s", *NAMES)
        yield ("ZREM", "{t}z", *NAMES)
        yield ("DEL", "{t}l")

    def is_all_or_none(most):
        return lambda reply: reply in (0, most)

    reads = [
        (("SCARD", "{t}s"), is_all_or_none(COUNT)),
        (("ZCARD", "{t}z"), is_all_or_none(COUNT)),
        (("LLEN", "{t}l"), is_all_or_none(COUNT)),
        (("EXISTS", *EDGES), is_all_or_none(len(EDGES))),
        (("EXISTS", *NAMES), is_all_or_none(COUNT)),
    ]
    racing = Racing(server)
    racing.ROUNDS = 2  # there are no more different replies
    racing.run(lines, reads)


def test_who_waits_is_served_when_all_is_there(server):
    with server.connect() as c, server.connect() as waiter:
        for blocked, line, wanted in (
            (("BLPOP", "{t}l", "0"), ("RPUSH", "{t}l", *NAMES), [b"{t}l", NAMES[0]]),
            (("BLPOP", "{t}m", "0"), ("LPUSH", "{t}m", *NAMES), [b"{t}m", NAMES[-1]]),
            (("BRPOP", "{t}n", "0"), ("RPUSH", "{t}n", *NAMES), [b"{t}n", NAMES[-1]]),
            (
                ("BZPOPMIN", "{t}z", "0"),
                ("ZADD", "{t}z", *scored(NAMES), "-1", "the last"),
                [b"{t}z", b"the last", b"-1"],
            ),
        ):
            waiter.send_command(*blocked)
            wait_blocked(c, 1)
            assert c.call(*line) >= COUNT
            assert waiter.read() == wanted


def test_events_and_invalidations_come_once(server):
    lines = [
        (("HSET", "{t}k", *pairs(NAMES, NAMES)), ["hset"]),
        (("HDEL", "{t}k", *NAMES), ["hdel", "del"]),
        (("SADD", "{t}k", *NAMES), ["sadd"]),
        (("SREM", "{t}k", *NAMES), ["srem", "del"]),
        (("ZADD", "{t}k", *scored(NAMES)), ["zadd"]),
        (("ZREM", "{t}k", *NAMES), ["zrem", "del"]),
        (("RPUSH", "{t}k", *NAMES), ["rpush"]),
        (("LPUSH", "{t}k", *NAMES), ["lpush"]),
    ]
    with server.connect() as c, server.connect() as events, server.connect(resp3=True) as caching:
        c.call("CONFIG", "SET", "notify-keyspace-events", "KA")
        events.call("SUBSCRIBE", "__keyspace@0__:{t}k")
        caching.call("CLIENT", "TRACKING", "ON", "BCAST")
        for line, wanted in lines:
            assert c.call(*line) >= COUNT
            assert [events.read()[2].decode() for _ in wanted] == wanted
        c.call("SET", "{t}k", "end")
        assert events.read()[2] == b"set"
        c.call("CONFIG", "SET", "notify-keyspace-events", "")
        # One for each command: all of them wait for the one of SET.
        told = [caching.read() for _ in range(len(lines) + 1)]
        assert all(isinstance(push, Push) for push in told)
        assert [list(push.items) for push in told] == [[b"invalidate", [b"{t}k"]]] * len(told)
        assert caching.call("PING") == Status("PONG")


def test_who_watches_the_key_hears_of_it(server):
    with server.connect() as c, server.connect() as other:
        for line in (
            ("HSET", "{t}h", *pairs(NAMES, NAMES)),
            ("SADD", "{t}s", *NAMES),
            ("MSET", *pairs([b"{t}" + name for name in NAMES], NAMES)),
        ):
            key = line[1] if line[0] != "MSET" else b"{t}" + NAMES[HALF]
            assert c.pipeline([("WATCH", key), ("MULTI",), ("TYPE", key)])[0] == OK
            assert not isinstance(other.call(*line), Error)
            assert c.call("EXEC") is None


def test_the_commands_around_it_keep_their_order(r):
    lines = [
        ("SET", "{t}k", "before"),
        ("DEL", "{t}k"),
        ("HSET", "{t}k", *pairs(NAMES, NAMES)),
        ("HLEN", "{t}k"),
        ("HDEL", "{t}k", *NAMES),
        ("EXISTS", "{t}k"),
        ("MSET", *pairs(NAMES, OTHERS)),
        ("GET", NAMES[-1]),
        ("DEL", *NAMES),
        ("GET", NAMES[-1]),
    ]
    replies = r.pipeline(lines)
    assert replies == [OK, 1, COUNT, COUNT, COUNT, 0, OK, OTHERS[-1], COUNT, None]


def content(c):
    return [
        sorted(c.call("HGETALL", "{t}h")),
        sorted(c.call("SMEMBERS", "{t}s")),
        c.call("ZRANGE", "{t}z", 0, -1, "WITHSCORES"),
        c.call("LRANGE", "{t}l", 0, -1),
        c.call("MGET", *NAMES),
        c.call("DBSIZE"),
    ]


NOT_DATA = (b"SELECT", b"REPLCONF", b"PING")
WRITES = [
    ("HSET", "{t}h", *pairs(NAMES, OTHERS)),
    ("HDEL", "{t}h", *NAMES[:HALF]),
    ("SADD", "{t}s", *NAMES),
    ("SREM", "{t}s", *NAMES[:HALF]),
    ("ZADD", "{t}z", *scored(NAMES)),
    ("ZREM", "{t}z", *NAMES[:HALF]),
    ("RPUSH", "{t}l", *NAMES),
    ("LPUSH", "{t}l", *OTHERS),
    ("MSET", *pairs(NAMES, OTHERS)),
    ("DEL", *NAMES[:HALF]),
]


@only_dragonfly("it is about our log and our replicas")
def test_the_log_and_a_replica_have_the_same(start_server):
    server = start_server(appendonly="yes", appendfsync="always", repl_diskless_sync_delay=0)
    replica_server = start_server(proactor_threads=1)
    with server.connect() as c, replica_server.connect() as replica:
        assert replica.call("REPLICAOF", "127.0.0.1", server.port) == OK
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
        for line in WRITES:
            assert not isinstance(c.call(*line), Error)
        assert c.call("WAIT", 1, PATIENCE_S * 1000) == 1
        before = content(c)
        assert before[-1] == 4 + HALF
        assert content(replica) == before
        logged = [words for words in logged_commands(server.dir) if words[0] not in NOT_DATA]
    wanted = [[w if isinstance(w, bytes) else w.encode() for w in line] for line in WRITES]
    assert [(words[0], len(words)) for words in logged] == [(w[0], len(w)) for w in wanted]
    assert logged == wanted
    server.kill()
    server.start_again()
    with server.connect() as c:
        assert content(c) == before
