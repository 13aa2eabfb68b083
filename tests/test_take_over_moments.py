# SPDX-License-Identifier: Apache-2.0
"""--take_over: what happens at one moment of it. Somebody between the two processes holds that
moment open for as long as a test needs it, so none of these depends on who is faster."""

import time

import pytest

from harness.resp import OK, RespSocket
from harness.server import PATIENCE_S, REFERENCE, SANITIZED, wait_until, wait_until_loaded
from harness.taking import Between, NewProcess

from test_take_over import assert_serves, counting, old  # noqa: F401 - `old` is a fixture

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="redis-server cannot do it"),
]

PATIENT = {"take_over_pause_ms": 600_000}
LOGGED = {"appendonly": "yes", "appendfsync": "always", **PATIENT}


def answers(new, address):
    """The new process is the one that does so there."""
    with RespSocket(address) as c:
        return int(c.info("server")["process_id"]) == new.process.pid


def restart(server):
    """From its files, on the same port."""
    server.start_again(keeps_port=True)
    wait_until_loaded(server)


def test_what_expires_before_the_log_is_there_stays_expired(old, tmp_path):  # noqa: F811
    server = old(**LOGGED)
    due_ms = int(time.time() * 1000) + 2000
    keys = [f"k{i}" for i in range(50)]
    with server.connect() as c:
        for key in keys:
            assert c.call("SET", key, 5, "PXAT", due_ms) == OK
    with Between(str(tmp_path), server, "taken") as between:
        new = NewProcess(server, target=between.path)
        between.await_held()
        # It is the server, and the old one, which stands still, has the log.
        assert answers(new, server.address)
        wait_until(lambda: time.time() * 1000 > due_ms + 300, what="the time of the keys")
        with server.connect() as c, server.connect() as writer:
            assert c.call("MGET", *keys) == [None] * len(keys)
            writer.send_command("INCR", "n")  # waits for the log
            assert c.call("GET", "n") is None
            between.pass_on()
            assert writer.read() == 1
    new.await_taken()
    with server.connect() as c:
        assert [c.call("INCR", key) for key in keys] == [1] * len(keys)
    server.kill()
    restart(server)
    with server.connect() as c:
        assert c.call("MGET", *keys) == [b"1"] * len(keys)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is more than that, and counts")
def test_nothing_is_evicted_before_the_log_is_there(old, tmp_path):  # noqa: F811
    server = old(maxmemory="2gb", proactor_threads=1, **LOGGED)
    keys = [f"k{i}" for i in range(4000)]
    with server.connect() as c:
        for key in keys:
            c.send_command("RPUSH", key, "x" * 15_000)
        assert [c.read() for _ in keys] == [1] * len(keys)
    with Between(str(tmp_path), server, "taken") as between:
        limits = {"maxmemory": "40mb", "maxmemory_policy": "allkeys-lru"}
        new = NewProcess(server, target=between.path, **limits)
        between.await_held()
        assert answers(new, server.address)
        with server.connect() as c, server.connect() as writer:
            writer.send_command("INCR", "n")
            assert c.call("DBSIZE") == len(keys)
            assert c.info("stats")["evicted_keys"] == "0"
            between.pass_on()
            assert writer.read() == 1  # there is room when the first one writes
            assert c.info("stats")["evicted_keys"] != "0"
    new.await_taken()
    with server.connect() as c:
        gone = [key for key in keys[::20] if c.call("RPUSH", key, "new") == 1]
    assert gone
    server.kill()
    server.flags["maxmemory"] = "2gb"
    restart(server)
    with server.connect() as c:
        assert all(c.call("LLEN", key) <= 1 for key in gone)


def test_the_log_of_an_old_process_that_was_killed(old, tmp_path):  # noqa: F811
    """Behind the point of no return it ends without closing its log, which has filler then."""
    server = old(**LOGGED)
    with counting(server.address) as counters:
        counters.await_more()
        with Between(str(tmp_path), server, "taken") as between:
            new = NewProcess(server, target=between.path)
            between.await_held()
            server.process.kill()
            server.process.wait()
        server.process, server.log_path = new.process, new.log_path
        counters.await_more()
    assert "the old process has ended without a word" in new.log()
    server.kill()
    restart(server)
    with server.connect() as c:
        counters.check(c)


@pytest.mark.parametrize(
    "word, is_passed", [("ready", True), ("taken", False), ("taken", True), ("done", True)]
)
def test_the_new_process_is_killed_when_it_has_said(old, tmp_path, word, is_passed):  # noqa: F811
    """Either the old process goes on, or all is in the log."""
    server = old(**LOGGED)
    first = server.process
    with counting(server.address) as counters:
        counters.await_more()
        with Between(str(tmp_path), server, word) as between:
            new = NewProcess(server, target=between.path)
            between.await_held()
            if word == "done":
                counters.await_more()  # by the new one, which has the log
            new.process.kill()
            new.process.wait()
            if is_passed:
                between.pass_on()
            else:
                between.drop()
        if word == "ready" or not is_passed:
            counters.await_more()
            assert_serves(server)
            assert server.process is first and first.poll() is None
        else:
            assert first.wait(PATIENCE_S) == 0
            server.process = new.process
            restart(server)
            counters.await_more()
            assert_serves(server)
    with server.connect() as c:
        counters.check(c)
