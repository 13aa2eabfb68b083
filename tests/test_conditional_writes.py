# SPDX-License-Identifier: Apache-2.0
"""Writes that ask first what the string is: SET with IFEQ, IFNE, IFDEQ and IFDNE, DELEX, DELIFEQ,
DIGEST; and MSETEX. They came with Redis 8.4 and Valkey 9."""

import shutil

import pytest
import redis
from redis.commands.core import DataPersistOptions

from harness.resp import OK, Error, Status
from harness.seeds import new_rng
from harness.server import Server, only_dragonfly, wait_until
from harness.valkey import running_valkey

pytestmark = [pytest.mark.threads, only_dragonfly("they came with Redis 8.4")]

FAR_MS = 4_000_000_000_000
KEYS = [f"k{i}" for i in range(8)]  # in all shards
BAD_DIGEST = Error("ERR must be exactly 16 hexadecimal characters")


def test_set_asks_for_the_string_and_its_digest(r):
    assert r.do("SET k v IFEQ v") is None
    assert r.do("SET k v IFNE v") == OK
    assert r.do("SET k w IFEQ x GET") == b"v"
    assert r.do("SET k w IFEQ v EX 100 GET") == b"v"
    assert r.do("GET k") == b"w"
    assert 90 < r.do("TTL k") <= 100
    digest = r.do("DIGEST k")
    assert len(digest) == 16
    assert r.call("SET", "k", "x", "IFDNE", digest.upper()) is None
    assert r.call("SET", "k", "x", "IFDEQ", digest.upper(), "KEEPTTL") == OK
    assert 90 < r.do("TTL k") <= 100
    assert r.do("SET k y IFDEQ 12") == BAD_DIGEST
    assert r.do("SET k y IFEQ x NX") == Error("ERR syntax error")
    assert r.do("GET k") == b"x"


def test_the_digest_of_the_example_of_the_documentation(r, r3):
    r.call("SET", "key1", "Hello world")
    assert r.do("DIGEST key1") == r3.do("DIGEST key1") == b"b6acb9d84a38ff74"
    assert r.do("DIGEST none") is None
    assert r3.do("DIGEST none") is None


def test_only_one_of_many_clients_gets_what_all_want(server, r):
    r.do("SET lock free")
    clients = [server.connect() for _ in range(8)]
    for i, client in enumerate(clients):
        client.send_command("SET", "lock", f"owner-{i}", "IFEQ", "free")
    replies = [client.read() for client in clients]
    assert sorted(map(repr, replies)) == sorted(map(repr, [OK] + [None] * 7))
    winner = replies.index(OK)
    for i, client in enumerate(clients):
        client.send_command("DELEX", "lock", "IFEQ", f"owner-{i}")
    assert [client.read() for client in clients] == [int(i == winner) for i in range(8)]
    for client in clients:
        client.close()


def test_in_exec_and_scripts(r):
    r.do("MULTI")
    for line in (
        "SET k v IFNE v",
        "DIGEST k",
        "DELIFEQ k w",
        "DELEX k IFEQ v",
        "MSETEX 3 k0 a k1 b k2 c NX EX 100",
        "MSETEX 1 k3 a XX",
    ):
        assert r.do(line) == Status("QUEUED")
    replies = r.do("EXEC")
    assert replies[:1] + replies[2:] == [OK, 0, 1, 1, 0]
    assert r.do("MGET k k0 k1 k2 k3") == [None, b"a", b"b", b"c", None]
    script = """redis.call('MSETEX', 2, KEYS[1], 'x', KEYS[2], 'y', 'XX', 'KEEPTTL')
        redis.call('SET', KEYS[3], 'z', 'IFEQ', 'c')
        return {redis.call('DELEX', KEYS[1], 'IFNE', 'x'), redis.call('DIGEST', KEYS[1])}"""
    digest = r.call("EVAL", script, "3", "k0", "k1", "k2")
    assert digest[0] == 0 and len(digest[1]) == 16
    assert r.do("MGET k0 k1 k2") == [b"x", b"y", b"z"]
    assert 90 < r.do("TTL k1") <= 100


def test_msetex_sets_keys_of_all_shards_or_none(r):
    pairs = [word for key in KEYS for word in (key, "v" + key)]
    assert r.call("MSETEX", len(KEYS), *pairs, "XX") == 0
    assert r.do("DBSIZE") == 0
    assert r.call("MSETEX", len(KEYS), *pairs, "NX", "PXAT", FAR_MS) == 1
    assert r.call("MGET", *KEYS) == [b"v" + key.encode() for key in KEYS]
    assert {r.call("PEXPIRETIME", key) for key in KEYS} == {FAR_MS}
    assert r.call("MSETEX", 2, "new", "1", KEYS[0], "2", "NX") == 0
    assert r.call("MSETEX", len(KEYS), *pairs) == 1
    assert {r.call("TTL", key) for key in KEYS} == {-1}
    assert r.call("MSETEX", len(KEYS), *pairs, "PX", 1) == 1
    wait_until(lambda: r.do("DBSIZE") == 0, what="active expiry")


def test_the_keys_of_msetex(r):
    assert r.do("COMMAND GETKEYS MSETEX 2 a 1 b 2 NX") == [b"a", b"b"]
    assert isinstance(r.do("COMMAND GETKEYS MSETEX 3 a 1 b 2"), Error)
    assert isinstance(r.do("COMMAND GETKEYS MSETEX x a 1"), Error)
    assert r.do("ACL SETUSER some on nopass +@all ~a*") == OK
    assert r.do("ACL DRYRUN some MSETEX 2 a 1 ab 2") == OK
    assert r.do("ACL DRYRUN some MSETEX 2 a 1 b 2") != OK
    assert r.do("ACL DRYRUN some MSETEX 1 a b") == OK
    assert r.do("ACL DELUSER some") == 1


def test_who_may_only_write_may_not_compare(r):
    assert r.do("ACL SETUSER writer on nopass +@all %W~*") == OK
    assert r.do("ACL DRYRUN writer SET k v") == OK
    assert r.do("ACL DRYRUN writer SET k v IFEQ w") != OK
    assert r.do("ACL DRYRUN writer DELEX k") == OK
    assert r.do("ACL DRYRUN writer DELEX k IFNE w") != OK
    assert r.do("ACL DELUSER writer") == 1


def test_tracking_and_watch_hear_of_what_was_changed_only(server, r):
    r.do("SET k v")
    with server.connect() as other:
        for line, is_told in (
            ("SET k w IFEQ x", False),
            ("DELEX k IFEQ x", False),
            ("MSETEX 1 k v NX", False),
            ("SET k w IFEQ v", True),
            ("MSETEX 1 k v XX", True),
            ("DELEX k IFEQ v", True),
        ):
            r.do("WATCH k")
            other.do(line)
            r.do("MULTI")
            assert (r.do("EXEC") is None) == is_told, line


def test_replicas_and_the_log_get_what_redis_7_knows(start_server):
    primary = start_server(proactor_threads=4, appendonly="yes", appendfsync="always")
    reference = Server(reference=True)
    with primary.connect() as r, reference.connect() as replica:
        assert replica.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
        for line in (
            "SET a v IFNE v",
            "SET b 1",
            f"SET b 2 IFEQ 1 PXAT {FAR_MS}",
            "SET b 3 IFNE 1 KEEPTTL",
            "SET c v",
            "SET d v",
            "DELEX c IFEQ v",
            "DELIFEQ d v",
            f"MSETEX 4 e 1 f 2 g 3 h 4 PXAT {FAR_MS}",
            "MSETEX 2 e 5 i 6 KEEPTTL",
            "MSETEX 2 f 7 g 8",
            "INCREX n BYINT 5",
            f"INCREX m BYFLOAT 0.5 PXAT {FAR_MS}",
            "SET x abc",
            "BITOP DIFF1 bits a x",
        ):
            assert not isinstance(r.do(line), Error), line
        assert r.do("WAIT 1 60000") == 1
        keys = sorted(r.do("KEYS *"))
        assert keys == sorted(replica.do("KEYS *"))
        assert len(keys) == 11
        for key in keys:
            assert r.call("GET", key) == replica.call("GET", key), key
            assert r.call("PEXPIRETIME", key) == replica.call("PEXPIRETIME", key), key
        before = {key: (r.call("GET", key), r.call("PEXPIRETIME", key)) for key in keys}
    reference.stop()
    shutil.rmtree(reference.dir, ignore_errors=True)
    primary.stop()
    primary.start_again()
    with primary.connect() as r:
        wait_until(lambda: r.info("persistence")["loading"] == "0")
        assert sorted(r.do("KEYS *")) == keys
        assert before == {key: (r.call("GET", key), r.call("PEXPIRETIME", key)) for key in keys}


def test_the_calls_of_redis_py(server):
    client = redis.Redis(port=server.port, decode_responses=True)
    assert client.set("k", "v", ifne="w") is True
    assert client.set("k", "w", ifeq="x") is None
    digest = client.digest("k")
    assert client.set("k", "w", ifdeq=digest, get=True) == "v"
    assert client.set("k", "x", ifdne=client.digest("k")) is None
    assert client.delex("k", ifne="w") == 0
    assert client.delex("k", ifdeq=client.digest("k")) == 1
    assert client.delex("k") == 0
    assert client.msetex({"a": "1", "b": "2"}, DataPersistOptions.NX, ex=100) == 1
    assert client.msetex({"a": "3", "c": "4"}, DataPersistOptions.XX) == 0
    assert client.msetex({"a": "3", "b": "4"}, keepttl=True) == 1
    assert client.mget("a", "b") == ["3", "4"]
    assert client.ttl("a") > 90
    client.close()


def random_command(rng):
    key = lambda: rng.choice(["a", "b", "c", "list"])  # noqa: E731
    value = lambda: rng.choice(["", "1", "x", "y" * 40])  # noqa: E731
    options = ["NX", "XX", "KEEPTTL", "GET", "WHAT", "EX", "10", "0", f"PXAT {FAR_MS}"]
    some = " ".join(rng.choices(options, k=rng.choice([0, 0, 1, 1, 2]))).split()
    kind = rng.randrange(6)
    if kind == 0:
        return ["SET", key(), value(), *some]
    if kind in (1, 2):
        return ["SET", key(), value(), "IFEQ", value(), *some]
    if kind == 3:
        return ["DELIFEQ", key(), value()]
    count = rng.choice([1, 2, 3])
    pairs = [word for _ in range(count) for word in (key(), value())]
    told = rng.choice([count] * 9 + [0, -1, "x", 4, 2147483647, 2147483648])
    return ["MSETEX", told, *pairs, *some]


def test_replies_are_those_of_valkey_byte_for_byte(server, r):
    rng = new_rng()
    with running_valkey() as v:
        for c in (r, v):
            c.do("RPUSH list x")
        for _ in range(2000):
            words = random_command(rng)
            assert r.raw(*words) == v.raw(*words), words
            for key in ("a", "b", "c"):
                words = ["PEXPIRETIME", key]
                ours, theirs = (c.call(*words) for c in (r, v))
                assert ours == theirs or min(ours, theirs) > 0 and FAR_MS not in (ours, theirs)
                assert r.raw("GET", key) == v.raw("GET", key)
