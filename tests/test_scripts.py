# SPDX-License-Identifier: Apache-2.0
"""EVAL and SCRIPT: what scripts see, which way they go, how long ones live beside others, and how
they end. What needs no flag of ours passes on redis-server, too."""

import contextlib

import pytest

from harness.resp import NOT_INT, OK, WRONGTYPE, Error, Map, Status, encode
from harness.lua import SPREAD, assert_error, counted, counters, learned, sha1, threads_of
from harness.server import (
    PATIENCE_S,
    SLOWNESS,
    configuration_flags,
    only_dragonfly,
    wait_blocked,
    wait_until,
)

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]

FOREVER = "while true do end"
NO_SCRIPT = Error("NOSCRIPT No matching script. Please use EVAL.")
NOT_BUSY = Error("NOTBUSY No scripts in execution right now.")
BUSY = "BUSY Redis is busy running a script."
OOM = "OOM command not allowed when used memory > 'maxmemory'."


@pytest.fixture
def running(server):
    """A function that starts a script on a connection of its own and comes back when it runs."""
    with contextlib.ExitStack() as stack:

        def start(script, *keys, args=()):
            c = stack.enter_context(server.connect())
            seen = stack.enter_context(server.connect())
            before = counters(seen)["gave_way"]
            c.send_command("EVAL", script, len(keys), *keys, *args)
            wait_until(lambda: counters(seen)["gave_way"] > before, what="it runs")
            return c

        yield start
        with server.connect() as r:
            r.call("SCRIPT", "KILL")


# --- SCRIPT ---


def test_script_load_exists_and_flush(r):
    script = "return ARGV[1]"
    assert r.call("EVALSHA", sha1(script), 0) == NO_SCRIPT
    assert r.call("SCRIPT", "LOAD", script) == sha1(script).encode()
    assert r.call("EVALSHA", sha1(script), 0, "a") == b"a"
    assert r.call("EVALSHA", sha1(script).upper(), 0, "a") == b"a"
    assert r.call("SCRIPT", "EXISTS", sha1(script), "0" * 40, "x") == [1, 0, 0]
    for mode in ([], ["SYNC"], ["async"]):
        r.call("SCRIPT", "LOAD", script)
        assert r.call("SCRIPT", "FLUSH", *mode) == OK
        assert r.call("SCRIPT", "EXISTS", sha1(script)) == [0]
        assert r.call("EVALSHA", sha1(script), 0) == NO_SCRIPT
    assert r.call("SCRIPT", "FLUSH", "now") == Error(
        "ERR SCRIPT FLUSH only support SYNC|ASYNC option"
    )
    broken = r.call("SCRIPT", "LOAD", "return (")
    assert_error(broken, "ERR Error compiling script", "user_script:1:")
    assert_error(r.call("SCRIPT", "NOSUCH"), "ERR unknown subcommand 'NOSUCH'")


def test_a_script_that_was_evaluated_is_known_to_all_connections(server, r):
    script = "return {KEYS[1], ARGV[1]}"
    assert r.call("EVAL", script, 1, "k", "v") == [b"k", b"v"]
    for _ in range(8):  # whatever threads they are on
        with server.connect() as other:
            assert other.call("EVALSHA", sha1(script), 1, "k", "v") == [b"k", b"v"]


def test_script_kill_without_a_script(r):
    assert r.call("SCRIPT", "KILL") == NOT_BUSY


@only_dragonfly("no SCRIPT FLAGS")
def test_script_flags_override_what_a_script_says(r):
    script = "return redis.call('set', 'k', 'v')"
    sha = sha1(script)
    assert r.call("SCRIPT", "FLAGS", sha) == NO_SCRIPT
    assert r.call("SCRIPT", "FLAGS", sha, "no-writes") == OK  # before it is there
    assert_error(r.call("EVAL", script, 0), "ERR Write commands are not allowed from read-only")
    assert r.call("SCRIPT", "FLAGS", sha) == [Status("no-writes")]
    assert r.call("SCRIPT", "FLAGS", sha, "allow-undeclared-keys", "allow-oom") == OK
    assert r.call("EVAL", script, 0) == OK
    assert r.call("SCRIPT", "FLAGS", sha) == [Status("allow-oom"), Status("allow-undeclared-keys")]
    assert r.call("SCRIPT", "FLAGS", sha, "bad") == Error("ERR Unexpected flag in script: bad")
    assert r.call("SCRIPT", "FLAGS", "abc", "no-writes") == Error("ERR Wrong script SHA1")


@only_dragonfly("no SCRIPT LIST and LATENCY")
def test_script_list_and_latency_count_runs(r, r3):
    script = "return #ARGV"
    for i in range(5):
        assert r.call("EVAL", script, 0, *range(i)) == i
    row = learned(r, script)
    assert (row["runs"], row["evaluated"], row["bytes"]) == (5, 1, len(script))
    assert row == learned(r3, script)
    latency = r3.call("SCRIPT", "LATENCY").dict()[sha1(script).encode()].dict()
    assert latency[b"calls"] == 5
    assert latency[b"usec_per_call"] == pytest.approx(latency[b"usec"] / 5)


# --- Arguments, flags, errors ---


@pytest.mark.parametrize("name", ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"])
def test_wrong_numbers_of_keys(r, name):
    script = "return 1"
    r.call("SCRIPT", "LOAD", script)
    what = sha1(script) if "SHA" in name else script
    assert r.call(name, what, 0) == 1
    assert r.call(name, what, "x") == NOT_INT
    assert r.call(name, what, -1) == Error("ERR Number of keys can't be negative")
    assert r.call(name, what, 2, "k") == Error(
        "ERR Number of keys can't be greater than number of args"
    )
    assert_error(r.call(name, what), "ERR wrong number of arguments")


def test_read_only_scripts_do_not_write(r):
    script = "return redis.call('set', KEYS[1], 'v')"
    r.call("SCRIPT", "LOAD", script)
    refused = "ERR Write commands are not allowed from read-only scripts"
    assert_error(r.call("EVAL_RO", script, 1, "k"), refused)
    assert_error(r.call("EVALSHA_RO", sha1(script), 1, "k"), refused)
    assert_error(r.call("EVAL", "#!lua flags=no-writes\n" + script, 1, "k"), refused)
    assert r.call("EXISTS", "k") == 0
    assert_error(r.call("EVAL_RO", "#!lua\nreturn 1", 0), "ERR Can not execute a script with write")
    assert r.call("EVAL_RO", "#!lua flags=no-writes\nreturn 1", 0) == 1
    r.call("SET", "k", "v")
    assert r.call("EVAL_RO", "return redis.call('get', KEYS[1])", 1, "k") == b"v"


def test_the_first_line_is_understood(r):
    assert_error(r.call("EVAL", "#!python\nreturn 1", 0), "ERR Unexpected engine in script shebang")
    assert_error(r.call("EVAL", "#!lua name=x\nreturn 1", 0), "ERR Unknown lua shebang option")
    assert_error(r.call("EVAL", "#!lua flags=odd\nreturn 1", 0), "ERR Unexpected flag in script")
    assert_error(r.call("EVAL", "#!lua\nerror('x')", 0), "user_script:2: x")


def test_errors_name_the_script_and_the_line(r):
    script = "\nredis.call('lpush', KEYS[1], 'v')"
    r.call("SET", "k", "v")
    assert r.call("EVAL", script, 1, "k") == Error(
        f"{WRONGTYPE.text} script: {sha1(script)}, on @user_script:2."
    )
    assert r.call("EVAL", "return redis.pcall('lpush', KEYS[1], 'v')", 1, "k") == WRONGTYPE
    assert_error(r.call("EVAL", "return redis.call('nosuch')", 0), "ERR Unknown Redis command")
    assert_error(r.call("EVAL", "return redis.call('get')", 0), "ERR Wrong number of args calling")
    assert_error(r.call("EVAL", "return redis.call('eval', '', 0)", 0), "ERR This Redis command")
    assert_error(r.call("EVAL", "return redis.call()", 0), "ERR Please specify at least one")
    assert_error(r.call("EVAL", "x = 1", 0), "ERR", "Attempt to modify a readonly table")
    assert r.call("EVAL", "return {err = 'My own'}", 0) == Error("My own")
    assert r.call("EVAL", "return redis.error_reply('My own')", 0) == Error("My own")
    assert r.call("EVAL", "return redis.error_reply('Own')", 0) == Error("ERR Own")
    # What was written before an error stays.
    script = "redis.call('set', KEYS[1], 'new'); redis.call('incr', KEYS[1])"
    assert_error(r.call("EVAL", script, 1, "k"), NOT_INT.text)
    assert r.call("GET", "k") == b"new"


# --- Conversions ---

VALUES = """
return {1, 3.9, 'text', true, false, {ok = 'fine'}, {1, {2}}, {1, nil, 3}, {}, {a = 1},
        redis.call('get', 'none')}
"""


def test_values_of_lua_for_both_protocols(r, r3):
    expected = [1, 3, b"text", 1, None, Status("fine"), [1, [2]], [1], [], [], None]
    assert r.call("EVAL", VALUES, 0) == expected
    assert r3.call("EVAL", VALUES, 0) == expected
    assert r.raw("EVAL", "return false", 0) == b"$-1\r\n"
    assert r3.raw("EVAL", "return false", 0) == b"_\r\n"


@pytest.mark.parametrize(
    "returned, resp2, resp3",
    [
        ("{double = 3.5}", b"$3\r\n3.5\r\n", b",3.5\r\n"),
        ("{map = {a = 1}}", b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        ("{set = {a = true}}", b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        ("{big_number = '12345678901234567890'}", None, b"(12345678901234567890\r\n"),
        ("{verbatim_string = {format = 'txt', string = 'v'}}", b"$1\r\nv\r\n", b"=5\r\ntxt:v\r\n"),
        ("true", b":1\r\n", b"#t\r\n"),
        ("false", b":0\r\n", b"#f\r\n"),
    ],
)
def test_types_of_resp3(r, r3, returned, resp2, resp3):
    script = f"redis.setresp(3) return {returned}"
    assert r3.raw("EVAL", script, 0) == resp3
    assert resp2 is None or r.raw("EVAL", script, 0) == resp2


def test_replies_to_scripts_have_the_protocol_that_they_choose(r, r3):
    r.call("HSET", "h", "f", "v")
    r.call("ZADD", "z", 1.5, "m")
    r.call("SADD", "s", "m")
    script = """
    redis.setresp(tonumber(ARGV[1]))
    local h, s, score = redis.call('hgetall', KEYS[1]), redis.call('smembers', KEYS[2]),
        redis.call('zscore', KEYS[3], 'm')
    if ARGV[1] == '2' then return {h[1], h[2], s[1], type(score)} end
    return {h.map.f, type(s.set.m), score.double == 1.5 and 'double' or 'no', 'r3'}
    """
    for c in (r, r3):
        assert c.call("EVAL", script, 3, "h", "s", "z", 2) == [b"f", b"v", b"m", b"string"]
        assert c.call("EVAL", script, 3, "h", "s", "z", 3) == [b"v", b"boolean", b"double", b"r3"]
    whole = "redis.setresp(3) return redis.call('hgetall', KEYS[1])"
    assert r.call("EVAL", whole, 1, "h") == [b"f", b"v"]
    assert r3.call("EVAL", whole, 1, "h") == Map(((b"f", b"v"),))
    # It is for that run only.
    assert r3.call("EVAL", "return redis.call('hgetall', KEYS[1])", 1, "h") == [b"f", b"v"]


# --- The server around a script ---


def test_select_inside_a_script_ends_with_it(r):
    script = "redis.call('select', 3) redis.call('set', KEYS[1], 'in 3')"
    for _ in range(5):
        assert r.call("EVAL", script, 1, "k") is None
        assert r.call("GET", "k") is None
    r.call("SELECT", 3)
    assert r.call("GET", "k") == b"in 3"
    assert_error(r.call("EVAL", "redis.call('select', 99)", 0), "ERR DB index is out of range")
    # Where the caller is, it begins.
    assert r.call("EVAL", "return redis.call('get', KEYS[1])", 1, "k") == b"in 3"


def test_expire_inside_a_script(r):
    script = """
    redis.call('set', KEYS[1], 'v', 'px', 1)
    return {redis.call('expire', KEYS[2], 100), redis.call('ttl', KEYS[2])}
    """
    r.call("SET", "{t}l", "v")
    assert r.call("EVAL", script, 2, "{t}k", "{t}l") == [1, 100]
    wait_until(lambda: r.call("EXISTS", "{t}k") == 0, what="it expires")
    assert r.call("EVAL", "return redis.call('expire', KEYS[1], -1)", 1, "{t}l") == 1
    assert r.call("EXISTS", "{t}l") == 0


@pytest.mark.parametrize("keys", [["{t}k"], [*SPREAD[:4]]], ids=["one-shard", "several"])
def test_nothing_expires_while_a_script_runs(r, keys):
    """It is long enough for background expiry, which runs when it gives way."""
    script = """
    for _, key in ipairs(KEYS) do redis.call('set', key, 'v', 'px', 1) end
    for i = 1, 6e7 do end
    return redis.call('exists', unpack(KEYS))
    """
    assert r.call("EVAL", script, len(keys), *keys) == len(keys)
    wait_until(lambda: r.call("DBSIZE") == 0, what="they expire")


def test_evalsha_in_multi_and_in_pipelines(r):
    script = "return redis.call('incrby', KEYS[1], ARGV[1])"
    sha = r.call("SCRIPT", "LOAD", script)
    for keys in (["k"] * 4, SPREAD[:4]):
        r.call("FLUSHALL")
        commands = [("EVALSHA", sha, 1, key, 2) for key in keys]
        commands += [("GET", keys[0]), ("EVALSHA", "0" * 40, 0), ("EVALSHA", sha, 1, keys[3], 2)]
        replies = r.pipeline([("MULTI",), *commands, ("EXEC",)])
        last = 10 if keys[0] == keys[1] else 4
        count = [2, 4, 6, 8] if keys[0] == keys[1] else [2] * 4
        expected = [*count, b"%d" % count[3 if keys[0] == keys[1] else 0], NO_SCRIPT, last]
        assert replies == [OK, *[Status("QUEUED")] * len(commands), expected]
        r.call("FLUSHALL")
        assert r.pipeline(commands) == expected


def test_a_pipeline_of_scripts_and_commands_keeps_its_order(r):
    script = "return redis.call('append', KEYS[1], ARGV[1])"
    commands = []
    for i in range(200):
        commands.append(("EVAL", script, 1, "k", "a") if i % 3 else ("APPEND", "k", "b"))
    assert r.pipeline(commands) == list(range(1, 201))
    assert r.call("GET", "k") == b"".join(b"a" if i % 3 else b"b" for i in range(200))


def test_watch_sees_what_scripts_write(server, r):
    with server.connect() as other:
        for script, changes in (
            ("return redis.call('set', KEYS[1], 'v')", True),
            ("return redis.call('get', KEYS[1])", False),
        ):
            for keys in (["k"], SPREAD):
                r.call("WATCH", keys[0])
                other.call("EVAL", script, len(keys), *keys)
                r.call("MULTI")
                r.call("PING")
                assert r.call("EXEC") == (None if changes else [Status("PONG")])
        # One's own script counts as any command does.
        r.call("WATCH", "k")
        r.call("EVAL", "return redis.call('set', KEYS[1], 'w')", 1, "k")
        r.call("MULTI")
        assert r.call("EXEC") is None


@pytest.mark.parametrize("keys", [["list"], ["list", *SPREAD]])
def test_a_blocked_client_is_served_once_when_the_script_is_over(server, r, keys):
    script = """
    redis.call('rpush', KEYS[1], 'a', 'b')
    redis.call('lpop', KEYS[1])
    redis.call('rpush', KEYS[1], 'c', 'd')
    return redis.call('llen', KEYS[1])
    """
    for _ in range(5):
        with server.connect() as first, server.connect() as second:
            for i, c in enumerate((first, second)):
                c.send_command("BLPOP", "list", 0)
                wait_blocked(r, i + 1)
            assert r.call("EVAL", script, len(keys), *keys) == 3
            assert first.read() == [b"list", b"b"]
            assert second.read() == [b"list", b"c"]
            assert r.call("LRANGE", "list", 0, -1) == [b"d"]
            r.call("DEL", "list")
            assert first.call("PING") == Status("PONG")


def test_a_script_that_takes_back_what_it_pushed_wakes_nobody(server, r):
    with server.connect() as waiter:
        waiter.send_command("BLPOP", "list", 0)
        wait_blocked(r, 1)
        script = "redis.call('rpush', KEYS[1], 'a') return redis.call('lpop', KEYS[1])"
        for _ in range(5):
            assert r.call("EVAL", script, 1, "list") == b"a"
        assert r.info("clients")["blocked_clients"] == "1"
        r.call("RPUSH", "list", "b")
        assert waiter.read() == [b"list", b"b"]


@pytest.mark.flags()
def test_out_of_memory(r):
    r.call("SET", "k", "v" * 1000)
    r.call("CONFIG", "SET", "maxmemory", 1)
    set_it = "return redis.call('set', KEYS[1], 'v')"
    assert_error(r.call("EVAL", set_it, 1, "k"), OOM)
    assert r.call("EVAL", "return redis.pcall('set', KEYS[1], 'v')", 1, "k") == Error(OOM)
    assert r.call("EVAL", "return redis.call('strlen', KEYS[1])", 1, "k") == 1000
    assert_error(r.call("EVAL", "#!lua\nreturn 1", 0), OOM)
    assert r.call("EVAL", "#!lua flags=no-writes\nreturn 1", 0) == 1
    assert r.call("EVAL", "#!lua flags=allow-oom\n" + set_it, 1, "k") == OK
    # One that has written goes on: what takes memory away may be the second half.
    script = "redis.call('del', KEYS[1]) return redis.call('rpush', KEYS[1], 'v')"
    assert r.call("EVAL", script, 1, "k") == 1
    r.call("CONFIG", "SET", "maxmemory", 0)
    assert r.call("EVAL", set_it, 1, "k") == OK


@only_dragonfly("no limit for each interpreter")
@pytest.mark.flags(lua_memory_max="4mb")
def test_a_script_that_takes_too_much_memory_fails_alone(r):
    script = "local t = {} for i = 1, 1e7 do t[i] = tostring(i) .. ARGV[1] end return #t"
    for _ in range(3):
        assert_error(r.call("EVAL", script, 0, "x" * 100), "ERR", "not enough memory")
        assert r.call("EVAL", script.replace("1e7", "100"), 0, "x") == 100
    # It cannot catch it and go on to take more.
    script = f"pcall(function() {script} end) return 'still here'"
    assert r.call("EVAL", script, 0, "x" * 100) == b"still here"


@only_dragonfly("blocking commands are allowed in scripts since 7.2")
def test_blocking_commands_do_not_wait_in_scripts(r):
    for command in (
        "'blpop', KEYS[1], 0",
        "'blmove', KEYS[1], KEYS[1], 'left', 'right', 0",
        "'bzpopmin', KEYS[1], 0",
        "'xread', 'block', 0, 'streams', KEYS[1], '$'",
    ):
        assert r.call("EVAL", f"return redis.call({command})", 1, "k") is None
    r.call("RPUSH", "k", "v")
    assert r.call("EVAL", "return redis.call('blpop', KEYS[1], 0)", 1, "k") == [b"k", b"v"]


# --- The way that a script goes ---


@only_dragonfly("no ways")
def test_a_script_that_stays_in_its_keys_runs_in_place_after_three_runs(server, r):
    script = "return redis.call('incr', KEYS[1])"
    if threads_of(server) == 1:
        with counted(r, in_place=5, runs=5):
            for _ in range(5):
                r.call("EVAL", script, 1, "k")
        return
    # its first runs are watched, with all shards locked
    with counted(r, **{"global": 3, "in_place": 0, "runs": 3}):
        assert [r.call("EVAL", script, 1, f"k{i}") for i in range(3)] == [1] * 3
    assert (learned(r, script)["reach"], learned(r, script)["runs-global"]) == (b"declared", 3)
    with counted(r, **{"global": 0, "in_place": 20, "runs": 20, "restarts": 0}):
        assert [r.call("EVAL", script, 1, f"l{i}") for i in range(20)] == [1] * 20


@only_dragonfly("no ways")
def test_a_script_with_keys_in_several_shards_goes_across(server, r):
    script = "for _, key in ipairs(KEYS) do redis.call('incr', key) end"
    for _ in range(3):
        r.call("EVAL", script, len(SPREAD), *SPREAD)
    way = "in_place" if threads_of(server) == 1 else "across"
    with counted(r, **{way: 4, "runs": 4, "global": 0, "restarts": 0}):
        for _ in range(4):
            r.call("EVAL", script, len(SPREAD), *SPREAD)
    assert r.call("MGET", *SPREAD) == [b"7"] * len(SPREAD)


@only_dragonfly("no ways")
def test_a_script_that_goes_far_stays_global(server, r):
    script = "for i = 1, 8 do redis.call('incr', ARGV[1] .. i) end"
    for i in range(3):
        r.call("EVAL", script, 1, "k", f"far:{i}:")
    if threads_of(server) > 1:
        assert learned(r, script)["reach"] == b"far"
    way = "in_place" if threads_of(server) == 1 else "global"
    with counted(r, **{way: 4, "runs": 4, "restarts": 0, "refused_keys": 0}):
        for i in range(4):
            r.call("EVAL", script, 1, "k", f"more:{i}:")
    assert r.call("MGET", *[f"more:3:{i}" for i in range(1, 9)]) == [b"1"] * 8


@only_dragonfly("no ways")
def test_a_script_that_reaches_further_than_before_starts_again(server, r):
    """It was seen to stay in its keys; then its argument leads it elsewhere, before it writes."""
    script = """
    for i = 1, ARGV[1] do redis.call('get', 'other' .. i) end
    return redis.call('incr', KEYS[1])
    """
    for i in range(3):
        assert r.call("EVAL", script, 1, "k", 0) == i + 1
    if threads_of(server) > 1:
        assert learned(r, script)["reach"] == b"declared"
    before = counters(r)
    assert r.call("EVAL", script, 1, "k", 8) == 4  # once, not twice
    after = counters(r)
    assert after["runs"] == before["runs"] + 1
    if threads_of(server) > 1:
        assert after["restarts"] > before["restarts"]
        assert learned(r, script)["restarts"] > 0
    else:
        assert after["restarts"] == before["restarts"]


@only_dragonfly("no ways")
def test_a_script_that_has_written_locks_what_it_needs_late(server, r):
    script = """
    local n = redis.call('incr', KEYS[1])
    for i = 1, ARGV[1] do redis.call('incr', 'other' .. i) end
    return n
    """
    for i in range(3):
        r.call("EVAL", script, 1, "k", 0)
    with counted(r, runs=1, restarts=0, refused_keys=0):
        assert r.call("EVAL", script, 1, "k", 8) == 4
    assert r.call("MGET", *[f"other{i}" for i in range(1, 9)]) == [b"1"] * 8


@only_dragonfly("no flag")
@pytest.mark.flags(undeclared_keys="global")
def test_undeclared_keys_global(server, r):
    way = "in_place" if threads_of(server) == 1 else "global"
    with counted(r, **{way: 6, "runs": 6}):
        for _ in range(6):
            r.call("EVAL", "return redis.call('incr', KEYS[1])", 1, "k")


@only_dragonfly("no flag")
@pytest.mark.flags(undeclared_keys="refuse")
def test_undeclared_keys_refuse(r):
    script = "return redis.call('incr', ARGV[1])"
    with counted(r, refused_keys=1):
        refused = r.call("EVAL", script, 1, "k", "other")
    assert_error(refused, "ERR", "'other'", "is not one of its KEYS", "allow-undeclared-keys")
    assert r.call("EXISTS", "other") == 0
    assert r.call("EVAL", script, 1, "k", "k") == 1
    assert_error(r.call("EVAL", "return redis.pcall('incr', 'x')", 1, "k"), "'x'")
    assert r.call("EVAL", "#!lua flags=allow-undeclared-keys\n" + script, 0, "other") == 1
    assert r.call("SCRIPT", "FLAGS", sha1(script), "allow-undeclared-keys") == OK
    assert r.call("EVAL", script, 0, "other") == 2


@only_dragonfly("no flag")
@pytest.mark.flags(default_lua_flags="allow-undeclared-keys", undeclared_keys="refuse")
def test_default_flags_are_those_of_scripts_that_say_none(server, r):
    script = "return redis.call('incr', ARGV[1])"
    way = "in_place" if threads_of(server) == 1 else "global"
    with counted(r, **{way: 5, "refused_keys": 0}):
        for i in range(5):
            assert r.call("EVAL", script, 1, "k", "other") == i + 1
    assert Status("allow-undeclared-keys") in r.call("SCRIPT", "FLAGS", sha1(script))


@only_dragonfly("no disable-atomicity")
def test_others_get_in_between_the_calls_of_a_script_that_is_not_atomic(server, r):
    """It waits for a key that only somebody else can set."""
    script = """#!lua flags=disable-atomicity
    redis.call('set', KEYS[1], 'waits')
    while redis.call('get', KEYS[2]) == false do end
    return redis.call('incr', KEYS[2])
    """
    with server.connect() as c, counted(r, not_atomic=2, runs=2):
        for keys in (("a", "b"), ("{t}a", "{t}b")):
            c.send_command("EVAL", script, 2, *keys)
            wait_until(lambda: r.call("GET", keys[0]) == b"waits", what="it waits")
            assert r.call("SET", keys[1], 41) == OK
            assert c.read() == 42


# --- Long scripts ---


def rounds_of(server, rounds):
    """With several threads each call is a hop, perhaps."""
    return (rounds if threads_of(server) == 1 else rounds // 10) // SLOWNESS


@only_dragonfly("a script stops it")
@pytest.mark.parametrize("keys", [["k"], SPREAD])
def test_others_go_on_while_a_script_runs(server, r, running, keys):
    """It never ends, so they come before its end."""
    c = running("while true do redis.call('get', KEYS[1]) end", *keys)
    for _ in range(20):
        assert r.call("PING") == Status("PONG")
    assert counters(r)["running"] == 1
    assert r.call("SCRIPT", "KILL") == OK
    assert_error(c.read(), "killed")


@only_dragonfly("a script stops it")
@pytest.mark.parametrize("keys", [["k"], SPREAD])
def test_a_long_script_comes_to_its_end(server, r, running, keys):
    script = """
    local n = tonumber(redis.call('incrby', KEYS[1], 0))
    while redis.call('get', KEYS[1]) and n < tonumber(ARGV[1]) do n = n + 1 end
    return n
    """
    rounds = rounds_of(server, 200_000)
    c = running(script, *keys, args=[rounds])
    assert r.call("PING") == Status("PONG")
    assert c.read() == rounds


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=10)
def test_a_command_that_would_have_to_wait_for_a_slow_script_is_told_so(server, r, running):
    c = running(FOREVER, "{t}k")
    wait_until(lambda: isinstance(r.call("GET", "{t}k"), Error), what="it is slow")
    assert_error(r.call("GET", "{t}k"), BUSY)
    assert_error(r.call("SET", "{t}k", "v"), BUSY)
    if threads_of(server) == 1:  # with more the first runs of a script lock everything
        assert_error(r.call("EVAL", "return redis.call('get', KEYS[1])", 1, "{t}k"), BUSY)
        assert r.call("SET", "other", "v") == OK
        assert r.call("GET", "other") == b"v"
    # In order, in a pipeline.
    replies = r.pipeline([("PING",), ("GET", "{t}k"), ("PING",)])
    assert replies[0] == replies[2] == Status("PONG")
    assert_error(replies[1], BUSY)
    # Nothing is queued for an EXEC that is refused, and the connection is out of MULTI.
    assert r.pipeline([("MULTI",), ("SET", "{t}k", "v")]) == [OK, Status("QUEUED")]
    assert_error(r.call("EXEC"), "EXECABORT Transaction discarded because of: BUSY")
    assert r.call("PING") == Status("PONG")
    assert r.call("SCRIPT", "KILL") == OK
    assert_error(c.read(), "Script killed by user with SCRIPT KILL")
    assert r.call("SET", "{t}k", "v") == OK
    assert r.call("EVAL", "return redis.call('get', KEYS[1])", 1, "{t}k") == b"v"
    assert r.info("errorstats")["errorstat_BUSY"].startswith("count=")


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=1000)
def test_commands_that_wait_already_when_a_script_becomes_slow(server, r, running):
    c = running(FOREVER, "k")
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(server.connect()) for _ in range(20)]
        for i, w in enumerate(waiting):
            pipeline = encode("PING") + encode("INCR", "k") + encode("PING")
            w.send(encode("BLPOP", "k", 0) + encode("PING") if i == 7 else pipeline)
        for i, w in enumerate(waiting):
            if i != 7:
                assert w.read() == Status("PONG")
            assert_error(w.read(), BUSY)
            assert w.read() == Status("PONG")
        assert r.call("SCRIPT", "KILL") == OK
        assert_error(c.read(), "killed")
        assert [w.call("INCR", "k") for w in waiting] == list(range(1, 21))


# Commands over shards, if there are several; none of them may have any effect.
ACROSS = [
    ("MSET", *[word for key in SPREAD for word in (key, "new")]),
    ("MSETNX", *[word for key in SPREAD for word in (key, "new")]),
    ("MGET", *SPREAD),
    ("DEL", *SPREAD),
    ("FLUSHALL",),
    ("SWAPDB", 0, 1),
    ("SUNION", *SPREAD),
    ("SINTERSTORE", *SPREAD),
    ("ZUNION", len(SPREAD), *SPREAD),
    ("PFCOUNT", *SPREAD),
    ("PFMERGE", *SPREAD),
    ("BITOP", "OR", *SPREAD),
    ("BLPOP", *SPREAD, 0),
    ("EVAL", "redis.call('set', KEYS[1], 'new') return 1", len(SPREAD), *SPREAD),
    ("EVAL", "for _, k in pairs(KEYS) do redis.call('set', k, 'new') end", len(SPREAD), *SPREAD),
    ("EVAL", "#!lua flags=allow-undeclared-keys\nreturn redis.call('flushall')", 0),
] + [
    (name, first, second)
    for first, second in zip(SPREAD, SPREAD[1:])
    for name in ("RENAME", "RENAMENX", "COPY", "LCS", "RPOPLPUSH")
]


def fill(r):
    for key in SPREAD:
        assert r.call("SET", key, "old") == OK


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=10)
def test_commands_over_shards_do_not_wait_for_a_slow_script(server, r, running):
    fill(r)
    c = running(FOREVER, *SPREAD)
    wait_until(lambda: isinstance(r.call("GET", SPREAD[0]), Error), what="it is slow")
    for command in ACROSS:
        assert_error(r.call(*command), BUSY, "SCRIPT KILL")
    # In order, in a pipeline.
    replies = r.pipeline([("PING",), ACROSS[0], ("PING",), ACROSS[0]])
    assert replies[0] == replies[2] == Status("PONG")
    assert_error(replies[1], BUSY)
    assert_error(replies[3], BUSY)
    # An EXEC is over, with what it watched.
    with server.connect() as w:
        assert w.call("WATCH", *SPREAD) == OK
        assert w.pipeline([("MULTI",), ACROSS[0]]) == [OK, Status("QUEUED")]
        assert_error(w.call("EXEC"), "EXECABORT Transaction discarded because of: BUSY", "SCRIPT")
        assert w.call("EXEC") == Error("ERR EXEC without MULTI")
        assert w.pipeline([("MULTI",), ("FLUSHALL",), ("PING",)])[0] == OK
        assert_error(w.call("EXEC"), "EXECABORT Transaction discarded because of: BUSY")
        assert r.call("SCRIPT", "KILL") == OK
        assert_error(c.read(), "killed")
        assert r.call("MGET", *SPREAD) == [b"old"] * len(SPREAD)
        assert r.call("SET", SPREAD[0], "newer") == OK
        assert w.pipeline([("MULTI",), ("GET", SPREAD[0]), ("EXEC",)])[2] == [b"newer"]
    stats = r.info("commandstats")["cmdstat_msetnx"]
    assert "calls=0," in stats and "rejected_calls=1," in stats


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=1000)
def test_commands_over_shards_that_wait_already_when_a_script_becomes_slow(server, r, running):
    fill(r)
    c = running(FOREVER, *SPREAD)
    with contextlib.ExitStack() as stack:
        waiting = []
        for command in ACROSS:
            w = stack.enter_context(server.connect())
            w.send(encode("PING") + encode(*command) + encode("PING"))
            waiting.append(w)
        execs = [stack.enter_context(server.connect()) for _ in range(4)]
        for w in execs:
            w.pipeline([("WATCH", *SPREAD), ("MULTI",), ACROSS[0], ("PING",)])
            w.send_command("EXEC")
        for w in waiting:
            assert w.read() == Status("PONG")
            assert_error(w.read(), BUSY)
            assert w.read() == Status("PONG")
        for w in execs:
            assert_error(w.read(), "EXECABORT Transaction discarded because of: BUSY")
        assert r.call("SCRIPT", "KILL") == OK
        assert_error(c.read(), "killed")
        assert r.call("MGET", *SPREAD) == [b"old"] * len(SPREAD)
        for w in waiting + execs:
            assert w.call("MGET", *SPREAD) == [b"old"] * len(SPREAD)
        assert r.call(*ACROSS[0]) == OK


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=10)
def test_the_error_says_that_a_function_is_slow(server, r):
    code = "#!lua name=slow\nredis.register_function('slow', function() while true do end end)"
    assert r.call("FUNCTION", "LOAD", "REPLACE", code) == b"slow"
    with server.connect() as c:
        c.send_command("FCALL", "slow", len(SPREAD), *SPREAD)
        wait_until(lambda: isinstance(r.call("GET", SPREAD[0]), Error), what="it is slow")
        for command in (("GET", SPREAD[0]), *ACROSS[:5]):
            assert_error(r.call(*command), BUSY, "FUNCTION KILL")
        assert r.pipeline([("MULTI",), ("GET", SPREAD[0])]) == [OK, Status("QUEUED")]
        assert_error(r.call("EXEC"), "EXECABORT", "FUNCTION KILL")
        assert r.call("FUNCTION", "KILL") == OK
        assert_error(c.read(), "killed")
    assert r.call("FUNCTION", "DELETE", "slow") == OK


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=10)
def test_keys_of_other_shards_are_free_while_a_script_is_slow(server, r, running):
    """It is known to stay in its keys."""
    script = "for i = 1, ARGV[1] do end"
    for _ in range(3):
        r.call("EVAL", script, 1, "k", 1)
    c = running(script, "k", args=[10**15])
    wait_until(lambda: isinstance(r.call("GET", "k"), Error), what="it is slow")
    for i in range(100):
        assert r.call("SET", f"other{i}", "v") == OK
    assert r.call("SCRIPT", "KILL") == OK
    assert_error(c.read(), "killed")


@only_dragonfly("a script stops it")
def test_a_script_that_has_written_is_not_killed(server, r, running):
    script = """
    redis.call('set', KEYS[1], 'v')
    for i = 1, ARGV[1] do end
    return 'the end'
    """
    c = running(script, "k", args=[50_000_000 // SLOWNESS])
    reply = r.call("SCRIPT", "KILL")
    # It may have ended meanwhile.
    assert reply == NOT_BUSY or reply.text.startswith("UNKILLABLE")
    assert c.read() == b"the end"


@only_dragonfly("a script stops it")
def test_script_kill_ends_all_that_run_and_nothing_catches_it(server, r, running):
    stubborn = "while true do pcall(function() while true do redis.call('ping') end end) end"
    ends = [running(stubborn, key) for key in ("{a}", "{a}b")[: 1 if threads_of(server) > 1 else 2]]
    assert r.call("SCRIPT", "KILL") == OK
    for c in ends:
        assert_error(c.read(), "ERR Script killed by user with SCRIPT KILL")
        assert c.call("PING") == Status("PONG")
    assert r.call("SCRIPT", "KILL") == NOT_BUSY


@only_dragonfly("a script stops it")
def test_scripts_whose_clients_are_gone_end(server, r, running):
    """By themselves, and if somebody kills them; in the middle of a pipeline, too."""
    script = "for i = 1, ARGV[1] do redis.call('incr', KEYS[1]) end"
    rounds = rounds_of(server, 200_000)
    for end in ("close", "abort"):
        r.call("DEL", "k")
        c = running(script, "k", args=[rounds])
        c.send(encode("EVAL", script, 1, "k", 1) + encode("PING"))
        getattr(c, end)()
        wait_until(lambda: counters(r)["running"] == 0, what="it ends")
        assert int(r.call("GET", "k")) in (rounds, rounds + 1)
    c = running(FOREVER, "k")
    c.abort()
    assert r.call("SCRIPT", "KILL") == OK
    wait_until(lambda: counters(r)["running"] == 0, what="it ends")


@only_dragonfly("a script stops it")
@pytest.mark.timeout(12 * PATIENCE_S)
def test_a_client_is_killed_while_its_script_runs(server, r, running):
    script = "for i = 1, ARGV[1] do redis.call('incr', KEYS[1]) end return 'the end'"
    rounds = 200_000 // SLOWNESS  # so that it runs when it is killed
    c = running(script, "k", args=[rounds])
    address = "%s:%d" % c.sock.getsockname()
    assert r.call("CLIENT", "KILL", "ADDR", address) == 1
    assert c.read_until_closed() == b""
    # A script that is not known yet makes a hop to the key's thread for each call.
    wait_until(lambda: counters(r)["running"] == 0, timeout_s=10 * PATIENCE_S, what="it ends")
    assert r.call("GET", "k") == b"%d" % rounds


@only_dragonfly("its interpreter is one")
@pytest.mark.flags(interpreters_per_thread=2, busy_reply_threshold=600_000)
@pytest.mark.parametrize("keys", [1, 3])
def test_more_scripts_at_once_than_interpreters(server, r, keys):
    script = """
    for i = 1, ARGV[1] do redis.call('incr', KEYS[i % #KEYS + 1]) end
    return 'the end'
    """
    rounds = rounds_of(server, 20_000 if keys == 1 else 2_000)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(50)]
        for i, c in enumerate(clients):
            names = [f"k{i % 10}:{j}" for j in range(keys)]
            c.send_command("EVAL", script, keys, *names, rounds)
        for c in clients:
            assert c.read() == b"the end"
    names = [f"k{i}:{j}" for i in range(10) for j in range(keys)]
    assert sum(map(int, r.call("MGET", *names))) == 50 * rounds
    assert counters(r)["interpreters"] <= 2 * threads_of(server)


@only_dragonfly("a script stops it")
@pytest.mark.parametrize("script", [FOREVER, "redis.call('set', KEYS[1], 'v') " + FOREVER])
@pytest.mark.parametrize("end", ["SHUTDOWN", "SIGTERM"])
def test_the_server_stops_while_a_script_runs_for_ever(configuration, start_server, script, end):
    server = start_server(**configuration_flags(configuration))
    with server.connect() as c, server.connect() as r, server.connect() as waits:
        c.send_command("EVAL", script, 1, "k")
        wait_until(lambda: counters(r)["gave_way"] > 0, what="it runs")
        waits.send_command("GET", "k")
        wait_until(lambda: int(r.info("transaction")["tx_queue_length"]) > 1, what="somebody waits")
        if end == "SHUTDOWN":
            r.send_command("SHUTDOWN", "NOSAVE")
        else:
            server.process.terminate()
        server.wait_for_exit()
