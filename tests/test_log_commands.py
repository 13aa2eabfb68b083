# SPDX-License-Identifier: Apache-2.0
"""Commands and settings of the append-only log: WAITAOF, DEBUG LOADAOF and RELOAD,
journal_buffer_limit, scripts in logs of old versions."""

import os
import shutil
import subprocess
import tempfile

import pytest

from harness.ports import free_port
from harness.resp import NOT_INT, OK, Error, RespSocket, Status, arity, encode
from harness.server import PATIENCE_S, REFERENCE, wait_blocked, wait_until, wait_until_loaded

pytestmark = pytest.mark.skipif(REFERENCE, reason="redis-server 7.0 has no WAITAOF")

THREADS = [1, 3]
NO_LOG = Error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
UNBLOCKED = Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")


def log_info(r, name):
    return r.info("persistence")[name]


def wait_for_base(r):
    """Until no rewrite is under way: what is written would be loaded."""
    wait_until(lambda: log_info(r, "aof_rewrite_in_progress") == "0", what="the end of the rewrite")


def start(servers, **flags):
    server = servers(**flags)
    wait_until_loaded(server)
    with server.connect() as r:
        wait_for_base(r)
    return server


# ----------------------------------------------------------------------------------------- WAITAOF


@pytest.mark.parametrize("appendonly", [False, True])
def test_the_arguments_of_waitaof(servers, appendonly):
    server = start(servers, appendonly=appendonly)
    range_error = Error("ERR value is out of range, value must between 0 and 1")
    positive = Error("ERR value is out of range, must be positive")
    with server.connect() as r:
        for line in ("WAITAOF 2 0 0", "WAITAOF -1 0 0"):
            assert r.do(line) == range_error, line
        assert r.do("WAITAOF a 0 0") == NOT_INT
        for line in ("WAITAOF 0 -1 0", "WAITAOF 0 a 0"):
            assert r.do(line) == positive, line
        assert r.do("WAITAOF 0 0 -1") == Error("ERR timeout is negative")
        assert r.do("WAITAOF 0 0 a") == Error("ERR timeout is not an integer or out of range")
        assert r.do("WAITAOF 0 0 9223372036854775807") == Error("ERR timeout is out of range")
        assert r.do("WAITAOF 1 0") == arity("waitaof")
        info = r.call("COMMAND", "INFO", "waitaof")[0]
        assert info[:6] == [b"waitaof", 4, [Status("blocking")], 0, 0, 0]
        categories = {status.text for status in info[6]}
        assert categories == {"@slow", "@blocking", "@connection"}


def test_without_a_log_waitaof_is_an_error(servers):
    server = start(servers)
    with server.connect() as r:
        assert r.do("WAITAOF 0 0 0") == [0, 0]
        assert r.do("WAITAOF 0 1 1") == [0, 0]
        assert r.do("WAITAOF 1 0 0") == NO_LOG
        r.pipeline([("MULTI",), ("SET", "k", "v"), ("WAITAOF", 1, 0, 0), ("WAITAOF", 0, 0, 0)])
        assert r.do("EXEC") == [OK, NO_LOG, [0, 0]]


@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("threads", THREADS)
def test_what_waitaof_has_seen_survives(servers, policy, threads):
    flags = {"appendonly": True, "appendfsync": policy, "proactor_threads": threads}
    server = start(servers, **flags)
    with server.connect() as r:
        for i in range(3):
            r.pipeline([("SET", f"{i}:{j}", "v") for j in range(50)])
            assert r.do("WAITAOF 1 0 0") == [1, 0]
            assert log_info(r, "aof_unsynced_bytes") == "0"
        assert r.do("WAITAOF 1 1 1") == [1, 0]
        assert r.do("WAITAOF 0 0 0") == [1, 0]
    server.kill()
    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        assert r.do("DBSIZE") == 150


def start_unsynced(servers, **flags):
    """A server that never syncs by itself, and has something that is not synced."""
    server = start(servers, appendonly=True, appendfsync="no", **flags)
    with server.connect() as r:
        assert r.do("SET k v") == OK
    return server


@pytest.mark.parametrize("threads", THREADS)
def test_waitaof_waits_for_a_sync(servers, threads):
    server = start_unsynced(servers, proactor_threads=threads)
    with server.connect() as r:
        assert r.do("WAITAOF 1 0 1") == [0, 0]
        assert r.do("WAITAOF 0 0 0") == [0, 0]
        assert r.do("WAITAOF 1 1 1") == [0, 0]
        with server.connect() as c:
            c.send(encode("SET", "k", "w") + encode("WAITAOF", 1, 0, 0) + encode("GET", "k"))
            assert c.read() == OK
            wait_blocked(r, 1)
            lines = r.call("CLIENT", "LIST").decode().splitlines()
            assert any("flags=b" in line and "cmd=waitaof" in line for line in lines)
            # It writes what was before to a file that is synced then.
            r.do("BGREWRITEAOF")
            assert c.read() == [1, 0]
            assert c.read() == b"w"
        wait_blocked(r, 0)


def test_what_ends_a_wait_for_the_log(servers):
    server = start_unsynced(servers)
    with server.connect() as r:
        for how, reply in ((["TIMEOUT"], [0, 0]), ([], [0, 0]), (["ERROR"], UNBLOCKED)):
            with server.connect() as c:
                number = c.call("CLIENT", "ID")
                c.send(encode("WAITAOF", 1, 0, 0) + encode("PING"))
                wait_blocked(r, 1)
                assert r.call("CLIENT", "UNBLOCK", number, *how) == 1
                assert c.read() == reply
                assert c.read() == Status("PONG")
        with server.connect() as c:
            c.send_command("WAITAOF", 1, 0, 0)
            wait_blocked(r, 1)
            c.close()
            wait_blocked(r, 0)
        with server.connect() as c, server.connect() as other:
            c.send_command("WAITAOF", 1, 0, 0)
            other.send_command("WAITAOF", 0, 1, 0)
            wait_blocked(r, 2)
            assert r.do("CONFIG SET appendonly no") == OK
            assert c.read() == NO_LOG
            wait_blocked(r, 1)
            other.close()
            wait_blocked(r, 0)


def test_inside_others_waitaof_does_not_wait(servers):
    server = start_unsynced(servers)
    with server.connect() as r:
        r.pipeline([("MULTI",), ("SET", "k", "v"), ("WAITAOF", 1, 0, 0)])
        assert r.do("EXEC") == [OK, [0, 0]]
        assert r.call("EVAL", "return redis.call('WAITAOF', '1', '0', '0')", 0) == [0, 0]


def test_clients_that_wait_for_the_log_do_not_hinder_the_end(servers):
    server = start_unsynced(servers)
    with server.connect() as r, server.connect() as c:
        c.send_command("WAITAOF", 1, 0, 0)
        wait_blocked(r, 1)
        server.stop()


def test_a_log_that_is_switched_on_counts_when_its_base_is_there(servers):
    server = start(servers)
    with server.connect() as r:
        r.pipeline([("SET", f"k{i}", "v" * 1000) for i in range(1000)])
        assert r.do("CONFIG SET appendonly yes") == OK
        assert r.do("WAITAOF 1 0 0") == [1, 0]
    server.kill()
    server.start_again(appendonly=True)
    wait_until_loaded(server)
    with server.connect() as r:
        assert r.do("DBSIZE") == 1000


# ---------------------------------------------------------------------------- LOADAOF and RELOAD


FILL = [
    ("SET", "string", "text"),
    ("RPUSH", "list", "a", "b"),
    ("HSET", "hash", "f", "v"),
    ("ZADD", "zset", 1, "m"),
    ("SET", "soon", "v", "EX", 100000),
    ("MSET", "a", 1, "b", 2, "c", 3),
    ("RENAME", "a", "z"),
    ("EVAL", "redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 2)", 2, "e1", "e2"),
]


def content(r):
    return sorted((key, r.call("DUMP", key), r.call("PEXPIRETIME", key)) for key in r.do("KEYS *"))


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
@pytest.mark.parametrize("threads", THREADS)
def test_debug_loadaof_has_all_that_was_done(servers, policy, threads):
    server = start(servers, appendonly=True, appendfsync=policy, proactor_threads=threads)
    with server.connect() as r, server.connect() as waiter:
        r.pipeline(FILL)
        waiter.send_command("BLPOP", "queue", 0)
        wait_blocked(r, 1)
        before = content(r)
        assert r.do("DEBUG LOADAOF") == OK
        assert content(r) == before
        assert r.do("DEBUG LOADAOF") == OK
        assert r.do("INCR after") == 1
        assert r.do("RPUSH queue e") == 1
        assert waiter.read() == [b"queue", b"e"]
        assert r.do("DEBUG LOADAOF") == OK
        assert r.do("GET after") == b"1"
        before = content(r)
    server.kill()
    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        assert content(r) == before


def contents_of(directory):
    found = {}
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as f:
            found[name] = f.read()
    return found


def test_debug_loadaof_of_a_log_that_is_off(servers):
    server = start(servers)
    with server.connect() as r:
        assert r.do("DEBUG LOADAOF") == Error("ERR there is no append-only log")
        assert not os.path.exists(os.path.join(server.dir, "appendonlydir"))
        assert r.do("SET k old") == OK
        assert r.do("CONFIG SET appendonly yes") == OK
        assert r.do("WAITAOF 1 0 0") == [1, 0]
        assert r.do("CONFIG SET appendonly no") == OK
        wait_until(lambda: log_info(r, "aof_enabled") == "0", what="the log to be off")
        assert r.do("SET k new") == OK
        # A torn end is left out, and what is left over is not removed.
        directory = os.path.join(server.dir, "appendonlydir")
        (name,) = (name for name in os.listdir(directory) if name.endswith(".incr.aof"))
        with open(os.path.join(directory, name), "ab") as f:
            f.write(b"*3\r\n$3\r\nSET\r\n")
        with open(os.path.join(directory, "temp-appendonly.aof.base.rdb"), "wb") as f:
            f.write(b"left over")
        before = contents_of(directory)
        assert r.do("DEBUG LOADAOF") == OK
        assert r.do("GET k") == b"old"
        assert contents_of(directory) == before
        r.pipeline([("MULTI",), ("DEBUG", "LOADAOF")])
        assert r.do("EXEC") == [Error("ERR DEBUG LOADAOF is not possible inside a MULTI")]


def test_a_log_that_cannot_be_loaded_ends_the_process(servers):
    server = start(servers, appendonly=True, appendfsync="always")
    with server.connect() as r:
        r.pipeline(FILL)
        directory = os.path.join(server.dir, "appendonlydir")
        (name,) = (name for name in os.listdir(directory) if name.endswith(".incr.aof"))
        with open(os.path.join(directory, name), "r+b") as f:
            f.seek(f.read().index(b"string"))
            f.write(b"STRING")
        r.send_command("DEBUG", "LOADAOF")
        assert server.process.wait(timeout=PATIENCE_S) == 1
    assert "the append-only log cannot be loaded" in server.log()


@pytest.mark.parametrize("threads", THREADS)
def test_debug_reload_and_the_log(servers, threads):
    server = start(servers, appendonly=True, appendfsync="always", proactor_threads=threads)
    with server.connect() as r:
        r.pipeline(FILL)
        assert r.do("DEBUG RELOAD") == OK
        assert r.do("INCR n") == 1
        before = content(r)
        assert r.do("DEBUG LOADAOF") == OK
        assert content(r) == before
        # What the snapshot does not have is gone, from the log too.
        assert r.do("SET lost v") == OK
        assert r.do("DEBUG RELOAD NOSAVE") == OK
        assert r.do("EXISTS lost n") == 0
        assert r.do("INCR n") == 1
        assert r.do("WAITAOF 1 0 0") == [1, 0]
        before = content(r)
    server.kill()
    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        assert content(r) == before


# --------------------------------------------------------------------------- journal_buffer_limit


@pytest.mark.parametrize("threads", THREADS)
def test_writers_wait_when_too_much_is_not_on_the_disk(servers, threads):
    server = start(
        servers,
        appendonly=True,
        appendfsync="everysec",
        journal_buffer_limit=150_000,
        proactor_threads=threads,
    )
    commands = [("SET", f"k{i}", "v" * 1000) for i in range(100)]
    with server.connect() as r, server.connect() as c:

        def has_waited():
            assert c.pipeline(commands) == [OK] * len(commands)
            return int(log_info(r, "writes_held")) > 0

        wait_until(has_waited, what="writes that wait")  # enough of them between two syncs
        assert r.do("DBSIZE") == len(commands)
        assert c.do("WAITAOF 1 0 0") == [1, 0]
        wait_until(lambda: log_info(r, "aof_behind") == "0", what="an end of the wait")
        assert r.do("CONFIG SET journal_buffer_limit 0") == OK
        held = log_info(r, "writes_held")
        for _ in range(20):
            assert c.pipeline(commands) == [OK] * len(commands)
        assert log_info(r, "writes_held") == held


# ------------------------------------------------------------------- scripts in logs of old Redis


def start_from_old_log(servers, commands, **flags):
    """A server on a single file as Redis up to version 6 has it, without a base."""
    server = servers(**flags)
    server.stop()
    with open(os.path.join(server.dir, "appendonly.aof"), "wb") as f:
        f.write(b"".join(encode(*command) for command in commands))
    server.start_again(appendonly=True)
    wait_until_loaded(server)
    return server


@pytest.mark.parametrize("threads", THREADS)
def test_scripts_of_an_old_log_are_run(servers, threads):
    add = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
    move = "redis.call('RENAME', KEYS[1], KEYS[2]) return redis.call('INCR', KEYS[2])"
    undeclared = "for i = 1, 20 do redis.call('RPUSH', 'u' .. i, redis.call('GET', 'first')) end"
    known = servers(proactor_threads=threads)
    with known.connect() as r:
        sha = r.call("SCRIPT", "LOAD", add).decode()
    commands = [
        ("SELECT", 0),
        ("SET", "first", 1),
        ("EVAL", add, 1, "first", 5),
        ("SCRIPT", "LOAD", add),
        ("EVALSHA", sha, 1, "first", 10),
        ("PUBLISH", "channel", "message"),
        ("PING",),
        ("EVAL", undeclared, 0),
        ("MULTI",),
        ("SET", "second", 1),
        ("EVAL", move, 2, "second", "third"),
        ("EXEC",),
        ("SELECT", 1),
        ("EVAL", add, 1, "elsewhere", 7),
        ("SCRIPT", "FLUSH"),
        ("SELECT", 0),
        ("EVAL", "return redis.call('NOPE')", 0),
        ("APPEND", "first", "0"),
    ]
    server = start_from_old_log(servers, commands, proactor_threads=threads)
    with server.connect() as r:
        assert r.do("GET first") == b"160"
        assert r.do("LRANGE u1 0 -1") == [b"16"]
        assert r.do("LRANGE u20 0 -1") == [b"16"]
        assert r.do("EXISTS second") == 0
        assert r.do("GET third") == b"2"
        assert r.do("DBSIZE") == 22
        assert r.do("SELECT 1") == OK
        assert r.do("GET elsewhere") == b"7"


def test_redis_loads_the_same_from_it(servers):
    """What redis-server makes of such a log is what we make of it."""
    script = (
        "local n = redis.call('INCR', KEYS[1]) "
        "redis.call('RPUSH', KEYS[2], n) redis.call('HSET', 'h:' .. n, 'f', ARGV[1]) return n"
    )
    commands = [("SELECT", 0)] + [("EVAL", script, 2, "n", f"l{i % 3}", i) for i in range(50)]
    server = start_from_old_log(servers, commands, proactor_threads=3)
    directory = tempfile.mkdtemp(prefix="dfly-test-")
    with open(os.path.join(directory, "appendonly.aof"), "wb") as f:
        f.write(b"".join(encode(*command) for command in commands))
    port = free_port()
    redis = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", directory]
        + ["--appendonly", "yes", "--save", ""],
        stdout=subprocess.DEVNULL,
    )

    def values(r):
        keys = sorted(r.do("KEYS *"))
        types = {b"l": ("LRANGE", 0, -1), b"h": ("HGETALL",), b"n": ("GET",)}
        return [(k, r.call(types[k[:1]][0], k, *types[k[:1]][1:])) for k in keys]

    def theirs():
        try:
            with RespSocket(("127.0.0.1", port)) as r:
                return values(r)
        except (ConnectionError, KeyError, TypeError):  # it is loading
            return None

    try:
        with server.connect() as r:
            ours = values(r)
        assert len(ours) == 54
        wait_until(lambda: theirs() == ours, what="the same in redis-server")
    finally:
        redis.terminate()
        redis.wait()
        shutil.rmtree(directory, ignore_errors=True)


# ------------------------------------------------------------------------------------- appendonly


def test_switching_on_waits_for_a_rewrite_without_a_log(servers):
    server = start(servers)
    with server.connect() as r:
        assert r.do("DEBUG POPULATE 100000 key 100") == OK
        replies = r.pipeline(
            [("BGREWRITEAOF",), ("CONFIG", "SET", "appendonly", "yes"), ("SET", "last", "v")]
        )
        assert replies[1:] == [OK, OK]
        wait_until(lambda: log_info(r, "aof_enabled") == "1", what="the log to be on")
        assert r.do("WAITAOF 1 0 0") == [1, 0]
    server.kill()
    server.start_again(appendonly=True)
    wait_until_loaded(server)
    with server.connect() as r:
        assert r.do("DBSIZE") == 100001


def test_latency_events_of_the_log_have_redis_names(servers):
    server = start(
        servers, appendonly=True, appendfsync="always", latency_monitor_threshold=1
    )
    with server.connect() as r:

        def is_seen():
            r.pipeline([("SET", "k", "v" * 1_000_000) for _ in range(20)])
            return any(event[0] == b"aof-fsync-always" for event in r.do("LATENCY LATEST"))

        wait_until(is_seen, what="a slow sync")
        assert len(r.do("LATENCY HISTORY aof-fsync-always")) > 0
        assert r.do("LATENCY RESET aof-fsync-always") == 1


@pytest.mark.parametrize("threads", THREADS)
def test_slowlog_explain_says_how_long_a_reply_waited_for_the_disk(servers, threads):
    server = start(
        servers,
        appendonly=True,
        appendfsync="always",
        slowlog_log_slower_than=0,
        proactor_threads=threads,
    )

    def entries(r, name):
        maps = [dict(zip(e[::2], e[1::2], strict=True)) for e in r.do("SLOWLOG EXPLAIN 20")]
        return [entry for entry in maps if entry[b"command"][0] == name]

    with server.connect() as r:
        assert r.do("GET none") is None
        assert entries(r, b"GET")[0][b"disk-usec"] == 0

        def waited():
            # On a busy machine a sync may be over before the thread wants to send the reply.
            assert r.do("SET k v") == OK
            entry = entries(r, b"SET")[0]
            return entry if entry[b"disk-usec"] > 0 else None

        entry = wait_until(waited, what="a reply that waits")
        assert entry[b"disk-usec"] <= entry[b"send-usec"]
