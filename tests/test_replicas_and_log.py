# SPDX-License-Identifier: Apache-2.0
"""The log's files are a part of the backlog, also after a restart of the primary."""

import contextlib
import os
import shutil
import threading

import pytest
from test_replicas import (
    BINARIES,
    COMMANDS,
    REDIS_7,
    assert_same,
    await_link,
    await_replica,
    call_all,
    follow,
    other_server,
)

from harness.log_files import incremental_files, manifest_path
from harness.resp import OK, Status
from harness.server import PATIENCE_S, REFERENCE, stopped, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

LOG = {
    "appendonly": "yes",
    "repl_diskless_sync_delay": 0,
    "repl_ping_replica_period": 3600,  # an epoch under way may be at the replica and not in the log
    "proactor_threads": 2,
}


@pytest.fixture
def primary(start_server):
    def start(**flags):
        server = start_server(**{**LOG, **flags})
        with server.connect() as c:
            wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        return server

    return start


def copies(c):
    stats = c.info("stats")
    return int(stats["sync_full"]), int(stats["sync_partial_ok"])


def await_online(c):
    wait_until(lambda: "state=online" in c.info("replication").get("slave0", ""), what="a replica")


@contextlib.contextmanager
def away(c, replica):
    """Stands still and has no connection meanwhile."""
    with stopped(replica.process):
        assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
        wait_until(lambda: c.info("replication")["connected_slaves"] == "0", what="its end")
        yield


@BINARIES
@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_after_a_restart_of_the_primary_nobody_needs_a_copy(
    primary, tmp_path, binary, policy, is_killed
):
    server = primary(appendfsync=policy)
    with other_server(binary, tmp_path) as replica:
        with server.connect() as c:
            call_all(c)
            follow(replica, server)
            await_replica(c)
        for i in range(3):
            with server.connect() as c:
                call_all(c, ["FLUSHALL", *COMMANDS, "SELECT 1", f"SET round {i}", "SELECT 0"])
                await_replica(c)
                assert c.call("WAITAOF", 1, 0, PATIENCE_S * 1000)[0] == 1
            server.kill() if is_killed else server.stop()
            server.start_again(keeps_port=True)
            with server.connect() as c:
                await_online(c)
                assert copies(c) == (0, 1)
                call_all(c, ["SELECT 1", f"RPUSH after {i}", "SELECT 0"])
                await_replica(c)
                assert_same(c, replica)


def test_ours_as_a_replica_needs_no_copy_either(primary, start_server):
    server, follower = primary(), start_server(proactor_threads=3)
    with follower.connect() as replica:
        with server.connect() as c:
            call_all(c, [*COMMANDS, "BF.ADD before x"])
            follow(replica, server)
            call_all(c, ["BF.ADD behind x", "SELECT 2", "SET db v"])
            await_replica(c)
        server.stop()
        server.start_again(keeps_port=True)
        with server.connect() as c:
            await_online(c)
            assert copies(c) == (0, 1)
            call_all(c, ["SET more v", "BF.ADD behind y"])
            await_replica(c)
            assert_same(c, replica)
            for r in (c, replica):
                assert r.call("BF.EXISTS", "behind", "x") == 1


def copy_log(source, target):
    """The manifest and what it names: other files are about to be deleted."""
    target.mkdir(parents=True)
    manifest = os.path.join(source, "appendonly.aof.manifest")
    shutil.copy(manifest, target)
    for line in (target / os.path.basename(manifest)).read_text().splitlines():
        shutil.copy(os.path.join(source, line.split()[1]), target)


def test_a_log_with_a_stream_loads_elsewhere(primary, tmp_path):
    server = primary()
    with other_server(REDIS_7, tmp_path) as replica, server.connect() as c:
        call_all(c)
        follow(replica, server)
        call_all(c, ["FLUSHALL", *COMMANDS, "SELECT 2", "SET db v", "SELECT 0"])
        assert c.call("PUBLISH", "channel", "message") == 0
        assert c.call("BGREWRITEAOF") == Status("Background append only file rewriting started")
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        call_all(c, ["SELECT 1", "SET behind v", "SELECT 0"])
        await_replica(c)
        assert c.call("WAITAOF", 1, 0, PATIENCE_S * 1000)[0] == 1
        copy = tmp_path / "copy"
        copy_log(os.path.join(server.dir, "appendonlydir"), copy / "appendonlydir")
        with other_server(REDIS_7, copy, appendonly="yes") as other:
            assert_same(c, other)


@BINARIES
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_who_was_away_for_long_goes_on_from_the_files(primary, tmp_path, binary, policy):
    server = primary(appendfsync=policy, repl_backlog_size="16kb")
    with server.connect() as c, other_server(binary, tmp_path, maxmemory="0") as replica:
        call_all(c)
        follow(replica, server)
        await_replica(c)
        for i in range(3):
            with away(c, replica):
                for k in range(50):
                    assert c.call("SET", f"key{i}.{k}", "v" * 40_000) == OK
                call_all(c, ["FLUSHALL", *COMMANDS, "SELECT 2", f"SET round {i}", "SELECT 0"])
            await_replica(c)
            assert_same(c, replica)
        assert copies(c) == (1, 3)
        assert "with the log's files" in server.log()


def test_a_replica_catches_up_while_others_write(primary, start_server):
    """Files end, and others begin, while it reads them."""
    server = primary(repl_backlog_size="16kb")
    follower = start_server(proactor_threads=2)
    with server.connect() as c, follower.connect() as replica:
        replica.process = follower.process
        follow(replica, server)
        await_replica(c)
        stop = threading.Event()

        def write(number):
            with server.connect() as own:
                i = 0
                while not stop.is_set():
                    own.pipeline([("RPUSH", f"list{number}", f"{i}.{k}") for k in range(20)])
                    own.call("SET", f"large{number}", "v" * 20_000)
                    i += 1

        writers = [threading.Thread(target=write, args=(i,)) for i in range(2)]
        with away(c, replica):
            for writer in writers:
                writer.start()
            wait_until(
                lambda: int(c.info("replication")["master_repl_offset"]) > 3_000_000, what="bytes"
            )
        try:
            # An error while the change before it is not done.
            for policy in ("always", "no", "everysec"):
                wait_until(
                    lambda policy=policy: c.call("CONFIG", "SET", "appendfsync", policy) == OK,
                    what="a new policy",
                )
                c.call("BGREWRITEAOF")  # an error while one is under way
            await_online(c)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        await_replica(c)
        assert_same(c, replica)
        assert copies(c) == (1, 1)


def rewrite(c):
    assert c.call("BGREWRITEAOF") == Status("Background append only file rewriting started")
    wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")


def write_and_rewrite(c, rounds=3):
    for i in range(rounds):
        for k in range(10):
            assert c.call("SET", f"key{i}.{k}", "v" * 40_000) == OK
        rewrite(c)


def replaced_bytes(c):
    return int(c.info("persistence")["aof_history_bytes"])


def test_files_of_the_history_count(primary, tmp_path):
    server = primary(aof_history="1h", repl_backlog_size="16kb", absent_replica_log_limit=0)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        with away(c, replica):
            write_and_rewrite(c)
        await_replica(c)
        assert_same(c, replica)
        assert copies(c) == (1, 1)


def test_what_an_absent_replica_needs_is_kept(primary, tmp_path):
    server = primary(repl_backlog_size="16kb")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        for away_before in range(2):
            rewrite(c)
            wait_until(lambda: replaced_bytes(c) == 0, what="the replica's acknowledgement")
            with away(c, replica):
                write_and_rewrite(c)
                assert replaced_bytes(c) > 1_200_000
            await_replica(c)
            assert_same(c, replica)
            assert copies(c) == (1, away_before + 1)
            wait_until(lambda: replaced_bytes(c) == 0, what="nothing that nobody needs")
            assert len(incremental_files(server.dir)) == 1
            assert "type h" not in open(manifest_path(server.dir)).read()


def test_what_a_replica_that_hangs_needs_is_kept(primary, tmp_path):
    """Rewrites while it is still connected count, too."""
    server = primary(repl_backlog_size="16kb")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        with stopped(replica.process):
            write_and_rewrite(c)
            assert replaced_bytes(c) > 1_200_000
            assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
            wait_until(lambda: c.info("replication")["connected_slaves"] == "0")
        await_replica(c)
        assert_same(c, replica)
        assert copies(c) == (1, 1)
        wait_until(lambda: replaced_bytes(c) == 0, what="nothing that nobody needs")


def test_the_log_keeps_files_for_who_lacks_most(primary, tmp_path, start_server):
    server = primary(repl_backlog_size="16kb")
    follower = start_server(proactor_threads=2)
    with server.connect() as c, follower.connect() as other:
        other.process = follower.process
        follow(other, server)
        await_replica(c)
        with other_server(REDIS_7, tmp_path) as replica:
            follow(replica, server)
            wait_until(lambda: "state=online" in c.info("replication").get("slave1", ""))
            with stopped(replica.process), stopped(other.process):
                assert c.call("CLIENT", "KILL", "TYPE", "replica") == 2
                wait_until(lambda: c.info("replication")["connected_slaves"] == "0")
                write_and_rewrite(c)
            wait_until(lambda: copies(c) == (2, 2), what="both without a copy")
            wait_until(lambda: "state=online" in c.info("replication").get("slave1", ""))
            call_all(c, ["SET last v"])
            for each in (replica, other):
                wait_until(lambda each=each: each.call("GET", "last") == b"v")
                assert_same(c, each)


@pytest.mark.parametrize(
    "flags", [{"absent_replica_log_limit": 0}, {"absent_replica_log_limit": "500kb"}]
)
def test_what_was_not_kept_needs_a_copy(primary, tmp_path, flags):
    server = primary(repl_backlog_size="16kb", **flags)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        with away(c, replica):
            write_and_rewrite(c)
            assert replaced_bytes(c) < 500_000
        await_replica(c)
        assert_same(c, replica)
        assert copies(c) == (2, 0)


@pytest.mark.parametrize(
    ("setting", "value"), [("absent_replica_log_limit", 0), ("repl-backlog-ttl", 1)]
)
def test_what_is_kept_ends_with_its_limits(primary, tmp_path, setting, value):
    server = primary(repl_backlog_size="16kb")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        with away(c, replica):
            write_and_rewrite(c)
            assert replaced_bytes(c) > 1_200_000
            assert c.call("CONFIG", "SET", setting, value) == OK
            wait_until(lambda: replaced_bytes(c) == 0, what="no more of it")
        await_replica(c)
        assert_same(c, replica)
        assert copies(c) == (2, 0)


def test_a_replica_that_has_more_than_the_log_needs_a_copy(primary, tmp_path):
    server = primary()
    with other_server(REDIS_7, tmp_path) as replica:
        with server.connect() as c:
            follow(replica, server)
            call_all(c, ["SET kept v"])
            await_replica(c)
            call_all(c, ["SET lost v"])
            await_replica(c)
        server.kill()
        with open(incremental_files(server.dir)[-1], "rb+") as f:
            f.truncate(f.read().index(b"lost"))
        server.start_again(keeps_port=True)
        with server.connect() as c:
            await_online(c)
            assert copies(c) == (1, 0)
            assert c.call("GET", "lost") is None
            call_all(c, ["SET other v"])
            await_replica(c)
            assert_same(c, replica)


def test_a_log_that_is_switched_on_beside_a_replica(start_server, tmp_path):
    server = start_server(**{**LOG, "appendonly": "no"})
    with other_server(REDIS_7, tmp_path) as replica:
        with server.connect() as c:
            call_all(c)
            follow(replica, server)
            call_all(c, ["SELECT 1", "SET before v", "SELECT 0"])
            assert c.call("CONFIG", "SET", "appendonly", "yes") == OK
            wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
            call_all(c, ["SELECT 1", "SET behind v", "SELECT 0"])
            await_replica(c)
            assert c.call("WAITAOF", 1, 0, PATIENCE_S * 1000)[0] == 1
        server.stop()
        server.start_again(keeps_port=True, appendonly="yes")
        with server.connect() as c:
            await_online(c)
            assert copies(c) == (0, 1)
            call_all(c, ["SET more v"])
            await_replica(c)
            await_link(replica)
            assert_same(c, replica)
