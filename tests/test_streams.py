# SPDX-License-Identifier: Apache-2.0
"""The stream family. Every test also passes on redis-server, unless marked. Waiting is in
test_stream_blocking.py."""

import pytest
import redis

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, arity
from harness.server import REFERENCE, only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

BAD_ID = Error("ERR Invalid stream ID specified as stream command argument")


def wrong_subcommand(command, name):
    return Error(
        f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try {command} HELP."
    )


def fill(r, key="s", count=3):
    for i in range(1, count + 1):
        assert r.call("XADD", key, f"{i}-1", "a", i) == f"{i}-1".encode()


def test_replies_have_redis_shape_in_both_protocols(r, r3):
    r.do("XADD s 1-1 a b")
    r.do("XADD t 1-1 a b")
    entries = b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    for line, resp2, resp3 in (
        ("XRANGE s - +", entries, entries),
        ("XRANGE nokey - +", b"*0\r\n", b"*0\r\n"),
        ("XRANGE s - + COUNT 0", b"*-1\r\n", b"_\r\n"),
        ("XREAD STREAMS s 5", b"*-1\r\n", b"_\r\n"),
        (
            "XREAD STREAMS s t 0 0",
            b"*2\r\n*2\r\n$1\r\ns\r\n" + entries + b"*2\r\n$1\r\nt\r\n" + entries,
            b"%2\r\n$1\r\ns\r\n" + entries + b"$1\r\nt\r\n" + entries,
        ),
        ("XADD nokey NOMKSTREAM * a b", b"$-1\r\n", b"_\r\n"),
    ):
        assert r.raw(*line.split()) == resp2, line
        assert r3.raw(*line.split()) == resp3, line
    r.do("XGROUP CREATE s g 0")
    pending = b"*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"
    assert r.raw("XPENDING", "s", "g") == pending
    assert r3.raw("XPENDING", "s", "g") == b"*4\r\n:0\r\n_\r\n_\r\n_\r\n"
    assert r3.raw("XINFO", "GROUPS", "s").startswith(b"*1\r\n%6\r\n$4\r\nname\r\n$1\r\ng\r\n")
    later = 0 if REFERENCE else 6  # fields of 8.6
    for words, fields in ((["s"], 10), (["s", "FULL"], 9)):
        info = r3.raw("XINFO", "STREAM", *words)
        assert info.startswith(b"%%%d\r\n$6\r\nlength\r\n:1\r\n" % (fields + later))


def test_redis_py_sees_a_stream(server):
    client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=60)
    with client:
        first = client.xadd("s", {"a": 1, "b": b"\x00\r\n"})
        second = client.xadd("s", {"a": 2})
        fields = {b"a": b"1", b"b": b"\x00\r\n"}
        assert client.xrange("s") == [(first, fields), (second, {b"a": b"2"})]
        assert client.xgroup_create("s", "g", 0)
        ((key, entries),) = client.xreadgroup("g", "c", {"s": ">"})
        assert key == b"s" and [id_ for id_, _ in entries] == [first, second]
        assert client.xpending("s", "g")["pending"] == 2
        assert client.xack("s", "g", first) == 1
        assert client.xautoclaim("s", "g", "d", 0)[1][0][0] == second
        info = client.xinfo_stream("s")
        assert info["length"] == 2 and info["last-generated-id"] == second
        assert client.xinfo_groups("s")[0]["lag"] == 0
        assert {c["name"] for c in client.xinfo_consumers("s", "g")} == {b"c", b"d"}
        assert client.type("s") == b"stream"


@pytest.mark.parametrize(
    "line, error",
    [
        ("XADD s", arity("xadd")),
        ("XADD s * a", arity("xadd")),
        ("XADD s * a b c", arity("xadd")),
        ("XADD s x a b", BAD_ID),
        ("XADD s 1-x a b", BAD_ID),
        ("XADD s MAXLEN x * a b", NOT_INT),
        ("XADD s 0-0 a b", Error("ERR The ID specified in XADD must be greater than 0-0")),
        (
            "XADD s 3-1 a b",
            Error(
                "ERR The ID specified in XADD is equal or smaller than the target stream top item"
            ),
        ),
        ("XTRIM s MAXLEN -1", Error("ERR The MAXLEN argument must be >= 0.")),
        ("XTRIM s MINID x", BAD_ID),
        ("XTRIM s FOO 1", SYNTAX),
        ("XDEL s 1-1 x", BAD_ID),
        ("XRANGE s x +", BAD_ID),
        ("XRANGE s - + COUNT x", NOT_INT),
        (
            "XREAD STREAMS s >",
            Error(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP "
                "<group> <consumer> option."
            ),
        ),
        ("XREAD FOO STREAMS s 0", SYNTAX),
        ("XREADGROUP STREAMS a b c d e f", Error("ERR Missing GROUP option for XREADGROUP")),
        (
            "XREADGROUP GROUP nog c STREAMS s >",
            Error(
                "NOGROUP No such key 's' or consumer group 'nog' in XREADGROUP with GROUP option"
            ),
        ),
        (
            "XSETID s 1-1",
            Error("ERR The ID specified in XSETID is smaller than the target stream top item"),
        ),
        ("XSETID nokey 1-1", Error("ERR no such key")),
        ("XGROUP SETID s nog 0", Error("NOGROUP No such consumer group 'nog' for key name 's'")),
        ("XGROUP CREATE s g 0 FOO", wrong_subcommand("XGROUP", "CREATE")),
        ("XGROUP FOO s", Error("ERR unknown subcommand 'FOO'. Try XGROUP HELP.")),
        ("XINFO STREAM s FOO", wrong_subcommand("XINFO", "STREAM")),
        ("XINFO STREAM nokey FOO", Error("ERR no such key")),
        ("XPENDING s nog", Error("NOGROUP No such key 's' or consumer group 'nog'")),
        ("XPENDING s nog - +", SYNTAX),
        ("XCLAIM s nog c x 1-1", Error("NOGROUP No such key 's' or consumer group 'nog'")),
        ("XAUTOCLAIM s nog c x 1-1", Error("ERR Invalid min-idle-time argument for XAUTOCLAIM")),
    ],
)
def test_an_error_changes_nothing(r, line, error):
    fill(r)
    assert r.do(line) == error
    assert r.do("XLEN s") == 3 and r.do("DBSIZE") == 1
    assert r.do("XINFO GROUPS s") == []


@only_dragonfly("7.0 lets it go below what was deleted, 7.2 does not")
def test_xsetid_looks_at_the_largest_deleted_id_first(r):
    fill(r)
    r.do("XADD s 9-1 a b")
    r.do("XDEL s 9-1")
    deleted = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
    assert r.do("XSETID s 2-1") == Error(deleted)
    assert r.do("XSETID s 9-0") == Error(deleted)
    assert r.do("XSETID s 9-1") == OK


def test_what_7_2_says_otherwise(r):
    fill(r)
    name = "XREAD" if REFERENCE else "'xread'"
    rest = "list of streams: for each stream key an ID or '$' must be specified."
    assert r.do("XREAD STREAMS s t 0") == Error(f"ERR Unbalanced {name} {rest}")


@only_dragonfly("there a consumer is made when it gets something; XINFO has no 'inactive'")
def test_a_consumer_is_made_by_its_first_try(r):
    r.do("XGROUP CREATE s g $ MKSTREAM")
    assert r.do("XREADGROUP GROUP g c STREAMS s >") is None
    (consumer,) = r.do("XINFO CONSUMERS s g")
    assert consumer[:4] == [b"name", b"c", b"pending", 0]
    assert consumer[4] == b"idle" and consumer[6:] == [b"inactive", -1]
    assert r.do("XCLAIM s g d 0 1-1") == []
    assert [c[1] for c in r.do("XINFO CONSUMERS s g")] == [b"c", b"d"]


def test_groups_are_not_heard_by_watch(server, r):
    fill(r)
    r.do("XGROUP CREATE s g 0")
    with server.connect() as other:
        for line, is_heard in (
            ("XREADGROUP GROUP g c STREAMS s >", False),
            ("XACK s g 1-1", False),
            ("XCLAIM s g d 0 2-1", False),
            ("XGROUP CREATE s h 0", False),
            ("XSETID s 9-9", False),
            ("XDEL s 1-1", True),
            ("XTRIM s MAXLEN 1", True),
            ("XADD s * a b", True),
            ("XGROUP CREATE new g 0 MKSTREAM", True),
        ):
            r.do("WATCH s new")
            other.do(line)
            r.do("MULTI")
            r.do("PING")
            assert (r.do("EXEC") is None) == is_heard, line


def test_limits_of_nodes_are_set_at_run_time(r):
    try:
        r.do("CONFIG SET stream-node-max-entries 10")
        fill(r, count=100)
        assert r.do("XTRIM s MAXLEN ~ 55") == 40
        r.do("CONFIG SET stream-node-max-entries 0 stream-node-max-bytes 1kb")
        assert r.do("CONFIG GET stream-node-max-bytes") == [b"stream-node-max-bytes", b"1024"]
        for i in range(300):
            r.call("XADD", "t", f"{i + 1}-1", "name", "x" * (i % 50))
        nodes = dict(zip(*[iter(r.do("XINFO STREAM t"))] * 2))[b"radix-tree-keys"]
        assert 8 < nodes < 16
    finally:
        r.do("CONFIG SET stream-node-max-entries 100 stream-node-max-bytes 4096")


def test_all_of_it_in_an_exec(r):
    r.do("MULTI")
    for line in (
        "XADD s0 1-1 a b",
        "XADD s1 1-1 a b",
        "XGROUP CREATE s0 g 0",
        "XGROUP CREATE s1 g 0",
        "XREADGROUP GROUP g c STREAMS s0 s1 > >",
        "XACK s0 g 1-1",
        "XREAD STREAMS s1 s0 0 0",
        "XLEN s1",
    ):
        r.do(line)
    entries = [[b"1-1", [b"a", b"b"]]]
    assert r.do("EXEC") == [
        b"1-1", b"1-1", OK, OK, [[b"s0", entries], [b"s1", entries]], 1,
        [[b"s1", entries], [b"s0", entries]], 1,
    ]  # fmt: skip


def test_other_types_are_refused(r):
    r.do("SET k v")
    for line in (
        "XADD k * a b",
        "XLEN k",
        "XREAD STREAMS k 0",
        "XGROUP CREATE k g 0 MKSTREAM",
        "XINFO STREAM k",
    ):
        assert r.do(line) == WRONGTYPE, line
    fill(r)
    assert r.do("GET s") == WRONGTYPE
