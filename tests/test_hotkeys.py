# SPDX-License-Identifier: Apache-2.0
"""HOTKEYS of Redis 8.6: which keys cost the most time, and the most bytes."""

import time

import pytest

from harness.resp import OK, SYNTAX, Error, Map, arity, encode
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, pytest.mark.sanitized, only_dragonfly("came with 8.6")]

BOTH = ("HOTKEYS", "START", "METRICS", "2", "CPU", "NET")
ACTIVE = Error("ERR hotkeys tracking session already in progress")


@pytest.fixture
def c(r):
    yield r
    r.do("HOTKEYS STOP")
    assert r.do("HOTKEYS RESET") == OK


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def told(c):
    """The one map of HOTKEYS GET."""
    (found,) = c.do("HOTKEYS GET")
    return pairs(found)


def top(found, name):
    return pairs(found[name])


def test_bytes_of_keys_are_those_of_requests_and_replies(c):
    assert c.call(*BOTH) == OK
    before = told(c)[b"net-bytes-all-commands-all-slots"]
    sent = 0
    for _ in range(50):
        for key, size in (("large", 3_000), ("small", 10)):
            c.call("SET", key, b"v" * size)
            c.call("GET", key)
            sent += len(encode("SET", key, b"v" * size)) + 5
            sent += len(encode("GET", key)) + len(b"$%d\r\n\r\n" % size) + size
    assert c.do("HOTKEYS STOP") == OK
    found = told(c)
    by_bytes = top(found, b"by-net-bytes")
    assert list(by_bytes) == [b"large", b"small"]
    assert by_bytes[b"large"] + by_bytes[b"small"] == sent
    assert found[b"net-bytes-all-commands-all-slots"] >= before + sent
    assert found[b"total-net-bytes"] == found[b"net-bytes-all-commands-all-slots"]


def test_time_of_keys_is_a_part_of_that_of_all(c):
    c.call("SADD", "many", *range(3_000))
    assert c.call(*BOTH) == OK
    for _ in range(20):
        c.do("SMEMBERS many")
        c.do("GET one")
    found = told(c)
    by_time = top(found, b"by-cpu-time-us")
    assert list(by_time) == [b"many", b"one"]
    assert by_time[b"many"] > 0
    assert sum(by_time.values()) <= found[b"all-commands-all-slots-us"]
    assert found[b"total-cpu-time-user-ms"] >= 0 and found[b"total-cpu-time-sys-ms"] >= 0


def test_what_is_told_of_the_session(c):
    began = int(time.time() * 1000)
    assert c.call(*BOTH, "COUNT", "3", "SAMPLE", "7") == OK
    found = told(c)
    assert found[b"tracking-active"] == 1
    assert found[b"sample-ratio"] == 7
    assert found[b"selected-slots"] == []
    assert abs(found[b"collection-start-time-unix-ms"] - began) < 60_000
    assert c.do("HOTKEYS STOP") == OK
    found = told(c)
    assert found[b"tracking-active"] == 0
    c.do("GET k")
    assert told(c) == found  # it stands still
    assert c.do("HOTKEYS RESET") == OK
    assert c.do("HOTKEYS GET") is None
    assert c.call("HOTKEYS", "START", "METRICS", "1", "NET") == OK
    assert b"by-cpu-time-us" not in told(c) and b"total-cpu-time-sys-ms" not in told(c)
    c.do("HOTKEYS STOP")
    assert c.call("HOTKEYS", "START", "METRICS", "1", "cpu") == OK
    assert b"by-net-bytes" not in told(c) and b"total-net-bytes" not in told(c)


def test_only_so_many_keys_and_only_some_uses(c):
    assert c.call(*BOTH, "COUNT", "5") == OK
    c.pipeline([("GET", f"k{i}") for i in range(500)])
    assert len(top(told(c), b"by-net-bytes")) == 5
    c.do("HOTKEYS STOP")
    assert c.call(*BOTH, "SAMPLE", "10") == OK
    c.pipeline([("GET", "hot")] * 1_000)
    each = len(encode("GET", "hot")) + 5
    counted = top(told(c), b"by-net-bytes")[b"hot"]
    assert 90 * each <= counted <= 110 * each
    assert told(c)[b"net-bytes-all-commands-all-slots"] >= 1_000 * each


def test_keys_of_commands_of_all_kinds_share(c):
    c.call("MSET", "a", "1", "b", "2", "c", "3")
    assert c.call(*BOTH) == OK
    c.call("MGET", "a", "b", "c")
    c.call("EVAL", "return redis.call('GET', KEYS[1])", "1", "scripted")
    c.do("MULTI")
    c.do("INCR counted")
    c.do("EXEC")
    c.call("RPUSH", "list", "x")
    c.call("BLPOP", "list", "0")
    by_bytes = top(told(c), b"by-net-bytes")
    assert set(by_bytes) == {b"a", b"b", b"c", b"scripted", b"counted", b"list"}
    assert by_bytes[b"a"] == by_bytes[b"b"] == by_bytes[b"c"]


def test_it_ends_by_itself(c):
    def early_is_counted():
        c.do("HOTKEYS STOP")
        c.do("HOTKEYS RESET")
        assert c.call("HOTKEYS", "START", "METRICS", "1", "NET", "DURATION", "1") == OK
        c.do("GET early")
        return b"early" in top(told(c), b"by-net-bytes")

    wait_until(early_is_counted)
    wait_until(lambda: told(c)[b"tracking-active"] == 0)
    assert told(c)[b"collection-duration-ms"] == 1000
    c.do("GET late")
    assert b"late" not in top(told(c), b"by-net-bytes")
    assert b"early" in top(told(c), b"by-net-bytes")
    assert isinstance(c.do("HOTKEYS STOP"), Error)


def test_in_resp3_it_is_a_map(server, c):
    assert c.call(*BOTH) == OK
    with server.connect(resp3=True) as r3:
        (found,) = r3.do("HOTKEYS GET")
        assert isinstance(found, Map)
        assert found.dict()[b"tracking-active"] == 1


def test_errors(c):
    assert isinstance(c.do("HOTKEYS STOP"), Error)
    assert c.do("HOTKEYS GET x") == arity("hotkeys|get")
    for line, error in (
        ("", "ERR METRICS parameter is required"),
        ("COUNT 3", "ERR METRICS parameter is required"),
        ("METRICS", "ERR METRICS parameter is required"),
        ("METRICS x CPU", "ERR METRICS count must be positive"),
        ("METRICS 0", "ERR METRICS count must be positive"),
        ("METRICS 1 GPU", "ERR METRICS no valid metrics passed. Supported: CPU|NET"),
        ("METRICS 2 CPU", "ERR METRICS count does not match number of metric types provided"),
        ("METRICS 1 CPU NET", "ERR METRICS count does not match number of metric types provided"),
        ("METRICS 2 CPU CPU", "ERR syntax error"),
        ("METRICS 1 CPU COUNT 0", "ERR COUNT must be between 1 and 64"),
        ("METRICS 1 CPU COUNT 65", "ERR COUNT must be between 1 and 64"),
        ("METRICS 1 CPU DURATION 0", "ERR DURATION must be between 1 and 1000000000"),
        ("METRICS 1 CPU SAMPLE x", "ERR SAMPLE ratio must be between 1 and 2147483647"),
        ("METRICS 1 CPU SLOTS 1 3", "ERR SLOTS parameter cannot be used in non-cluster mode"),
    ):
        assert c.do(f"HOTKEYS START {line}") == Error(error), line
    for line in ("METRICS 1 CPU WHAT", "METRICS 1 CPU COUNT"):
        assert c.do(f"HOTKEYS START {line}") == SYNTAX
    assert c.do("HOTKEYS GET") is None
    assert c.call(*BOTH) == OK
    assert c.call(*BOTH) == ACTIVE
    assert isinstance(c.do("HOTKEYS RESET"), Error)


def test_nothing_is_counted_afterwards(c):
    """And commands are timed now and then again, which the slow log shows to nobody."""
    assert c.call(*BOTH) == OK
    c.do("GET k")
    c.do("HOTKEYS STOP")
    c.do("HOTKEYS RESET")
    c.pipeline([("GET", "k")] * 100)
    assert c.do("HOTKEYS GET") is None
    assert c.call(*BOTH) == OK
    assert top(told(c), b"by-net-bytes") == {}
