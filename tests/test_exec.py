# SPDX-License-Identifier: Apache-2.0
"""EXEC where it meets the rest of the server: CLIENT LIST, REPLY and PAUSE, maxmemory, INFO and
CONFIG, clients that leave, long queues, pipelines."""

import random

import pytest

from harness.resp import OK, Error, Status, Verbatim, encode
from harness.server import REFERENCE, SANITIZED, configuration_flags, wait_blocked, wait_until

pytestmark = [pytest.mark.sanitized]

QUEUED = Status("QUEUED")
OOM = "OOM command not allowed when used memory > 'maxmemory'."


@pytest.fixture(params=["4t", "1t"] if not REFERENCE else ["redis"])
def own(request, start_server):
    """A server of the test's own."""
    return start_server(**configuration_flags(request.param))


def fields_of(connection):
    text = connection.call("CLIENT", "LIST")
    text = text.text if isinstance(text, Verbatim) else text.decode()
    clients = [dict(f.split("=", 1) for f in line.split(" ")) for line in text.splitlines()]
    return {c["name"]: c for c in clients}


def test_client_list_tells_what_is_queued(own):
    with own.connect() as a, own.connect() as b:
        a.call("CLIENT", "SETNAME", "a")
        assert fields_of(b)["a"]["multi"] == "-1"
        assert fields_of(b)["a"]["flags"] == "N"
        a.call("MULTI")
        assert fields_of(b)["a"]["multi"] == "0"
        assert fields_of(b)["a"]["flags"] == "x"
        a.call("SET", "k", "v" * 1000)
        a.call("GET", "k")
        a.call("GET", "l")
        a.call("GET")  # an error; from here on nothing is queued any more
        assert a.call("SET", "k", "v" * 1000) == QUEUED
        fields = fields_of(b)["a"]
        assert (fields["multi"], fields["flags"]) == ("3", "x")
        assert int(fields["multi-mem"]) > 1000
        assert int(fields["tot-mem"]) > int(fields["multi-mem"])
        a.call("DISCARD")
        assert (fields_of(b)["a"]["multi"], fields_of(b)["a"]["flags"]) == ("-1", "N")
        # Inside EXEC it is still there.
        lines = a.pipeline([("MULTI",), ("SET", "k", "v"), ("CLIENT", "INFO"), ("EXEC",)])[-1]
        assert b" flags=x " in lines[1] and b" multi=2 " in lines[1]
        assert fields_of(b)["a"]["multi"] == "-1"
        assert fields_of(b)["a"]["cmd"] == "exec"


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "CLIENT REPLY OFF;MULTI;SET k v;EXEC;GET k;CLIENT REPLY ON;GET k",
        "CLIENT REPLY OFF;MULTI;SET k v;CLIENT REPLY ON;GET k;EXEC;GET k",
        "MULTI;SET k v;CLIENT REPLY OFF;GET k;EXEC;GET k;CLIENT REPLY ON;GET k",
        "MULTI;CLIENT REPLY OFF;GET k;CLIENT REPLY ON;SET k v;EXEC;GET k",
        "CLIENT REPLY SKIP;MULTI;SET k v;EXEC;GET k",
        "MULTI;SET k v;CLIENT REPLY SKIP;GET k;EXEC;ECHO a;ECHO b",
        "MULTI;SET k v;CLIENT REPLY SKIP;EXEC;ECHO a;ECHO b",
        "MULTI;SET k v;GET k;CLIENT REPLY SKIP;DISCARD;ECHO a;ECHO b",
        "CLIENT REPLY OFF;MULTI;NOSUCH;CLIENT REPLY ON;EXEC;CLIENT REPLY ON;EXEC;ECHO a",
        "CLIENT REPLY OFF;MULTI;SET k v;RESET;ECHO a",
        "CLIENT REPLY SKIP;EXEC;ECHO a",
        "CLIENT REPLY SKIP;WATCH k;MULTI;SET k v;EXEC;CLIENT REPLY SKIP;WATCH k;ECHO a",
        "MULTI;SET k v;QUIT;GET k",
        "WATCH k;MULTI;SET k v;GET k;RESET;EXEC;QUIT",
        "MULTI;HELLO 3;GET none;HELLO 2;GET none;CLIENT REPLY OFF;EXEC;QUIT",
    ],
)
def test_replies_that_are_off_or_skipped(pair, line, spread):
    got = []
    for server in pair:
        with server.connect() as c:
            c.call("FLUSHALL")
            commands = [command.split(" ") for command in line.split(";")]
            if spread:
                many = [["MSET", *[x for k in "abcdefgh" for x in (k, "v")]], ["MGET", *"abcd"]]
                at = commands.index(["MULTI"]) + 1 if ["MULTI"] in commands else 0
                commands[at:at] = many
            c.send(b"".join(encode(*command) for command in commands))
            c.sock.shutdown(1)
            raw = c.read_until_closed()
        if "HELLO" in line:
            raw = raw.count(b"$-1\r\n"), raw.count(b"_\r\n"), raw[:1]
        got.append(raw)
    assert got[0] == got[1]


def test_a_pause_holds_back_what_writes(own):
    with own.connect() as a, own.connect() as b, own.connect() as reader:
        for c in (a, reader):
            assert c.pipeline([("MULTI",), ("GET", "k")]) == [OK, QUEUED]
        assert a.call("SET", "k", "v") == QUEUED
        b.call("CLIENT", "PAUSE", 100_000, "WRITE")
        a.send_command("EXEC")
        assert reader.call("EXEC") == [None]
        assert reader.call("WATCH", "k") == OK
        assert reader.call("MULTI") == OK
        reader.send_command("SET", "l", "v")  # not even queued
        fields = wait_until(lambda: fields_of(b), what="it answers")
        assert len(fields) == 1  # without names
        assert b.call("GET", "k") is None
        b.call("CLIENT", "UNPAUSE")
        assert a.read() == [None, OK]
        assert reader.read() == QUEUED
        assert reader.call("EXEC") is None  # it watched k, which was written meanwhile


@pytest.mark.parametrize("queued", [
    ("EVAL", "return redis.call('set', KEYS[1], 'v')", 1, "k"),
    ("PUBLISH", "channel", "m"),
])
def test_a_pause_of_writes_holds_back_what_may_write(own, queued):
    with own.connect() as a, own.connect() as b:
        assert a.pipeline([("MULTI",), queued]) == [OK, QUEUED]
        b.call("CLIENT", "PAUSE", 100_000, "WRITE")
        a.send_command("EXEC")
        wait_blocked(b, 1)
        assert b.call("GET", "k") is None
        b.call("CLIENT", "UNPAUSE")
        assert len(a.read()) == 1
        assert b.info("clients")["blocked_clients"] == "0"


def test_a_pause_of_all_holds_exec_back(own):
    with own.connect() as a, own.connect() as b:
        assert a.pipeline([("MULTI",), ("GET", "k"), ("GET", "l")])[0] == OK
        b.pipeline([("SET", "k", "v"), ("CLIENT", "PAUSE", 100, "ALL")])
        assert a.call("EXEC") == [b"v", None]


def fill(r):
    """From now on no memory is left."""
    r.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    r.call("SET", "big", "x" * 100_000)
    assert r.call("CONFIG", "SET", "maxmemory", 1) == OK


def test_out_of_memory_when_it_is_queued(own):
    with own.connect() as r:
        fill(r)
        assert r.call("GET", "big") == b"x" * 100_000
        assert r.call("MULTI") == OK
        assert r.call("SET", "k", "v") == Error(OOM)
        # A queue takes memory, so this is refused, too.
        assert r.call("GET", "big") == Error(OOM)
        assert r.call("EXEC") == Error(
            "EXECABORT Transaction discarded because of previous errors."
        )
        assert r.call("EXEC") == Error("ERR EXEC without MULTI")
        assert r.pipeline([("MULTI",), ("EXEC",), ("MULTI",), ("DISCARD",)]) == [OK, [], OK, OK]
        assert r.info("commandstats")["cmdstat_set"].endswith("rejected_calls=1,failed_calls=0")
        assert r.info("errorstats")["errorstat_OOM"] == "count=2"


@pytest.mark.parametrize("spread", [False, True])
def test_out_of_memory_when_it_is_executed(own, spread):
    with own.connect() as r, own.connect() as other:
        other.call("SET", "none", "x")
        assert r.call("WATCH", "none") == OK
        assert r.call("MULTI") == OK
        for key in "abcdef" if spread else "a":
            assert r.call("SET", key, "v") == QUEUED
        fill(other)
        assert r.call("EXEC") == Error(f"EXECABORT Transaction discarded because of: {OOM}")
        assert r.call("EXEC") == Error("ERR EXEC without MULTI")
        assert r.call("EXISTS", *"abcdef") == 0
        assert other.call("CONFIG", "SET", "maxmemory", 0) == OK
        other.call("SET", "none", "y")
        assert r.pipeline([("MULTI",), ("SET", "a", "v"), ("EXEC",)])[-1] == [OK]
        stats = r.info("commandstats")["cmdstat_exec"]
        assert stats.endswith("rejected_calls=1,failed_calls=1"), stats


def test_a_client_that_leaves_forgets_what_it_watched(own):
    with own.connect() as r:
        for n in range(20):
            with own.connect() as c:
                c.call("WATCH", *[f"k{i}" for i in range(10)])
                if n % 2:
                    c.call("MULTI"), c.call("SET", "k1", "lost")
                if n % 3 == 0:
                    c.abort()
            r.call("SET", f"k{n % 10}", "v")
        wait_until(lambda: r.info("clients")["connected_clients"] == "1", what="all have left")
        assert r.call("GET", "k1") == b"v"


def test_ten_thousand_commands(own):
    count = 2_000 if SANITIZED else 10_000
    with own.connect(timeout=60) as r:
        commands = [("SET", f"k{i % 300}", i) for i in range(count)]
        commands += [("INCR", f"k{i}") for i in range(300)]
        for one_shard in (False, True):
            if one_shard:
                commands = [(name, "{tag}" + key, *more) for name, key, *more in commands]
            replies = r.pipeline([("MULTI",), *commands, ("EXEC",)])
            assert replies[0] == OK and replies[1:-1] == [QUEUED] * len(commands)
            assert replies[-1][:count] == [OK] * count
            lasts = [max(i for i in range(count) if i % 300 == k) + 1 for k in range(300)]
            assert replies[-1][count:] == lasts


def test_long_arguments_and_long_replies(own):
    value = bytes(range(256)) * 4096  # 1 MB
    with own.connect(timeout=60) as r:
        commands = [("SET", f"k{i}", value) for i in range(8)]
        commands += [("GET", f"k{i}") for i in range(8)]
        commands += [("APPEND", "k0", value), ("STRLEN", "k0"), ("MGET", "k1", "none", "k2")]
        for tag in ("", "{tag}"):
            tagged = [(name, tag + key, *more) for name, key, *more in commands[:-1]]
            tagged.append(("MGET", *[tag + key for key in commands[-1][1:]]))
            assert r.call("MULTI") == OK
            for command in tagged:
                assert r.call(*command) == QUEUED
            got = r.call("EXEC")
            assert got[:8] == [OK] * 8
            assert got[8:16] == [value] * 8
            assert got[16:18] == [2 << 20, 2 << 20]
            assert got[18] == [value, None, value]


def test_everything_mixed_in_one_exec(own):
    """Commands of one shard, of several, of all, of the session, and messages."""
    with own.connect() as r, own.connect() as subscriber:
        subscriber.call("SUBSCRIBE", "news")
        r.call("SELECT", 3)
        expected = {
            ("SET", "a", "1"): OK,
            ("MSET", "b", "2", "c", "3", "d", "4", "e", "5"): OK,
            ("PUBLISH", "news", "one"): 1,
            ("ECHO", "x"): b"x",
            ("RENAME", "a", "z"): OK,
            ("DBSIZE",): 5,
            ("SELECT", "4"): OK,
            ("GET", "z"): None,
            ("SWAPDB", "3", "4"): OK,
            ("MGET", "z", "b", "c", "d", "e"): [b"1", b"2", b"3", b"4", b"5"],
            ("INCR", "b"): 3,
            ("DEL", "b", "c", "nope"): 2,
            ("RPUSH", "list", "x", "y"): 2,
            ("LMOVE", "list", "other", "LEFT", "RIGHT"): b"x",
            ("INCR", "list"): Error(
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            ),
            ("CLIENT", "GETNAME"): None,
            ("FLUSHDB",): OK,
            ("EXISTS", "z", "list", "other"): 0,
            ("PUBLISH", "news", "two"): 1,
            ("SET", "last", "v"): OK,
        }
        replies = r.pipeline([("MULTI",), *expected, ("EXEC",), ("GET", "last"), ("DBSIZE",)])
        assert replies[1:-3] == [QUEUED] * len(expected)
        assert replies[-3] == list(expected.values())
        assert replies[-2:] == [b"v", 1]
        assert subscriber.read() == [b"message", b"news", b"one"]
        assert subscriber.read() == [b"message", b"news", b"two"]


def test_info_and_config_inside_exec(own):
    with own.connect() as r:
        got = r.pipeline(
            [
                ("MULTI",),
                ("SET", "k", "v"),
                ("INFO", "keyspace"),
                ("CONFIG", "SET", "timeout", "0"),
                ("COMMAND", "COUNT"),
                ("GET", "k"),
                ("EXEC",),
            ]
        )[-1]
        assert got[0] == OK and got[2] == OK and got[4] == b"v"
        assert b"db0:keys=1" in got[1]
        assert got[3] > 50


def test_pipelines_of_transactions(own):
    """Many EXECs in one send, with plain commands between them; some spread, some not."""
    rng = random.Random(7)
    model = {}
    commands, expected = [], []
    for n in range(300):
        keys = [f"k{rng.randrange(20)}" for _ in range(rng.randint(1, 5))]
        commands.append(("MULTI",))
        expected.append(OK)
        results = []
        for key in keys:
            commands.append(("INCR", key))
            expected.append(QUEUED)
            model[key] = model.get(key, 0) + 1
            results.append(model[key])
        if n % 7 == 0:
            commands.append(("DISCARD",))
            expected.append(OK)
            for key in keys:
                model[key] -= 1
        else:
            commands.append(("EXEC",))
            expected.append(results)
        key = rng.choice(keys)
        commands.append(("INCRBY", key, 10))
        model[key] += 10
        expected.append(model[key])
    with own.connect() as r:
        assert r.pipeline(commands) == expected
