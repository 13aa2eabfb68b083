# SPDX-License-Identifier: Apache-2.0
"""What came for groups of streams after 7.0: XDELEX, XACKDEL, KEEPREF, DELREF and ACKED (8.2),
XREADGROUP CLAIM (8.4), XNACK (8.8). What each of them does is in src/commands/streams/*_test.cc."""

import pytest
import redis

from harness.resp import OK, Status, encode
from harness.server import only_dragonfly, wait_blocked, wait_until, wait_until_loaded
from test_replicas import assert_same, await_replica, follow, other_server

pytestmark = only_dragonfly("all of it came later")

LONG_MS = 10_000_000


def fill(r, key="s", count=6, consumer="one"):
    """Entries 1-0 and so on, all of them given to a consumer of the group g."""
    for i in range(1, count + 1):
        r.call("XADD", key, f"{i}-0", "a", i)
    assert r.call("XGROUP", "CREATE", key, "g", "0") == OK
    r.call("XREADGROUP", "GROUP", "g", consumer, "STREAMS", key, ">")


def ids(r, key="s"):
    return [entry[0] for entry in r.call("XRANGE", key, "-", "+")]


def pending(r, key="s"):
    """(id, owner, deliveries) of each."""
    return [(e[0], e[1], e[3]) for e in r.call("XPENDING", key, "g", "-", "+", 100)]


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_has_calls_for_them(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol, socket_timeout=60) as client:
        made = [client.xadd("s", {"n": i}) for i in range(9)]
        client.xgroup_create("s", "g", 0)
        client.xreadgroup("g", "one", {"s": ">"})
        assert client.xdelex("s", made[0], "1-1") == [1, -1]
        assert client.xdelex("s", made[1], ref_policy="ACKED") == [2]
        assert client.xackdel("s", "g", made[1], ref_policy="ACKED") == [1]
        assert client.xackdel("s", "g", made[2], made[2], ref_policy="DELREF") == [1, -1]
        assert client.xtrim("s", maxlen=5, approximate=False, ref_policy="DELREF") == 1
        assert client.xtrim("s", maxlen=1, approximate=False, ref_policy="ACKED") == 0
        client.xadd("s", {"n": 9}, maxlen=5, approximate=False, ref_policy="KEEPREF")
        assert client.xlen("s") == 5
        assert client.xnack("s", "g", "FAIL", made[5], made[6]) == 2
        assert client.xnack("s", "g", "SILENT", made[7], retrycount=5) == 1
        assert client.xnack("s", "g", "FATAL", "1-1", force=True) == 0
        named = client.xpending_range("s", "g", "-", "+", 9)
        assert {b"one", b""} == {entry["consumer"] for entry in named}
        read = client.xreadgroup("g", "two", {"s": ">"}, claim_min_idle_time=LONG_MS)
        (entries,) = read.values() if isinstance(read, dict) else [read[0][1]]
        entries = entries[0] if isinstance(entries[0], list) else entries
        assert [(e[0], e[3]) for e in entries][:3] == [(made[5], 1), (made[6], 1), (made[7], 5)]
        assert entries[3][1:] == ({b"n": b"9"}, 0, 0)
        (group,) = client.xinfo_stream("s", full=True)["groups"]
        group = {k if isinstance(k, str) else k.decode(): v for k, v in group.items()}
        assert group["nacked-count"] == 0


def test_they_run_in_transactions_and_scripts(server, r):
    fill(r)
    assert r.call("MULTI") == OK
    for line in (
        "XDELEX s DELREF IDS 1 1-0",
        "XACKDEL s g IDS 1 2-0",
        "XNACK s g FAIL IDS 1 3-0",
        f"XREADGROUP GROUP g two BLOCK 0 CLAIM {LONG_MS} STREAMS s >",
        f"XREADGROUP GROUP g two BLOCK 0 CLAIM {LONG_MS} STREAMS s >",
    ):
        assert r.do(line) == Status("QUEUED")
    *others, claimed, nothing = r.call("EXEC")
    assert others == [[1], [1], 1] and nothing is None
    (((key, ((id_, fields, _, deliveries),)),)) = claimed
    assert (key, id_, fields, deliveries) == (b"s", b"3-0", [b"a", b"3"], 1)
    script = """
        local deleted = redis.call('XDELEX', KEYS[1], 'ACKED', 'IDS', 2, '4-0', '9-0')
        local back = redis.call('XNACK', KEYS[1], 'g', 'FAIL', 'IDS', 1, '5-0')
        local got = redis.call('XREADGROUP', 'GROUP', 'g', 'me', 'CLAIM', ARGV[1], 'STREAMS',
                               KEYS[1], '>')
        return {deleted, back, got[1][2][1][1], got[1][2][1][4]}
    """
    assert r.call("EVAL", script, 1, "s", LONG_MS) == [[2, -1], 1, b"5-0", 1]


def test_a_wait_ends_when_an_entry_is_old_enough(server, r):
    """Nothing happens to the key meanwhile."""
    fill(r, count=2)
    with server.connect() as waiter:
        line = "XREADGROUP GROUP g two COUNT 1 BLOCK 0 CLAIM 300 STREAMS s >"
        waiter.send(encode(*line.split()))
        (((key, ((id_, _, idle_ms, deliveries),)),)) = waiter.read()
        assert (key, id_, deliveries) == (b"s", b"1-0", 1) and idle_ms >= 300
        assert pending(r)[0] == (b"1-0", b"two", 2)
        waiter.send(encode(*line.split()))
        assert waiter.read()[0][1][0][0] == b"2-0"
    wait_blocked(r, 0)


def test_those_who_wait_get_one_each(server, r):
    fill(r, count=3)
    waiters = [server.connect() for _ in range(4)]
    for i, waiter in enumerate(waiters):
        line = f"XREADGROUP GROUP g c{i} COUNT 1 BLOCK 0 CLAIM 500 STREAMS other s > >"
        r.call("XGROUP", "CREATE", "other", "g", "0", "MKSTREAM")
        waiter.send(encode(*line.split()))
    # Four wait for three: the last one gets what the first one has had for long enough again.
    got = [waiter.read()[0][1][0][0] for waiter in waiters]
    assert {b"1-0", b"2-0", b"3-0"} == set(got)
    for waiter in waiters:
        waiter.close()
    wait_blocked(r, 0)


@pytest.mark.parametrize(
    "event, expected",
    [
        ("XNACK s g FAIL IDS 1 2-0", b"2-0"),
        ("XADD s 9-0 a b", b"9-0"),
        (f"XCLAIM s g one 0 2-0 IDLE {2 * LONG_MS} JUSTID", b"2-0"),
    ],
)
@pytest.mark.parametrize("keys", ["s", "far1 s far2 far3"])
def test_what_else_ends_it(server, r, keys, event, expected):
    fill(r, count=2)
    for key in keys.split():
        if key != "s":
            r.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
    with server.connect() as waiter:
        line = f"XREADGROUP GROUP g two BLOCK 0 CLAIM {LONG_MS} STREAMS {keys}"
        waiter.send(encode(*line.split(), *[">"] * len(keys.split())))
        wait_blocked(r, 1)
        r.do(event)
        ((key, (entry,)),) = waiter.read()
        assert (key, entry[0]) == (b"s", expected)
    assert (expected, b"two") in [p[:2] for p in pending(r)]


def test_a_timeout_and_an_end_of_the_group_end_it_too(server, r):
    fill(r, count=1)
    with server.connect() as waiter:
        line = f"XREADGROUP GROUP g two BLOCK 20 CLAIM {LONG_MS} STREAMS s >"
        assert waiter.do(line) is None
        waiter.send(encode(*line.replace("20", "0", 1).split()))
        wait_blocked(r, 1)
        r.do("XGROUP DESTROY s g")
        assert b"NOGROUP" in waiter.read().text.encode()


def test_nothing_is_claimed_while_writes_pause(server, r):
    fill(r, count=1)
    with server.connect() as waiter, server.connect() as other:
        waiter.send(encode(*"XREADGROUP GROUP g two BLOCK 0 CLAIM 5000 STREAMS s >".split()))
        wait_blocked(r, 1)
        assert other.do("CLIENT PAUSE 1000000 WRITE") == OK
        try:
            wait_until(lambda: r.do("XPENDING s g - + 1")[0][2] >= 5300, what="that it is old")
            assert pending(r) == [(b"1-0", b"one", 1)]
        finally:
            assert other.do("CLIENT UNPAUSE") == OK
        assert waiter.read()[0][1][0][0] == b"1-0"
    assert pending(r) == [(b"1-0", b"two", 2)]


def wait_for_many(server, r, count=50):
    fill(r, count=1)
    waiters = [server.connect() for _ in range(count)]
    for i, waiter in enumerate(waiters):
        line = f"XREADGROUP GROUP g c{i} BLOCK 0 CLAIM {LONG_MS} STREAMS s >"
        waiter.send(encode(*line.split()))
    wait_blocked(r, count)
    return waiters


def test_clients_that_go_leave_nothing(server, r):
    for waiter in wait_for_many(server, r):
        waiter.close()
    wait_blocked(r, 0)
    assert r.call("XNACK", "s", "g", "FAIL", "IDS", 1, "1-0") == 1
    assert pending(r) == [(b"1-0", b"", 1)]


COMMANDS = """
XDELEX s IDS 2 1-0 2-0
XDELEX s DELREF IDS 2 1-0 3-0
XDELEX s ACKED IDS 2 4-0 5-0
XACKDEL s g IDS 1 5-0
XACKDEL s g DELREF IDS 1 6-0
XACKDEL s g ACKED IDS 2 7-0 8-0
XACK s g 20-0 22-0
XTRIM s MAXLEN 21 DELREF
XTRIM s MINID 24-0 ACKED
XADD s ACKED MAXLEN ~ 3 100-0 a b
XADD s DELREF MAXLEN 12 101-0 a b
XREADGROUP GROUP g two COUNT 2 CLAIM 0 STREAMS s >
XREADGROUP GROUP g two COUNT 3 CLAIM 0 NOACK STREAMS s >
""".strip().splitlines()


def run(r, commands=COMMANDS):
    fill(r, count=30)
    r.call("XGROUP", "CREATE", "s", "h", "25-0")
    for line in commands:
        r.do(line)


@pytest.mark.parametrize("threads", [1, 4])
def test_redis_server_follows(start_server, tmp_path, threads):
    server = start_server(proactor_threads=threads, repl_diskless_sync_delay=0)
    with server.connect() as c, other_server("redis-server", tmp_path) as replica:
        c.call("SET", "first", "v")
        follow(replica, server)
        run(c)
        await_replica(c)
        assert_same(c, replica)


def everything(r):
    info = r.call("XINFO", "STREAM", "s", "FULL", "COUNT", 0)
    facts = dict(zip(info[::2], info[1::2]))
    groups = [dict(zip(g[::2], g[1::2])) for g in facts[b"groups"]]
    kept = [
        (g[b"name"], g[b"last-delivered-id"], g[b"entries-read"], g[b"nacked-count"],
         [(e[0], e[1], e[3]) for e in g[b"pending"]], [c[1] for c in g[b"consumers"]])
        for g in groups
    ]
    return facts[b"entries"], facts[b"max-deleted-entry-id"], facts[b"entries-added"], kept


RETURNS = [
    "XNACK s g FAIL IDS 2 30-0 28-0",
    "XNACK s g SILENT IDS 1 29-0",
    "XNACK s h FATAL IDS 2 27-0 26-0 FORCE",
    "XREADGROUP GROUP h a COUNT 1 CLAIM 1000000 STREAMS s >",
]


@pytest.mark.parametrize("named", [False, True], ids=["", "a consumer without a name"])
@pytest.mark.parametrize("how", ["log", "snapshot", "replica", "copy"])
def test_what_was_given_back_is_kept(start_server, how, named):
    flags = {"appendonly": "yes", "appendfsync": "always"} if how == "log" else {}
    server = start_server(proactor_threads=2, repl_diskless_sync_delay=0, **flags)
    with server.connect() as r:
        wait_until(lambda: r.info("persistence")["aof_rewrite_in_progress"] == "0")
        other = server
        if how == "replica":
            other = start_server(proactor_threads=2, replicaof=f"127.0.0.1 {server.port}")
            with other.connect() as c:
                wait_until(lambda: c.info("replication")["master_link_status"] == "up")
        run(r)
        if named:
            r.call("XGROUP", "CREATECONSUMER", "s", "g", "")
            r.call("XCLAIM", "s", "g", "", 0, "25-0", "JUSTID")
        for line in RETURNS:
            r.do(line)
        before = everything(r)
        if how == "copy":
            other = start_server(proactor_threads=2, replicaof=f"127.0.0.1 {server.port}")
            with other.connect() as c:
                wait_until(lambda: c.info("replication")["master_link_status"] == "up")
        if how in ("copy", "replica"):
            await_replica(r)
        if how == "snapshot":
            assert r.call("SAVE") == OK
    if how in ("log", "snapshot"):
        server.kill()
        server.start_again()
        wait_until_loaded(server)
    with other.connect() as r:
        assert everything(r) == before
        if how in ("copy", "replica"):
            assert r.call("REPLICAOF", "NO", "ONE") == OK
        read = r.do(f"XREADGROUP GROUP g new COUNT 3 CLAIM {LONG_MS} STREAMS s >")
        assert [e[0] for e in read[0][1]] == [b"30-0", b"28-0", b"29-0"]


def test_redis_server_loads_what_was_given_back(start_server, tmp_path):
    """It is a consumer's there, whose name was unused; and ours knows it when it comes back."""
    server = start_server(repl_diskless_sync_delay=0)
    with server.connect() as c, other_server("redis-server", tmp_path) as replica:
        run(c)
        for line in RETURNS:
            c.do(line)
        before = everything(c)
        follow(replica, server)
        await_replica(c)
        owners = {entry[1] for entry in replica.call("XPENDING", "s", "g", "-", "+", 100)}
        assert b"" in owners and b"two" in owners
        assert c.call("RESTORE", "back", 0, replica.call("DUMP", "s")) == OK
        c.call("RENAME", "back", "s")
        assert everything(c) == before
