# SPDX-License-Identifier: Apache-2.0
"""FLUSHALL with --save: what it deleted does not come back, however the server ends."""

import pytest

from harness.resp import OK
from harness.server import wait_until


def is_saved(r):
    info = r.info("persistence")
    return (
        info["rdb_changes_since_last_save"] == "0"
        and info["rdb_bgsave_in_progress"] == "0"
        and info["rdb_last_bgsave_status"] == "ok"
    )


def die_and_start(server):
    server.kill()
    server.start_again()


def fill_and_save(r):
    for i in range(100):
        r.call("SET", f"k{i}", "v" * 100)
    assert r.call("SAVE") == OK


@pytest.mark.parametrize(
    "flush",
    [
        [("FLUSHALL",)],
        [("FLUSHALL", "ASYNC")],
        [("MULTI",), ("FLUSHALL",), ("EXEC",)],
        [("EVAL", "#!lua flags=allow-cross-slot-keys\nredis.call('flushall')", 0)],
        [("BGSAVE",), ("FLUSHALL",)],
        [("FLUSHALL",), ("SET", "a", 1), ("FLUSHALL",), ("SET", "a", 2)] * 20 + [("FLUSHALL",)],
    ],
    ids=["plain", "async", "exec", "script", "during-bgsave", "many"],
)
def test_what_was_flushed_does_not_come_back(start_server, flush):
    server = start_server(save="3600 1")
    with server.connect() as r:
        fill_and_save(r)
        r.call("SET", "more", "v")
        r.pipeline(flush)
        assert r.call("DBSIZE") == 0
        wait_until(lambda: is_saved(r), what="the snapshot of nothing")
    die_and_start(server)
    with server.connect() as r:
        assert r.call("DBSIZE") == 0


@pytest.mark.parametrize(
    "flags,command",
    [({}, "FLUSHALL"), ({"save": "3600 1000000"}, "FLUSHDB")],
    ids=["without-rules", "flushdb"],
)
def test_nothing_is_saved(start_server, flags, command):
    server = start_server(**flags)
    with server.connect() as r:
        fill_and_save(r)
        assert r.call(command) == OK
        assert r.info("persistence")["rdb_changes_since_last_save"] != "0"
        assert r.info("persistence")["rdb_bgsave_in_progress"] == "0"
    die_and_start(server)
    with server.connect() as r:
        assert r.call("DBSIZE") == 100
