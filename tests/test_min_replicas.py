# SPDX-License-Identifier: Apache-2.0
"""A primary and the replicas that it has or lacks: min-replicas-to-write, SHUTDOWN that
waits for them, repl-backlog-ttl."""

import contextlib
import signal

import pytest

from harness.resp import OK, Error, Status
from harness.server import PATIENCE_S, REFERENCE, stopped, wait_until
from test_replicas import (BINARIES, REDIS_7, assert_same, await_link, await_replica, follow,
                           other_server)

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

NO_REPLICAS = "NOREPLICAS Not enough good replicas to write."
REFUSED = Error(NO_REPLICAS)
SHUTDOWN_FAILED = Error("ERR Errors trying to SHUTDOWN. Check logs.")


@pytest.fixture
def primary(start_server):
    def start(**flags):
        return start_server(**{"repl_diskless_sync_delay": 0, "save": "", **flags})

    return start


def good(c):
    return c.info("replication").get("min_slaves_good_slaves")


# -------------------------------------------------------------------- min-replicas-to-write


def refusals(c):
    """What each way to write answers, on a primary without replicas or on redis-server."""
    found = []

    def call(*words):
        found.append((words, c.call(*words)))

    call("GET", "s")
    call("SET", "s", "v")
    call("BLPOP", "list", "1")
    call("PING")
    call("PUBLISH", "channel", "m")
    call("MULTI")
    call("GET", "s")
    call("SET", "s", "v")
    call("EXEC")
    call("EVAL", "return redis.call('SET',KEYS[1],'v')", "1", "s")
    call("EVAL", "return redis.pcall('SET',KEYS[1],'v').err", "1", "s")
    call("EVAL", "return redis.call('GET',KEYS[1])", "1", "s")
    call("EVAL", "#!lua flags=no-writes\nreturn 7", "0")
    call("EVAL", "#!lua\nreturn 7", "0")
    call("WAIT", "0", "0")
    found += c.pipeline([("SET", "s", "w"), ("GET", "s"), ("DEL", "s")])
    return found


def test_writes_are_refused_as_redis_server_does(primary, tmp_path):
    server = primary(proactor_threads=2)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as redis:
        answers = []
        for r in (c, redis):
            assert r.call("SET", "s", "old") == OK
            assert good(r) is None
            assert r.call("CONFIG", "SET", "min-replicas-to-write", "1") == OK
            assert r.call("SET", "s", "v") == REFUSED
            assert good(r) == "0"
            answers.append(refusals(r))
        ours, theirs = answers
        for mine, other in zip(ours, theirs, strict=True):
            if isinstance(mine, tuple) and mine[0][0] == "EVAL":
                # The texts of a script's errors end in places of it.
                assert isinstance(mine[1], Error) == isinstance(other[1], Error), (mine, other)
                if isinstance(mine[1], Error):
                    assert mine[1].text.startswith(NO_REPLICAS), (mine, other)
                    assert other[1].text.startswith(NO_REPLICAS), (mine, other)
                    continue
            assert mine == other
        assert c.call("GET", "s") == b"old"
        assert c.call("CONFIG", "SET", "min-replicas-max-lag", "0") == OK
        assert c.call("SET", "s", "v") == OK and good(c) is None


def test_a_transaction_that_was_queued_before_is_refused(primary):
    server = primary(proactor_threads=2)
    with server.connect() as c, server.connect() as other:
        assert c.call("MULTI") == OK
        assert c.call("SET", "s", "v") == Status("QUEUED")
        assert other.call("CONFIG", "SET", "min-replicas-to-write", "1") == OK
        reply = c.call("EXEC")
        assert isinstance(reply, Error) and "Not enough good replicas" in reply.text
        assert other.call("EXISTS", "s") == 0


@BINARIES
def test_replicas_that_are_silent_do_not_count(primary, tmp_path, binary):
    server = primary(proactor_threads=2, min_replicas_to_write=1)
    with server.connect() as c, other_server(binary, tmp_path) as replica:
        wait_until(lambda: c.call("SET", "s", "v") == REFUSED, what="the first refusal")
        follow(replica, server)
        wait_until(lambda: c.call("SET", "s", "v") == OK, what="the replica counts")
        assert good(c) == "1"
        assert c.call("CONFIG", "SET", "min-slaves-max-lag", "2") == OK
        with stopped(replica.process):
            wait_until(lambda: c.call("SET", "s", "late") == REFUSED, what="it is silent")
            assert good(c) == "0"
            assert c.info("replication")["connected_slaves"] == "1"
        wait_until(lambda: c.call("SET", "s", "again") == OK, what="it answers again")
        assert c.call("CONFIG", "SET", "min-replicas-to-write", "2") == OK
        assert c.call("SET", "s", "v") == REFUSED and good(c) == "1"
        assert c.call("CONFIG", "SET", "min-replicas-to-write", "1") == OK
        assert c.call("SET", "s", "v") == OK
        await_replica(c)
        assert_same(c, replica)
        assert replica.call("REPLICAOF", "NO", "ONE") == OK
        wait_until(lambda: c.call("SET", "s", "v") == REFUSED, what="it has left")


def test_a_replica_takes_what_its_primary_writes(primary):
    """min-replicas-to-write is for primaries: it counts when a replica becomes one."""
    server, replica_server = primary(), primary(min_replicas_to_write=1)
    with server.connect() as c, replica_server.connect() as replica:
        wait_until(lambda: replica.call("SET", "s", "v") == REFUSED, what="the first refusal")
        follow(replica, server)
        assert c.call("SET", "s", "v") == OK
        await_replica(c)
        assert replica.call("GET", "s") == b"v"
        assert replica.call("SET", "s", "w").text.startswith("READONLY ")
        assert replica.call("REPLICAOF", "NO", "ONE") == OK
        assert replica.call("SET", "s", "w") == REFUSED
        assert c.call("REPLICAOF", "127.0.0.1", replica_server.port) == OK
        await_link(c)
        wait_until(lambda: replica.call("SET", "s", "w") == OK, what="the replica counts")


# ------------------------------------------------------------------------------- SHUTDOWN


@BINARIES
def test_the_end_waits_for_a_replica(primary, tmp_path, binary):
    server = primary(proactor_threads=3, shutdown_timeout=100 * PATIENCE_S)
    with contextlib.ExitStack() as stack:
        c, other, writer = (stack.enter_context(server.connect()) for _ in range(3))
        replica = stack.enter_context(other_server(binary, tmp_path))
        follow(replica, server)
        await_replica(c)
        with stopped(replica.process):
            for i in range(100):
                assert c.call("SET", f"key{i}", i) == OK
            c.send_command("SHUTDOWN")
            wait_until(lambda: "Waiting for replicas before" in server.log(), what="the wait")
            # What is written from now on waits, and is not there.
            writer.send_command("SET", "late", "v")
            assert other.call("GET", "key1") == b"1"
            assert other.call("EXISTS", "late") == 0
            assert server.is_alive()
        server.wait_for_exit()
        assert "1 of 1 replicas are in sync when shutting down." in server.log()
        for i in range(100):
            assert replica.call("GET", f"key{i}") == b"%d" % i
        assert replica.call("EXISTS", "late") == 0


@pytest.mark.parametrize("is_signal", [True, False], ids=["sigterm", "command"])
def test_the_end_waits_no_longer_than_shutdown_timeout(primary, tmp_path, is_signal):
    server = primary(proactor_threads=2, shutdown_timeout=1)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        with stopped(replica.process):
            assert c.call("SET", "s", "v") == OK
            if is_signal:
                server.process.send_signal(signal.SIGTERM)
            else:
                c.send_command("SHUTDOWN")
            server.wait_for_exit()
        log = server.log()
        assert "0 of 1 replicas are in sync when shutting down." in log
        assert f"Lagging replica 127.0.0.1:{replica.port} reported offset" in log


@pytest.mark.parametrize("words", [["NOW"], ["NOSAVE", "NOW"]], ids=str)
def test_shutdown_now_does_not_wait(primary, tmp_path, words):
    server = primary(shutdown_timeout=100 * PATIENCE_S)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        with stopped(replica.process):
            assert c.call("SET", "s", "v") == OK
            c.send_command("SHUTDOWN", *words)
            server.wait_for_exit()
        assert "Waiting for replicas" not in server.log()


@pytest.mark.parametrize("words", [[], ["NOSAVE"], ["FORCE"], ["SAVE"]], ids=str)
def test_shutdown_abort_ends_the_wait(primary, tmp_path, words):
    server = primary(proactor_threads=3, shutdown_timeout=100 * PATIENCE_S)
    with contextlib.ExitStack() as stack:
        c, other, writer = (stack.enter_context(server.connect()) for _ in range(3))
        replica = stack.enter_context(other_server(REDIS_7, tmp_path))
        follow(replica, server)
        await_replica(c)
        for turn in range(2):
            with stopped(replica.process):
                assert c.call("SET", "soon", "v", "PX", "1") == OK
                c.send_command("SHUTDOWN", *words)
                waits = lambda: server.log().count("Waiting for replicas before") == turn + 1
                wait_until(waits, what="the wait")
                writer.send_command("INCR", "counter")
                assert other.call("SHUTDOWN", "ABORT") == OK
                assert c.read() == SHUTDOWN_FAILED
                assert writer.read() == turn + 1
                assert other.call("SHUTDOWN", "ABORT") == Error("ERR No shutdown in progress.")
            # All goes on, and keys that are due go again.
            wait_until(lambda: other.call("DBSIZE") == 1, what="the key is due")
            await_replica(c)
            assert_same(c, replica)
        # CLIENT PAUSE and the end do not undo each other.
        assert other.call("CLIENT", "PAUSE", "0") == OK
        assert writer.call("INCR", "counter") == 3


# ------------------------------------------------------------------------ repl-backlog-ttl


def test_the_backlog_is_freed_without_replicas(primary, tmp_path):
    server = primary(proactor_threads=2, repl_backlog_ttl=0)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        assert c.call("SET", "before", "v") == OK
        await_replica(c)
        assert replica.call("REPLICAOF", "NO", "ONE") == OK
        wait_until(lambda: c.info("replication")["connected_slaves"] == "0", what="its end")
        before = c.info("replication")
        assert before["repl_backlog_active"] == "1"
        assert c.call("CONFIG", "SET", "repl-backlog-ttl", "1") == OK
        wait_until(
            lambda: c.info("replication")["repl_backlog_active"] == "0", what="the backlog is freed"
        )
        after = c.info("replication")
        assert after["master_replid"] != before["master_replid"]
        assert int(after["master_repl_offset"]) >= int(before["master_repl_offset"])
        # What is written now is in no stream; the replica gets it with a copy.
        assert c.call("SET", "between", "v") == OK
        follow(replica, server)
        for i in range(3):
            assert c.call("INCR", "counter") == i + 1
            await_replica(c)
            assert_same(c, replica)
            assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
        await_replica(c)
        stats = c.info("stats")
        assert (stats["sync_full"], stats["sync_partial_ok"]) == ("2", "3")


def test_the_backlog_of_a_replica_and_of_a_log_is_kept(primary, tmp_path):
    server = primary(proactor_threads=2, repl_backlog_ttl=1, appendonly="yes")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        follow(replica, server)
        await_replica(c)
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        with stopped(replica.process):
            assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
            gone = lambda: c.info("replication")["connected_slaves"] == "0"
            wait_until(gone, what="its end")
            begin = int(c.info("server")["uptime_in_seconds"])
            # Longer than the limit: nothing can be waited for that does not happen.
            long_after = lambda: int(c.info("server")["uptime_in_seconds"]) >= begin + 4
            wait_until(long_after, what="some seconds")
            assert c.info("replication")["repl_backlog_active"] == "1"
            assert c.call("SET", "s", "v") == OK
        await_replica(c)
        assert_same(c, replica)
        assert c.info("stats")["sync_full"] == "1"
