# SPDX-License-Identifier: Apache-2.0
"""A replica of ours becomes a primary, and a primary a replica, without copies."""

import pytest
from test_replica_chain import KINDS, connect, node

from harness.nodes import (
    assert_same,
    await_link,
    await_offset,
    copies,
    follow,
    has_due,
    role,
    writing,
)
from harness.ports import free_port
from harness.resp import OK, Error
from harness.seeds import new_rng
from harness.server import REFERENCE, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself"),
]

__all__ = ["node"]  # a fixture


def promote(c):
    assert c.call("REPLICAOF", "NO", "ONE") == OK


# Redis 7.0 cannot load the copies of Valkey 9.
PAIRS = [(a, b) for a in KINDS for b in KINDS if (a, b) != ("valkey9", "redis7")]


@pytest.mark.parametrize(("old_kind", "kind"), PAIRS, ids="-".join)
def test_other_replicas_go_on_without_a_copy(node, kind, old_kind):
    """Also what is written right behind the promotion is in the stream."""
    old, new, other = node(old_kind), node(proactor_threads=3), node(kind)
    rng = new_rng()
    follow(new, old)
    follow(other, old)
    # A key that expires at the old primary would be data that only the other one has.
    with writing(lambda: connect(old), rng, expires=False) as writers:
        writers.await_more()
    await_offset(old, new, other)
    old_id = role(old)["master_replid"]
    offset = int(role(old)["master_repl_offset"])
    with writing(lambda: connect(new), rng, count=6) as writers:
        wait_until(lambda: writers.refused > 20, what="refusals of the replica")
        promote(new)
        info = role(new)
        assert info["role"] == "master" and info["master_replid2"] == old_id
        assert int(info["second_repl_offset"]) >= offset + 1
        writers.await_more()
        follow(other, new)
        writers.await_more()
    assert_same(new, other)
    assert copies(new) == 0
    assert role(other)["master_replid"] == role(new)["master_replid"] != old_id


@pytest.mark.parametrize("kind", KINDS)
def test_roles_change_without_a_copy(node, kind):
    """To and fro, with clients that write wherever they may."""
    ours, other = node(proactor_threads=3), node(kind)
    rng = new_rng()
    follow(other, ours)
    pair = [ours, other]
    at_ours = writing(lambda: connect(ours), rng, expires=False)
    at_other = writing(lambda: connect(other), rng, expires=False)
    with at_ours, at_other:
        for _ in range(4):
            primary, replica = pair
            # As an operator does it: nobody writes meanwhile.
            assert primary.call("CLIENT", "PAUSE", 600_000, "WRITE") == OK
            await_offset(primary, replica)
            promote(replica)
            follow(primary, replica)
            assert primary.call("CLIENT", "UNPAUSE") == OK
            pair.reverse()
            wait_until(lambda: role(pair[0])["connected_slaves"] == "1", what="the replica")
    assert_same(*pair)
    assert copies(ours) == 1 and copies(other) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(node, kind):
    """Who has not written as a primary goes on where it was, in the database that is selected."""
    primary, replica = node(kind), node()
    follow(replica, primary)
    for db in (2, 1):
        assert primary.call("SELECT", db) == OK
        assert primary.call("SET", "before", "v") == OK
        await_offset(primary, replica)
        promote(replica)
        follow(replica, primary)
        assert primary.call("SET", "after", "v") == OK
        assert_same(primary, replica)
        assert primary.call("SELECT", db) == OK
    assert copies(primary) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_primary_that_had_more_gets_a_copy(node, kind):
    old, new = node(), node(kind)
    follow(new, old)
    assert old.call("SET", "both", "v") == OK
    await_offset(old, new)
    promote(new)
    wait_until(lambda: role(old)["connected_slaves"] == "0", what="the end of the link")
    assert old.call("SET", "lost", "v") == OK
    assert new.call("SET", "kept", "v") == OK
    follow(old, new)
    assert_same(new, old)
    assert old.call("GET", "lost") is None
    assert copies(new) == 1


def test_what_an_old_primary_counts_is_told_when_it_has_a_link(node):
    """Sentinel would promote it before those that have what was acknowledged."""
    old, new = node(), node()
    follow(new, old)
    assert old.call("SET", "k", "v") == OK
    await_offset(old, new)
    promote(new)
    assert old.call("SET", "excess", "v") == OK
    assert old.call("REPLICAOF", "127.0.0.1", free_port()) == OK  # nobody is there
    info = role(old)
    assert (info["slave_repl_offset"], info["slave_read_repl_offset"]) == ("0", "0")
    follow(old, new)
    await_offset(new, old)
    whole = int(role(old)["slave_repl_offset"])
    assert whole > 0
    # It has data of a primary, and who has a link with the next one comes first.
    for _ in range(2):
        assert old.call("REPLICAOF", "127.0.0.1", free_port()) == OK
        assert int(role(old)["slave_repl_offset"]) == whole // 2
    follow(old, new)
    assert int(role(old)["slave_repl_offset"]) >= whole


def test_an_old_primary_follows_under_load(node):
    """Its clients write until it is told; whatever it had in excess is gone then."""
    old, new = node(proactor_threads=3), node()
    follow(new, old)
    rng = new_rng()
    with writing(lambda: connect(old), rng) as at_old, writing(lambda: connect(new), rng) as at_new:
        at_old.await_more()
        promote(new)
        at_old.await_more()
        follow(old, new)
        at_new.await_more()
    assert_same(new, old)


def test_a_promotion_inside_of_exec(node):
    """As Sentinel sends it."""
    old, new, other = node(), node(), node("redis7")
    follow(new, old)
    follow(other, old)
    assert old.call("SET", "k", "v") == OK
    await_offset(old, new, other)
    commands = [["REPLICAOF", "NO", "ONE"], ["CLIENT", "KILL", "TYPE", "normal"]]
    with connect(new) as c:
        replies = c.pipeline([["MULTI"], *commands, ["EXEC"]])
        assert replies[-1][0] == OK
    with connect(new) as c:
        assert c.call("INCR", "n") == 1
    with connect(new) as c:
        follow(other, new)
        assert_same(c, other)
        assert copies(c) == 0


def test_a_promotion_in_the_middle_of_a_chain(node):
    top, middle, bottom = node(), node(), node("redis7")
    follow(middle, top)
    follow(bottom, middle)
    assert top.call("SET", "k", "v") == OK
    await_offset(top, middle, bottom)
    promote(middle)
    assert middle.call("SET", "more", "v") == OK
    wait_until(
        lambda: role(bottom)["master_replid"] == role(middle)["master_replid"], what="the new id"
    )
    await_link(bottom)
    assert_same(middle, bottom)
    assert copies(middle) == 1  # the first one


def test_keys_expire_in_the_stream_of_who_was_promoted(node):
    """Not before that has begun, or other replicas would keep them."""
    old, new, other = node(), node(), node("redis7")
    follow(new, old)
    follow(other, old)
    for number in range(300):
        old.call("SET", f"k{number}", "v", "PX", 300 + number)
    await_offset(old, new, other)
    old.call("CLIENT", "PAUSE", 600_000, "ALL")
    wait_until(lambda: new.call("EXISTS", "k100") == 0, what="the time of some")
    promote(new)
    follow(other, new)
    wait_until(lambda: new.call("DBSIZE") == other.call("DBSIZE") == 0, what="the end of all")
    assert copies(new) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_sibling_becomes_the_primary_of_a_replica(node, kind):
    """REPLICAOF another one on a replica: it asks to go on, and may if it has not more."""
    top, middle, moved = node(kind), node(), node()
    follow(middle, top)
    follow(moved, top)
    rng = new_rng()
    for primary in (middle, top, middle):
        with writing(lambda: connect(top), rng) as writers:
            writers.await_more()
        wait_until(lambda: not has_due(top), what="the end of keys with a time to live")
        await_offset(top, middle, moved)
        follow(moved, primary)
    assert_same(top, middle, moved)
    assert copies(middle) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_sibling_becomes_the_primary_under_load(node, kind):
    """The sibling may be behind who comes to it: then that needs a copy."""
    top, middle, moved = node(kind), node(), node()
    follow(middle, top)
    follow(moved, top)
    rng = new_rng()
    with writing(lambda: connect(top), rng) as writers:
        for primary in (middle, top, middle):
            writers.await_more()
            follow(moved, primary)
        writers.await_more()
    assert_same(top, middle, moved)


def test_redis_hands_its_role_over(node):
    """FAILOVER of redis-server: ours is asked by PSYNC with a third word to be the primary."""
    old, new = node("redis7"), node(proactor_threads=3)
    rng = new_rng()
    follow(new, old)
    with writing(lambda: connect(old), rng) as at_old, writing(lambda: connect(new), rng) as at_new:
        at_old.await_more()
        # redis-server thinks so when the replica has acknowledged something.
        wait_until(lambda: "state=online" in role(old)["slave0"], what="the replica online")
        assert old.call("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 60_000) == OK
        wait_until(lambda: role(new)["role"] == "master", what="the promotion")
        await_link(old)
        at_new.await_more()
    assert_same(new, old)
    assert copies(new) == 0 and copies(old) == 1
    assert role(old)["master_failover_state"] == "no-failover"


def test_who_may_not_hand_its_role_over(node):
    top, replica = node(), node()
    expected = Error("ERR PSYNC FAILOVER can't be sent to a master.")
    assert top.call("PSYNC", "x" * 40, 1, "FAILOVER") == expected
    follow(replica, top)
    expected = Error("ERR PSYNC FAILOVER replid must match my replid.")
    assert replica.call("PSYNC", "x" * 40, 1, "FAILOVER") == expected
