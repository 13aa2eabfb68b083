# SPDX-License-Identifier: Apache-2.0
"""XADD IDMP and IDMPAUTO, XCFGSET (Redis 8.6): a message that comes twice is one entry. More is in
src/commands/streams/stream_idempotence_test.cc."""

import threading

import pytest
import redis

from harness.resp import OK, Error
from harness.server import only_dragonfly, wait_until, wait_until_loaded
from test_replicas import assert_same, await_replica, follow, other_server

pytestmark = only_dragonfly("it came with 8.6")

COUNTS = ("pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")


def info(r, key="s"):
    reply = r.call("XINFO", "STREAM", key)
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])}


def counts(r, key="s"):
    facts = info(r, key)
    return [facts[name] for name in COUNTS]


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_has_calls_for_them(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol, socket_timeout=60) as client:
        first = client.xadd("s", {"a": 1}, idmp=("p", b"\x01"))
        assert client.xadd("s", {"a": 2}, idmp=("p", b"\x01")) == first
        auto = client.xadd("s", {"a": 1}, idmpauto="p")
        assert client.xadd("s", {"a": 1}, idmpauto="p") == auto != first
        assert client.xlen("s") == 2
        facts = client.xinfo_stream("s")
        assert facts["idmp-duration"] == facts["idmp-maxsize"] == 100
        assert [facts[name] for name in COUNTS] == [1, 2, 2, 2]
        assert client.xcfgset("s", idmp_duration=300, idmp_maxsize=10_000)
        facts = client.xinfo_stream("s")
        assert (facts["idmp-duration"], facts["idmp-maxsize"]) == (300, 10_000)
        assert [facts[name] for name in COUNTS] == [0, 0, 2, 2]


def test_producers_that_send_all_of_it_again_add_it_once(server, r):
    """Several at a time, in pipelines, as after a lost connection."""
    def send(producer):
        with server.connect() as c:
            for _ in range(3):
                for i in range(50):
                    c.call("XADD", "s", "IDMP", producer, f"message {i}", "*", "from", producer)

    threads = [threading.Thread(target=send, args=(f"p{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert r.call("XLEN", "s") == 200
    assert counts(r) == [4, 200, 200, 400]


def test_it_runs_in_transactions_and_scripts(server, r):
    script = "return redis.call('XADD', KEYS[1], 'IDMP', 'p', ARGV[1], '*', 'a', 'b')"
    first = r.call("EVAL", script, 1, "s", "1")
    r.call("MULTI")
    r.do("XADD s IDMP p 1 * a b")
    r.do("XADD s IDMP p 2 * a b")
    r.do("XCFGSET s IDMP-MAXSIZE 7")
    r.do("XADD s IDMP p 2 * a b")
    replies = r.call("EXEC")
    assert replies[0] == first and replies[1] != replies[3] and replies[2] == OK
    assert counts(r) == [1, 1, 3, 1]


def test_settings_are_the_limits_of_new_streams(server, r):
    try:
        r.do("XADD old IDMP p 1 * a b")
        assert r.do("CONFIG SET stream-idmp-duration 700 stream-idmp-maxsize 2") == OK
        for i in range(5):
            r.do(f"XADD new IDMP p {i} * a b")
        assert counts(r, "new") == [1, 2, 5, 0]
        assert info(r, "new")["idmp-duration"] == 700
        assert info(r, "old")["idmp-maxsize"] == 100
        r.do("XADD plain * a b")
        assert info(r, "plain")["idmp-maxsize"] == 2
        for name, value in (("duration", 0), ("duration", 86_401), ("maxsize", 0),
                            ("maxsize", 10_001)):
            assert isinstance(r.do(f"CONFIG SET stream-idmp-{name} {value}"), Error)
    finally:
        r.do("CONFIG SET stream-idmp-duration 100 stream-idmp-maxsize 100")


def test_of_too_many_producers_the_silent_one_is_forgotten(start_server):
    server = start_server(proactor_threads=2, stream_idmp_producers_max=3)
    with server.connect() as c:
        def add(producer, message):
            return c.call("XADD", "s", "IDMP", producer, message, "*", "f", "v")

        first = {name: add(name, "1") for name in "abc"}
        assert add("a", "2") != first["a"]
        add("d", "1")
        assert counts(c)[:2] == [3, 4]
        assert add("a", "1") == first["a"] and add("c", "1") == first["c"]
        assert add("b", "1") != first["b"]  # it takes the place of c
        assert counts(c)[:2] == [3, 4]
        assert add("a", "1") == first["a"] and add("c", "1") != first["c"]
        assert c.call("CONFIG", "SET", "stream_idmp_producers_max", "1") == OK
        add("e", "1")
        assert counts(c)[:2] == [1, 1]
        for bad in ("0", "1000001", "x"):
            assert isinstance(c.call("CONFIG", "SET", "stream_idmp_producers_max", bad), Error)


def test_a_message_is_forgotten_after_its_time(server, r):
    r.do("XADD s IDMP p 1 * a b")
    r.do("XCFGSET s IDMP-DURATION 1")
    first = r.do("XADD s IDMP p 1 * a b")
    wait_until(lambda: r.do("XADD s IDMP p 1 * a b") != first, what="another entry")
    assert r.call("XLEN", "s") >= 3


@pytest.mark.long
def test_many_producers_take_memory_for_a_while_only(server, r):
    r.do("XADD s IDMP p 1 * a b")
    r.do("XCFGSET s IDMP-DURATION 1")
    head, tail = ("XADD", "s", "MAXLEN", 10, "IDMP"), ("1", "*", "a", "b")
    r.pipeline([(*head, f"producer {i}", *tail) for i in range(2000)])
    most = r.call("MEMORY", "USAGE", "s")

    def is_small():
        r.call("XADD", "s", "MAXLEN", 10, "IDMP", "last", "1", "*", "a", "b")
        return r.call("MEMORY", "USAGE", "s") < most / 10

    wait_until(is_small, what="that they are forgotten")


MESSAGES = [("p", 1), ("p", 2), ("q", 1)]


def send_all(r):
    return [r.call("XADD", "s", "IDMP", p, i, "*", "a", "b") for p, i in MESSAGES]


@pytest.mark.parametrize(
    "how", ["log", "rewritten log", "snapshot", "snapshot for Redis", "replica", "copy", "RESTORE"]
)
def test_messages_are_kept(start_server, how):
    flags = {"appendonly": "yes", "appendfsync": "always"} if "log" in how else {}
    server = start_server(proactor_threads=2, repl_diskless_sync_delay=0, **flags)
    other = server

    def follower():
        made = start_server(
            proactor_threads=2,
            replicaof=f"127.0.0.1 {server.port}",
            stream_idmp_maxsize=1,
        )
        with made.connect() as c:
            wait_until(lambda: c.info("replication")["master_link_status"] == "up")
        return made

    with server.connect() as r:
        wait_until(lambda: r.info("persistence")["aof_rewrite_in_progress"] == "0")
        if how == "replica":
            other = follower()
        r.do("XADD s IDMP before 1 * a b")
        r.do("XCFGSET s IDMP-DURATION 4000 IDMP-MAXSIZE 50")
        sent = send_all(r)
        if how == "copy":
            other = follower()
        if how in ("copy", "replica"):
            await_replica(r)
        if how == "RESTORE":
            payload = r.call("DUMP", "s")
            r.call("DEL", "s")
            assert r.call("RESTORE", "s", 0, payload) == OK
        if how == "snapshot":
            assert r.call("SAVE", "DF") == OK
        if how == "snapshot for Redis":
            assert r.call("SAVE", "RDB") == OK
        if how == "rewritten log":
            done = r.info("persistence")["aof_rewrites"]
            r.call("BGREWRITEAOF")
            wait_until(lambda: r.info("persistence")["aof_rewrites"] > done, what="the rewrite")
    if "log" in how or "snapshot" in how:
        server.kill()
        server.start_again()
        wait_until_loaded(server)
    with other.connect() as r:
        if other is not server:
            assert r.call("REPLICAOF", "NO", "ONE") == OK
        facts = info(r)
        assert (facts["idmp-duration"], facts["idmp-maxsize"]) == (4000, 50)
        assert [facts[name] for name in COUNTS[:3]] == [2, 3, 4]
        assert send_all(r) == sent and r.call("XLEN", "s") == 4
        assert r.do("XADD s IDMP p 3 * a b") != sent[0]


def test_redis_server_follows_and_loads(start_server, tmp_path):
    """It has the entries, and knows nothing of the messages."""
    server = start_server(repl_diskless_sync_delay=0)
    with server.connect() as c, other_server("redis-server", tmp_path) as replica:
        send_all(c)
        follow(replica, server)
        c.do("XCFGSET s IDMP-DURATION 4000")
        send_all(c)
        send_all(c)
        c.do("XADD t IDMPAUTO p * a b")
        c.do("XADD t IDMPAUTO p * a b")
        payload = c.call("DUMP", "t")
        assert c.call("RESTORE", "u", 0, payload) == OK
        await_replica(c)
        assert c.call("XLEN", "s") == 6 and c.call("XLEN", "t") == 1
        assert_same(c, replica)
