# SPDX-License-Identifier: Apache-2.0
"""What operators do to replicas: users, limits, restarts and stops at bad moments."""

import os

import pytest

from harness.resp import OK, Error, Status
from harness.server import PATIENCE_S, REFERENCE, SLOWNESS, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it is about replicas of ours")


@pytest.fixture
def primary(start_server):
    return start_server(proactor_threads=2, repl_diskless_sync_delay=0)


def follow(r, primary):
    assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
    await_link(r)


def await_link(r):
    wait_until(lambda: r.info("replication").get("master_link_status") == "up", what="the link")


def await_all(p):
    assert p.call("WAIT", 1, PATIENCE_S * 1000) == 1


def test_a_user_for_replicas(start_server, primary):
    with primary.connect() as p:
        rights = ["on", ">secret", "+ping", "+replconf"]
        assert p.call("ACL", "SETUSER", "replica", *rights) == OK
        replica = start_server(proactor_threads=2, masteruser="replica", masterauth="secret")
        with replica.connect() as r:
            assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
            wait_until(lambda: "PSYNC: -NOPERM" in replica.log(), what="a refusal")
            assert r.info("replication").get("master_link_status") == "down"
            assert p.call("ACL", "SETUSER", "replica", "+psync") == OK
            await_link(r)
            assert r.call("CONFIG", "SET", "masteruser", "nobody") == OK
            assert r.call("REPLICAOF", "NO", "ONE") == OK
            assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
            wait_until(lambda: "AUTH: -WRONGPASS" in replica.log(), what="a refusal")
            assert r.call("CONFIG", "SET", "masteruser", "replica") == OK
            await_link(r)


def test_a_replica_evicts_nothing(start_server, primary):
    """Its own limit counts when it is a primary."""
    replica = start_server(proactor_threads=2, maxmemory="20mb", maxmemory_policy="allkeys-lru")
    keys = 40_000 // SLOWNESS
    with primary.connect() as p, replica.connect() as r:
        follow(r, primary)
        p.pipeline([("SET", f"key:{i}", "v" * 1000 * SLOWNESS) for i in range(keys)])
        await_all(p)
        assert r.call("DBSIZE") == keys
        assert r.info("stats")["evicted_keys"] == "0"
        assert r.call("REPLICAOF", "NO", "ONE") == OK
        wait_until(
            lambda: r.call("SET", "k", "v") == OK and r.call("DBSIZE") < keys, what="evictions"
        )


def test_limits_of_clients_are_not_for_the_primary(start_server, primary):
    replica = start_server(
        proactor_threads=2, client_query_buffer_limit="1mb", maxclients=2, timeout=1
    )
    with primary.connect() as p, replica.connect() as r:
        follow(r, primary)
        copies = p.info("stats")["sync_full"]
        assert p.call("SET", "key", "x" * (3 << 20)) == OK
        await_all(p)
        assert r.call("STRLEN", "key") == 3 << 20
        assert p.info("stats")["sync_full"] == copies


def test_evictions_of_the_primary_reach_the_replica(start_server):
    primary = start_server(
        proactor_threads=2,
        repl_diskless_sync_delay=0,
        maxmemory="20mb",
        maxmemory_policy="allkeys-lru",
    )
    replica = start_server(proactor_threads=2)
    keys = 40_000 // SLOWNESS
    with primary.connect() as p, replica.connect() as r:
        follow(r, primary)
        p.pipeline([("SET", f"key:{i}", "v" * 1000 * SLOWNESS) for i in range(keys)])

        def are_equal():
            await_all(p)
            return p.call("DBSIZE") == r.call("DBSIZE")

        wait_until(are_equal, what="as many keys")
        assert 0 < p.call("DBSIZE") < keys


@pytest.mark.parametrize("how", ["SHUTDOWN", "SIGTERM", "SIGKILL"])
def test_an_end_while_a_copy_is_loaded(start_server, primary, how):
    with primary.connect() as p:
        assert p.call("DEBUG", "POPULATE", 500_000 // SLOWNESS, "key", 10) == OK
        replica = start_server(proactor_threads=1)
        with replica.connect() as r:
            assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
            wait_until(
                lambda: r.info("persistence")["loading"] == "1"
                or r.info("replication").get("master_link_status") == "up",
                what="the load",
            )
            if how == "SHUTDOWN":
                r.send_command("SHUTDOWN", "NOSAVE")
            elif how == "SIGTERM":
                replica.process.terminate()
        if how == "SIGKILL":
            replica.kill()
        else:
            replica.wait_for_exit()
        replica.start_again(replicaof=f"127.0.0.1 {primary.port}")
        with replica.connect() as r:
            await_link(r)
            assert r.call("DBSIZE") == p.call("DBSIZE")
        assert primary.is_alive()


def test_an_end_while_a_copy_is_received(start_server, primary):
    """What has come is removed, or is not taken for data when it starts again."""
    with primary.connect() as p:
        assert p.call("DEBUG", "POPULATE", 200_000 // SLOWNESS, "key", 100) == OK
        replica = start_server(proactor_threads=1)
        for _ in range(3):
            with replica.connect() as r:
                assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
                wait_until(lambda: r.info("replication").get("master_sync_in_progress") == "1"
                           or r.info("replication").get("master_link_status") == "up")
            replica.kill()
            replica.start_again()
            with replica.connect() as r:
                assert r.call("DBSIZE") == 0
        with replica.connect() as r:
            follow(r, primary)
            assert r.call("DBSIZE") == p.call("DBSIZE")


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_replica_with_a_log_starts_again(start_server, primary, fsync):
    flags = {"proactor_threads": 2, "appendonly": "yes", "appendfsync": fsync}
    replica = start_server(**flags)
    with primary.connect() as p:
        with replica.connect() as r:
            follow(r, primary)
            for i in range(200):
                assert p.call("INCR", f"n{i % 7}") == i // 7 + 1
                assert p.call("RPUSH", f"list{i % 5}", i) == i // 5 + 1
            await_all(p)
        for end in (replica.kill, replica.stop):
            end()
            # On its own it has what it had: with `always` all that it has acknowledged.
            replica.start_again()
            with replica.connect() as r:
                wait_until(lambda: r.info("persistence")["loading"] == "0", what="the load")
                if fsync == "always" or end == replica.stop:
                    assert r.call("DBSIZE") == 12
                    assert r.call("LLEN", "list0") == p.call("LLEN", "list0")
                assert r.info("replication")["role"] == "master"
                follow(r, primary)
                p.call("RPUSH", "list0", "more")
                await_all(p)
                assert r.call("LLEN", "list0") == p.call("LLEN", "list0")


def test_writes_of_clients_of_a_writable_replica(start_server, primary):
    """They are its own, and the next copy takes them."""
    replica = start_server(proactor_threads=2, replica_read_only="no")
    with primary.connect() as p, replica.connect() as r:
        assert p.call("SET", "shared", "v") == OK
        follow(r, primary)
        assert r.call("SET", "own", "v") == OK
        assert r.call("GET", "shared") == b"v"
        assert r.call("CONFIG", "SET", "replica-read-only", "yes") == OK
        assert isinstance(r.call("SET", "own", "w"), Error)
        assert r.call("REPLICAOF", "NO", "ONE") == OK
        follow(r, primary)
        assert r.call("EXISTS", "own", "shared") == 1


def test_a_replica_whose_disk_fails_waits_for_it(start_server, primary):
    """redis-server ends itself then; replica-ignore-disk-write-errors goes on in both."""
    replica = start_server(proactor_threads=2, save="3600 1000000")
    folder = os.path.join(replica.dir, "data")

    def save(expected):
        assert isinstance(r.call("BGSAVE"), Status)
        wait_until(lambda: r.info("persistence")["rdb_bgsave_in_progress"] == "0", what="its end")
        assert r.info("persistence")["rdb_last_bgsave_status"] == expected

    def write(value, arrives):
        assert p.call("SET", "k", value) == OK
        if arrives:
            await_all(p)
        else:
            assert p.call("WAIT", 1, 50) == 0
        assert (r.call("GET", "k") == value.encode()) == arrives

    with primary.connect() as p, replica.connect() as r:
        follow(r, primary)
        write("before", arrives=True)
        os.mkdir(folder)
        assert r.call("CONFIG", "SET", "dir", folder) == OK
        os.rmdir(folder)
        save("err")
        write("while it fails", arrives=False)
        assert r.call("CONFIG", "SET", "replica-ignore-disk-write-errors", "yes") == OK
        await_all(p)
        write("ignored", arrives=True)
        assert r.call("CONFIG", "SET", "replica-ignore-disk-write-errors", "no") == OK
        write("fails again", arrives=False)
        os.mkdir(folder)
        save("ok")
        await_all(p)
        assert r.call("GET", "k") == b"fails again"


@pytest.mark.parametrize("threads", [1, 3])
def test_the_stream_waits_for_a_slow_script(start_server, primary, threads):
    """Commands of clients are refused then; one of the primary's that is would be lost."""
    replica = start_server(proactor_threads=threads, busy_reply_threshold=1)
    with primary.connect() as p, replica.connect() as r, replica.connect() as other:
        follow(r, primary)
        r.send_command("EVAL", "while true do redis.call('GET', KEYS[1]) end", 1, "k")

        def is_busy():
            reply = other.call("GET", "k")
            return isinstance(reply, Error) and reply.text.startswith("BUSY")

        wait_until(is_busy, what="a slow script")
        for i in range(100):
            p.pipeline([
                ("SET", "k", i), ("SET", f"key:{i}", i), ("MSET", "k", i, f"more:{i}", i),
                ("MULTI",), ("INCR", "k"), ("INCR", "n"), ("EXEC",), ("LPUSH", "list", i),
            ])
        assert other.call("SCRIPT", "KILL") == OK
        assert isinstance(r.read(), Error)
        await_all(p)
        keys = ["k", "n", *(f"{name}:{i}" for name in ("key", "more") for i in range(100))]
        assert r.call("MGET", *keys) == p.call("MGET", *keys)
        assert r.call("LLEN", "list") == 100
    assert "have failed" not in replica.log()
