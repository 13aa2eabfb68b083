# SPDX-License-Identifier: Apache-2.0
"""COMMANDLOG of Valkey 8.1: commands that took long, that are large, and whose replies are."""

import pytest

from harness.resp import OK, Error, arity, encode
from harness.server import only_dragonfly

pytestmark = [
    pytest.mark.threads,
    pytest.mark.sanitized,
    only_dragonfly("Valkey's, since 8.1"),
]

KB, MB = 1 << 10, 1 << 20
REQUEST, REPLY = "commandlog-request-larger-than", "commandlog-reply-larger-than"
DEFAULTS = {
    REQUEST: b"1048576",
    REPLY: b"1048576",
    "commandlog-large-request-max-len": b"128",
    "commandlog-large-reply-max-len": b"128",
    "slowlog-log-slower-than": b"10000",
    "slowlog-max-len": b"128",
}
BAD_KIND = Error("ERR type should be one of the following: slow, large-request, large-reply")
BAD_COUNT = Error("ERR count should be greater than or equal to -1")


@pytest.fixture
def c(r):
    """A connection; the logs are empty."""
    r.call("CLIENT", "SETNAME", "logged")
    reset(r)
    yield r
    for name, value in DEFAULTS.items():
        assert r.call("CONFIG", "SET", name, value) == OK
    reset(r)


def reset(c):
    for kind in ("slow", "large-request", "large-reply"):
        assert c.call("COMMANDLOG", "RESET", kind) == OK


def entries(c, kind):
    """Oldest first: the bytes, and the command with its first argument; without COMMANDLOG."""
    found = c.call("COMMANDLOG", "GET", "-1", kind)[::-1]
    return [(e[2], e[3][:2]) for e in found if e[3][0] != b"COMMANDLOG"]


def config(c, **settings):
    for name, value in settings.items():
        assert c.call("CONFIG", "SET", name.replace("_", "-"), value) == OK


def test_the_settings_have_the_defaults_of_valkey(c):
    for name, value in DEFAULTS.items():
        assert c.call("CONFIG", "GET", name) == [name.encode(), value]


def test_the_names_of_the_slow_log_are_also_those_of_slowlog(c):
    for name, old in (
        ("commandlog-execution-slower-than", "slowlog-log-slower-than"),
        ("commandlog-slow-execution-max-len", "slowlog-max-len"),
    ):
        config(c, **{name: "77"})
        assert c.call("CONFIG", "GET", old) == [old.encode(), b"77"]
        config(c, **{old: "78"})
        assert c.call("CONFIG", "GET", name) == [name.encode(), b"78"]


def test_the_slow_ones_are_those_of_slowlog(c):
    config(c, commandlog_execution_slower_than=0)
    c.do("SET k v")
    config(c, commandlog_execution_slower_than=-1)
    assert c.call("SLOWLOG", "LEN") == c.call("COMMANDLOG", "LEN", "slow") >= 2
    assert c.call("SLOWLOG", "GET", "-1") == c.call("COMMANDLOG", "GET", "-1", "SLOW")
    assert c.call("COMMANDLOG", "RESET", "slow") == OK
    assert c.call("SLOWLOG", "LEN") == 0


def test_an_entry_has_id_time_bytes_command_and_client(c):
    value = b"v" * MB
    c.call("SET", "k", value)
    c.call("GET", "k")
    request = c.call("COMMANDLOG", "GET", "10", "large-request")
    reply = c.call("COMMANDLOG", "GET", "10", "large-reply")
    assert len(request) == len(reply) == 1
    assert request[0][2] == len(encode("SET", "k", value))
    assert reply[0][2] == len(b"$1048576\r\n\r\n") + MB
    assert request[0][3] == [b"SET", b"k", b"v" * 128 + b"... (1048448 more bytes)"]
    assert reply[0][3] == [b"GET", b"k"]
    for entry in (*request, *reply):
        assert entry[1] > 1_600_000_000
        assert entry[4].startswith(b"127.0.0.1:") and entry[5] == b"logged"
    first = request[0][0]
    c.call("SET", "k", value)
    assert c.call("COMMANDLOG", "GET", "1", "large-request")[0][0] == first + 1


def test_zero_logs_all_and_minus_one_none(c):
    config(c, **{REQUEST: 0, REPLY: 0})
    reset(c)
    for i in range(40):
        c.call("SET", f"key:{i}", "v")
        c.call("GET", f"key:{i}")
        c.call("ECHO", f"echo:{i}")
    config(c, **{REQUEST: -1, REPLY: -1})
    c.do("SET k after")
    requests, replies = entries(c, "large-request"), entries(c, "large-reply")
    for i in range(40):
        name = b"key:%d" % i
        assert (len(encode("SET", name, "v")), [b"SET", name]) in requests
        assert (len(encode("GET", name)), [b"GET", name]) in requests
        assert (5, [b"SET", name]) in replies
        assert (7, [b"GET", name]) in replies
        said = b"echo:%d" % i
        assert (len(b"$%d\r\n\r\n" % len(said)) + len(said), [b"ECHO", said]) in replies
    assert not any(command[1:] == [b"k"] for _, command in requests + replies)


@pytest.mark.parametrize("bytes_from", [50, 5_000, 9_000, 20_000, 200_000, 2 * MB])
def test_the_limit_itself_is_large_and_a_byte_less_is_not(c, bytes_from):
    c.pipeline([("SET", f"{i}", "x") for i in range(200)])  # what follows is not timed each time
    config(c, **{REQUEST: bytes_from, REPLY: bytes_from})
    reset(c)

    def filled(command, size, at):
        """The command with so many bytes in all, by a longer argument."""
        for length in range(size, 0, -1):
            words = [*command[:at], b"v" * length, *command[at + 1 :]]
            if (found := len(encode(*words))) <= size:
                assert found == size
                return words
        raise AssertionError

    # Where the large argument stands makes no difference, and what was sent before neither.
    for at, command in ((2, ["SET", "last", ""]), (2, ["SET", "middle", "", "EX", "100"])):
        if len(encode(*command)) > bytes_from:
            continue
        less, just = (filled(command, bytes_from - byte, at) for byte in (1, 0))
        for words in (less, just):
            assert c.pipeline([("SET", "s", "1")] * 3 + [words]) == [OK] * 4
        key = command[1].encode()
        assert entries(c, "large-request") == [(bytes_from, [b"SET", key])]
        reset(c)
    size = bytes_from - len(b"$%d\r\n\r\n" % bytes_from)
    while len(b"$%d\r\n\r\n" % size) + size < bytes_from:
        size += 1
    for length in (size - 1, size):
        c.call("SET", "k", b"v" * length)
        reset(c)
        c.pipeline([("GET", "s")] * 3 + [("GET", "k")])
        wanted = [(bytes_from, [b"GET", b"k"])] if length == size else []
        assert entries(c, "large-reply") == wanted


def test_large_ones_of_every_kind_of_command(c):
    config(c, **{REQUEST: 20 * KB, REPLY: 20 * KB})
    many = [b"m%d" % i for i in range(4_000)]
    c.call("SADD", "set", *many)
    c.call("SMEMBERS", "set")
    c.call("MSET", *[word for name in many for word in (name, b"v")])
    c.call("MGET", *many)
    c.call("ECHO", b"e" * 30_000)
    c.call("EVAL", "return string.rep('x', tonumber(ARGV[1]))", "1", "k", "30000")
    c.call("EVAL", "return #ARGV[1]", "1", "k", b"a" * 30_000)
    c.do("MULTI")
    c.call("SET", "big", b"b" * 30_000)
    c.do("GET big")
    c.do("EXEC")
    c.call("RPUSH", "list", b"l" * 30_000)
    c.call("BLPOP", "list", "0")
    requests = [command[0] for _, command in entries(c, "large-request")]
    replies = [command[0] for _, command in entries(c, "large-reply")]
    assert requests == [b"SADD", b"MSET", b"MGET", b"ECHO", b"EVAL", b"SET", b"RPUSH"]
    # COMMANDLOG's own reply is not as large.
    assert replies == [b"SMEMBERS", b"MGET", b"ECHO", b"EVAL", b"GET", b"BLPOP"]


def test_a_transaction_over_shards_shows_its_commands(c):
    config(c, **{REQUEST: 20 * KB, REPLY: 20 * KB})
    c.do("MULTI")
    for i in range(8):
        c.call("SET", f"k{i}", b"b" * 30_000)
        c.call("GET", f"k{i}")
    c.call("MSET", "a", "1", "b", b"b" * 30_000)
    c.do("EXEC")
    names = sorted(b"k%d" % i for i in range(8))
    requests = [command for _, command in entries(c, "large-request")]
    assert sorted(words[1] for words in requests if words[0] == b"SET") == names
    assert [b"MSET", b"a"] in requests and len(requests) == 9
    assert sorted(words[1] for _, words in entries(c, "large-reply")) == names


def test_only_so_many_are_kept(c):
    config(c, **{REQUEST: 0, REPLY: 0, "commandlog-large-request-max-len": 3})
    c.pipeline([("SET", f"k{i}", "v") for i in range(20)])
    assert c.call("COMMANDLOG", "LEN", "large-request") == 3
    assert c.call("COMMANDLOG", "GET", "0", "large-request") == []
    assert len(c.call("COMMANDLOG", "GET", "2", "large-request")) == 2
    config(c, commandlog_large_reply_max_len=0)
    assert c.call("COMMANDLOG", "LEN", "large-reply") == 0


def test_secrets_are_not_logged(c):
    config(c, **{REQUEST: 0})
    c.call("AUTH", "default", "secret" * 10)
    logged = [e[3] for e in c.call("COMMANDLOG", "GET", "-1", "large-request")]
    assert [b"AUTH", b"(redacted)", b"(redacted)"] in logged


def test_errors(c):
    for words in (("GET",), ("GET", "1"), ("GET", "1", "slow", "x")):
        assert c.call("COMMANDLOG", *words) == arity("commandlog|get")
    assert c.call("COMMANDLOG", "LEN") == arity("commandlog|len")
    assert c.call("COMMANDLOG", "RESET") == arity("commandlog|reset")
    assert c.call("COMMANDLOG") == arity("commandlog")
    for count in ("x", "-2"):
        assert c.call("COMMANDLOG", "GET", count, "what") == BAD_COUNT
    assert c.call("COMMANDLOG", "GET", "1", "what") == BAD_KIND
    assert c.call("COMMANDLOG", "LEN", "what") == BAD_KIND
    assert c.call("COMMANDLOG", "RESET", "what") == BAD_KIND
    unknown = "ERR unknown subcommand 'WHAT'. Try COMMANDLOG HELP."
    assert c.call("COMMANDLOG", "WHAT") == Error(unknown)
    for name, least in ((REQUEST, -1), ("commandlog-large-reply-max-len", 0)):
        assert c.call("CONFIG", "SET", name, least - 1) == Error(
            f"ERR CONFIG SET failed (possibly related to argument '{name}') - argument must be "
            f"between {least} and 9223372036854775807 inclusive"
        )
