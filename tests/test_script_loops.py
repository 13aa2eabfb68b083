# SPDX-License-Identifier: Apache-2.0
"""Scripts that loop inside of library functions, and sources that take the compiler long: others
are answered meanwhile, SCRIPT KILL ends them, and they stay within the limit of memory."""

import contextlib
import os
import signal
import threading

import pytest

from harness.lua import assert_error, counters, sha1
from harness.resp import OK, Error, Status
from harness.server import (
    REFERENCE,
    SLOWNESS,
    ServerFailed,
    configuration_flags,
    only_dragonfly,
    wait_until,
)

pytestmark = [pytest.mark.threads]

ENDLESS = {
    "find": "return string.rep('a', 1e5):find('.-.-.-.-b')",
    "gsub": "return string.rep('a', 1e5):gsub('a-a-a-a-b', '')",
    "balance": "return string.rep('(', 1e7):find('%b()')",
    "set": "return string.rep('a', 1e7):find('[' .. string.rep('b', 1e7) .. ']')",
    "insert": "table.insert(setmetatable({}, {__len = function() return 2^53 end}), 1, 1)",
    "sort": "table.sort(setmetatable({}, {__len = function() return 2^31 - 2 end}), tonumber)",
    "json": "local t = {} for i = 1, 60 do t = {t, t} end "
    "while true do pcall(cjson.encode, t) end",
    "message pack": "local t = {} for i = 1, 15 do local u = {} for j = 1, 100 do u[j] = t end "
    "t = u end while true do pcall(cmsgpack.pack, t) end",
    "caught": "while true do pcall(string.find, string.rep('a', 1e5), '.-.-.-.-b') end",
    "concatenation": "local s = string.rep('x', 3e7) while true do local y = s .. 'a' end",
    "comparison": "local s = string.rep('x', 3e7) local a, b = s .. 'a', s .. 'b' "
    "while a < b do end",
    "repeat": "while true do pcall(string.rep, 'x', 2e8) end",
    "memory": "local t = {} while true do pcall(function() "
    "while true do t[#t + 1] = string.rep('x', 1e6) .. #t end end) end",
}


@contextlib.contextmanager
def running(server, r, script, *keys):
    with server.connect() as c:
        before = counters(r)["gave_way"]
        c.send_command("EVAL", script, len(keys), *keys)
        wait_until(lambda: counters(r)["gave_way"] > before, what="it runs")
        yield c


@only_dragonfly("a script stops it")
@pytest.mark.parametrize("name", ENDLESS)
def test_others_go_on_and_script_kill_ends_it(server, r, name):
    with running(server, r, ENDLESS[name]) as c:
        for _ in range(3):
            assert r.call("PING") == Status("PONG")
        assert counters(r)["running"] == 1
        assert r.call("SCRIPT", "KILL") == OK
        assert_error(c.read(), "Script killed by user with SCRIPT KILL")
    assert r.call("SET", "k", "v") == OK
    assert r.call("EVAL", "return redis.call('get', KEYS[1])", 1, "k") == b"v"


# Each way in which a library loops, and a script that has written.
AT_THE_END = {
    **{name: ENDLESS[name] for name in ("find", "gsub", "sort", "json", "repeat", "caught")},
    "written": "redis.call('SET', KEYS[1], 'v') " + ENDLESS["find"],
}


@only_dragonfly("the first SIGTERM waits for the script")
@pytest.mark.parametrize("how", ["SHUTDOWN", "SIGTERM"])
@pytest.mark.parametrize("name", AT_THE_END)
def test_the_server_ends_while_a_library_loops(configuration, start_server, name, how):
    server = start_server(**configuration_flags(configuration))
    with server.connect() as r, running(server, r, AT_THE_END[name], "k"):
        if how == "SHUTDOWN":
            r.send_command("SHUTDOWN", "NOSAVE")
        else:
            server.process.send_signal(signal.SIGTERM)
        server.wait_for_exit()


def source_without_end():
    """A few megabytes that take the compiler an hour: Lua gives all these numbers the same hash."""
    numbers = ",".join(repr(1 + i * 2**-52) for i in range(1, 500_000))
    return f"if false then return {{{numbers}}} end"


def library(name, code=""):
    return f"#!lua name={name}\nredis.register_function('{name}', function() return 1 end) {code}"


def in_rdb(*libraries):
    """As they stand in a file, and in the payload of FUNCTION RESTORE."""
    return b"".join(
        b"\xf5\x80" + len(code).to_bytes(4, "big") + code.encode() for code in libraries
    )


def crc64(data):
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x95AC9329AC4BC9B5 if value & 1 else 0)
        table.append(value)
    crc = 0
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


@contextlib.contextmanager
def compiling(server, r, *commands):
    with server.connect() as c:
        before = counters(r)["gave_way"]
        for command in commands:
            c.send_command(*command)
        wait_until(lambda: counters(r)["gave_way"] > before, what="it compiles")
        yield c


# What compiles, and what ends it.
COMPILES = {
    "EVAL": ("SCRIPT", lambda code: [("EVAL", code, 1, "k")]),
    "EVAL_RO": ("SCRIPT", lambda code: [("EVAL_RO", code, 0)]),
    "EVAL in EXEC": (
        "SCRIPT",
        lambda code: [("MULTI",), ("SET", "k", "v"), ("EVAL", code, 1, "k"), ("EXEC",)],
    ),
    "SCRIPT LOAD": ("SCRIPT", lambda code: [("SCRIPT", "LOAD", code)]),
    "SCRIPT LOAD in EXEC": (
        "SCRIPT",
        lambda code: [("MULTI",), ("SET", "k", "v"), ("SCRIPT", "LOAD", code), ("EXEC",)],
    ),
    "FUNCTION LOAD": (
        "FUNCTION",
        lambda code: [("FUNCTION", "LOAD", "REPLACE", library("kept", code))],
    ),
    "FUNCTION LOAD in EXEC": (
        "FUNCTION",
        lambda code: [
            ("MULTI",),
            ("SET", "k", "v"),
            ("FUNCTION", "LOAD", "REPLACE", library("kept", code)),
            ("EXEC",),
        ],
    ),
}


@only_dragonfly("it cannot be killed while it compiles")
@pytest.mark.parametrize("name", COMPILES)
def test_a_source_that_takes_long_gives_way_and_can_be_killed(server, r, name):
    kind, commands_of = COMPILES[name]
    other_kind = "FUNCTION" if kind == "SCRIPT" else "SCRIPT"
    code = f"{source_without_end()} -- {name}"
    commands = commands_of(code)
    assert r.call("FUNCTION", "FLUSH") == OK  # of what tests before have left
    assert r.call("FUNCTION", "LOAD", library("kept")) == b"kept"
    for _ in range(2):
        with compiling(server, r, *commands) as c:
            for _ in range(3):
                assert r.call("PING") == Status("PONG")
            assert counters(r)["running"] == 1
            assert_error(r.call(other_kind, "KILL"), "BUSY")
            assert r.call(kind, "KILL") == OK
            replies = [c.read() for _ in commands]
            reply = replies[-1] if len(commands) == 1 else replies[-1][-1]
            what = "kept" if kind == "FUNCTION" else sha1(code)
            assert_error(reply, "ERR Script killed by user with SCRIPT KILL... script: " + what)
        assert_error(r.call(kind, "KILL"), "NOTBUSY")
        assert counters(r)["running"] == 0
        assert r.call("SET", "k", "v") == OK
        assert r.call("EVAL", "return redis.call('get', KEYS[1])", 1, "k") == b"v"
        # What was there is as it was; nothing is there that did not compile.
        assert r.call("FCALL", "kept", 0) == 1
        assert len(r.call("FUNCTION", "LIST")) == 1
        if name.startswith("SCRIPT"):
            assert r.call("SCRIPT", "EXISTS", sha1(code)) == [0]


@only_dragonfly("it cannot be killed while it compiles")
def test_function_restore_is_killed_whole(server, r):
    assert r.call("FUNCTION", "FLUSH") == OK  # of what tests before have left
    assert r.call("FUNCTION", "LOAD", library("kept")) == b"kept"
    dump = r.call("FUNCTION", "DUMP")
    assert crc64(dump) == 0
    payload = in_rdb(library("a"), library("b", source_without_end()), library("c"))
    payload += dump[-10:-8]
    payload += crc64(payload).to_bytes(8, "little")
    for policy in ("APPEND", "REPLACE", "FLUSH"):
        with compiling(server, r, ("FUNCTION", "RESTORE", payload, policy)) as c:
            assert r.call("FUNCTION", "KILL") == OK
            assert_error(c.read(), "killed by user")
        assert r.call("FUNCTION", "DUMP") == dump


@only_dragonfly("it stops all others")
@pytest.mark.flags(busy_reply_threshold=10)
def test_who_waits_for_a_source_that_takes_long_is_told(server, r):
    with compiling(server, r, ("EVAL", source_without_end(), 1, "k")) as c:
        wait_until(lambda: isinstance(r.call("GET", "k"), Error), what="it is slow")
        assert_error(r.call("GET", "k"), "BUSY")
        assert r.call("SCRIPT", "KILL") == OK
        assert_error(c.read(), "killed")


@only_dragonfly("it stops all others")
def test_libraries_come_and_go_while_one_is_compiled(server, r):
    """Until it is there it is not, and then it is there whole."""
    code = "if false then " + "a = b .. 'c' " * (200_000 // SLOWNESS) + "end"
    assert r.call("FUNCTION", "LOAD", "REPLACE", library("other")) == b"other"
    with compiling(server, r, ("FUNCTION", "LOAD", library("l", code))) as c:
        assert r.call("FUNCTION", "FLUSH") == OK
        assert r.call("FUNCTION", "LOAD", library("new")) == b"new"
        assert r.call("SCRIPT", "FLUSH") == OK
        if r.call("FUNCTION", "LOAD", library("l")) == b"l":
            # Or it was faster than the flush.
            assert c.read() in (Error("ERR Library 'l' already exists"), b"l")
        else:
            assert c.read() == b"l"  # faster than this one
    assert r.call("FCALL", "l", 0) == 1
    assert r.call("FCALL", "new", 0) == 1


@only_dragonfly("the first SIGTERM waits for it")
@pytest.mark.parametrize("how", ["SHUTDOWN", "SIGTERM"])
@pytest.mark.parametrize("name", ["EVAL", "SCRIPT LOAD", "FUNCTION LOAD in EXEC"])
def test_the_server_ends_while_it_compiles(configuration, start_server, name, how):
    server = start_server(**configuration_flags(configuration))
    commands = COMPILES[name][1](source_without_end())
    with server.connect() as r, compiling(server, r, *commands):
        if how == "SHUTDOWN":
            r.send_command("SHUTDOWN", "NOSAVE")
        else:
            server.process.send_signal(signal.SIGTERM)
        server.wait_for_exit()


@only_dragonfly("it waits until all is loaded")
def test_the_server_ends_while_it_compiles_what_a_snapshot_has(configuration, start_server):
    server = start_server(dbfilename="dump.rdb", **configuration_flags(configuration))
    server.stop()
    with open(os.path.join(server.dir, "dump.rdb"), "wb") as file:
        libraries = in_rdb(library("l", source_without_end()))
        file.write(b"REDIS0010" + libraries + b"\xff" + bytes(8))

    def start():
        with contextlib.suppress(ServerFailed):  # it ends before it answers
            server.start_again()

    starting = threading.Thread(target=start)
    starting.start()

    def has_begun():
        try:
            with server.connect() as r:
                return counters(r)["running"] == 1
        except OSError:
            return False

    wait_until(has_begun, what="it compiles")
    with server.connect() as r:
        assert_error(r.call("GET", "k"), "LOADING")
    server.process.send_signal(signal.SIGTERM)
    server.wait_for_exit()
    starting.join()


def test_what_does_not_compile_is_refused_whole(r):
    """Also if that is found at the end of many pieces."""
    assert r.call("FUNCTION", "FLUSH") == OK
    code = "a = b .. 'c'\n" * 2_000
    for source, error in ((code + "return (", "user_script:2001: "),
                          (code + "return '", "unfinished string near"),
                          (code + "return [==[ ]=]", "unfinished long string")):
        assert_error(r.call("SCRIPT", "LOAD", source), error)
        assert_error(r.call("EVAL", source, 0), error)
    function = "redis.register_function('f', function() return 1 end)"
    assert_error(r.call("FUNCTION", "LOAD", f"#!lua name=l\n{function} if false then {code} "),
                 "Error compiling function")
    assert r.call("FUNCTION", "LIST") == []
    assert r.call("EVAL", f"if KEYS then return '\\-' end {code}", 0) == b"-"


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=10)
def test_one_that_is_slow_is_busy(server, r):
    with running(server, r, ENDLESS["find"], "k") as c:
        wait_until(lambda: isinstance(r.call("GET", "k"), Error), what="it is slow")
        assert_error(r.call("GET", "k"), "BUSY")
        assert r.call("SCRIPT", "KILL") == OK
        assert_error(c.read(), "killed")


def test_what_needs_too_much_is_an_error(r):
    """What there is no address for; redis-server would try to get what is only much."""
    scripts = ["return {unpack({}, 1, 1e8)}"]
    if not REFERENCE:  # it counts in 32 bits, and so finds nothing there
        scripts.append("return {unpack({}, 0, 2^53)}")
    for script in scripts:
        assert_error(r.call("EVAL", script, 0), "too many results to unpack")
    assert r.call("PING") == Status("PONG")


@only_dragonfly("there is no limit")
@pytest.mark.flags(lua_memory_max="32mb")
def test_the_limit_of_memory_is_an_error(r):
    for script in (
        "return string.rep('x', 1e9)",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1e5 do t[i] = s end return t",
        "local t = {} for i = 1, 60 do t = {t, t} end return t",
        "local t = {string.rep('x', 1e6)} for i = 1, 12 do t = {t, t} end return cjson.encode(t)",
        "local t = {string.rep('x', 1e6)} for i = 1, 12 do t = {t, t} end return cmsgpack.pack(t)",
    ):
        assert_error(r.call("EVAL", script, 0), "not enough memory")
    assert r.call("EVAL", "return #string.rep('x', 1e6)", 0) == 1_000_000


@only_dragonfly("redis-server 7.0 has none")
def test_os_has_a_clock(r):
    assert r.call("EVAL", "return type(os.clock())", 0) == b"number"
    assert r.call("EVAL", "local n = 0 for k in pairs(os) do n = n + 1 end return n", 0) == 1
