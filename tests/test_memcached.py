# SPDX-License-Identifier: Apache-2.0
"""memcached's protocol: side by side with memcached, with pymemcache, and together with RESP."""

import os
import re
import shutil
import socket
import subprocess

import pytest

pymemcache = pytest.importorskip("pymemcache")
from pymemcache.client.base import Client, PooledClient  # noqa: E402
from pymemcache.client.hash import HashClient  # noqa: E402

from harness.resp import OK, Status  # noqa: E402
from harness.seeds import new_rng  # noqa: E402
from harness.server import REFERENCE, SLOWNESS, free_port, wait_until  # noqa: E402

pytestmark = pytest.mark.skipif(REFERENCE, reason="redis-server does not speak it")

THREADS = [1, 4]


class Text:
    """A connection on which bytes are compared."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def call(self, data):
        """All that comes before the answer to `mn`, which is sent behind it."""
        self.send(data + b"mn\r\n")
        got = b""
        while not got.endswith(b"MN\r\n"):
            line = self.file.readline()
            if not line:
                return got + b"<end>"
            got += line
        return got[: -len(b"MN\r\n")]


@pytest.fixture
def start(start_server):
    def start(**flags):
        port = free_port()
        return start_server(memcached_port=port, **flags), port

    return start


@pytest.fixture(params=THREADS)
def both(request, start):
    """A server of ours with 1 and 4 threads: the server, and its port for memcached."""
    return start(proactor_threads=request.param)


@pytest.fixture
def memcached():
    if shutil.which("memcached") is None:
        pytest.skip("memcached is not installed (tools/install_deps.sh test)")
    port = free_port()
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        ["memcached", *user, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1"]
    )

    def is_up():
        try:
            with Text(port) as t:
                return t.call(b"") == b""
        except OSError:
            return False

    try:
        wait_until(is_up)
        yield port
    finally:
        process.terminate()
        process.wait()


# --- Side by side ---

SCRIPT = rb"""
\r\n|foo\r\n|GET a\r\n|get\r\n|get \r\n|gets\r\n|set\r\n|set a\r\n|set a 0 0\r\n
set a 0 0 x\r\n|set a x 0 1\r\n|set a -1 0 1\r\n1\r\n|set a 0 x 1\r\n1\r\n|set a 0 0 -1\r\n
set a 0 0 3\r\nabcd\r\n|set a 0 0 3\r\nabc\r\n|set a 0 0 3\r\nabcde\r\nget a\r\n
set a 5 0 3 foo\r\nabc\r\n|set a 0 0 3 noreply\r\nabd\r\n|get a\r\n|set a 0 0 1 1 noreply\r\na\r\n
cas a 0 0 1\r\n|cas a 0 0 1 x\r\n1\r\n|cas a 0 0 1 999999\r\n1\r\n|cas nokey 0 0 1 9\r\n1\r\n
add a 0 0 1\r\n1\r\n|replace nokey 0 0 1\r\n1\r\n|append nokey 0 0 1\r\n1\r\n
append a 7 0 1\r\nx\r\n|prepend a 7 0 1\r\nx\r\n|get a\r\n|incr a 1\r\n|incr a\r\n|incr a x\r\n
incr nokey 1\r\n|set n 0 0 2\r\n10\r\n|decr n 1\r\n|incr n 18446744073709551615\r\n
incr n 18446744073709551616\r\n|incr n -1\r\n|decr n 100\r\n|incr n 1 noreply\r\n|incr n 1 foo\r\n
incr n 1 2 3 4\r\n|set n 0 0 3\r\n+10\r\n|incr n 1\r\n|set n 0 0 3\r\n 10\r\n|incr n 1\r\n
set n 0 0 2\r\n-1\r\n|incr n 1\r\n|set n 0 0 0\r\n\r\n|incr n 1\r\n
set n 0 0 20\r\n18446744073709551615\r\n|incr n 1\r\n|set n 0 0 4\r\n1 23\r\n|incr n 1\r\n
delete\r\n|delete nokey\r\n|delete n 0\r\n|delete n 1\r\n|delete n noreply\r\n
delete n 0 noreply\r\n|delete n foo bar\r\n|delete n 5 noreply\r\n|incr n x noreply\r\n
touch\r\n|touch a\r\n|touch a x\r\n|touch a 0\r\n|touch nokey 0\r\n|touch a 0 noreply\r\n
touch a -1\r\n|get a\r\n|gat\r\n|gat 0\r\n|gat x a\r\n|gat 0 a\r\n|gats 0 a b\r\n
flush_all x\r\n|flush_all 0 noreply\r\n|flush_all noreply\r\n|flush_all 0 foo\r\n
flush_all 0 0 0\r\n|flush_all\r\n|verbosity\r\n|verbosity 1\r\n|verbosity x\r\n
verbosity 1 noreply\r\n|verbosity 0 1 2\r\n|shutdown\r\n|stats foo\r\n|stats reset\r\n
stats items\r\n|get  k   k \r\n| get k\r\n|get k\ta\r\n|get a\n|mn foo\r\n|mz\r\n|m\r\n
mg\r\n|mg nokey\r\n|mg nokey v\r\n|mg nokey q v\r\n|mg nokey k O123\r\n|ms\r\n|ms a\r\n
ms a x\r\n|ms a 2\r\nhi\r\n|ms a 2 T\r\nhi\r\n|ms a 2 T0 F5 k O99 b\r\nhi\r\n
ms YWJj 2 b k O1\r\nhi\r\n|mg YWJj b k v f t s O2\r\n|md YWJj b\r\n|ms abc 2\r\nhi\r\n
mg abc\r\n|mg abc s\r\n|mg abc s v\r\n|mg abc y\r\n|mg abc T60 v\r\n|mg abc q k\r\n
ms abc 2 I\r\nhi\r\n|ms abc 2 C1\r\nhi\r\n|ms nokey 2 C1\r\nhi\r\n|ms abc 2 MA\r\nhi\r\n
mg abc v\r\n|ms abc 2 Mappend\r\nXX\r\n|ms abc 2 MZ\r\nXX\r\n|ms nokey2 2 MA\r\nhi\r\n
ms nokey2 2 MA N10 k c\r\nhi\r\n|ms nokey2 2 ME\r\nhi\r\n|ms nokey3 2 MR\r\nhi\r\n
ms nokey2 2 MP\r\nPR\r\n|ms nokey2 2 MS q k\r\nPR\r\n|ms nokey2 2 I I\r\nPR\r\n
ms q 3\r\nabcd\r\n|ms q 3 S5\r\nabc\r\n|ma\r\n|ma nonum\r\n|ma nonum N0 J13 v t\r\n
ma nonum v\r\n|ma nonum D10 v\r\n|ma nonum MD D5 v t\r\n|ma nonum M- v k\r\n|ma nonum Mx v\r\n
ma nonum Dx v k\r\n|ma nonum q\r\n|ma abc v\r\n|ma nokey q\r\n|md\r\n|md nokey\r\n|md nokey q\r\n
md nokey k O5\r\n|md nonum C1\r\n|md nonum I T300\r\n|mg nonum v\r\n|mg nonum v\r\n
ms nonum 1 I C1\r\n5\r\n|mg nonum v\r\n|md nonum q k\r\n|md nonum q\r\n|mg viv N300 v k\r\n
mg viv N300 v k\r\n|mg viv N300 v k f s\r\n|ms viv 1\r\n5\r\n|mg viv N300 v k\r\n
mg viv R300 v t\r\n
mg viv T100 v\r\n|mg viv R300 v k\r\n|mg viv R300 v k\r\n|mg viv s v f\r\n|ms viv 1 T-1\r\n5\r\n
mg viv v\r\n|ms viv 5\r\nabcdef\r\n|me nokey\r\n|me\r\n|mg !!!! b v\r\n|mg YWJj= b v\r\n
mg YWJj v b b\r\n|mg abc v v\r\n|mg abc O12345678901234567890123456789012345 v\r\n|mg abc O v\r\n
mg abc Ofoo Obar v k\r\n|mg abc Tx v\r\n|mg abc Nx v\r\n|ms abc S2\r\nhi\r\n|ms abc 2 Fx\r\nhi\r\n
ms abc 2 Cx\r\nhi\r\n|ms abc 2 Tx\r\nhi\r\n|ms abc 2 b\r\nhi\r\n|ms abc -1\r\nhi\r\n|mn q\r\n
"""


def steps():
    text = SCRIPT.replace(b"\n", b"|").decode()
    for step in text.split("|"):
        if step:
            yield step.encode().decode("unicode_escape").encode("latin-1")


def normal(reply):
    """Without cas uniques, as servers count differently, and with t as any time."""
    reply = re.sub(rb"^(VALUE \S+ \d+ \d+) \d+\r", rb"\1 CAS\r", reply, flags=re.M)
    reply = re.sub(rb"^((?:HD|VA|NS|EX|NF).*?) c[1-9]\d*", rb"\1 cCAS", reply, flags=re.M)
    return re.sub(rb" t[1-9]\d*", b" tT", reply)


def test_a_script_is_answered_as_by_memcached(both, memcached):
    with Text(both[1]) as ours, Text(memcached) as theirs:
        for step in steps():
            assert normal(ours.call(step)) == normal(theirs.call(step)), step


def random_command(draw):
    key = draw.choice(["a", "b", "c", "longer-key", "k" * 250]).encode()
    number = draw.choice([b"n1", b"n2"])  # a blank at its end would be appended to
    data = bytes(draw.randrange(256) for _ in range(draw.choice([0, 1, 5, 300])))
    flags = draw.choice([b"0", b"1", b"4294967295"])
    exptime = draw.choice([b"0", b"100", b"-1", b"2592001"])
    tail = draw.choice([b"", b"", b" noreply"])
    digits = str(draw.choice([0, 1, 9, 10, 2**64 - 1, draw.randrange(10**6)])).encode()
    block = b"%d" % len(data)
    meta = draw.sample([b"k", b"q", b"O77", b"f", b"v", b"s"], draw.randrange(4))
    set_flags = [b"F" + flags, b"T" + exptime, b"k", b"q"]
    set_flags = b" ".join(draw.sample(set_flags, draw.randrange(4)))
    mode = draw.choice([b"", b" ME", b" MA", b" MP", b" MR", b" MS"])
    store = draw.choice([b"set", b"set", b"add", b"replace", b"append", b"prepend"])
    return draw.choice(
        [
            lambda: b"get %s b a\r\n" % key,
            lambda: b"gets %s %s\r\n" % (key, key),
            lambda: b"gat %s %s c\r\n" % (exptime, key),
            lambda: b"%s %s %s %s %s%s\r\n%s\r\n"
            % (store, key, flags, exptime, block, tail, data),
            lambda: b"cas %s 0 0 %s 1%s\r\n%s\r\n" % (key, block, tail, data),
            lambda: b"set %s 3 0 %d\r\n%s\r\n" % (number, len(digits), digits),
            lambda: b"incr %s %s%s\r\n" % (number, digits, tail),
            lambda: b"decr %s %s%s\r\n" % (number, digits, tail),
            lambda: b"incr %s 5\r\n" % key,
            lambda: b"delete %s%s\r\n" % (key, tail),
            lambda: b"touch %s %s%s\r\n" % (key, exptime, tail),
            lambda: b"mg %s %s\r\n" % (key, b" ".join(meta)),
            lambda: b"mg %s N100 v k\r\n" % key,
            lambda: b"ms %s %s %s%s\r\n%s\r\n" % (key, block, set_flags, mode, data),
            lambda: b"md %s %s\r\n" % (key, draw.choice([b"", b"q", b"I", b"k O1", b"I T50"])),
            lambda: b"ma %s v N0 J%s D3\r\n" % (number, digits),
            lambda: b"flush_all\r\n" if draw.randrange(20) == 0 else b"mn\r\n",
        ]
    )()


@pytest.mark.parametrize("pipeline", [1, 20])
def test_random_commands_are_answered_as_by_memcached(both, memcached, pipeline):
    draw = new_rng()
    sent = []
    with Text(both[1]) as ours, Text(memcached) as theirs:
        for _ in range(3000 // pipeline // SLOWNESS):
            commands = b"".join(random_command(draw) for _ in range(pipeline))
            sent.append(commands)
            replies = normal(ours.call(commands)), normal(theirs.call(commands))
            assert replies[0] == replies[1], sent[-3:]


# --- Both protocols on one key ---


def test_redis_and_memcached_see_the_same_keys(both):
    server, port = both
    with server.connect() as r, Text(port) as t:
        assert r.call("SET", "k", "abc") == OK
        assert t.call(b"get k\r\n") == b"VALUE k 0 3\r\nabc\r\nEND\r\n"
        assert t.call(b"set k 7 100 2\r\nxy\r\n") == b"STORED\r\n"
        assert r.call("GET", "k") == b"xy"
        assert 0 < r.call("TTL", "k") <= 100
        assert t.call(b"set n 0 0 2\r\n10\r\ndecr n 1\r\n") == b"STORED\r\n9\r\n"
        assert r.call("INCR", "n") == 10
        assert r.call("DEL", "k") == 1
        assert t.call(b"get k\r\n") == b"END\r\n"


def cas_of(t, key=b"k"):
    return t.call(b"gets %s\r\n" % key).split(b"\r\n")[0].split()[-1]


CHANGES = [
    ("SET", "k", "v"),
    ("APPEND", "k", "x"),
    ("SETRANGE", "k", 0, "y"),
    ("GETSET", "k", "v"),
    ("SETEX", "k", 100, "v"),
    ("COPY", "other", "k", "REPLACE"),
    ("RENAME", "other", "k"),
    ("MSET", "k", "v", "z", "z"),
    ("RESTORE", "k"),
    ("EVAL", "return redis.call('SET', 'k', 'v')", 1, "k"),
]


@pytest.mark.parametrize("change", CHANGES, ids=[c[0] for c in CHANGES])
def test_a_change_by_redis_ends_the_cas_unique_and_the_flags(both, change):
    server, port = both
    with server.connect() as r, Text(port) as t:
        r.call("SET", "other", "o")
        t.call(b"set k 7 0 1\r\nv\r\n")
        cas = cas_of(t)
        assert cas_of(t) == cas
        if change[0] == "RESTORE":
            change = ("RESTORE", "k", 0, r.call("DUMP", "other"), "REPLACE")
        r.call(*change)
        assert t.call(b"cas k 0 0 1 %s\r\nw\r\n" % cas) == b"EXISTS\r\n"
        assert t.call(b"get k\r\n").startswith(b"VALUE k 0 ")
        assert t.call(b"cas k 5 0 1 %s\r\nw\r\n" % cas_of(t)) == b"STORED\r\n"
        assert t.call(b"get k\r\n") == b"VALUE k 5 1\r\nw\r\nEND\r\n"


@pytest.mark.parametrize(
    "change", [("DEL", "k"), ("FLUSHALL",), ("PEXPIRE", "k", 1), ("SWAPDB", 0, 1), ("MOVE", "k", 1)]
)
def test_a_key_that_went_leaves_nothing_behind(both, change):
    server, port = both
    with server.connect() as r, Text(port) as t:
        t.call(b"set k 7 0 1\r\nv\r\n")
        cas = cas_of(t)
        r.call(*change)
        wait_until(lambda: t.call(b"get k\r\n") == b"END\r\n")
        assert t.call(b"cas k 0 0 1 %s\r\nw\r\n" % cas) == b"NOT_FOUND\r\n"
        r.call("SET", "k", "v")
        assert t.call(b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
        assert cas_of(t) != cas


def test_a_new_deadline_leaves_flags_and_cas_unique(both):
    server, port = both
    with server.connect() as r, Text(port) as t:
        t.call(b"set k 7 0 1\r\nv\r\n")
        cas = cas_of(t)
        r.call("EXPIRE", "k", 100)
        r.call("PERSIST", "k")
        assert t.call(b"touch k 100\r\n") == b"TOUCHED\r\n"
        assert t.call(b"cas k 7 0 1 %s\r\nw\r\n" % cas) == b"STORED\r\n"
        assert t.call(b"get k\r\n") == b"VALUE k 7 1\r\nw\r\nEND\r\n"


def test_other_types_are_no_items(both):
    server, port = both
    wrong = b"SERVER_ERROR WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    with server.connect() as r, Text(port) as t:
        r.call("RPUSH", "l", "x")
        assert t.call(b"get l\r\ngats 0 l\r\n") == b"END\r\nEND\r\n"
        assert t.call(b"mg l v\r\n") == b"EN\r\n"
        assert t.call(b"add l 0 0 1\r\nx\r\n") == b"NOT_STORED\r\n"
        for command in [b"append l 0 0 1\r\nx\r\n", b"replace l 0 0 1\r\nx\r\n", b"incr l 1\r\n",
                        b"touch l 5\r\n", b"cas l 0 0 1 1\r\nx\r\n", b"mg l N5\r\n", b"ma l\r\n",
                        b"md l I\r\n"]:  # fmt: skip
            assert t.call(command) == wrong, command
        assert t.call(b"append l 0 0 1 noreply\r\nx\r\n") == b""
        assert r.call("LRANGE", "l", 0, -1) == [b"x"]
        assert t.call(b"set l 0 0 1\r\ny\r\n") == b"STORED\r\n"
        assert r.call("GET", "l") == b"y"


def test_redis_clients_do_not_have_the_commands(both):
    server, _ = both
    with server.connect() as r:
        for call in [("MEMCACHED",), ("MEMCACHED", "GET", "k"), ("memcached|get", "k")]:
            assert "unknown command" in str(r.call(*call))
        assert b"memcached" not in r.call("COMMAND", "LIST")
        assert r.call("COMMAND", "INFO", "memcached") == [None]


# --- pymemcache ---


@pytest.mark.parametrize("kind", [Client, PooledClient, HashClient])
def test_pymemcache(both, kind):
    address = ("127.0.0.1", both[1])
    client = kind([address] if kind is HashClient else address)
    assert client.set("k", b"\x00\r\n\xff") is True
    assert client.get("k") == b"\x00\r\n\xff"
    assert client.set_many({f"key:{i}": str(i) for i in range(100)}) == []
    assert len(client.get_many([f"key:{i}" for i in range(120)])) == 100
    value, cas = client.gets("k")
    assert client.cas("k", "new", cas, noreply=False) is True
    assert client.cas("k", "newer", cas, noreply=False) is False
    assert client.incr("key:1", 5) == 6
    assert client.decr("key:1", 10) == 0
    assert client.touch("k", 100, noreply=False) is True
    assert client.append("k", "!", noreply=False) is True
    assert client.get("k") == b"new!"
    assert client.delete("k", noreply=False) is True
    assert client.get("k", "default") == "default"
    client.flush_all(noreply=False)
    assert client.get("key:2") is None
    client.close()


def test_stats(both):
    client = Client(("127.0.0.1", both[1]))
    client.set("k", "v", noreply=False)
    client.get_many(["k", "absent"])
    stats = client.stats()
    assert (stats[b"cmd_get"], stats[b"get_hits"], stats[b"get_misses"]) == (2, 1, 1)
    assert stats[b"cmd_set"] == 1 and stats[b"curr_items"] == 1
    assert stats[b"threads"] in THREADS
    with Text(both[1]) as t:
        assert t.call(b"stats reset\r\n") == b"RESET\r\n"
        assert b"STAT item_size_max 1048576\r\n" in t.call(b"stats settings\r\n")
        assert b"STAT cmd_get 0\r\n" in t.call(b"stats\r\n")


# --- Limits, pieces, doors ---


def test_requests_in_pieces(both):
    requests = (
        b"set k 3 0 5\r\na\r\nbc\r\ngets\r\nget k k\r\nms m 2 c k\r\nhi\r\nmg m v\r\nincr k 1\r\n"
    )
    with Text(both[1]) as t:
        whole = t.call(requests)
        for i in range(len(requests)):
            t.send(requests[i : i + 1])
        assert normal(t.call(b"")) == normal(whole)


def test_a_large_value_is_skipped(start):
    _, port = start(memcached_max_value_bytes="10kb")
    too_large = b"SERVER_ERROR object too large for cache\r\n"
    with Text(port) as t:
        value = b"x" * 10240
        assert t.call(b"set k 0 0 10240\r\n%s\r\n" % value) == b"STORED\r\n"
        refused = t.call(b"append k 0 0 10241\r\nx%s\r\nget nokey\r\n" % value)
        assert refused == too_large + b"END\r\n"
        assert len(t.call(b"get k\r\n")) > 10240
        # What the client wanted to overwrite is no more.
        assert t.call(b"set k 0 0 10241\r\nx%s\r\nget k\r\n" % value) == too_large + b"END\r\n"


def test_a_line_has_a_limit(start):
    _, port = start(memcached_max_line_bytes="4kb")
    with Text(port) as t:
        assert t.call(b"get " + b"k " * 2000 + b"\r\n") == b"END\r\n"
        assert t.call(b"get " + b"k " * 2100 + b"\r\n") == b"CLIENT_ERROR line too long\r\n<end>"


def test_flush_all_may_come_later(both):
    server, port = both
    with Text(port) as t:
        t.call(b"set k 0 0 1\r\nv\r\n")
        assert t.call(b"flush_all 1\r\nget k\r\n") == b"OK\r\nVALUE k 0 1\r\nv\r\nEND\r\n"
        wait_until(lambda: t.call(b"get k\r\n") == b"END\r\n")
        t.call(b"flush_all 1000\r\n")  # the end of the server does not wait for it


def test_a_password(start):
    server, port = start(requirepass="secret")
    no = b"CLIENT_ERROR unauthenticated\r\n"
    with Text(port) as t:
        t.send(b"get a\r\nset x 0 0 10\r\ndefault no\r\nset x 0 0 3\r\nabc\r\n")
        assert [t.file.readline() for _ in range(3)] == [
            no,
            b"CLIENT_ERROR authentication failure\r\n",
            b"CLIENT_ERROR bad authentication token format\r\n",
        ]
        t.send(b"set x 0 0 14\r\ndefault secret\r\n")
        assert t.file.readline() == b"STORED\r\n"
        assert t.call(b"get x\r\n") == b"END\r\n"


def test_a_user_may_do_what_its_rules_say(start):
    server, port = start(requirepass="secret")
    with server.connect() as r, Text(port) as t:
        r.call("AUTH", "secret")
        r.call("ACL", "SETUSER", "reader", "on", ">pw", "~a*", "+memcached|get", "+memcached|end",
               "+memcached|mn")  # fmt: skip
        t.send(b"set x 0 0 9\r\nreader pw\r\n")
        assert t.file.readline() == b"STORED\r\n"
        assert t.call(b"get a\r\n") == b"END\r\n"
        assert t.call(b"set a 0 0 1\r\nv\r\n").startswith(b"SERVER_ERROR NOPERM ")
        assert t.call(b"get b\r\n").startswith(b"SERVER_ERROR NOPERM ")


def test_maxclients_and_memory(start):
    server, port = start(maxclients=2, maxmemory_policy="noeviction")
    with server.connect() as r:
        # Not a number: a sanitized server uses more than 20 MB before it has a key.
        limit = int(r.info("memory")["used_memory"]) + (15 << 20)
        assert r.call("CONFIG", "SET", "maxmemory", limit) == OK
        # The harness' own client is gone by then.
        wait_until(lambda: r.info("clients")["connected_clients"] == "1")
        with Text(port) as t:
            check_maxclients_and_memory(r, t, port)


def check_maxclients_and_memory(r, t, port):
    assert r.call("PING") == Status("PONG")
    assert t.call(b"") == b""
    with Text(port) as another:
        assert another.file.readline() == b"ERROR Too many open connections\r\n"
    assert r.info("clients")["connected_clients"] == "2"
    value = b"x" * 100_000
    replies = [t.call(b"set k%d 0 0 100000\r\n%s\r\n" % (i, value)) for i in range(300)]
    assert replies[0] == b"STORED\r\n"
    assert replies[-1] == b"SERVER_ERROR out of memory storing object\r\n"
    assert b"VALUE k0 0 100000\r\n" in t.call(b"get k0\r\n")


def test_flags_are_accounted_for(both):
    server, port = both
    with server.connect() as r, Text(port) as t:
        for i in range(2000):
            t.send(b"set key-which-is-somewhat-longer-%d 9 0 1 noreply\r\nv\r\n" % i)
        t.call(b"")
        with_flags = int(r.info("memory")["used_memory"])
        for i in range(2000):
            r.call("SET", f"key-which-is-somewhat-longer-{i}", "v")
        wait_until(lambda: int(r.info("memory")["used_memory"]) < with_flags - 100_000)
