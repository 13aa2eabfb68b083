# SPDX-License-Identifier: Apache-2.0
"""What INFO counts of the calls of scripts, and what scripts may ask the server."""

import pytest

from harness.resp import OK

pytestmark = [pytest.mark.threads, pytest.mark.sanitized, pytest.mark.alone]


def counted_commands(r):
    """By command: calls, rejected, failed. By error: how many."""
    counts = {}
    for name, text in r.info("commandstats").items():
        numbers = dict(part.split("=") for part in text.split(","))
        if name not in ("cmdstat_config|resetstat", "cmdstat_config|set", "cmdstat_info"):
            counts[name.removeprefix("cmdstat_")] = tuple(
                int(numbers[field]) for field in ("calls", "rejected_calls", "failed_calls")
            )
    for name, text in r.info("errorstats").items():
        counts[name.removeprefix("errorstat_")] = int(text.removeprefix("count="))
    total = int(r.info("stats")["total_error_replies"])
    assert total == sum(count for count in counts.values() if isinstance(count, int))
    return counts


GOOD, FAILED, REJECTED = (1, 0, 0), (1, 0, 1), (0, 1, 0)
INCR = "redis.%s('incr', 'str')"


@pytest.mark.parametrize(
    "command, expected",
    [
        (["return redis.call('get', 'str')"], {"eval": GOOD, "get": GOOD}),
        (["return " + INCR % "call"], {"eval": FAILED, "incr": FAILED, "ERR": 1}),
        (["pcall(redis.call, 'incr', 'str')"], {"eval": GOOD, "incr": FAILED, "ERR": 1}),
        ([INCR % "pcall"], {"eval": GOOD, "incr": FAILED, "ERR": 1}),
        (["return " + INCR % "pcall"], {"eval": FAILED, "incr": FAILED, "ERR": 1}),
        ([f"error({INCR % 'pcall'})"], {"eval": FAILED, "incr": FAILED, "ERR": 1}),
        ([f"error({INCR % 'pcall'}.err)"], {"eval": FAILED, "incr": FAILED, "ERR": 2}),
        (
            [INCR % "pcall" + " return redis.error_reply('MY err')"],
            {"eval": FAILED, "incr": FAILED, "ERR": 1, "MY": 1},
        ),
        (
            ["redis.pcall('lpush', 'str', 'a') return " + INCR % "pcall"],
            {"eval": FAILED, "incr": FAILED, "lpush": FAILED, "ERR": 1, "WRONGTYPE": 1},
        ),
        (["return redis.call('get')"], {"eval": FAILED, "get": REJECTED, "ERR": 1}),
        (["redis.pcall('get')"], {"eval": GOOD, "get": REJECTED, "ERR": 1}),
        (["return redis.call('nosuch')"], {"eval": FAILED, "ERR": 1}),
        (["redis.pcall('nosuch')"], {"eval": GOOD, "ERR": 1}),
        (["redis.pcall('config', 'nosuch')"], {"eval": GOOD, "ERR": 1}),
        (["return redis.call()"], {"eval": FAILED, "ERR": 1}),
        (["redis.pcall()"], {"eval": GOOD}),
        (
            ["return redis.call('subscribe', 'c')"],
            {"eval": FAILED, "subscribe": REJECTED, "ERR": 1},
        ),
        (["redis.pcall('subscribe', 'c')"], {"eval": GOOD, "subscribe": REJECTED, "ERR": 1}),
        (["redis.call('select', 99)"], {"eval": FAILED, "select": FAILED, "ERR": 1}),
        (["redis.call('select', 1)"], {"eval": GOOD, "select": GOOD}),
        (
            ["#!lua flags=no-writes\nreturn redis.call('set', 'a', 1)"],
            {"eval": FAILED, "set": REJECTED, "ERR": 1},
        ),
        (
            ["EVAL_RO", "return redis.call('set', 'a', 1)", 0],
            {"eval_ro": FAILED, "set": REJECTED, "ERR": 1},
        ),
        (
            ["EVAL_RO", "redis.pcall('set', 'a', 1)", 0],
            {"eval_ro": GOOD, "set": REJECTED, "ERR": 1},
        ),
        (["EVAL_RO", "#!lua\nreturn 1", 0], {"eval_ro": FAILED, "ERR": 1}),
        (["return {err='MY err'}"], {"eval": FAILED, "MY": 1}),
        (["return {err=''}"], {"eval": FAILED, "ERR": 1}),
        (["error('boom')"], {"eval": FAILED, "ERR": 1}),
        (["error({err='MY err'})"], {"eval": FAILED, "MY": 1}),
        (["return ("], {"eval": FAILED, "ERR": 1}),
        (["EVALSHA", "f" * 40, 0], {"evalsha": FAILED, "NOSCRIPT": 1}),
        (["EVAL", "return 1", "x"], {"eval": FAILED, "ERR": 1}),
        (["EVAL", "return 1", 5], {"eval": FAILED, "ERR": 1}),
        (["EVAL", "return 1"], {"eval": REJECTED, "ERR": 1}),
        (["FCALL", "nosuch", 0], {"fcall": FAILED, "ERR": 1}),
    ],
)
def test_what_a_script_does_is_counted_as_on_redis(r, command, expected):
    assert r.call("SET", "str", "x") == OK
    # The first runs may lock all shards, and later ones be started again.
    for _ in range(5):
        assert r.call("CONFIG", "RESETSTAT") == OK
        r.call(*(command if len(command) > 1 else ["EVAL", *command, 0]))
        assert counted_commands(r) == expected


@pytest.mark.parametrize(
    "script, expected",
    [
        ("return redis.call('set', 'a', 1)", {"eval": FAILED, "set": REJECTED, "OOM": 1}),
        ("redis.pcall('set', 'a', 1)", {"eval": GOOD, "set": REJECTED, "OOM": 1}),
        ("#!lua\nreturn redis.call('set', 'a', 1)", {"eval": REJECTED, "OOM": 1}),
    ],
)
def test_a_script_without_memory_is_counted_as_on_redis(r, script, expected):
    assert r.call("SET", "str", "x" * 1000) == OK
    assert r.call("CONFIG", "SET", "maxmemory", "1") == OK
    assert r.call("CONFIG", "RESETSTAT") == OK
    r.call("EVAL", script, 0)
    assert counted_commands(r) == expected
    assert r.call("CONFIG", "SET", "maxmemory", "0") == OK


@pytest.mark.parametrize(
    "command",
    [
        "INFO",
        "COMMAND COUNT",
        "COMMAND GETKEYS get a",
        "COMMAND HELP",
        "CONFIG HELP",
        "CLIENT HELP",
        "LASTSAVE",
        "MEMORY DOCTOR",
        "MEMORY STATS",
        "OBJECT HELP",
        "PUBSUB CHANNELS",
        "PUBSUB NUMSUB c",
        "PUBSUB NUMPAT",
        "PFSELFTEST",
        "XGROUP HELP",
        "XINFO HELP",
    ],
)
def test_a_script_may_ask_the_server_after_it_has_written(r, command):
    script = """
    redis.call('set', KEYS[1], 'v')
    for i = 1, 2 do
        local reply = redis.call(unpack(ARGV))
        if type(reply) == 'table' and reply.err then return reply end
    end
    return redis.call('get', KEYS[1])
    """
    for _ in range(5):
        assert r.call("EVAL", script, 1, "k", *command.split()) == b"v"
