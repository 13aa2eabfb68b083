# SPDX-License-Identifier: Apache-2.0
"""repl-diskless-load swapdb: a replica loads a full copy beside its data, and changes over to it at
one moment. A valve in front of the primary holds the copy in the middle."""

import contextlib
import os
import threading

import pytest
from test_replica_chain import KINDS, connect, node

from harness.fake_primary import ID, FakePrimary
from harness.nodes import (
    assert_same,
    await_link,
    await_offset,
    content,
    continuations,
    copies,
    follow,
    role,
    writing,
)
from harness.resp import OK, Error, Push, Status
from harness.seeds import new_rng
from harness.server import REFERENCE, SLOWNESS, wait_until
from harness.valve import Valve

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself"),
]

__all__ = ["node"]  # a fixture

LOADING = "LOADING"
BACKLOG = 1 << 14
# Of a copy of what `fill` makes: the replica has some keys of it.
MIDDLE = 600_000
KEYS = 60_000
LIBRARY = "#!lua name=lib\nredis.register_function{function_name='which', flags={'no-writes'}, "
LIBRARY += "callback=function() return '%s' end}"


@pytest.fixture
def valve():
    """A factory: a valve in front of a primary."""
    with contextlib.ExitStack() as stack:
        yield lambda primary: stack.enter_context(contextlib.closing(Valve(primary.port)))


def replica_flags(**flags):
    return {"repl_diskless_load": "swapdb", "proactor_threads": 3, **flags}


def primary_flags(**flags):
    return {"repl_backlog_size": BACKLOG, **flags}


def fill(c, which):
    """Keys in two databases, of which the second one's say `which`, and functions."""
    rows = [("SELECT", 1), ("SET", "which", which), ("SET", which, which)]
    rows += [("SET", "timed", which, "EX", 100_000), ("RPUSH", f"list:{which}", *range(500))]
    rows += [("HSET", "hash", which, 1), ("FUNCTION", "LOAD", "REPLACE", LIBRARY % which)]
    rows += [("SELECT", 0), ("SET", "which", which)]
    for reply in c.pipeline(rows):
        assert not isinstance(reply, Error), reply


def populate(c, keys=KEYS):
    assert c.call("DEBUG", "POPULATE", keys, "key", 10) == OK


def pass_backlog(c, valve, replica):
    """The replica's link is cut, and the primary does more than its backlog can hold."""
    valve.cut()
    wait_until(lambda: role(replica)["master_link_status"] == "down", what="the end of the link")
    for _ in range(20):
        assert c.call("SET", "filler", "x" * BACKLOG) == OK
    assert c.call("DEL", "filler") == 1


def persistence(c):
    return c.info("persistence")


def is_loading_beside(c):
    facts = persistence(c)
    return facts["async_loading"] == "1" and facts["loading"] == "0"


def hold_copy(valve, replica, at=MIDDLE):
    """A full copy comes, and stops in the middle."""
    valve.mend(hold_at=at)
    valve.await_held()
    wait_until(lambda: is_loading_beside(replica), what="a load beside the data")


def loads(c):
    facts = persistence(c)
    return facts["loading"], facts["async_loading"]


def has_come_to(c, which):
    values = c.pipeline([("SELECT", 1), ("GET", "which"), ("SELECT", 0), ("GET", "which")])
    return [values[1], values[3]] == [which.encode()] * 2


def is_settled(c):
    """Nothing waits to be freed any more."""
    return c.info("memory")["lazyfree_pending_objects"] == "0"


def assert_sound(*servers):
    for c in servers:
        if hasattr(c, "server"):
            assert c.call("DEBUG", "CHECK") == OK


@pytest.fixture
def pair(node, valve):
    """A replica that has all of its primary, and then lacks more than the backlog has."""

    def start(kind="ours", flags=(), **of_replica):
        primary, replica = node(kind, **primary_flags()), node(**replica_flags(**of_replica))
        populate(primary)
        fill(primary, "old")
        between = valve(primary)
        follow(replica, between)
        await_offset(primary, replica)
        pass_backlog(primary, between, replica)
        fill(primary, "new")
        return primary, replica, between

    return start


@pytest.mark.parametrize("kind", KINDS)
def test_the_old_data_is_served_until_all_of_the_new_one_is_there(pair, kind):
    primary, replica, valve = pair(kind)
    before = content_of_small(replica)
    offset = role(replica)["slave_repl_offset"]
    hold_copy(valve, replica)
    facts = role(replica)
    assert facts["master_link_status"] == "down" and facts["master_sync_in_progress"] == "1"
    assert facts["slave_repl_offset"] == offset
    for _ in range(3):
        assert has_come_to(replica, "old")
        assert replica.call("DBSIZE") == KEYS + 1
        assert replica.call("FCALL_RO", "which", 0) == b"old"
        assert content_of_small(replica) == before
        assert len(replica.call("SCAN", 0, "COUNT", 10)[1]) > 0
    assert 99_000 < replica.call("TTL", "timed") or replica.call("EXISTS", "timed") == 0
    valve.open()
    await_link(replica)
    assert has_come_to(replica, "new")
    assert persistence(replica)["async_loading"] == "0"
    assert replica.call("FCALL_RO", "which", 0) == b"new"
    await_offset(primary, replica)
    assert content_of_small(replica) == content_of_small(primary)
    assert replica.call("DBSIZE") == primary.call("DBSIZE")
    assert copies(primary) == 2
    wait_until(lambda: is_settled(replica), what="freed memory")
    assert_sound(replica)


def content_of_small(c):
    """Of the second database, which has few keys."""
    assert c.call("SELECT", 1) == OK
    found = {}
    for key in c.call("KEYS", "*"):
        found[key] = c.call("DUMP", key)[:-10], c.call("PEXPIRETIME", key)
    assert c.call("SELECT", 0) == OK
    return found


def test_what_redis_refuses_meanwhile_is_refused(pair):
    primary, replica, valve = pair()
    hold_copy(valve, replica)
    for words in (["SAVE"], ["BGSAVE"], ["BGREWRITEAOF"], ["PSYNC", "?", "-1"], ["SYNC"]):
        assert replica.call(*words).text.startswith(LOADING), words
    for words in (["PING"], ["CONFIG", "GET", "port"], ["DBSIZE"], ["EVAL", "return 1", 0]):
        assert not isinstance(replica.call(*words), Error), words
    assert replica.call("SET", "k", "v").text.startswith("READONLY")
    assert replica.call("CONFIG", "SET", "replica-serve-stale-data", "no") == OK
    assert replica.call("GET", "which").text.startswith("MASTERDOWN")
    assert replica.call("CONFIG", "SET", "replica-serve-stale-data", "yes") == OK
    assert replica.call("MULTI") == OK
    assert replica.call("GET", "which") == Status("QUEUED")
    assert replica.call("EXEC") == [b"old"]
    valve.open()
    await_link(replica)


def test_watches_and_caches_hear_of_the_change(pair):
    primary, replica, valve = pair()
    watched = {"which": True, "key:1": True, "new-here": True, "nowhere": False}
    assert primary.call("SET", "new-here", 1) == OK
    hold_copy(valve, replica)
    with contextlib.ExitStack() as stack:
        clients = {key: stack.enter_context(connect(replica)) for key in watched}
        for key, client in clients.items():
            assert client.call("WATCH", key) == OK
        caching = stack.enter_context(replica.server.connect(resp3=True))
        assert caching.call("CLIENT", "TRACKING", "ON") == OK
        assert caching.call("GET", "which") == b"old"
        valve.open()
        await_link(replica)
        assert caching.read() == Push((b"invalidate", None))
        for key, client in clients.items():
            assert client.call("MULTI") == OK
            assert client.call("GET", "which") == Status("QUEUED")
            assert (client.call("EXEC") is None) == watched[key], key


def test_copies_that_break_off_leave_the_data(pair):
    primary, replica, valve = pair()
    before, offset = content_of_small(replica), role(replica)["slave_repl_offset"]
    replid = role(replica)["master_replid"]
    size = MIDDLE
    while size > 1_000:
        hold_copy(valve, replica, at=size)
        valve.cut()
        wait_until(lambda: persistence(replica)["async_loading"] == "0", what="the end of the load")
        assert content_of_small(replica) == before
        assert replica.call("DBSIZE") == KEYS + 1
        facts = role(replica)
        assert (facts["master_replid"], facts["slave_repl_offset"]) == (replid, offset)
        assert replica.call("FCALL_RO", "which", 0) == b"old"
        size //= 5
    wait_until(lambda: is_settled(replica), what="freed memory")
    assert_sound(replica)
    valve.mend()
    await_link(replica)
    assert has_come_to(replica, "new")


def test_memory_goes_back(pair):
    primary, replica, valve = pair()
    used = int(replica.info("memory")["used_memory"])
    for at in (MIDDLE, MIDDLE + 10_000):
        hold_copy(valve, replica, at=at)
        wait_until(
            lambda: int(replica.info("memory")["used_memory"]) > used + 100_000, what="both"
        )
        valve.cut()
        # What is not a value, like buffers, may change a bit.
        wait_until(
            lambda: int(replica.info("memory")["used_memory"]) < used + 100_000, what="one"
        )
    valve.mend()
    await_link(replica)
    wait_until(lambda: int(replica.info("memory")["used_memory"]) < used * 1.2, what="the new one")


def test_who_is_promoted_meanwhile_has_the_old_data(pair, node):
    """Others that have as much go on with it without a copy."""
    primary, replica, valve = pair()
    facts, before = role(replica), content_of_small(replica)
    hold_copy(valve, replica)
    assert replica.call("REPLICAOF", "NO", "ONE") == OK
    assert replica.call("SET", "mine", 1) == OK
    after = role(replica)
    assert after["role"] == "master" and after["master_replid2"] == facts["master_replid"]
    assert int(after["second_repl_offset"]) == int(facts["slave_repl_offset"]) + 1
    assert persistence(replica)["async_loading"] == "0"
    assert content_of_small(replica) == before
    assert replica.call("DBSIZE") == KEYS + 2
    wait_until(lambda: is_settled(replica), what="freed memory")
    assert_sound(replica)
    valve.open()
    other = node(**replica_flags())
    follow(other, replica)
    await_offset(replica, other)
    assert other.call("DBSIZE") == KEYS + 2


def test_a_sentinel_promotes_it_with_an_exec(pair):
    primary, replica, valve = pair()
    hold_copy(valve, replica)
    words = [["MULTI"], ["SLAVEOF", "NO", "ONE"], ["CONFIG", "REWRITE"], ["EXEC"]]
    replies = replica.pipeline(words)
    assert replies[-1][0] == OK, replies
    assert role(replica)["role"] == "master" and has_come_to(replica, "old")


def test_it_can_be_told_to_follow_another_one_meanwhile(pair, node):
    primary, replica, valve = pair()
    other = node(**primary_flags())
    fill(other, "other")
    hold_copy(valve, replica)
    follow(replica, other)
    assert has_come_to(replica, "other")
    await_offset(other, replica)
    assert_same(other, replica)


def test_it_goes_on_with_the_stream_after_a_copy_that_broke_off(node):
    """Whether the primary has again what comes next is for the primary to say."""
    fake = FakePrimary()
    replica = node(**replica_flags())
    head = f"+FULLRESYNC {ID} ".encode()
    whole = b"REDIS0010\xfe\x00\x00\x03old\x01v\xff" + b"\0" * 8
    half = b"REDIS0010\xfe\x00\x00\x03new\x01v" + b"\x00\x03abc\x01v" * 10
    assert replica.call("REPLICAOF", "127.0.0.1", fake.port) == OK
    fake.accept(head + b"100\r\n$%d\r\n" % len(whole) + whole)
    await_link(replica)
    fake.close()
    for copy in (b"$1000\r\n" + half, b"$EOF:" + b"m" * 40 + b"\r\n" + half):
        command = fake.accept(head + b"900\r\n" + copy)
        assert command == [b"PSYNC", ID.encode(), b"101"]
        wait_until(lambda: is_loading_beside(replica), what="a load beside the data")
        assert replica.call("GET", "old") == b"v"
        fake.close()
    assert fake.accept(b"+CONTINUE\r\n") == [b"PSYNC", ID.encode(), b"101"]
    fake.socket.sendall(b"*3\r\n$3\r\nSET\r\n$4\r\nmore\r\n$1\r\n1\r\n")
    wait_until(lambda: replica.call("GET", "more") == b"1", what="the stream")
    assert replica.call("KEYS", "*") != [] and replica.call("GET", "old") == b"v"
    fake.close()
    fake.listener.close()


def copy_of(c):
    """The RDB that a primary of ours sends."""
    with connect(c) as link:
        link.send_command("REPLCONF", "capa", "eof")
        assert link.read() == OK
        link.send_command("SYNC")
        while not (header := link.read_line().lstrip(b"\n")):
            pass
        assert header.startswith(b"$EOF:")
        mark = header[5:45]
        data = b""
        while not data.endswith(mark):
            data += link.read_bytes(1)
        return data[:-40]


def test_garbled_copies_leave_the_data(node):
    """Most are noticed as they are loaded, the others by the checksum."""
    source = node(**primary_flags())
    populate(source, 200)
    fill(source, "new")
    rdb = copy_of(source)
    fake = FakePrimary()
    replica = node(**replica_flags())
    fill(replica, "old")
    rng = new_rng()
    for i in range(60 // SLOWNESS):
        at = rng.randrange(9, len(rdb))
        bad = rdb[:at] + bytes([rdb[at] ^ rng.randrange(1, 256)]) + rdb[at + 1 :]
        if i % 3 == 1:
            bad = rdb[:at] + rng.randbytes(rng.randint(1, 100)) + rdb[at:]
        elif i % 3 == 2:
            bad = rdb[:at] + rdb[at + rng.randint(1, 50) :]
        mark = b"m" * 40
        copy = b"$%d\r\n" % len(bad) + bad if i % 2 else b"$EOF:" + mark + b"\r\n" + bad + mark
        for words in (["NO", "ONE"], ["127.0.0.1", fake.port]):
            assert_told(replica, words)
        fake.accept(f"+FULLRESYNC {ID} 7\r\n".encode() + copy)
        with contextlib.suppress(OSError):
            fake.socket.settimeout(0.5)
            while fake.socket.recv(1000):
                pass
        fake.close()
        wait_until(lambda: persistence(replica)["loading"] == "0", what="the end of the load")
        assert has_come_to(replica, "old"), i
        assert replica.call("FCALL_RO", "which", 0) == b"old"
    assert_sound(replica)
    assert_told(replica, ["127.0.0.1", source.port])
    await_link(replica)
    assert has_come_to(replica, "new")
    fake.listener.close()


def assert_told(replica, words):
    """While a copy of another stream is loaded it says LOADING."""

    def is_told():
        reply = replica.call("REPLICAOF", *words)
        return reply == OK or (isinstance(reply, Status) and "Already" in reply.text)

    wait_until(is_told, what=str(words))


def test_data_of_another_stream_is_not_served_but_kept(node, valve):
    primary, replica = node(**primary_flags()), node(**replica_flags())
    populate(primary)
    fill(primary, "new")
    fill(replica, "old")
    between = valve(primary)
    between.mend(hold_at=MIDDLE)
    assert replica.call("REPLICAOF", "127.0.0.1", between.port) == OK
    between.await_held()
    wait_until(lambda: persistence(replica)["loading"] == "1", what="the load")
    assert persistence(replica)["async_loading"] == "0"
    assert replica.call("GET", "which").text.startswith(LOADING)
    between.cut()
    wait_until(lambda: persistence(replica)["loading"] == "0", what="the end of the load")
    assert has_come_to(replica, "old")
    between.mend()
    await_link(replica)
    assert has_come_to(replica, "new")


@pytest.mark.parametrize("how", ["disabled", "on-empty-db", "swapdb"])
def test_which_copies_go_to_a_file(node, valve, how):
    primary, replica = node(**primary_flags()), node(**replica_flags(repl_diskless_load=how))
    populate(primary)
    fill(primary, "new")
    between = valve(primary)

    def has_file():
        return any(name.startswith("temp-") for name in os.listdir(replica.server.dir))

    for is_empty in (True, False):
        between.mend(hold_at=MIDDLE)
        assert_told(replica, ["127.0.0.1", between.port])
        between.await_held()
        by_file = how == "disabled" or (how == "on-empty-db" and not is_empty)
        wait_until(lambda: role(replica)["master_sync_in_progress"] == "1", what="the copy")
        if by_file:
            wait_until(has_file, what="the file")
            assert persistence(replica)["loading"] == "0"
        else:
            wait_until(lambda: "1" in loads(replica), what="the load")
            assert not has_file()
        between.open()
        await_link(replica)
        assert not has_file()
        assert has_come_to(replica, "new")
        if is_empty:
            await_offset(primary, replica)
            pass_backlog(primary, between, replica)


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_the_log_has_the_old_data_until_it_has_the_new_one(pair, policy):
    primary, replica, valve = pair(appendonly="yes", appendfsync=policy)
    wait_until(lambda: is_logged(replica), what="the log's base")
    hold_copy(valve, replica)
    replica.server.kill()
    replica.server.start_again()
    with replica.server.connect() as again:
        assert has_come_to(again, "old")
        assert again.call("DBSIZE") == KEYS + 1
        valve.mend()
        assert again.call("REPLICAOF", "127.0.0.1", valve.port) == OK
        await_link(again)
        assert has_come_to(again, "new")
        wait_until(lambda: is_logged(again), what="the new base")
        replica.server.kill()
    replica.server.start_again()
    with replica.server.connect() as again:
        assert has_come_to(again, "new")
        assert again.call("DBSIZE") == primary.call("DBSIZE")


def is_logged(c):
    facts = persistence(c)
    return facts["aof_enabled"] == "1" and facts["aof_rewrite_in_progress"] == "0"


def test_who_is_promoted_meanwhile_goes_on_with_its_log(pair):
    primary, replica, valve = pair(appendonly="yes", appendfsync="always")
    wait_until(lambda: is_logged(replica), what="the log's base")
    hold_copy(valve, replica)
    assert replica.call("REPLICAOF", "NO", "ONE") == OK
    assert replica.call("SET", "mine", 1) == OK
    replica.server.kill()
    replica.server.start_again()
    with replica.server.connect() as again:
        assert has_come_to(again, "old") and again.call("GET", "mine") == b"1"


@pytest.mark.parametrize("kind", KINDS)
def test_replicas_of_the_replica_follow(pair, node, kind):
    primary, replica, valve = pair()
    valve.mend()
    await_link(replica)
    bottom = node(kind)
    follow(bottom, replica)
    await_offset(replica, bottom)
    pass_backlog(primary, valve, replica)
    fill(primary, "newer")
    hold_copy(valve, replica)
    assert has_come_to(bottom, "new") and has_come_to(replica, "new")
    valve.open()
    await_link(replica)
    wait_until(lambda: has_come_to(bottom, "newer"), what="the data at the bottom")
    await_offset(primary, replica, bottom)
    assert bottom.call("DBSIZE") == primary.call("DBSIZE")


def test_the_end_of_the_server_keeps_the_old_data(pair):
    primary, replica, valve = pair(dbfilename="kept")
    hold_copy(valve, replica)
    assert replica.call("CONFIG", "SET", "save", "3600 1") == OK
    replica.send_command("SHUTDOWN")
    replica.server.wait_for_exit()
    replica.server.start_again()
    with replica.server.connect() as again:
        assert has_come_to(again, "old")
        assert again.call("DBSIZE") == KEYS + 1


def test_a_client_sees_one_state_or_the_other(node, valve):
    """Copies one after another, while a client of the replica reads keys of several shards."""
    primary, replica = node(**primary_flags()), node(**replica_flags())
    names = [f"n{i}" for i in range(20)]
    populate(primary, 5_000)
    between = valve(primary)
    primary.call("MSET", *(word for name in names for word in (name, 0)))
    follow(replica, between)
    await_offset(primary, replica)
    ends = threading.Event()
    wrong, seen = [], []

    def read():
        with connect(replica) as c:
            while not ends.is_set():
                values = c.call("MGET", *names)
                if isinstance(values, Error) or len(set(values)) != 1 or values[0] is None:
                    wrong.append(values)
                    return
                seen.append(int(values[0]))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for n in range(1, 6):
            pass_backlog(primary, between, replica)
            words = [word for name in names for word in (name, n)]
            assert primary.call("MSET", *words) == OK
            between.mend()
            await_link(replica)
            await_offset(primary, replica)
            assert replica.call("GET", "n0") == str(n).encode()
    finally:
        ends.set()
        for reader in readers:
            reader.join()
    assert not wrong, wrong[0]
    assert copies(primary) == 6
    assert set(seen) <= set(range(6))
    assert_sound(replica)


def test_writes_that_a_replica_acknowledged_survive_its_load(node, valve):
    """The replica that acknowledged them loads a copy when the primary dies, and is promoted."""
    primary = node(**primary_flags())
    replica = node(**replica_flags())
    populate(primary)
    between = valve(primary)
    follow(replica, between)
    rng = new_rng()
    with writing(lambda: connect(primary), rng, expires=False) as writers:
        writers.await_more()
    assert primary.call("SET", "answered", "1") == OK
    assert primary.call("WAIT", 1, 0) == 1
    await_offset(primary, replica)
    expected = content_of(replica)
    pass_backlog(primary, between, replica)
    hold_copy(between, replica)
    primary.send_command("SHUTDOWN", "NOSAVE", "NOW", "FORCE")
    primary.server.wait_for_exit()
    assert replica.call("REPLICAOF", "NO", "ONE") == OK
    assert replica.call("GET", "answered") == b"1"
    assert content_of(replica) == expected
    assert continuations(replica) == 0


def content_of(c):
    keys = sorted(key for key in c.call("KEYS", "*") if not key.startswith(b"key:"))
    return [(key, c.call("DUMP", key)) for key in keys]
