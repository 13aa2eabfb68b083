# SPDX-License-Identifier: Apache-2.0
"""Snapshots, and logs that were closed, say where they are in the stream: who starts from one goes
on from there."""

import os
import time

import pytest
from test_replica_chain import KINDS, connect, node

from harness.nodes import (
    assert_same,
    await_link,
    await_offset,
    copies,
    follow,
    role,
    writing,
)
from harness.resp import OK
from harness.seeds import new_rng
from harness.server import REFERENCE, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

__all__ = ["node"]  # a fixture

DUMP = {"dbfilename": "dump", "save": "3600 1000000000"}
LOG = {"appendonly": "yes", "save": ""}
EACH = pytest.mark.parametrize("files", [DUMP, LOG], ids=["snapshot", "log"])


def start_again(c, how, **flags):
    """A client of the server that has `how` ended, and is back at its port with its data."""
    server = c.server
    {"stopped": server.stop, "killed": server.kill}[how]()
    server.start_again(keeps_port=True, **flags)
    again = connect(c)
    again.port, again.server = c.port, server
    wait_until(lambda: again.info("persistence")["loading"] == "0", what="the load")
    return again


def save(c):
    assert c.call("SAVE") == OK


ENDS = {"stopped": DUMP, "killed": DUMP}
for policy in ("always", "everysec", "no"):
    ENDS[f"stopped-{policy}"] = LOG | {"appendfsync": policy}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_replica_that_starts_again_needs_no_copy(node, kind, end):
    how, _, _ = end.partition("-")
    primary = node(kind)
    replica = node(proactor_threads=3, **ENDS[end])
    follow(replica, primary)
    rng = new_rng()
    with writing(lambda: connect(primary), rng) as writers:
        for _ in range(3):
            writers.await_more()
            if how == "killed":
                save(replica)
            writers.await_more()
            replica = start_again(replica, how, replicaof=f"127.0.0.1 {primary.port}")
            await_link(replica)
        writers.await_more()
    assert_same(primary, replica)
    assert copies(primary) == 1
    assert role(replica)["master_replid"] == role(primary)["master_replid"]


@pytest.mark.parametrize("change", ["killed", "by-redis", "by-rewrite"])
def test_a_log_that_was_written_to_has_no_place(node, start_server, change):
    """Once closed, and then changed without the stream."""
    primary = node()
    replica = node(**LOG)
    follow(replica, primary)
    assert primary.call("SET", "k", "v") == OK
    await_offset(primary, replica)
    place = os.path.join(replica.server.dir, "appendonlydir", "appendonly.aof.place")
    assert not os.path.exists(place)
    replica.server.stop()
    assert os.path.exists(place)
    if change == "killed":
        replica.server.start_again(keeps_port=True, replicaof=f"127.0.0.1 {primary.port}")
        with connect(replica) as c:
            c.port = replica.port
            await_link(c)
            assert primary.call("SET", "k", "w") == OK
            await_offset(primary, c)
        assert copies(primary) == 1
        replica.server.kill()
    else:
        redis = start_server(reference=True, dir=replica.server.dir, appendonly="yes", save="")
        with redis.connect() as c:
            wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
            if change == "by-redis":
                assert c.call("SET", "other", "v") == OK
            else:
                c.call("BGREWRITEAOF")
                wait_until(
                    lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0", what="its end"
                )
        redis.stop()
    before = copies(primary)
    replica.server.start_again(keeps_port=True, replicaof=f"127.0.0.1 {primary.port}")
    with connect(replica) as c:
        c.port = replica.port
        await_link(c)
        await_offset(primary, c)
        assert_same(primary, c)
    assert copies(primary) == before + 1


@EACH
def test_the_selected_database_comes_back(node, files):
    primary = node("redis7")
    replica = node(**files)
    follow(replica, primary)
    assert primary.call("SELECT", 2) == OK
    assert primary.call("SET", "before", "v") == OK
    await_offset(primary, replica)
    replica = start_again(replica, "stopped", replicaof=f"127.0.0.1 {primary.port}")
    await_link(replica)
    assert primary.call("SET", "after", "v") == OK
    assert_same(primary, replica)
    assert copies(primary) == 1


@EACH
def test_a_key_whose_time_was_over_is_there_for_what_follows(node, files):
    """PERSIST came in time at the primary, and late at the replica."""
    primary = node("redis7")
    replica = node(**files)
    follow(replica, primary)
    assert primary.call("SET", "k", "v", "PX", 1500) == OK
    await_offset(primary, replica)
    server = replica.server
    server.stop()
    persisted = primary.call("PERSIST", "k")
    time.sleep(1.6)
    server.start_again(keeps_port=True, replicaof=f"127.0.0.1 {primary.port}")
    with connect(replica) as c:
        c.port = replica.port
        wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
        await_link(c)
        await_offset(primary, c)
        assert c.call("EXISTS", "k") == persisted
        assert copies(primary) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_restart_of_the_primary_nobody_needs_a_copy(node, kind):
    primary = node(proactor_threads=3, **DUMP)
    replica = node(kind)
    follow(replica, primary)
    rng = new_rng()
    for _ in range(3):
        with writing(lambda: connect(primary), rng, expires=False) as writers:
            writers.await_more()
        primary = start_again(primary, "stopped")
        await_link(replica)
        wait_until(lambda p=primary: role(p)["connected_slaves"] == "1", what="the replica")
        assert copies(primary) == 0
    assert_same(primary, replica)


def test_a_primary_that_was_killed_has_less_than_its_replica(node):
    """Whatever it does then: its replica gets a copy."""
    primary = node(**DUMP)
    replica = node()
    follow(replica, primary)
    assert primary.call("SET", "kept", "v") == OK
    save(primary)
    assert primary.call("SET", "lost", "v") == OK
    await_offset(primary, replica)
    primary = start_again(primary, "killed")
    for i in range(100):
        assert primary.call("SET", f"new {i}", "v") == OK
    await_link(replica)
    wait_until(lambda: copies(primary) == 1, what="a copy")
    await_link(replica)
    assert_same(primary, replica)
    assert replica.call("EXISTS", "lost") == 0


def test_what_was_due_at_the_start_of_a_primary_goes_at_its_replicas_too(node):
    primary = node(**DUMP)
    replica = node("redis7")
    follow(replica, primary)
    for number in range(50):
        assert primary.call("SET", f"k{number}", "v", "PX", 400 + number) == OK
    assert primary.call("SET", "stays", "v") == OK
    await_offset(primary, replica)
    server = primary.server
    server.stop()
    time.sleep(0.5)
    server.start_again(keeps_port=True)
    with connect(primary) as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
        wait_until(lambda: role(c)["connected_slaves"] == "1", what="the replica")
        wait_until(lambda: c.call("DBSIZE") == replica.call("DBSIZE") == 1, what="their end")
        assert copies(c) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_primary_with_a_log_comes_back_without_a_copy(node, kind):
    flags = {"appendonly": "yes", "appendfsync": "always"}
    old, new = node(proactor_threads=3, **flags), node(kind)
    follow(new, old)
    rng = new_rng()
    with writing(lambda: connect(old), rng, expires=False) as writers:
        writers.await_more()
    await_offset(old, new)
    old.server.kill()
    assert new.call("REPLICAOF", "NO", "ONE") == OK
    with writing(lambda: connect(new), rng, expires=False) as writers:
        writers.await_more()
        old.server.start_again(keeps_port=True, replicaof=f"127.0.0.1 {new.port}")
        with connect(old) as c:
            c.port = old.port
            wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
            await_link(c)
            writers.await_more()
            writers.end()
            assert_same(new, c)
    assert copies(new) == 0


def test_a_copy_without_a_stream_says_nothing(node):
    """Nobody may go on from the snapshot of a server that never had replicas."""
    alone = node(**DUMP)
    assert alone.call("SET", "k", "v") == OK
    again = start_again(alone, "stopped")
    assert role(again)["master_replid2"] == "0" * 40
    assert role(again)["second_repl_offset"] == "-1"
