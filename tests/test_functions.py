# SPDX-License-Identifier: Apache-2.0
"""FUNCTION and FCALL, and libraries between our server and redis-server. Every test also passes on
redis-server, unless marked."""

import shutil
import threading
import time
from contextlib import contextmanager

import pytest

from harness.resp import OK, Error, Map, Status
from harness.server import Server, only_dragonfly, wait_until

pytestmark = [pytest.mark.threads]

NOT_FOUND = Error("ERR Function not found")
BAD_PAYLOAD = Error("ERR DUMP payload version or checksum are wrong")
OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")
UNKILLABLE = Error(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can "
    "either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE "
    "command."
)
LIBRARY_NAME = (
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least "
    "one character long"
)


def only(kind):
    return Error(
        f"BUSY Redis is busy running a script. You can only call {kind} KILL or SHUTDOWN NOSAVE."
    )


def library(name, *functions):
    """Source of a library: ("name", "code that has keys and args"), with flags as a third."""
    lines = [f"#!lua name={name}"]
    for function, body, *flags in functions:
        listed = ",".join(f"'{flag}'" for flag in flags)
        lines.append(
            f"redis.register_function{{function_name='{function}', flags={{{listed}}}, "
            f"callback=function(keys, args) {body} end}}"
        )
    return "\n".join(lines)


@pytest.fixture
def r(server):
    with server.connect() as c:
        c.call("FUNCTION", "FLUSH")
        yield c
    with server.connect() as c:
        c.call("FUNCTION", "FLUSH")


def load(c, *library_args, replace=False):
    source = library(*library_args)
    return c.call("FUNCTION", "LOAD", *(["REPLACE"] if replace else []), source)


def libraries(c, *options):
    """{library: sorted names of its functions}"""
    listed = {}
    for item in c.call("FUNCTION", "LIST", *options):
        fields = dict(zip(item[::2], item[1::2]))
        functions = [dict(zip(f[::2], f[1::2]))[b"name"] for f in fields[b"functions"]]
        listed[fields[b"library_name"]] = sorted(functions)
    return listed


def test_a_function_gets_keys_and_arguments(r):
    assert load(r, "lib", ("f", "return {keys, args}")) == b"lib"
    assert r.call("FCALL", "f", 0) == [[], []]
    assert r.call("FCALL", "f", 1, "k", "a", "b") == [[b"k"], [b"a", b"b"]]
    assert r.call("FCALL", "F", 2, "k", "l") == [[b"k", b"l"], []]
    assert r.call("FCALL_RO", "f", 0) == Error(
        "ERR Can not execute a script with write flag using *_ro command."
    )


def test_wrong_calls(r):
    load(r, "lib", ("f", "return 1"))
    assert r.call("FCALL", "f", "a") == Error("ERR Bad number of keys provided")
    assert r.call("FCALL", "f", -1) == Error("ERR Number of keys can't be negative")
    assert r.call("FCALL", "f", 2, "a") == Error(
        "ERR Number of keys can't be greater than number of args"
    )
    assert r.call("FCALL", "g", 0) == NOT_FOUND
    assert r.call("FCALL", "g", "a") == NOT_FOUND
    assert r.call("FCALL_RO", "g", 0) == NOT_FOUND
    assert r.call("EVAL", "return redis.call('fcall', 'f', 0)", 0).text.startswith(
        "ERR This Redis command is not allowed from script"
    )


def test_errors_name_the_function_and_the_line(r):
    load(
        r,
        "lib",
        ("unknown", "return redis.call('foo')"),
        ("raises", "error('boo')"),
        ("returns", "return redis.error_reply('MY err')"),
        ("sets", "return redis.call('set', keys[1], 1)", "no-writes"),
        ("global", "x = 5"),
        ("keys", "return KEYS[1]"),
    )
    at = " script: {0}, on @user_function:{1}."
    expected = {
        "unknown": "ERR Unknown Redis command called from script" + at.format("unknown", 2),
        "raises": "ERR user_function:3: boo" + at.format("raises", 3),
        "returns": "MY err",
        "sets": "ERR Write commands are not allowed from read-only scripts." + at.format("sets", 5),
        "global": "ERR user_function:6: Attempt to modify a readonly table"
        + at.format("global", 6),
        "keys": "ERR user_function:7: Script attempted to access nonexistent global variable 'KEYS'"
        + at.format("keys", 7),
    }
    for name, text in expected.items():
        assert r.call("FCALL", name, 1, "k") == Error(text), name
    assert r.call("FCALL_RO", "sets", 1, "k") == Error(expected["sets"])


def test_what_cannot_be_loaded(r):
    cases = {
        "x": "ERR Missing library metadata",
        "#!lua name=ab": "ERR Invalid library metadata",
        "#!lua name=a-b\nx": LIBRARY_NAME,
        "#!foo name=ab\nx": "ERR Engine 'foo' not found",
        "#!lua name=ab\nlocal a = 1": "ERR No functions registered",
        "#!lua name=ab\nx = = 1": "ERR Error compiling function: user_function:2: unexpected "
        "symbol near '='",
        "#!lua name=ab\nredis.register_function('a b', function() end)": "ERR Error registering "
        "functions: " + LIBRARY_NAME,
        "#!lua name=ab\nwhile true do end": "ERR Error registering functions: ERR FUNCTION LOAD "
        "timeout",
    }
    for source, error in cases.items():
        assert r.call("FUNCTION", "LOAD", source) == Error(error), source
    assert r.call("FUNCTION", "LOAD", "a", "b", "c") == Error("ERR Unknown option given: a")
    assert r.call("FUNCTION", "LOAD", "REPLACE") == Error("ERR Missing library metadata")
    assert r.call("FUNCTION", "LIST") == []


def test_names_are_unique(r):
    load(r, "a", ("f", "return 1"))
    assert load(r, "a", ("g", "return 1")) == Error("ERR Library 'a' already exists")
    assert load(r, "b", ("F", "return 1")) == Error("ERR Function F already exists")
    assert load(r, "b", ("g", "return 2"), ("f", "")) == Error("ERR Function f already exists")
    assert libraries(r) == {b"a": [b"f"]}
    assert load(r, "A", ("g", "return 3")) == b"A"
    assert load(r, "a", ("g", "return 4"), replace=True) == Error("ERR Function g already exists")
    assert r.call("FCALL", "f", 0) == 1
    assert load(r, "a", ("h", "return 5"), replace=True) == b"a"
    assert r.call("FCALL", "f", 0) == NOT_FOUND
    assert r.call("FCALL", "h", 0) == 5


def test_every_connection_calls_what_was_loaded_last(server, r):
    with server.connect() as other:
        for i in range(50):
            load(r, f"l{i % 2}", ("f", f"return {i}"), replace=True)
            assert [r.call("FCALL", "f", 0), other.call("FCALL", "f", 1, f"k{i}")] == [i, i]
            assert other.call("FUNCTION", "DELETE", f"l{i % 2}") == OK
            assert r.call("FCALL", "f", 0) == NOT_FOUND


def test_list(r):
    code = library("one", ("f", "return 1", "no-writes", "allow-oom"))
    r.call("FUNCTION", "LOAD", code)
    r.call(
        "FUNCTION",
        "LOAD",
        "#!lua name=two\nredis.register_function{function_name='g', callback=function() end, "
        "description='what it does'}",
    )
    assert libraries(r) == {b"one": [b"f"], b"two": [b"g"]}
    assert libraries(r, "LIBRARYNAME", "O*") == {b"one": [b"f"]}
    assert r.call("FUNCTION", "LIST", "libraryname", "none") == []
    (one,) = r.call("FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "one")
    flags = [Status("no-writes"), Status("allow-oom")]
    function = [b"name", b"f", b"description", None, b"flags", flags]
    head = [b"library_name", b"one", b"engine", b"LUA", b"functions", [function]]
    assert one == [*head, b"library_code", code.encode()]
    (two,) = r.call("FUNCTION", "LIST", "LIBRARYNAME", "two")
    assert two[5] == [[b"name", b"g", b"description", b"what it does", b"flags", []]]
    assert r.call("FUNCTION", "LIST", "x") == Error("ERR Unknown argument x")
    assert r.call("FUNCTION", "LIST", "WITHCODE", "withcode") == Error(
        "ERR Unknown argument withcode"
    )
    assert r.call("FUNCTION", "LIST", "LIBRARYNAME") == Error(
        "ERR library name argument was not given"
    )


def test_resp3(server, r):
    load(r, "lib", ("f", "return 1", "no-writes"))
    with server.connect(resp3=True) as c:
        ((head, functions),) = [(m.pairs[:2], m.pairs[2]) for m in c.call("FUNCTION", "LIST")]
        assert head == ((b"library_name", b"lib"), (b"engine", b"LUA"))
        fields = dict(functions[1][0].pairs)
        assert fields == {b"name": b"f", b"description": None, b"flags": {Status("no-writes")}}
        counts = Map(((b"libraries_count", 1), (b"functions_count", 1)))
        assert c.call("FUNCTION", "STATS") == Map(
            ((b"running_script", None), (b"engines", Map(((b"LUA", counts),))))
        )


def test_delete_and_flush(r):
    load(r, "a", ("f", "return 1"))
    load(r, "b", ("g", "return 1"))
    assert r.call("FUNCTION", "DELETE", "A") == Error("ERR Library not found")
    assert r.call("FUNCTION", "DELETE", "a") == OK
    assert libraries(r) == {b"b": [b"g"]}
    assert r.call("FUNCTION", "FLUSH", "x") == Error(
        "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
    )
    for command in ("FLUSH", "RESTORE"):
        assert r.call("FUNCTION", command, "SYNC", "x", "y") == Error(
            f"ERR unknown subcommand or wrong number of arguments for '{command}'. Try FUNCTION "
            "HELP."
        )
    for option in ([], ["sync"], ["ASYNC"]):
        assert r.call("FUNCTION", "FLUSH", *option) == OK
        assert libraries(r) == {}
        load(r, "a", ("f", "return 1"))


def test_what_flushall_and_script_flush_leave_alone(r):
    load(r, "a", ("f", "return 1"))
    r.call("FLUSHALL")
    r.call("SCRIPT", "FLUSH")
    assert r.call("FCALL", "f", 0) == 1


def test_functions_in_a_transaction(r):
    load(r, "a", ("f", "return redis.call('incr', keys[1])"))
    commands = [["MULTI"], ["FCALL", "f", 1, "k"], ["FUNCTION", "FLUSH"], ["FCALL", "f", 1, "k"]]
    assert r.pipeline([*commands, ["EXEC"]])[-1] == [1, OK, NOT_FOUND]


def test_functions_in_a_pipeline(r):
    load(r, "a", ("f", "return redis.call('incrby', keys[1], args[1])"))
    commands = [["FCALL", "f", 1, f"k{i % 7}", i] for i in range(500)]
    got = r.pipeline(commands)
    sums = [0] * 7
    for i, reply in enumerate(got):
        sums[i % 7] += i
        assert reply == sums[i % 7], i


def test_a_function_over_all_shards(r):
    fill = "for _, key in ipairs(keys) do redis.call('set', key, args[1]) end return #keys"
    add = "local s = 0 for _, key in ipairs(keys) do s = s + redis.call('get', key) end return s"
    load(r, "a", ("fill", fill), ("sum", add))
    keys = [f"k{i}" for i in range(40)]
    for i in range(1, 6):
        assert r.call("FCALL", "fill", 40, *keys, i) == 40
        assert r.call("FCALL", "sum", 40, *keys) == 40 * i


def test_keys_that_are_not_declared(server, r):
    raise_both = """
    local n = redis.call('get', args[1]) or 0
    redis.call('set', args[1], n + 1)
    redis.call('incr', args[2])
    return redis.call('get', keys[1])
    """
    load(r, "a", ("raise_both", raise_both))
    for i in range(60):
        assert r.call("FCALL", "raise_both", 1, "none", f"a{i % 5}", f"b{i % 5}") is None
    assert r.call("MGET", "a0", "b0", "a4", "b4") == [b"12"] * 4


@only_dragonfly("it has no SCRIPT LIST")
def test_what_was_learned_is_shown(r):
    load(r, "a", ("f", "return redis.call('get', args[1])", "no-writes"))
    for i in range(5):
        r.call("FCALL", "f", 0, f"k{i}")
    rows = [dict(zip(row[::2], row[1::2])) for row in r.call("SCRIPT", "LIST")]
    (row,) = [row for row in rows if row.get(b"function") == b"f"]
    assert (row[b"runs"], row[b"reach"], row[b"flags"]) == (5, b"far", [Status("no-writes")])


@pytest.mark.flags()
def test_without_memory(r):
    load(
        r,
        "a",
        ("sets", "return redis.call('set', keys[1], 1)"),
        ("sets_anyway", "return redis.call('set', keys[1], 1)", "allow-oom"),
        ("gets", "return redis.call('get', keys[1])", "no-writes"),
    )
    r.call("SET", "k", "v")
    r.call("CONFIG", "SET", "maxmemory", 1)
    assert r.call("FCALL", "sets", 1, "k") == OOM
    assert r.call("FCALL", "gets", 1, "k") == b"v"
    assert r.call("FCALL", "sets_anyway", 1, "k") == OK
    assert load(r, "b", ("g", "return 1")) == OOM
    assert r.call("FUNCTION", "RESTORE", "x") == OOM
    assert r.call("FUNCTION", "DELETE", "a") == OK


# A function that takes long.

LONG = """
local from = redis.call('time')[1]
while redis.call('time')[1] - from < 15 do end
return 'end'
"""


@contextmanager
def running(server, *command):
    """From when it is sent until it is over; yields a list that gets its reply."""
    replies = []

    def call():
        with server.connect() as c:
            replies.append(c.call(*command))

    thread = threading.Thread(target=call)
    thread.start()
    yield replies
    thread.join()


def wait_for_reply(r, *command, until):
    got = []

    def is_there():
        got.append(r.call(*command))
        return until(got[-1])

    wait_until(is_there)
    return got[-1]


def running_script(reply):
    return reply[1] if isinstance(reply, list) else None


@pytest.mark.flags()
def test_stats_and_kill(server, r):
    r.call("CONFIG", "SET", "busy-reply-threshold", 1)
    load(r, "a", ("long", LONG, "no-writes"), ("writes", "redis.call('incr', keys[1])" + LONG))
    nothing = Error("NOTBUSY No scripts in execution right now.")
    assert r.call("FUNCTION", "KILL") == nothing
    assert r.call("SCRIPT", "KILL") == nothing
    begin = time.monotonic()
    with running(server, "FCALL", "LONG", 1, "k", "argument") as replies:
        stats = wait_for_reply(r, "FUNCTION", "STATS", until=running_script)
        name, command, duration = stats[1][1::2]
        assert (name, command) == (b"long", [b"FCALL", b"LONG", b"1", b"k", b"argument"])
        # Milliseconds. It cannot have run for longer than this test.
        assert 0 <= duration <= (time.monotonic() - begin) * 1000 + 1
        assert stats[2:] == [b"engines", [b"LUA", [b"libraries_count", 1, b"functions_count", 2]]]
        assert r.call("SCRIPT", "KILL") == only("FUNCTION")
        assert r.call("FUNCTION", "KILL") == OK
    assert replies[0].text.startswith("ERR Script killed by user with SCRIPT KILL... script: long,")
    assert r.call("FUNCTION", "STATS")[1] is None


@pytest.mark.flags()
def test_a_script_is_not_killed_as_a_function(server, r):
    r.call("CONFIG", "SET", "busy-reply-threshold", 1)
    with running(server, "EVAL", LONG, 0) as replies:
        wait_for_reply(r, "FUNCTION", "KILL", until=lambda reply: reply == only("SCRIPT"))
        assert r.call("SCRIPT", "KILL") == OK
    assert replies[0].text.startswith("ERR Script killed by user with SCRIPT KILL...")


@pytest.mark.flags()
def test_a_function_that_has_written_is_not_killed(server, r):
    r.call("CONFIG", "SET", "busy-reply-threshold", 1)
    load(r, "a", ("writes", "redis.call('incr', keys[1])" + LONG.replace("15", "2")))
    with running(server, "FCALL", "writes", 1, "k") as replies:
        wait_for_reply(r, "FUNCTION", "KILL", until=lambda reply: reply == UNKILLABLE)
        assert r.call("SCRIPT", "KILL") == UNKILLABLE
    assert replies == [b"end"]


# DUMP and RESTORE.


def test_restore_policies(r):
    load(r, "a", ("f", "return 'old'"))
    payload = r.call("FUNCTION", "DUMP")
    exists = Error("ERR Library a already exists")
    assert r.call("FUNCTION", "RESTORE", payload) == exists
    assert r.call("FUNCTION", "RESTORE", payload, "APPEND") == exists
    load(r, "a", ("g", "return 'new'"), replace=True)
    load(r, "b", ("h", "return 'b'"))
    assert r.call("FUNCTION", "RESTORE", payload, "REPLACE") == OK
    assert libraries(r) == {b"a": [b"f"], b"b": [b"h"]}
    assert r.call("FCALL", "f", 0) == b"old"
    load(r, "a", ("g", "return 'new'"), replace=True)
    load(r, "b", ("f", "return 'b'"), replace=True)
    assert r.call("FUNCTION", "RESTORE", payload, "replace") == Error(
        "ERR Function f already exists"
    )
    assert libraries(r) == {b"a": [b"g"], b"b": [b"f"]}
    assert r.call("FUNCTION", "RESTORE", payload, "flush") == OK
    assert libraries(r) == {b"a": [b"f"]}
    assert r.call("FUNCTION", "RESTORE", payload, "x") == Error(
        "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
    )


def test_payloads_that_are_wrong(r):
    load(r, "a", ("f", "return 1"))
    payload = r.call("FUNCTION", "DUMP")
    for wrong in (b"", b"x", payload[:-1], payload[1:], b"\xf5" + payload):
        assert r.call("FUNCTION", "RESTORE", wrong, "REPLACE") == BAD_PAYLOAD
    r.call("SET", "k", "v")
    value = r.call("DUMP", "k")
    assert r.call("FUNCTION", "RESTORE", value) == Error("ERR given type is not a function")
    r.call("FUNCTION", "FLUSH")
    empty = r.call("FUNCTION", "DUMP")
    assert empty == b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda"
    load(r, "a", ("f", "return 1"))
    assert r.call("FUNCTION", "RESTORE", empty) == OK
    assert libraries(r) == {b"a": [b"f"]}


def codes(c):
    return sorted(item[-1] for item in c.call("FUNCTION", "LIST", "WITHCODE"))


def test_libraries_move_to_redis_and_back(r):
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server")
    long_body = " ".join(f"local a{i} = 'abcabcabcabcabcabc{i}'" for i in range(150))
    load(r, "small", ("f", "return 'f'"))
    load(r, "large", ("g", long_body + " return 'g'"), ("h", "return 'ünï'"))
    mine = codes(r)
    reference = Server(reference=True)
    try:
        with reference.connect() as c:
            assert c.call("FUNCTION", "RESTORE", r.call("FUNCTION", "DUMP")) == OK
            assert codes(c) == mine
            assert [c.call("FCALL", f, 0) for f in "fgh"] == [b"f", b"g", "ünï".encode()]
            # Compressed, as redis-server does by default.
            payload = c.call("FUNCTION", "DUMP")
            assert len(payload) < sum(map(len, mine))
            r.call("FUNCTION", "FLUSH")
            assert r.call("FUNCTION", "RESTORE", payload) == OK
    finally:
        reference.stop()
    assert codes(r) == mine
    assert [r.call("FCALL", f, 0) for f in "fgh"] == [b"f", b"g", "ünï".encode()]


def test_info_counts(r):
    load(r, "a", ("f", "return 1"), ("g", "return 1"))
    load(r, "b", ("h", "return 1"))
    info = r.info("memory")
    assert (info["number_of_functions"], info["number_of_libraries"]) == ("3", "2")
    assert int(info["used_memory_functions"]) > 100
