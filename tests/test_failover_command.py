# SPDX-License-Identifier: Apache-2.0
"""FAILOVER: a primary hands its role over to one of its replicas."""

import contextlib

import pytest
from test_replica_chain import KINDS, connect, node

from harness.nodes import assert_same, await_link, await_offset, copies, follow, role, writing
from harness.resp import OK, Error
from harness.seeds import new_rng
from harness.server import REFERENCE, stopped, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself"),
]

__all__ = ["node"]  # a fixture


def await_state(c, state):
    wait_until(lambda: role(c)["master_failover_state"] == state, what=state)


def await_role(c, name):
    wait_until(lambda: role(c)["role"] == name, what=name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_role_goes_over_under_load(node, kind):
    """No write is lost, and nobody needs a copy."""
    old, new, other = node(proactor_threads=3), node(kind), node()
    follow(new, old)
    follow(other, old)
    rng = new_rng()
    at_old = writing(lambda: connect(old), rng, expires=False)
    at_new = writing(lambda: connect(new), rng, expires=False)
    with at_old as writers, at_new:
        writers.await_more()
        counted = connect(old)
        count = 0
        to = ["TO", "127.0.0.1", new.port, "TIMEOUT", 600_000] if kind != "ours" else []
        assert old.call("FAILOVER", *to) == OK
        while not isinstance(reply := counted.call("INCR", "counted"), Error):
            count = reply
        assert reply.text.startswith("READONLY")
        await_role(old, "slave")
        await_state(old, "no-failover")
        await_link(old)
        primary = old.call("ROLE")[2] == new.port and new or other
    assert_same(primary, old)
    assert primary.call("GET", "counted") == (str(count).encode() if count else None)
    assert copies(primary) == 0
    info = role(old)
    assert info["master_replid"] == role(primary)["master_replid"]


def test_to_and_fro(node):
    pair = [node(proactor_threads=3), node()]
    follow(pair[1], pair[0])
    rng = new_rng()
    writers = [writing(lambda c=c: connect(c), rng, expires=False) for c in pair]
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(w) for w in writers]
        for _ in range(6):
            primary, replica = pair
            writers[0].await_more()
            assert primary.call("FAILOVER", "TIMEOUT", 600_000) == OK
            await_state(primary, "no-failover")
            await_role(replica, "master")
            await_link(primary)
            wait_until(lambda: role(pair[1])["connected_slaves"] == "1", what="the replica")
            pair.reverse()
            writers.reverse()
    assert_same(*pair)
    assert copies(pair[0]) + copies(pair[1]) == 1


def test_writes_wait_and_go_on_when_it_is_aborted(node):
    primary, replica = node(), node()
    follow(replica, primary)
    with stopped(replica.server.process), connect(primary) as writer:
        assert primary.call("FAILOVER") == OK
        assert role(primary)["master_failover_state"] == "waiting-for-sync"
        assert primary.call("FAILOVER") == Error("ERR FAILOVER already in progress.")
        expected = Error("ERR REPLICAOF not allowed while failing over.")
        assert primary.call("REPLICAOF", "NO", "ONE") == expected
        assert primary.call("REPLICAOF", "127.0.0.1", 1) == expected
        expected = Error("NOMASTERLINK Can't SYNC while failing over")
        assert primary.call("PSYNC", "?", -1) == expected
        writer.send_command("SET", "k", "v")
        assert primary.call("GET", "k") is None
        assert primary.call("FAILOVER", "ABORT") == OK
        assert writer.read() == OK
        await_state(primary, "no-failover")
        assert primary.call("FAILOVER", "ABORT") == Error("ERR No failover in progress.")
    assert role(primary)["role"] == "master"
    assert_same(primary, replica)


def test_nobody_is_in_sync_in_time(node):
    primary, replica = node(), node()
    follow(replica, primary)
    with stopped(replica.server.process):
        assert primary.call("SET", "k", "v") == OK
        assert primary.call("FAILOVER", "TIMEOUT", 50) == OK
        await_state(primary, "no-failover")
    assert role(primary)["role"] == "master"
    assert primary.call("SET", "k2", "v") == OK
    assert_same(primary, replica)


def test_a_target_that_is_forced_and_does_not_answer(node):
    """It may never do so: FAILOVER ABORT makes the old one a primary again."""
    primary, replica = node(), node()
    follow(replica, primary)
    with stopped(replica.server.process), connect(primary) as writer:
        target = ["TO", "127.0.0.1", replica.port, "FORCE", "TIMEOUT", 50]
        assert primary.call("FAILOVER", *target) == OK
        await_state(primary, "failover-in-progress")
        assert role(primary)["role"] == "slave"
        assert primary.call("SET", "k", "v").text.startswith("READONLY")
        assert primary.call("FAILOVER", "ABORT") == OK
        await_state(primary, "no-failover")
        writer.send_command("SET", "k", "v")
        assert writer.read() == OK
    assert role(primary)["role"] == "master"


def test_a_target_that_refuses(node):
    primary, replica = node(), node()
    follow(replica, primary)
    assert replica.call("ACL", "SETUSER", "default", "-psync") == OK
    assert primary.call("SET", "k", "v") == OK
    assert primary.call("FAILOVER") == OK
    await_state(primary, "no-failover")
    assert role(primary)["role"] == "master"
    assert primary.call("SET", "k2", "v") == OK
    assert_same(primary, replica)


def test_what_cannot_be_asked_for(node):
    primary, replica = node(), node()
    follow(replica, primary)
    port = replica.port
    for words, error in [
        (["FAILOVER", "x"], "ERR syntax error"),
        (["FAILOVER", "TO"], "ERR syntax error"),
        (["FAILOVER", "TO", "h", 1, "TO", "h", 1], "ERR syntax error"),
        (["FAILOVER", "TO", "h", "x"], "ERR value is not an integer or out of range"),
        (["FAILOVER", "TIMEOUT", "x"], "ERR value is not an integer or out of range"),
        (["FAILOVER", "TIMEOUT", 0], "ERR FAILOVER timeout must be greater than 0"),
        (["FAILOVER", "ABORT", "TIMEOUT", 1], "ERR syntax error"),
        (["FAILOVER", "ABORT"], "ERR No failover in progress."),
        (["FAILOVER", "TO", "127.0.0.1", 1], "ERR FAILOVER target HOST and PORT is not a replica."),
        (
            ["FAILOVER", "TO", "127.0.0.1", port + 65536],
            "ERR FAILOVER target HOST and PORT is not a replica.",
        ),
        (
            ["FAILOVER", "TO", "127.0.0.1", port, "FORCE"],
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
        (
            ["FAILOVER", "FORCE", "TIMEOUT", 5],
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
    ]:
        assert primary.call(*words) == Error(error), words
    expected = Error("ERR FAILOVER is not valid when server is a replica.")
    assert replica.call("FAILOVER") == expected
    alone = node()
    assert alone.call("FAILOVER") == Error("ERR FAILOVER requires connected replicas.")
    assert role(alone)["master_failover_state"] == "no-failover"
