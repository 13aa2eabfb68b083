# SPDX-License-Identifier: Apache-2.0
"""Memory that counts for maxmemory and is no data is given back before a key is evicted or a write
is refused, and when nothing happens. What each kind is: docs/memory.md."""

import pytest

from harness import memory_states
from harness.resp import OK
from harness.server import only_dragonfly, wait_until

pytestmark = [only_dragonfly("redis-server counts no Lua, and none of the other parts")]

MB = 1 << 20
STRINGS = "local t = {} for i = 1, 80 do t[i] = string.rep('x', 1000000) .. i end return #t"
TABLES = "local t = {} for i = 1, 200000 do t[i] = {i} end return #t"


def used(c, field="used_memory"):
    return int(c.info("memory")[field])


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("policy", ["allkeys-lru", "noeviction"])
def test_garbage_of_a_script_costs_no_key_and_no_write(start_server, threads, policy):
    server = start_server(proactor_threads=threads)
    with server.connect(timeout=60) as c:
        c.pipeline([("SET", f"key:{i}", b"v" * 10_000) for i in range(1000)])
        limit = used(c) + 20 * MB
        assert c.call("CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", limit) == OK
        for script, count in ((STRINGS, 80), (TABLES, 200_000)):
            assert c.call("EVAL", script, 0) == count
            for i in range(100):
                assert c.call("SET", f"new:{i}", b"v" * 1000) == OK
            wait_until(lambda: used(c) < limit, what="the garbage is gone")
        assert c.call("DBSIZE") == 1100
        assert c.info("stats")["evicted_keys"] == "0"


@pytest.mark.parametrize("threads", [1, 4])
def test_garbage_goes_while_nothing_happens(start_server, threads):
    with start_server(proactor_threads=threads).connect(timeout=60) as c:
        before = used(c, "used_memory_lua")
        for script in (STRINGS, TABLES):
            c.call("EVAL", script, 0)
            wait_until(lambda: used(c, "used_memory_lua") < before + 2 * MB, what="it is collected")


LIBRARY = (
    "#!lua name=big\nlocal t = {} "
    "redis.register_function('grow', function() t[1] = string.rep('x', %d) return 1 end)"
)


@pytest.mark.parametrize(
    "command", [("SCRIPT", "FLUSH"), ("FUNCTION", "FLUSH"), ("MEMORY", "PURGE")], ids=" ".join
)
def test_these_collect_before_they_reply(start_server, command):
    with start_server(proactor_threads=4).connect(timeout=60) as c:
        c.call("EVAL", "return 1", 0)
        before = used(c, "used_memory_lua")
        for _ in range(10):
            c.call("EVAL", TABLES, 0)
            assert c.call(*command) == OK
            assert used(c, "used_memory_lua") < before + 2 * MB


def test_what_a_library_keeps_is_given_up_when_it_is_much(start_server):
    with start_server(proactor_threads=1).connect(timeout=60) as c:
        assert c.call("FUNCTION", "LOAD", LIBRARY % (40 * MB)) == b"big"
        before = used(c, "used_memory_lua")
        assert c.call("FCALL", "grow", 0) == 1
        wait_until(lambda: used(c, "used_memory_lua") < before + 2 * MB, what="it is given up")
        assert c.call("FCALL", "grow", 0) == 1


@pytest.mark.parametrize("policy", ["allkeys-lru", "noeviction"])
def test_stacks_and_buffers_are_given_back_under_pressure(start_server, policy):
    """Also of threads that have nothing to do."""
    server = start_server(proactor_threads=4)
    with server.connect(timeout=60) as c:
        c.call("SET", "k", "v")
        with memory_states.blocked_clients(server, count=400):
            pass
        wait_until(lambda: int(c.info("clients")["blocked_clients"]) == 0, what="all are gone")
        memory_states.wait_until_steady(c, "mem_fiber_stacks")
        stacks = used(c, "mem_fiber_stacks")
        assert c.call("CONFIG", "SET", "maxmemory-policy", policy) == OK

        def is_given_back():
            c.call("CONFIG", "SET", "maxmemory", used(c) - 1000)
            c.call("SET", "k", "v")
            return used(c, "mem_fiber_stacks") <= stacks // 2

        wait_until(is_given_back, what="stacks that nobody uses go")


def test_deleted_values_are_no_reason_to_refuse_a_write(start_server):
    with start_server(proactor_threads=1).connect(timeout=60) as c:
        for begin in range(0, 400_000, 10_000):
            c.call("SADD", "s", *[f"member:{i}" for i in range(begin, begin + 10_000)])
        assert c.call("CONFIG", "SET", "maxmemory", used(c) - MB) == OK
        replies = c.pipeline([("UNLINK", "s"), *[("SET", f"k:{i}", "v") for i in range(100)]])
        assert replies == [1] + [OK] * 100
