# SPDX-License-Identifier: Apache-2.0
"""Commands on large streams, hashes, sets and lists, which are carried out in slices while others
run in between, and are one step nevertheless."""

import threading

import pytest

from harness import snapshot_files
from harness.beside import hops, incrementing
from harness.resp import OK, Error, Status, encode
from harness.server import only_dragonfly, wait_until

pytestmark = pytest.mark.sanitized

COUNT = 30_000  # elements: more than a slice, and more than 256 KB
KEYS = [f"{{{i}}}" for i in range(4)]  # in several shards
ELEMENTS = [b"element:%012d" % i for i in range(COUNT)]
IDS = [b"%d-%d" % (1 + i // 10, i % 10 + 1) for i in range(COUNT)]


def add_entries(r, key, count=COUNT):
    r.send(b"".join(encode("XADD", key, IDS[i], "field", ELEMENTS[i]) for i in range(count)))
    for i in range(count):
        assert r.read() == IDS[i]


def deliver(r, key, consumer="c"):
    """All that the group "g" has not got, without a long command."""
    while r.call("XREADGROUP", "GROUP", "g", consumer, "COUNT", 1000, "STREAMS", key, ">"):
        pass


def entries(first=0, last=COUNT):
    return [[IDS[i], [b"field", ELEMENTS[i]]] for i in range(first, last)]


# --- Each of them gives way ---


def fill_stream(r, key):
    add_entries(r, "x" + key)


def fill_pending(r, key):
    fill_stream(r, key)
    assert r.call("XGROUP", "CREATE", "x" + key, "g", 0) == OK
    deliver(r, "x" + key)


def fill_new(r, key):
    fill_stream(r, key)
    assert r.call("XGROUP", "CREATE", "x" + key, "g", 0) == OK


def fill_hash(r, key):
    assert r.call("HSET", "x" + key, *(word for e in ELEMENTS for word in (e, b"value"))) == COUNT


def fill_set(r, key):
    assert r.call("SADD", "x" + key, *ELEMENTS) == COUNT


def fill_list(r, key):
    assert r.call("RPUSH", "x" + key, *ELEMENTS) == COUNT


# How the key is filled, and the command, whose key is "x".
READS = [
    (fill_stream, "XRANGE", "x", "-", "+"), (fill_stream, "XREVRANGE", "x", "+", "-"),
    (fill_stream, "XREAD", "STREAMS", "x", "0"),
    (fill_stream, "XREAD", "COUNT", COUNT, "STREAMS", "x", 0),
    (fill_pending, "XPENDING", "x", "g", "-", "+", COUNT),
    (fill_pending, "XPENDING", "x", "g", "-", "+", COUNT, "c"),
    (fill_pending, "XINFO", "STREAM", "x", "FULL", "COUNT", 0),
    (fill_hash, "HRANDFIELD", "x", COUNT), (fill_hash, "HRANDFIELD", "x", 9_000),
    (fill_hash, "HRANDFIELD", "x", -COUNT, "WITHVALUES"),
    (fill_set, "SRANDMEMBER", "x", COUNT), (fill_set, "SRANDMEMBER", "x", 9_000),
    (fill_set, "SRANDMEMBER", "x", -COUNT), (fill_set, "SINTERCARD", 2, "x", "x"),
]  # fmt: skip
CHANGES = [
    (fill_new, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">"),
    (fill_pending, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", 0),
    (fill_pending, "XAUTOCLAIM", "x", "g", "d", 0, 0, "COUNT", COUNT),
    (fill_pending, "XGROUP", "DELCONSUMER", "x", "g", "c"),
    (fill_list, "LPOP", "x", COUNT), (fill_list, "RPOP", "x", COUNT - 1),
    (fill_list, "LMPOP", 1, "x", "LEFT", "COUNT", COUNT),
    (fill_set, "SPOP", "x", COUNT), (fill_set, "SPOP", "x", COUNT // 2),
    (fill_set, "SPOP", "x", COUNT - 1000),
]  # fmt: skip


def line_of(what, key):
    return ["x" + key if word == "x" else word for word in what[1:]]


def name_of(what):
    return "-".join(str(word) for word in what[1:] if isinstance(word, (str, int)))


def is_whole(what, reply):
    return reply == COUNT if what[1] in ("SINTERCARD", "XGROUP") else len(reply) > 0


def gives_way(server, what, keys):
    """INCRs of another client come between the two GETs of a pipeline only if what is between
    these gives way."""
    with server.connect() as c, server.connect() as other:
        for key in keys:
            number, copy, of = "n" + key, "copy" + key, "x" + key
            c.call("SET", number, 0)
            what[0](c, key)
            assert c.call("RENAME", of, copy) == OK
            between = 0
            with incrementing(other, number):
                for _ in range(100):  # the other client may get no core meanwhile
                    assert c.call("COPY", copy, of, "REPLACE") == 1
                    before, reply, after = c.pipeline(
                        [("GET", number), line_of(what, key), ("GET", number)]
                    )
                    assert is_whole(what, reply)
                    between = max(between, int(after) - int(before))
                    if between > 2:
                        break
            assert between > 2, key


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("what", READS, ids=name_of)
def test_reads_give_way(start_server, what):
    gives_way(start_server(proactor_threads=1), what, KEYS[:2])


@only_dragonfly("a command is one step")
@pytest.mark.parametrize("what", READS, ids=name_of)
def test_reads_give_way_whichever_thread_has_the_key(start_server, what):
    """Each slice is a hop."""
    server = start_server(proactor_threads=4, migrate_connections="false")
    with server.connect() as c:
        for key in KEYS[:3]:
            what[0](c, key)
            assert hops(c, *line_of(what, key)) >= 9_000 // 1024, key


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("what", CHANGES, ids=name_of)
def test_changes_give_way(start_server, what):
    gives_way(start_server(proactor_threads=1), what, KEYS[:2])


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 2])
def test_reads_of_little_are_brief(start_server, threads):
    """However large the stream is: clients ask for what is new all the time."""
    server = start_server(proactor_threads=threads, migrate_connections="false")
    with server.connect() as c:
        for key in KEYS:
            fill_pending(c, key)
            name = "x" + key
            group = ("XREADGROUP", "GROUP", "g", "other", "STREAMS", name)
            for line in (
                ("XREAD", "STREAMS", name, IDS[-1]), ("XREAD", "STREAMS", name, IDS[-50]),
                ("XREAD", "STREAMS", name, "$"), ("XREAD", "STREAMS", name, "+"),
                ("XRANGE", name, IDS[-50], "+"), ("XRANGE", name, b"(" + IDS[-1], "+"),
                ("XRANGE", name, "-", IDS[50]), ("XREVRANGE", name, "+", IDS[-50]),
                (*group, ">"), (*group, 0), (*group, IDS[-1]),
                ("XGROUP", "DELCONSUMER", name, "g", "other"),
                ("XGROUP", "DELCONSUMER", name, "g", "none"),
            ):  # fmt: skip
                assert hops(c, *line) == 0, line
            assert c.call("XADD", name, "*", "a", "b")
            assert hops(c, *group, ">") == 0
            assert hops(c, *group, 0) == 0
            assert c.call("XPENDING", name, "g", "-", "+", 9, "other")[0][1] == b"other"
            for line in (("XRANGE", name, "x", "+"), ("XREAD", "STREAMS", name, "x")):
                assert isinstance(c.call(*line), Error)


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_history_of_what_was_trimmed_takes_few_hops(start_server, threads):
    """Nearly all that such a stream has is pending: it says nothing about the entries' sizes."""
    server = start_server(proactor_threads=threads, migrate_connections="false")
    with server.connect() as c:
        for key in KEYS[:3]:
            fill_pending(c, key)
            assert c.call("XTRIM", "x" + key, "MAXLEN", 20) == COUNT - 20
            found = hops(c, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "x" + key, 0)
            assert COUNT // 1024 < found < 2 * COUNT // 1024 + 10
            history = c.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x" + key, 0)[0][1]
            assert history == [[id_, None] for id_ in IDS[:-20]] + entries(COUNT - 20)


@pytest.mark.alone
@only_dragonfly("a command is one step")
def test_few_entries_of_many_bytes_are_read_in_slices(start_server):
    with start_server(proactor_threads=1).connect() as c:
        for i in range(20):
            assert c.call("XADD", "x", IDS[i], "field", b"x" * 300_000) == IDS[i]
        assert c.call("XGROUP", "CREATE", "x", "g", 0) == OK
        group = ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x")
        for line in (
            ("XREAD", "STREAMS", "x", 0), ("XRANGE", "x", "-", "+"), ("XREVRANGE", "x", "+", "-"),
            (*group, ">"), (*group, 0), ("XINFO", "STREAM", "x", "FULL", "COUNT", 0),
        ):  # fmt: skip
            assert hops(c, *line) >= 20, line
        assert len(c.call(*group, 0)[0][1]) == 20
        assert len(c.call("XINFO", "STREAM", "x", "FULL", "COUNT", 0)) == 2 * 15


@pytest.mark.alone
@only_dragonfly("a command is one step")
def test_members_from_anywhere_are_taken_in_small_slices(start_server):
    """Each of them costs some microseconds."""
    with start_server(proactor_threads=1).connect() as c:
        fill_set(c, "")
        assert hops(c, "SPOP", "x", 9_000) >= 9_000 // 128
        assert c.call("SCARD", "x") == COUNT - 9_000


@pytest.mark.alone
@only_dragonfly("a command is one step")
def test_slices_are_one_change(start_server):
    with start_server(proactor_threads=1, save="").connect() as c:
        fill_new(c, "")
        assert c.call("COPY", "x", "copy") == 1

        def changes(*lines):
            before = int(c.info("persistence")["rdb_changes_since_last_save"])
            c.pipeline(list(lines))
            return int(c.info("persistence")["rdb_changes_since_last_save"]) - before

        for id_ in (">", 0):
            line = ("XREADGROUP", "GROUP", "g", "c", "STREAMS")
            brief = changes(("MULTI",), (*line, "copy", id_), ("EXEC",))
            assert changes((*line, "x", id_)) == brief <= 2, id_


# --- What they reply, and do ---


@pytest.mark.alone
def test_ranges(r):
    for key in KEYS[:2]:
        fill_stream(r, key)
        name = "x" + key
        assert r.call("XRANGE", name, "-", "+") == entries()
        assert r.call("XREVRANGE", name, "+", "-") == entries()[::-1]
        assert r.call("XRANGE", name, IDS[7], IDS[20_000]) == entries(7, 20_001)
        assert r.call("XREVRANGE", name, IDS[20_000], IDS[7]) == entries(7, 20_001)[::-1]
        assert r.call("XRANGE", name, b"(" + IDS[7], "+", "COUNT", 9_000) == entries(8, 9_008)
        last = entries(COUNT - 9_000)
        assert r.call("XREVRANGE", name, "+", "-", "COUNT", 9_000) == last[::-1]


@pytest.mark.alone
def test_reads_over_shards(r, r3):
    for key in KEYS:
        fill_stream(r, key)
    names = [b"x" + key.encode() for key in KEYS]
    found = r.call("XREAD", "STREAMS", *names, *[0] * 4)
    assert found == [[name, entries()] for name in names]
    assert r3.call("XREAD", "STREAMS", *names, *[0] * 4).dict() == {n: entries() for n in names}
    found = r.call("XREAD", "COUNT", 10_000, "STREAMS", *names, IDS[4], "$", IDS[COUNT - 3], 0)
    assert found == [[names[0], entries(5, 10_005)], [names[2], entries(COUNT - 2)],
                     [names[3], entries(0, 10_000)]]


@pytest.mark.alone
def test_a_group_gets_all_at_once(r):
    for key in KEYS:
        fill_new(r, key)
    names = [b"x" + key.encode() for key in KEYS]
    for name in names[:2]:
        found = r.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 10_000, "STREAMS", name, ">")
        assert found == [[name, entries(0, 10_000)]]
    found = r.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", *names, *[">"] * 4)
    assert found == [[name, entries(0 if i >= 2 else 10_000)] for i, name in enumerate(names)]
    assert r.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", *names, *[">"] * 4) is None
    for name in names:
        group = dict(zip(*[iter(r.call("XINFO", "GROUPS", name)[0])] * 2))
        assert (group[b"pending"], group[b"lag"]) == (COUNT, 0)
        assert group[b"last-delivered-id"] == IDS[-1] and group[b"entries-read"] == COUNT
        history = r.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", name, IDS[4])
        assert history == [[name, entries(5)]]
        history = r.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", name, IDS[-1])
        assert history == [[name, []]]
        pending = r.call("XPENDING", name, "g", "-", "+", COUNT)
        assert [[one[0], one[1], one[3]] for one in pending] == [
            [id_, b"c", 1 if i < 5 else 2] for i, id_ in enumerate(IDS)
        ]


@pytest.mark.alone
def test_a_history_of_what_has_gone(r):
    fill_pending(r, "")
    assert r.call("XTRIM", "x", "MAXLEN", COUNT - 10_000) == 10_000
    found = r.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", 0)[0][1]
    assert found == [[id_, None] for id_ in IDS[:10_000]] + entries(10_000)


@pytest.mark.alone
def test_claims_of_many(r):
    for key in KEYS[:2]:
        fill_pending(r, key)
        name = "x" + key
        cursor, claimed, gone = r.call("XAUTOCLAIM", name, "g", "d", 0, 0, "COUNT", 12_000)
        assert (cursor, claimed, gone) == (IDS[12_000], entries(0, 12_000), [])
        assert r.call("XDEL", name, *IDS[12_000:12_100]) == 100
        cursor, claimed, gone = r.call(
            "XAUTOCLAIM", name, "g", "d", 0, cursor, "COUNT", COUNT, "JUSTID"
        )
        assert (cursor, claimed, gone) == (b"0-0", IDS[12_100:], IDS[12_000:12_100])
        assert r.call("XPENDING", name, "g") == [
            COUNT - 100, IDS[0], IDS[-1], [[b"d", b"%d" % (COUNT - 100)]]
        ]
        # None of them is old enough: looked at are ten times as many as are asked for.
        cursor, claimed, gone = r.call("XAUTOCLAIM", name, "g", "e", 10**8, 0, "COUNT", 1_500)
        assert (cursor, claimed, gone) == (IDS[15_100], [], [])


@pytest.mark.alone
def test_pops(r):
    for key in KEYS:
        name = "x" + key
        fill_list(r, key)
        assert r.call("LPOP", name, 10_000) == ELEMENTS[:10_000]
        assert r.call("RPOP", name, 10_000) == ELEMENTS[:19_999:-1]
        assert r.call("LRANGE", name, 0, -1) == ELEMENTS[10_000:20_000]
        assert r.call("LMPOP", 2, "missing" + key, name, "RIGHT", "COUNT", 9_000) == [
            name.encode(), ELEMENTS[19_999:10_999:-1]
        ]
        assert r.call("LPOP", name, 10_000) == ELEMENTS[10_000:11_000]
        assert r.call("EXISTS", name) == 0
        fill_set(r, key)
        popped = r.call("SPOP", name, 10_000)
        left = r.call("SMEMBERS", name)
        assert (len(popped), len(left)) == (10_000, 20_000)
        assert sorted(popped + left) == ELEMENTS
        assert sorted(r.call("SPOP", name, COUNT)) == sorted(left)
        assert r.call("EXISTS", name) == 0


def test_watch_hears_a_pop_of_many(r, server):
    with server.connect() as other:
        for fill, line in ((fill_list, ("LPOP", "x", 9_000)), (fill_set, ("SPOP", "x", COUNT))):
            fill(r, "")
            assert r.call("WATCH", "x") == OK
            assert len(other.call(*line)) > 0
            r.pipeline([("MULTI",), ("PING",)])
            assert r.call("EXEC") is None
            r.call("DEL", "x")


@pytest.mark.alone
def test_inside_exec_they_reply_the_same(r):
    for what in READS + CHANGES:
        what[0](r, "")
        replies = r.pipeline([("MULTI",), line_of(what, ""), ("EXEC",)])
        assert is_whole(what, replies[-1][0])
        r.call("DEL", "x")


@pytest.mark.alone
@only_dragonfly("a command is one step")
def test_a_client_may_go_in_the_middle(start_server):
    """What it has asked for is done, all of it."""
    server = start_server(proactor_threads=1)
    with server.connect() as r:
        for what in CHANGES:
            what[0](r, "")
            with server.connect() as other:
                other.send(encode(*line_of(what, "")))
                other.read_line()
            with server.connect() as other:
                assert other.call("DEL", "x") in (0, 1)  # nobody keeps it locked


# --- Snapshots, and servers that follow ---


@pytest.mark.long
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("dbfilename", ["dump", "dump.rdb"])
def test_a_snapshot_has_all_of_a_change_or_nothing(start_server, dbfilename, threads):
    """Saves follow one another while what takes many hops changes the keys."""
    server = start_server(dbfilename=dbfilename, proactor_threads=threads)
    stop = threading.Event()
    names = [f"{{{i}}}" for i in range(2)]
    with server.connect() as r:
        for key in names:
            fill_new(r, key)
            fill_list(r, key + "list")
            fill_set(r, key + "set")
            assert r.call("COPY", f"x{key}list", f"copy{key}list") == 1
            assert r.call("COPY", f"x{key}set", f"copy{key}set") == 1

    def change(key):
        with server.connect() as w:
            while not stop.is_set():
                assert len(w.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x" + key, ">")) == 1
                claimed = w.call("XAUTOCLAIM", "x" + key, "g", "d", 0, 0, "COUNT", COUNT, "JUSTID")
                assert len(claimed[1]) == COUNT
                assert w.call("XGROUP", "DELCONSUMER", "x" + key, "g", "d") == COUNT
                assert w.call("XGROUP", "SETID", "x" + key, "g", 0) == OK
                assert len(w.call("LPOP", f"x{key}list", 20_000)) == 20_000
                assert len(w.call("SPOP", f"x{key}set", 20_000)) == 20_000
                assert w.call("COPY", f"copy{key}list", f"x{key}list", "REPLACE") == 1
                assert w.call("COPY", f"copy{key}set", f"x{key}set", "REPLACE") == 1

    threads_of_clients = [threading.Thread(target=change, args=(key,)) for key in names]
    for thread in threads_of_clients:
        thread.start()
    snapshots = []
    try:
        with server.connect() as r:
            for _ in range(8):
                assert r.call("SAVE") == OK
                snapshots.append(snapshot_files.take(server))
    finally:
        stop.set()
        for thread in threads_of_clients:
            thread.join()
    server.stop()
    for copy in snapshots:
        snapshot_files.put_back(server, copy)
        server.start_again()
        with server.connect() as r:
            for key in names:
                group = dict(zip(*[iter(r.call("XINFO", "GROUPS", "x" + key)[0])] * 2))
                pending = group[b"pending"]
                assert pending in (0, COUNT)
                # None is pending before they are delivered, and after "d" has gone.
                assert group[b"last-delivered-id"] in (IDS[-1], b"0-0")[: 1 if pending else 2]
                assert len(r.call("XPENDING", "x" + key, "g")[3] or []) == (1 if pending else 0)
                assert r.call("LLEN", f"x{key}list") in (10_000, COUNT)
                assert r.call("SCARD", f"x{key}set") in (10_000, COUNT)
        server.stop()


@pytest.mark.long
@only_dragonfly("a command is one step")
def test_a_replica_and_a_log_have_the_same(start_server):
    """Whatever takes many hops is told as what it has done."""
    primary = start_server(proactor_threads=2, appendonly="yes", repl_diskless_sync_delay=0)
    replica = start_server(proactor_threads=2)
    with primary.connect() as r, replica.connect() as f:
        assert f.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        wait_until(lambda: f.info("replication")["master_link_status"] == "up", what="a link")
        for i, what in enumerate(CHANGES):
            what[0](r, str(i))
            assert is_whole(what, r.call(*line_of(what, str(i))))
        r.call("SET", "last", "one")
        wait_until(lambda: f.call("GET", "last") == b"one", what="the last change")
        keys = sorted(r.call("KEYS", "*"))
        assert sorted(f.call("KEYS", "*")) == keys

        def content(c):
            found = {}
            for key in keys:
                if c.call("TYPE", key) == Status("stream"):
                    found[key] = c.call("XPENDING", key, "g")
                    for one in c.call("XPENDING", key, "g", "-", "+", COUNT):
                        found[key, one[0]] = (one[1], one[3])
                    group = dict(zip(*[iter(c.call("XINFO", "GROUPS", key)[0])] * 2))
                    found[key, "last"] = (group[b"last-delivered-id"], group[b"entries-read"])
                elif c.call("TYPE", key) == Status("set"):
                    found[key] = sorted(c.call("SMEMBERS", key))
                elif c.call("TYPE", key) == Status("list"):
                    found[key] = c.call("LRANGE", key, 0, -1)
            return found

        expected = content(r)
        assert content(f) == expected
    primary.kill()
    primary.start_again()
    with primary.connect() as r:
        wait_until(lambda: r.info("persistence")["loading"] == "0", what="the end of the load")
        assert content(r) == expected
