# SPDX-License-Identifier: Apache-2.0
"""The stream family. Every test also passes on redis-server, unless marked. Waiting is in
test_stream_blocking.py."""

import os
import random

import pytest
import redis

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, Map, arity
from harness.server import REFERENCE, SANITIZED, only_dragonfly

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

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
    assert r3.raw("XINFO", "STREAM", "s").startswith(b"%10\r\n$6\r\nlength\r\n:1\r\n")
    assert r3.raw("XINFO", "STREAM", "s", "FULL").startswith(b"%9\r\n$6\r\nlength\r\n:1\r\n")


def test_redis_py_sees_a_stream(server):
    client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=20)
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


# --- Against redis-server ---
#
# The grammar for the differential tester: commands(rng) gives one after the other.

KEYS = ["s0", "s1", "s2", "s3"]
GROUPS = ["g", "h"]
CONSUMERS = ["c1", "c2", "c3"]


class Grammar:
    def __init__(self, rng):
        self.rng = rng
        self.top = 1

    def one_of(self, *choices):
        return self.rng.choice(choices)

    def key(self):
        return self.rng.choice(KEYS) if self.rng.random() < 0.97 else "str"

    def new_id(self):
        chance = self.rng.random()
        self.top += self.one_of(0, 1, 1, 1, 7, 300)
        if chance < 0.6:
            return f"{self.top}-{self.rng.randrange(5)}"
        if chance < 0.8:
            return f"{self.top}-*"
        if chance < 0.95:
            return str(self.top)
        return self.one_of("0-0", "0-*", "x", "-", "5-", "(5", "18446744073709551616-1", "1-1-1",
                           "01-1", "+1")  # fmt: skip

    def id(self):
        if self.rng.random() < 0.95:
            return f"{max(0, self.top - self.rng.randrange(60))}-{self.rng.randrange(3)}"
        return self.end()

    def end(self):
        if self.rng.random() < 0.8:
            return f"{max(0, self.top - self.rng.randrange(60))}-{self.rng.randrange(3)}"
        most = "18446744073709551615-18446744073709551615"
        return self.one_of(str(self.top), "0", "0-0", "-", "+", "(1-1", "(0-0", "x", "1-", most,
                           f"({most}", "(-")  # fmt: skip

    def trim(self):
        if self.rng.random() < 0.3:
            threshold = ["MINID", *self.one_of([], ["="], ["~"]), self.id()]
        else:
            most = self.one_of("0", "1", "5", "20", "50", "150", "-1")
            threshold = ["MAXLEN", *self.one_of([], ["="], ["~"], ["~"]), most]
        if self.rng.random() < 0.2:
            threshold += ["LIMIT", self.one_of("0", "1", "10", "100", "-1", "x")]
        return threshold

    def value(self):
        return self.one_of("1", "-5", "v", "100000", "007", "", "x" * 10, "x" * 70, "x" * 300)

    def count(self):
        return self.one_of([], [], [], ["COUNT", self.one_of("1", "2", "10", "0", "-1", "x")])

    def add(self):
        words = ["XADD", self.key()]
        if self.rng.random() < 0.05:
            words.append("NOMKSTREAM")
        if self.rng.random() < 0.15:
            words += self.trim()
        words.append(self.new_id())
        for name in self.one_of("a", "a", "ab", "abc", "q"):
            words += [name, self.value()]
        return words + (["odd"] if self.rng.random() < 0.02 else [])

    def read(self):
        keys = [self.key() for _ in range(self.one_of(1, 1, 2, 3))]
        ids = [self.one_of(self.id(), "$", "0", self.end()) for _ in keys]
        return ["XREAD", *self.count(), "STREAMS", *keys, *ids]

    def read_group(self):
        keys = [self.key() for _ in range(self.one_of(1, 1, 2))]
        ids = [self.one_of(">", ">", ">", "0", self.id(), "$", self.end()) for _ in keys]
        who = [self.rng.choice(GROUPS), self.rng.choice(CONSUMERS)]
        ack = self.one_of([], [], ["NOACK"])
        return ["XREADGROUP", "GROUP", *who, *self.count(), *ack, "STREAMS", *keys, *ids]

    def group(self):
        reads = self.one_of([], ["ENTRIESREAD", self.one_of("0", "3", "-1", "-2")], ["FOO"])
        place = [self.key(), self.rng.choice(GROUPS)]
        consumer = self.rng.choice(CONSUMERS)
        return self.one_of(
            ["XGROUP", "CREATE", *place, self.one_of("0", "$", self.id()), *reads],
            ["XGROUP", "CREATE", *place, self.one_of("0", "$"), "MKSTREAM"],
            ["XGROUP", "SETID", *place, self.one_of("0", "$", self.end()), *reads],
            ["XGROUP", "CREATECONSUMER", *place, consumer],
            self.one_of(["XGROUP", "DESTROY", *place], ["XGROUP", "DELCONSUMER", *place, consumer]),
        )

    def pending(self):
        place = [self.key(), self.rng.choice(GROUPS)]
        consumer = self.rng.choice(CONSUMERS)
        ids = [self.id() for _ in range(self.one_of(1, 5))]
        idle = self.one_of("0", "0", "1000000", "x")
        claim = self.one_of(
            [], ["JUSTID"], ["FORCE"], ["RETRYCOUNT", "5"], ["TIME", "5"], ["IDLE", "1000"],
            ["LASTID", self.id()], ["FOO"], ["IDLE", "x"], ["FORCE", "RETRYCOUNT", "-4"],
        )  # fmt: skip
        auto = self.one_of([], ["JUSTID"], ["COUNT", "3"], ["COUNT", "0"], ["FOO"])
        rest = [self.end(), self.end(), self.one_of("0", "5", "100", "-1")]
        return self.one_of(
            ["XACK", *place, *ids],
            ["XACK", *place, *ids],
            ["XCLAIM", *place, consumer, idle, *ids, *claim],
            ["XAUTOCLAIM", *place, consumer, idle, self.end(), *auto],
            ["XPENDING", *place],
            ["XPENDING", *place, *self.one_of([], ["IDLE", "0"], ["IDLE", "1000000"]), *rest,
             *self.one_of([], [consumer])],
        )  # fmt: skip

    def info(self):
        full = self.one_of([], ["COUNT", self.one_of("0", "1", "5", "-1")])
        return self.one_of(
            ["XINFO", "STREAM", self.key()],
            ["XINFO", "STREAM", self.key(), "FULL", *full],
            ["XINFO", "GROUPS", self.key()],
            ["XINFO", "CONSUMERS", self.key(), self.rng.choice(GROUPS)],
        )

    def other(self):
        counters = ["ENTRIESADDED", self.one_of("0", "5", "500", "-1"), "MAXDELETEDID", self.id()]
        return self.one_of(
            ["XLEN", self.key()],
            ["XRANGE", self.key(), self.end(), self.end(), *self.count()],
            ["XREVRANGE", self.key(), self.end(), self.end(), *self.count()],
            ["XDEL", self.key(), *[self.id() for _ in range(self.one_of(1, 3))]],
            ["XDEL", self.key(), *[self.id() for _ in range(self.one_of(1, 3))]],
            ["XTRIM", self.key(), *self.trim()],
            self.one_of(["XSETID", self.key(), self.id(), *self.one_of([], counters, ["FOO"])],
                        ["TYPE", self.key()], ["OBJECT", "ENCODING", self.key()],
                        ["SET", "str", "v"], ["COPY", self.key(), self.rng.choice(KEYS)]),
            self.one_of(["DEL", self.rng.choice(KEYS)],
                        ["RENAME", self.rng.choice(KEYS), self.rng.choice(KEYS)],
                        *[["EXISTS", self.key()]] * 6),
        )  # fmt: skip

    def command(self):
        kinds = [self.add, self.read, self.read_group, self.group, self.pending, self.info]
        return self.rng.choices([*kinds, self.other], [40, 6, 12, 4, 14, 8, 16])[0]()


def commands(rng):
    grammar = Grammar(rng)
    while True:
        command = grammar.command()
        if command[0] in ("XREADGROUP", "XCLAIM", "XAUTOCLAIM"):
            # 7.2 makes consumers where 7.0 does not yet.
            for key in KEYS:
                yield ["XGROUP", "CREATECONSUMER", key, command[2], command[3]]
        yield command


TIMES = (b"idle", b"inactive", b"seen-time", b"active-time")


def without_times(reply):
    """What the clock does, and what 7.2 has besides, is left out."""
    if isinstance(reply, Map):
        reply = [item for pair in reply.pairs for item in pair]
    if not isinstance(reply, list):
        return 0 if isinstance(reply, int) and reply > 10**11 else reply
    kept = []
    skip = False
    for item in reply:
        if skip or (isinstance(item, bytes) and item in TIMES):
            skip = not skip
        else:
            kept.append(without_times(item))
    return kept


def comparable(command, reply):
    if command[0] == "XINFO":
        return without_times(reply)
    if command[0] == "XPENDING" and len(command) > 3 and isinstance(reply, list):
        return [[id_, consumer, count] for id_, consumer, _, count in reply]
    return reply


@only_dragonfly("it would be compared with itself")
@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("executed", [False, True], ids=["plain", "EXEC"])
def test_random_commands_get_the_replies_of_redis_server(pair, resp3, executed):
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    rng = random.Random(seed)
    source = commands(rng)
    connections = [server.connect(resp3=resp3) for server in pair]
    for connection in connections:
        connection.call("FLUSHALL")
        connection.call("SET", "str", "v")
    history = []
    for step in range(400 if SANITIZED else 2500):
        if executed:
            batch = [next(source) for _ in range(rng.randint(1, 6))]
            replies = []
            for connection in connections:
                connection.call("MULTI")
                queued = [connection.call(*command) for command in batch]
                replies.append((queued, connection.call("EXEC")))
            (ours_queued, ours), (theirs_queued, theirs) = replies
            assert ours_queued == theirs_queued, (seed, step, batch)
            assert isinstance(ours, list) == isinstance(theirs, list), (seed, step, batch)
            got = list(zip(batch, ours, theirs)) if isinstance(ours, list) else []
        else:
            command = next(source)
            got = [(command, *[connection.call(*command) for connection in connections])]
        for command, ours, theirs in got:
            history.append(" ".join(command))
            if isinstance(theirs, Error) and "Unbalanced" in theirs.text:
                continue
            ours, theirs = comparable(command, ours), comparable(command, theirs)
            assert ours == theirs, (seed, step, history[-15:])
    for connection in connections:
        connection.close()


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
