# SPDX-License-Identifier: Apache-2.0
"""Whoever has locks waits for nothing that may need them; and a signal ends what hangs."""

import signal

import pytest

from harness.resp import OK, Error, Status
from harness.server import PATIENCE_S, Server, only_dragonfly, wait_until

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
        wait_until(
            lambda: other.info("transaction")["tx_long_held_locks"] != "0", what="INFO's count"
        )
        facts = other.info("transaction")
        assert facts["tx_longest_held"].startswith("exec of client"), facts
        assert int(facts["tx_longest_held_usec"]) > 100_000
        assert other.call("CONFIG", "GET", "lock-warning-ms")[1] == b"100"
        assert other.call("CLIENT", "KILL", "ID", client_id) == 1
    wait_until(lambda: is_free(server), what="the end, as its client is gone")
    lines = [line for line in server.log().splitlines() if "held for long" in line]
    shards = [line.split(" on shard ")[1].split()[0] for line in lines]
    assert len(shards) == len(set(shards)), lines


def is_free(server):
    with server.connect() as r:
        return r.info("transaction")["tx_queue_length"] == "0"
