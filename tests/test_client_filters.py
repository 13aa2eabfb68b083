# SPDX-License-Identifier: Apache-2.0
"""CLIENT LIST and CLIENT KILL with the filters of Redis 8 and Valkey 9."""

import re

import pytest

from harness.resp import OK, SYNTAX, Error, encode
from harness.server import only_dragonfly, wait_until

pytestmark = [
    pytest.mark.threads,
    pytest.mark.sanitized,
    only_dragonfly("most filters are Valkey's, since 9.0"),
]


@pytest.fixture
def clients(r, connect):
    """Those that are there, by their names; `r` is one of them, "me"."""
    r.call("CLIENT", "KILL", "SKIPME", "yes")
    wait_until(lambda: len(r.do("CLIENT LIST").splitlines()) == 1)
    r.do("CLIENT SETNAME me")
    named = {}
    for name in ("sub", "multi", "db", "lib", "other"):
        named[name] = connect()
        named[name].call("CLIENT", "SETNAME", name)
    named["sub"].do("SUBSCRIBE c")
    named["multi"].do("MULTI")
    named["db"].do("SELECT 3")
    named["db"].do("CLIENT NO-EVICT on")
    named["db"].do("CLIENT NO-TOUCH on")
    named["lib"].do("CLIENT SETINFO LIB-NAME redis-py")
    named["lib"].do("CLIENT SETINFO LIB-VER 7.1")
    r.do("ACL SETUSER reader on nopass +@all ~*")
    named["other"].do("AUTH reader x")
    yield named
    r.do("ACL DELUSER reader")


ALL = ["db", "lib", "me", "multi", "other", "sub"]


def names(r, *words):
    text = r.call("CLIENT", "LIST", *words)
    assert isinstance(text, bytes), text
    return sorted(re.findall(r" name=(\S+) ", text.decode()))


def without(*left_out):
    return [name for name in ALL if name not in left_out]


def test_each_filter_and_its_opposite(r, clients):
    for option, value, found in (
        ("NAME", "lib", ["lib"]),
        ("LIB-NAME", "redis-py", ["lib"]),
        ("LIB-VER", "7.1", ["lib"]),
        ("DB", "3", ["db"]),
        ("USER", "reader", ["other"]),
        ("TYPE", "pubsub", ["sub"]),
        ("TYPE", "primary", []),
        ("TYPE", "replica", []),
        ("FLAGS", "P", ["sub"]),
        ("FLAGS", "x", ["multi"]),
        ("FLAGS", "eT", ["db"]),
        ("FLAGS", "eP", []),
        ("FLAGS", "N", without("sub", "multi", "db")),
        ("IP", "127.0.0.1", ALL),
        ("IP", "10.0.0.1", []),
        ("CAPA", "r", []),
        ("ADDR", "%s:%d" % clients["lib"].sock.getsockname()[:2], ["lib"]),
        ("LADDR", "%s:%d" % r.sock.getpeername()[:2], ALL),
        ("ID", str(clients["lib"].do("CLIENT ID")), ["lib"]),
    ):
        assert names(r, option, value) == found, (option, value)
        assert names(r, option.lower(), value) == found, (option, value)
        assert names(r, f"NOT-{option}", value) == without(*found), (option, value)


def test_those_that_have_no_opposite(r, clients):
    assert names(r, "SKIPME", "yes") == without("me")
    assert names(r, "SKIPME", "NO") == ALL
    assert names(r, "MAXAGE", "100000") == []
    assert names(r, "IDLE", "100000") == []
    clients["lib"].do("PING")
    wait_until(lambda: names(r, "MAXAGE", "1") == ALL)
    wait_until(lambda: names(r, "IDLE", "1") == without("me"))
    for option in ("SKIPME", "MAXAGE", "IDLE"):
        assert r.call("CLIENT", "LIST", f"NOT-{option}", "1") == SYNTAX


def test_several_filters_have_to_fit_and_the_last_of_a_kind_counts(r, clients):
    ids = [str(clients[name].do("CLIENT ID")) for name in ("lib", "other")]
    assert names(r, "ID", *ids) == ["lib", "other"]
    assert names(r, "ID", ids[0], "ID", ids[1]) == ["lib", "other"]
    assert names(r, "ID", *ids, "NOT-ID", ids[0]) == ["other"]
    assert names(r, "NOT-ID", *ids) == without("lib", "other")
    assert names(r, "ID", *ids, "USER", "reader") == ["other"]
    assert names(r, "NAME", "lib", "NAME", "db") == ["db"]
    assert names(r, "NAME", "lib", "NOT-NAME", "lib") == []
    assert names(r, "TYPE", "normal", "NOT-FLAGS", "x", "NOT-DB", "3") == ["lib", "me", "other"]


def is_closed(c):
    return c.read_until_closed() == b""


def test_kill_takes_the_same(r, clients, connect):
    assert r.call("CLIENT", "KILL", "NAME", "lib", "LIB-VER", "7.0") == 0
    assert r.call("CLIENT", "KILL", "LIB-NAME", "redis-py", "LIB-VER", "7.1") == 1
    assert is_closed(clients["lib"])
    assert r.call("CLIENT", "KILL", "FLAGS", "eT", "DB", "3", "NOT-USER", "reader") == 1
    assert is_closed(clients["db"])
    lines = [r.call("CLIENT", "LIST", "NAME", name) for name in ("other", "multi")]
    ids = [line.split(b" ")[0][len("id=") :] for line in lines]
    assert r.call("CLIENT", "KILL", "ID", *ids, "NOT-FLAGS", "x") == 1
    assert is_closed(clients["other"])
    assert names(r) == ["me", "multi", "sub"]
    # Without the one who asks, unless it says so.
    assert r.call("CLIENT", "KILL", "NOT-NAME", "nobody", "IP", "127.0.0.1") == 2
    assert is_closed(clients["multi"])
    own = connect()
    own.call("CLIENT", "SETNAME", "own")
    own.send(encode("CLIENT", "KILL", "NAME", "own", "SKIPME", "no"))
    assert own.read() == 1
    assert is_closed(own)


ERRORS = {
    "USER nobody": "ERR No such user 'nobody'",
    "NOT-USER nobody": "ERR No such user 'nobody'",
    "TYPE what": "ERR Unknown client type 'what'",
    "NOT-TYPE what": "ERR Unknown client type 'what'",
    "FLAGS Nq": "ERR Unknown flags found in the provided filter: Nq",
    "NOT-FLAGS Z": "ERR Unknown flags found in the NOT-FLAGS filter: Z",
    "CAPA x": "ERR Unknown capa found in the provided filter: x",
    "DB x": "ERR DB is not an integer or out of range",
    "DB 16": "ERR DB number should be between 0 and 15",
    "NOT-DB -1": "ERR NOT-DB number should be between 0 and 15",
    "MAXAGE x": "ERR maxage is not an integer or out of range",
    "MAXAGE 0": "ERR maxage should be greater than 0",
    "IDLE 100000000000000000000": "ERR idle is not an integer or out of range",
    "IDLE -1": "ERR idle should be greater than 0",
    "SKIPME maybe": "ERR syntax error",
    "NOT-ID x": "ERR syntax error",
    "NOT-ID 0": "ERR client-id should be greater than 0",
    "WHAT 1": "ERR syntax error",
    "NOT- 1": "ERR syntax error",
    "TYPE normal NAME": "ERR syntax error",
    "NAME a TYPE what x": "ERR Unknown client type 'what'",
    "NAME a b": "ERR syntax error",
}


@pytest.mark.parametrize("words", ERRORS)
def test_errors(r, words):
    assert r.do(f"CLIENT LIST {words}") == Error(ERRORS[words])
    assert r.do(f"CLIENT KILL {words}") == Error(ERRORS[words])
    assert r.do("PING").text == "PONG"


def test_the_forms_of_redis_have_its_errors(r):
    assert r.do("CLIENT LIST TYPE what x") == SYNTAX
    invalid = Error("ERR Invalid client ID")
    assert r.do("CLIENT LIST ID") == SYNTAX
    assert r.do("CLIENT LIST ID x") == invalid
    assert r.do("CLIENT LIST ID 1 x") == invalid
    assert r.do("CLIENT LIST ID -1 0") == b""
    positive = Error("ERR client-id should be greater than 0")
    assert r.do("CLIENT KILL ID x") == positive
    assert r.do("CLIENT KILL ID 0") == positive
    assert r.do("CLIENT KILL ID 1 x") == SYNTAX


def field(line, name):
    return int(re.search(rf" {name}=(\d+)", line.decode()).group(1))


def test_bytes_and_commands_of_a_client(r, connect):
    c = connect()
    first = encode("CLIENT", "INFO")
    line = c.do("CLIENT INFO")
    assert field(line, "tot-cmds") == 0
    assert field(line, "tot-net-in") == 0  # without the command that asks
    assert field(line, "tot-net-out") == 0
    sent = len(b"$%d\r\n%s\r\n" % (len(line), line))
    c.do("SET k v")
    c.call("SET", "big", b"x" * 1_000_000)
    wait_until(lambda: field(c.do("CLIENT INFO"), "tot-cmds") >= 4)
    line = c.do("CLIENT INFO")
    received = len(first) + len(encode("SET", "k", "v"))
    received += len(encode("SET", "big", b"x" * 1_000_000))
    assert field(line, "tot-net-in") >= received
    assert field(line, "tot-net-in") < received + 100 * len(first)
    assert field(line, "tot-net-out") >= sent + 10
    ident = c.do("CLIENT ID")
    before = field(r.call("CLIENT", "LIST", "ID", ident), "tot-net-out")
    c.do("GET big")

    def sent_now():
        return field(r.call("CLIENT", "LIST", "ID", ident), "tot-net-out")

    wait_until(lambda: sent_now() >= before + 1_000_012)
    assert c.call("SELECT", "1") == OK
