# SPDX-License-Identifier: Apache-2.0
"""Replicas of a replica of ours: they get its primary's bytes, at its primary's offsets."""

import contextlib

import pytest
from test_replicas import other_server

from harness.nodes import (
    BINARIES,
    assert_same,
    await_link,
    await_offset,
    continuations,
    copies,
    follow,
    role,
    writing,
)
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket
from harness.seeds import new_rng
from harness.server import PATIENCE_S, REFERENCE, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself"),
]

KINDS = ["ours", *BINARIES]


@pytest.fixture
def node(start_server, tmp_path):
    """A factory: a client of a server of some kind."""
    with contextlib.ExitStack() as stack:

        def start(kind="ours", **flags):
            # A PING that the others have not got would be data that only the primary has.
            # The backlog keeps all that a test writes: a slow replica is behind by megabytes, and
            # would need another copy.
            flags = {
                "repl_diskless_sync_delay": 0,
                "repl_ping_replica_period": 3600,
                "repl_backlog_size": "100mb",
                **flags,
            }
            if kind != "ours":
                return stack.enter_context(other_server(BINARIES[kind], tmp_path, **flags))
            server = start_server(**flags)
            c = stack.enter_context(server.connect())
            c.port, c.server = server.port, server
            return c

        yield start


def connect(c):
    return RespSocket(("127.0.0.1", c.port), timeout=PATIENCE_S)


@pytest.mark.parametrize("top_kind", KINDS)
@pytest.mark.parametrize("bottom_kind", KINDS)
def test_a_chain_has_the_same_data(node, top_kind, bottom_kind):
    top, middle, bottom = node(top_kind), node(proactor_threads=3), node(bottom_kind)
    rng = new_rng()
    with writing(lambda: connect(top), rng) as writers:
        writers.await_more()
        follow(middle, top)
        writers.await_more()
        follow(bottom, middle)
        writers.await_more(300)
    assert_same(top, middle, bottom)
    assert copies(top) == copies(middle) == 1
    info = role(middle)
    assert info["role"] == "slave" and info["connected_slaves"] == "1"
    assert info["slave0"].startswith(f"ip=127.0.0.1,port={bottom.port},state=online,")
    assert info["repl_backlog_active"] == "1" and int(info["repl_backlog_histlen"]) > 0
    assert info["master_replid"] == role(top)["master_replid"] == role(bottom)["master_replid"]


@pytest.mark.parametrize("top_kind", KINDS)
@pytest.mark.parametrize("bottom_kind", KINDS)
def test_what_is_published_reaches_replicas(node, top_kind, bottom_kind):
    top, middle, bottom = node(top_kind), node(proactor_threads=3), node(bottom_kind)
    follow(middle, top)
    follow(bottom, middle)
    with connect(middle) as m, connect(bottom) as b:
        for c in (m, b):
            assert c.call("SUBSCRIBE", "ch") == [b"subscribe", b"ch", 1]
            assert c.call("PSUBSCRIBE", "p*") == [b"psubscribe", b"p*", 2]
            assert c.call("SSUBSCRIBE", "sh") == [b"ssubscribe", b"sh", 1]
        assert top.call("PUBLISH", "ch", "alone") == 0
        top.pipeline([["MULTI"], ["SET", "k", "v"], ["PUBLISH", "ch", "in EXEC"], ["EXEC"]])
        top.pipeline([["MULTI"], ["PUBLISH", "p1", "alone in EXEC"], ["EXEC"]])
        script = "redis.call('PUBLISH', 'ch', ARGV[1]) return redis.call('GET', KEYS[1])"
        assert top.call("EVAL", script, 1, "k", "in a script") == b"v"
        assert top.call("SPUBLISH", "sh", "of a shard") == 0
        for c in (m, b):
            found = [c.read() for _ in range(5)]
            # Channels of different shards do not wait for each other.
            assert [message[2] for message in found if message[1] == b"ch"] == [
                b"alone",
                b"in EXEC",
                b"in a script",
            ]
            assert [b"pmessage", b"p*", b"p1", b"alone in EXEC"] in found
            assert [b"smessage", b"sh", b"of a shard"] in found
    assert_same(top, middle, bottom)


def test_a_copy_says_which_database_is_selected(node):
    """What follows it need not begin with SELECT: that was sent before."""
    top, middle = node(), node()
    follow(middle, top)
    assert top.call("SELECT", 2) == OK
    assert top.call("SET", "before", "v") == OK
    await_offset(top, middle)
    bottoms = [node(kind) for kind in KINDS]
    for bottom in bottoms:
        follow(bottom, middle)
    assert top.call("SET", "after", "v") == OK
    assert_same(top, middle, *bottoms)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_break_no_copy_is_needed(node, kind):
    top, middle, bottom = [node(k) for k in ("ours", "ours", kind)]
    follow(middle, top)
    follow(bottom, middle)
    rng = new_rng()
    with writing(lambda: connect(top), rng) as writers:
        for links in range(1, 4):
            writers.await_more()
            assert middle.call("CLIENT", "KILL", "TYPE", "replica") == 1
            wait_until(lambda links=links: continuations(middle) == links, what="the next link")
            await_link(bottom)
            writers.await_more()
            assert middle.call("CLIENT", "KILL", "TYPE", "master") == 1
            await_link(middle)
    assert_same(top, middle, bottom)
    assert copies(middle) == copies(top) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_another_primary_of_the_middle(node, kind):
    """The data is another one then, and the bottom gets a copy of it."""
    tops = [node(), node("redis7")]
    middle, bottom = node(), node(kind)
    for number, top in enumerate(tops):
        assert top.call("SET", f"of-{number}", "v") == OK
    follow(middle, tops[0])
    follow(bottom, middle)
    for top in [*tops, tops[0]]:
        if top is not tops[0] or role(middle)["master_port"] != str(top.port):
            follow(middle, top)
        above = role(top)["master_replid"]
        wait_until(lambda above=above: role(bottom)["master_replid"] == above, what="its id below")
        await_link(bottom)
        assert top.call("INCR", "count") > 0
        assert_same(top, middle, bottom)


def test_without_a_link_there_is_nothing_to_follow(node):
    middle = node()
    assert middle.call("REPLICAOF", "127.0.0.1", free_port()) == OK
    expected = Error("NOMASTERLINK Can't SYNC while not connected with my master")
    assert middle.call("PSYNC", "?", "-1") == expected
    assert middle.call("SYNC") == expected


def test_a_transaction_that_is_not_complete_stays_above(node):
    """A chain under many long MULTIs, of which the links are cut in the middle."""
    top, middle, bottom = node("redis7"), node(), node()
    follow(middle, top)
    follow(bottom, middle)
    value = "x" * 3000
    with connect(top) as c:
        for number in range(60):
            c.pipeline([["MULTI"], *([["RPUSH", f"l{number % 7}", value]] * 40), ["EXEC"]])
            if number % 20 == 5:
                top.call("CLIENT", "KILL", "TYPE", "replica")
            if number % 20 == 15:
                middle.call("CLIENT", "KILL", "TYPE", "replica")
    await_link(middle)
    await_link(bottom)
    assert_same(top, middle, bottom)
    assert bottom.call("LLEN", "l0") % 40 == 0
