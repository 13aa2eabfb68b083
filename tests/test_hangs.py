# SPDX-License-Identifier: Apache-2.0
"""Whoever has locks waits for nothing that may need them; and a signal ends what hangs."""

import select
import signal

import pytest

from harness.resp import OK, Error, Status
from harness.server import PATIENCE_S, SLOWNESS, Server, only_dragonfly, wait_until

STARTED = Status("Background saving started")
SCHEDULED = Status("Background saving scheduled")


def queue(r, *commands):
    assert r.call("MULTI") == OK
    for command in commands:
        assert r.call(*command) == Status("QUEUED")


def is_saved(r):
    return is_at_rest(r) and r.info("persistence")["rdb_changes_since_last_save"] == "0"


def is_at_rest(r):
    return r.info("persistence")["rdb_bgsave_in_progress"] == "0"


@pytest.mark.sanitized
def test_bgsave_behind_flushall_in_one_exec(start_server):
    server = start_server(save="3600 1")
    with server.connect() as r, server.connect() as other:
        for i in range(20):
            wait_until(lambda: is_at_rest(r), what="no save")
            assert r.call("MSET", "a", 1, "b", 2, "c", 3) == OK
            queue(r, ("SET", "k", i), ("FLUSHALL",), ("SET", "left", i), ("BGSAVE",))
            replies = r.call("EXEC")
            assert replies[:3] == [OK, OK, OK]
            assert replies[3] == SCHEDULED
            assert other.call("GET", "left") == str(i).encode()
            wait_until(lambda: is_saved(r), what="the save")
    server.kill()
    server.start_again()
    with server.connect() as r:
        assert r.call("KEYS", "*") == [b"left"]
        assert r.call("GET", "left") == b"19"


@pytest.mark.sanitized
def test_bgsave_in_exec_meets_the_save_of_another_ones_flushall(start_server):
    server = start_server(save="3600 1")
    with server.connect() as a, server.connect() as b:
        for _ in range(100):
            assert a.call("MSET", "a", 1, "b", 2, "c", 3) == OK
            a.send_command("FLUSHALL")
            queue(b, ("SET", "k", 1), ("SET", "k2", 1), ("BGSAVE",))
            replies = b.call("EXEC")
            assert a.read() == OK
            assert replies[:2] == [OK, OK]
            # The save of the round before may still be under way.
            assert isinstance(replies[2], Error) or replies[2] == SCHEDULED
        wait_until(lambda: is_at_rest(a), what="the end of the saves")


def test_what_bgsave_has_promised_is_there_although_a_flush_was_being_saved(start_server):
    server = start_server(save="3600 1")
    with server.connect() as r:
        for i in range(10):
            r.call("MSET", "a", 1, "b", 2)
            assert r.call("FLUSHALL") == OK
            r.call("SET", "k", i)
            assert r.call("BGSAVE") == STARTED
            wait_until(lambda: is_at_rest(r), what="the end of the save")
            server.kill()
            server.start_again()
            r.close()
            r = server.connect()
            assert r.call("GET", "k") == str(i).encode()
        r.close()


@only_dragonfly("waits for locks while a client sleeps with them")
@pytest.mark.parametrize("rule", ["save", "nosave"])
def test_sigterm_ends_a_server_whose_locks_never_come(rule):
    server = Server(
        save="3600 1", dbfilename="dump.rdb", shutdown_on_sigterm=rule, shutdown_timeout=2
    )
    try:
        with server.connect() as r, server.connect() as other:
            assert r.call("SET", "saved", "v") == OK
            assert r.call("SAVE") == OK
            queue(r, ("SET", "a", 1), ("SET", "b", 1), ("SET", "c", 1), ("DEBUG", "SLEEP", 100000))
            r.send_command("EXEC")
            wait_until(
                lambda: other.info("transaction")["tx_queue_length"] != "0", what="an EXEC"
            )
            server.process.send_signal(signal.SIGTERM)
            status = server.process.wait(timeout=PATIENCE_S)
        if rule == "save":
            assert status == 1
            assert "the last snapshot does not get its locks, ends without one" in server.log()
            assert "exec of client" in server.log()
        else:
            assert status == 0  # its client is gone, and so it ends
        server.start_again()
        with server.connect() as r:
            assert r.call("KEYS", "*") == [b"saved"]
    finally:
        server.kill()


@only_dragonfly("how a script is ended is each server's own")
def test_sigterm_overcomes_a_script_that_never_ends_and_saves(start_server):
    server = start_server(save="3600 1", dbfilename="dump.rdb")
    with server.connect() as r, server.connect() as looper, server.connect() as other:
        assert r.call("SET", "k", "v") == OK
        looper.send_command(
            "EVAL", "#!lua flags=allow-undeclared-keys\nwhile true do redis.call('get', 'k') end", 0
        )
        wait_until(lambda: other.info("transaction")["tx_queue_length"] != "0", what="a script")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_exit()
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "k") == b"v"


@only_dragonfly("redis-server has one interpreter")
def test_exec_loads_scripts_while_those_that_wait_for_it_have_all_interpreters(start_server):
    server = start_server(proactor_threads=1, num_shards=4, interpreters_per_thread=2)
    script = "#!lua flags=disable-atomicity\nreturn redis.call('mset', 'a', 1, 'b', 2, 'c', 3)"
    library = "#!lua name=lib\nredis.register_function('f', function() end)"
    with server.connect() as r, server.connect() as one, server.connect() as two:
        for i in range(5):
            queue(
                r,
                ("MSET", "a", 1, "b", 2, "c", 3),
                ("DEBUG", "SLEEP", "0.2"),
                ("SCRIPT", "LOAD", f"return {i}"),
                ("FUNCTION", "LOAD", "REPLACE", library),
            )
            r.send_command("EXEC")
            one.send_command("EVAL", script, 0)
            two.send_command("EVAL", script, 0)
            replies = r.read()
            assert not any(isinstance(reply, Error) for reply in replies), replies
            assert one.read() == OK
            assert two.read() == OK


@only_dragonfly("lock-warning-ms is ours")
def test_who_has_locks_for_long_is_told_of_once(start_server):
    server = start_server(lock_warning_ms=100)
    with server.connect() as r, server.connect() as other:
        assert other.info("transaction")["tx_long_held_locks"] == "0"
        client_id = r.call("CLIENT", "ID")
        queue(r, ("MSET", "a", 1, "b", 1, "c", 1, "d", 1), ("DEBUG", "SLEEP", 1000))
        r.send_command("EXEC")
        wait_until(lambda: "locks are held for long: by exec of client" in server.log(), what="it")
        assert ", which waits for the time that it sleeps for since " in server.log()
        wait_until(
            lambda: other.info("transaction")["tx_long_held_locks"] != "0", what="INFO's count"
        )
        facts = other.info("transaction")
        assert facts["tx_long_held_locks"] == "1"
        assert int(facts["tx_longest_held_usec"]) > 100_000
        holder = dict(field.split("=") for field in facts["tx_long_holder_0"].split(","))
        assert holder["command"] == "exec"
        assert holder["client"] == str(client_id)
        assert int(holder["held_usec"]) > 100_000
        assert 1 <= len(holder["shards"].split()) <= int(other.info("server")["num_shards"])
        assert holder["waits_for"].startswith("the time that it sleeps for since ")
        assert other.call("CONFIG", "GET", "lock-warning-ms")[1] == b"100"
        assert other.call("CLIENT", "KILL", "ID", client_id) == 1
    wait_until(lambda: is_free(server), what="the end, as its client is gone")
    assert server.log().count("held for long") == 1


def exec_that_sleeps_with_locks(server, r):
    queue(r, ("MSET", "a", 1, "b", 1, "c", 1, "d", 1), ("DEBUG", "SLEEP", 100000))
    r.send_command("EXEC")
    with server.connect() as other:
        wait_until(lambda: other.info("transaction")["tx_queue_length"] != "0", what="an EXEC")


@pytest.mark.long
@only_dragonfly("waits for locks while a client sleeps with them")
@pytest.mark.sanitized
def test_shutdown_that_does_not_get_its_locks_is_refused_and_the_server_goes_on(start_server):
    server = start_server(dbfilename="dump.rdb", shutdown_timeout=1)
    with server.connect() as r, server.connect() as other:
        client_id = r.call("CLIENT", "ID")
        exec_that_sleeps_with_locks(server, r)
        for _ in range(2):
            assert other.call("SHUTDOWN", "SAVE") == Error(
                "ERR Errors trying to SHUTDOWN. Check logs."
            )
        assert "the snapshot does not get its locks: locks of exec of client" in server.log()
        assert f"exec of client {client_id} on shard" in server.log()
        assert other.call("CLIENT", "KILL", "ID", client_id) == 1
        assert other.call("SET", "k", "v") == OK
        other.send_command("SHUTDOWN", "SAVE")
        server.wait_for_exit()
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "k") == b"v"


@only_dragonfly("waits for locks while a client sleeps with them")
def test_shutdown_that_waits_for_locks_can_be_aborted(start_server):
    server = start_server(dbfilename="dump.rdb", shutdown_timeout=1000)
    with server.connect() as r, server.connect() as other, server.connect() as third:
        exec_that_sleeps_with_locks(server, r)
        other.send_command("SHUTDOWN", "SAVE")
        wait_until(lambda: third.call("SHUTDOWN", "ABORT") == OK, what="a shutdown to abort")
        assert other.read() == Error("ERR Errors trying to SHUTDOWN. Check logs.")
        assert third.call("PING") == Status("PONG")


@only_dragonfly("waits for locks while a client sleeps with them")
@pytest.mark.parametrize("how", ["NOSAVE", "FORCE"])
def test_shutdown_that_needs_no_save_ends_whoever_has_locks(start_server, how):
    server = start_server(save="3600 1", dbfilename="dump.rdb", shutdown_timeout=1)
    with server.connect() as r, server.connect() as other:
        assert r.call("SET", "a", 1) == OK
        exec_that_sleeps_with_locks(server, r)
        assert other.call("BGSAVE") == STARTED  # its cut waits for the locks, too
        other.send_command("SHUTDOWN", how)
        server.wait_for_exit()


@only_dragonfly("DEBUG STALL is ours")
@pytest.mark.parametrize("rule", ["save", "nosave"])
@pytest.mark.parametrize("thread", [0, 1])
def test_sigterm_ends_a_server_with_a_thread_that_is_stuck(rule, thread):
    server = Server(
        save="3600 1",
        dbfilename="dump.rdb",
        shutdown_on_sigterm=rule,
        shutdown_timeout=1,
        proactor_threads=2,
    )
    try:
        with server.connect() as r:
            assert r.call("SET", "saved", "v") == OK
            assert r.call("SAVE") == OK
            assert r.call("DEBUG", "STALL", thread, 1000) == OK
            wait_until(lambda: f"thread {thread} stands still" in server.log(), what="it")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=PATIENCE_S) == 1
        assert f"thread {thread} does not answer" in server.log()
        server.start_again()
        with server.connect() as r:
            assert r.call("KEYS", "*") == [b"saved"]
    finally:
        server.kill()


def is_free(server):
    with server.connect() as r:
        return r.info("transaction")["tx_queue_length"] == "0"


@only_dragonfly("DEBUG STALL is ours")
def test_sigterm_ends_a_server_whose_thread_stops_while_the_snapshot_is_written():
    server = Server(
        save="3600 1", dbfilename="dump.rdb", shutdown_timeout=1, proactor_threads=2, num_shards=2
    )
    try:
        with server.connect() as r:
            # Takes longer to write than STALL takes to begin; if not, the end waits for it.
            assert r.call("DEBUG", "POPULATE", 400_000, "key", 500) == OK
            assert r.call("DEBUG", "STALL", 1, 1000) == OK
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=PATIENCE_S) == 1
        assert "thread 1 does not answer" in server.log()
    finally:
        server.kill()


REFUSED = Error("ERR Errors trying to SHUTDOWN. Check logs.")


class StalledServer:
    """Two threads, of which one stands still, and clients of the other one."""

    def __init__(self, thread, seconds=1000, **flags):
        self.server = Server(
            dbfilename="dump.rdb", shutdown_timeout=1, proactor_threads=2, **{"save": "", **flags}
        )
        self.clients = [self.server.connect() for _ in range(6)]
        for client in self.clients:
            assert client.call("SET", "saved", "v") == OK
        assert self.clients[0].call("SAVE") == OK
        assert self.clients[0].call("DEBUG", "STALL", thread, seconds) == OK
        wait_until(lambda: f"thread {thread} stands still" in self.server.log(), what="it")
        for client in self.clients:
            client.send_command("PING")
        wait_until(lambda: len(self.answered()) >= 2, what="those of the other thread")
        self.alive = [c for c in self.clients if c.sock in self.answered()]
        for client in self.alive:
            assert client.read() == Status("PONG")

    def answered(self):
        return select.select([c.sock for c in self.clients], [], [], 0)[0]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for client in self.clients:
            client.close()
        self.server.kill()


@only_dragonfly("DEBUG STALL is ours")
@pytest.mark.parametrize("save, words", [("", "SAVE"), ("3600 1", ""), ("3600 1", "NOW")])
@pytest.mark.parametrize("thread", [0, 1])
def test_shutdown_beside_a_thread_that_is_stuck_is_refused(thread, save, words):
    with StalledServer(thread, save=save) as stalled:
        server, r = stalled.server, stalled.alive[0]
        assert r.call("SHUTDOWN", *words.split()) == REFUSED
        assert f"can't exit: a thread has stopped: thread {thread} does not answer" in server.log()
        assert r.call("PING") == Status("PONG")
        # What the first has begun still waits for the thread.
        assert r.call("SHUTDOWN", *words.split()) == REFUSED
        assert "can't exit: another SHUTDOWN is not over yet" in server.log()
        assert r.call("SHUTDOWN", "ABORT") == Error("ERR No shutdown in progress.")
        r.send_command("SHUTDOWN", "NOSAVE")
        assert server.process.wait(timeout=PATIENCE_S) == 1


@only_dragonfly("DEBUG STALL is ours")
@pytest.mark.parametrize(
    "save, words",
    [
        ("3600 1", "NOSAVE"),
        ("3600 1", "NOSAVE NOW"),
        ("3600 1", "FORCE"),
        ("", "SAVE FORCE"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("thread", [0, 1])
def test_shutdown_that_needs_no_save_does_not_wait_for_a_thread_that_is_stuck(thread, save, words):
    with StalledServer(thread, save=save) as stalled:
        server = stalled.server
        stalled.alive[0].send_command("SHUTDOWN", *words.split())
        assert server.process.wait(timeout=PATIENCE_S) == 1
        assert f"ends without waiting for it: thread {thread} does not answer" in server.log() or (
            f"the end does not come, ends now: thread {thread} does not answer" in server.log()
        )
        server.start_again()
        with server.connect() as r:
            assert r.call("KEYS", "*") == [b"saved"]


@only_dragonfly("DEBUG STALL is ours")
@pytest.mark.parametrize("thread", [0, 1])
def test_shutdown_abort_beside_a_thread_that_is_stuck_is_answered(thread):
    with StalledServer(thread) as stalled:
        r, other = stalled.alive[:2]
        r.send_command("SHUTDOWN", "SAVE")
        assert other.call("SHUTDOWN", "ABORT") in (OK, Error("ERR No shutdown in progress."))
        assert r.read() == REFUSED


@pytest.mark.long
@only_dragonfly("DEBUG STALL is ours")
@pytest.mark.sanitized
@pytest.mark.parametrize("thread", [0, 1])
def test_shutdown_that_was_refused_holds_nothing_once_its_thread_goes_on(thread):
    seconds = 2 * SLOWNESS  # SHUTDOWN waits for half of it
    while True:
        with StalledServer(thread, seconds=seconds) as stalled:
            server, r = stalled.server, stalled.alive[0]
            r.send_command("SHUTDOWN", "SAVE")
            try:
                assert r.read() == REFUSED
            except ConnectionError:  # too late: the thread goes on already
                assert server.process.wait(timeout=PATIENCE_S) == 0
                seconds *= 2
                continue
            for client in stalled.clients:
                if client not in stalled.alive:
                    assert client.read() == Status("PONG")
                assert client.call("MSET", "a", 1, "b", 2, "c", 3, "d", 4) == OK
            wait_until(lambda: is_saved_at_the_end(r), what="SHUTDOWN, once the first one is over")
            assert server.process.wait(timeout=PATIENCE_S) == 0
            server.start_again()
            with server.connect() as r:
                assert r.call("DBSIZE") == 5
        return


def is_saved_at_the_end(r):
    r.send_command("SHUTDOWN", "SAVE")
    try:
        assert r.read() == REFUSED
    except ConnectionError:
        return True
    return False
