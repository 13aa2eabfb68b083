# SPDX-License-Identifier: Apache-2.0
"""Scripts that loop inside of library functions: others are answered meanwhile, SCRIPT KILL ends
them, and they stay within the limit of memory."""

import contextlib
import signal

import pytest

from harness.lua import assert_error, counters
from harness.resp import OK, Error, Status
from harness.server import REFERENCE, configuration_flags, only_dragonfly, wait_until

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
