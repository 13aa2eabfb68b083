# SPDX-License-Identifier: Apache-2.0
"""redis.acall, redis.apcall and --lua_auto_async: calls that are collected, and done together."""

import pytest

from harness.resp import NOT_INT
from harness.lua import SPREAD, assert_error, counted, counters, threads_of
from harness.server import only_dragonfly

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]

ASYNC = """
for i, key in ipairs(KEYS) do redis.acall('set', key, ARGV[1]) end
return redis.call('get', KEYS[#KEYS])
"""


@only_dragonfly("no acall")
def test_acall_is_done_before_the_next_call_and_before_the_end(server, r):
    for i in range(6):
        assert r.call("EVAL", ASYNC, len(SPREAD), *SPREAD, i) == b"%d" % i
        assert r.call("MGET", *SPREAD) == [b"%d" % i] * len(SPREAD)
    without_end = ASYNC.splitlines()[1]
    for i in range(6):
        assert r.call("EVAL", without_end, len(SPREAD), *SPREAD, f"w{i}") is None
        assert r.call("MGET", *SPREAD) == [b"w%d" % i] * len(SPREAD)
    if threads_of(server) > 1:
        with counted(r, deferred_calls=len(SPREAD)):
            r.call("EVAL", ASYNC, len(SPREAD), *SPREAD, "x")


@only_dragonfly("no acall")
@pytest.mark.parametrize("keys", [["k"], ["k", *SPREAD]])
def test_errors_of_acall_end_the_script_and_those_of_apcall_its_reply(r, keys):
    r.call("SET", "k", "text")
    for end in ("", " redis.call('get', KEYS[1])", " return 'not reached'"):
        script = "redis.acall('incr', KEYS[1])" + end
        for _ in range(4):
            assert_error(r.call("EVAL", script, len(keys), *keys), NOT_INT.text)
    script = "redis.apcall('set', KEYS[1], 'next') return redis.call('get', KEYS[1])"
    for _ in range(4):
        assert r.call("EVAL", script, len(keys), *keys) == b"next"


@only_dragonfly("no flag")
@pytest.mark.flags(lua_auto_async=True)
def test_auto_async_defers_only_what_is_not_looked_at(server, r):
    discards = "for i, key in ipairs(KEYS) do redis.call('incr', key) end return 'done'"
    looks = "local n = 0 for i, key in ipairs(KEYS) do n = n + redis.call('incr', key) end return n"
    before = counters(r)
    for _ in range(5):
        assert r.call("EVAL", discards, len(SPREAD), *SPREAD) == b"done"
    deferred = counters(r)["deferred_calls"] - before["deferred_calls"]
    assert deferred == (0 if threads_of(server) == 1 else 5 * len(SPREAD))
    with counted(r, deferred_calls=0):
        for i in range(5):
            assert r.call("EVAL", looks, len(SPREAD), *SPREAD) == (6 + i) * len(SPREAD)
    r.call("SET", SPREAD[3], "text")
    assert_error(r.call("EVAL", discards, len(SPREAD), *SPREAD), NOT_INT.text)


@only_dragonfly("no flag")
@pytest.mark.flags(lua_auto_async=True)
def test_auto_async_is_for_scripts_that_are_loaded_too(server, r):
    """Wherever it was loaded, and from whatever thread it is called."""
    script = "for i, key in ipairs(KEYS) do redis.call('incr', key) end return 'loaded'"
    sha = r.call("SCRIPT", "LOAD", script)
    others = 2 * threads_of(server)
    before = counters(r)
    assert r.call("EVALSHA", sha, len(SPREAD), *SPREAD) == b"loaded"
    for _ in range(others):
        with server.connect() as c:
            assert c.call("EVALSHA", sha, len(SPREAD), *SPREAD) == b"loaded"
    deferred = counters(r)["deferred_calls"] - before["deferred_calls"]
    assert deferred == (0 if threads_of(server) == 1 else (1 + others) * len(SPREAD))
