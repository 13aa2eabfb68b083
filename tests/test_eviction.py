# SPDX-License-Identifier: Apache-2.0
"""maxmemory and who goes when it is reached: the policies, sticky keys, EXEC and scripts on a full
server, many writers. The policies themselves have unit tests
(src/engine/keyspace/eviction_test.cc)."""

import random
import statistics
import threading
import time

import pytest

from harness.resp import OK, Error, Status
from harness.server import (
    REFERENCE,
    SANITIZED,
    configuration_flags,
    only_dragonfly,
    wait_until,
)

OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")
MB = 1 << 20
VALUE = "x" * 200
ALL_KEYS = ["allkeys-lru", "allkeys-lfu", "allkeys-random"]
VOLATILE = ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]
NOT_LFU = Error(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note "
    "that when switching between policies at runtime LRU and LFU data will take some time to "
    "adjust."
)
IS_LFU = Error(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when "
    "switching between policies at runtime LRU and LFU data will take some time to adjust."
)


@pytest.fixture(params=["4t", "1t"] if not REFERENCE else ["redis"])
def own(request, start_server):
    """A server of the test's own."""
    return start_server(**configuration_flags(request.param))


def used(c):
    return int(c.info("memory")["used_memory"])


def used_besides_clients(c):
    """Buffers of clients come and go, and may pass the limit when nothing can be evicted."""
    info = c.info("memory")
    return int(info["used_memory"]) - int(info["mem_clients_normal"])


def evicted(c):
    return int(c.info("stats")["evicted_keys"])


def limit_to(c, extra_bytes, policy):
    """So much may be used besides what is. Returns the limit."""
    assert c.call("CONFIG", "SET", "maxmemory-policy", policy) == OK
    limit = used(c) + extra_bytes
    assert c.call("CONFIG", "SET", "maxmemory", limit) == OK
    return limit


def fill(c, prefix, count, *options, batch=500):
    """SETs keys; returns how many were refused."""
    refused = 0
    for begin in range(0, count, batch):
        end = min(begin + batch, count)
        commands = [("SET", f"{prefix}{i}", VALUE, *options) for i in range(begin, end)]
        for reply in c.pipeline(commands):
            assert reply in (OK, OOM), reply
            refused += reply == OOM
    return refused


def left(c, prefix, count, batch=500):
    return sum(
        c.call("EXISTS", *[f"{prefix}{i}" for i in range(begin, min(begin + batch, count))])
        for begin in range(0, count, batch)
    )


# redis-server evicts before it runs INFO, whose own arguments and reply it counts then: 56 bytes.
QUESTION_BYTES = 1024 if REFERENCE else 0


def settled(c, limit):
    """Is as little used as has to be? Eviction goes on for a moment after the last write."""
    wait_until(lambda: used(c) <= limit + QUESTION_BYTES, what="used memory below the limit")


@pytest.mark.parametrize("policy", ALL_KEYS)
def test_ten_times_as_much_as_fits(own, policy):
    with own.connect() as c:
        limit = limit_to(c, 4 * MB, policy)
        assert fill(c, "k", 100_000) == 0
        settled(c, limit)
        there = c.do("DBSIZE")
        assert 6_000 < there < 25_000
        wait_until(lambda: evicted(c) + c.do("DBSIZE") == 100_000, what="the counters to agree")
        assert c.do("CONFIG RESETSTAT") == OK
        assert evicted(c) == 0


@pytest.mark.parametrize("policy", VOLATILE)
def test_volatile_policies_take_what_has_a_deadline_and_then_refuse(own, policy):
    with own.connect() as c:
        fill(c, "stays", 4_000)
        limit = limit_to(c, 2 * MB, policy)
        assert fill(c, "goes", 30_000, "EX", "10000") == 0
        assert left(c, "stays", 4_000) == 4_000
        assert evicted(c) > 15_000
        refused = fill(c, "new", 20_000)
        assert refused > 5_000
        assert left(c, "stays", 4_000) == 4_000
        assert left(c, "goes", 30_000) == 0
        assert used_besides_clients(c) < limit * 1.02
        assert c.do("GET stays0") == VALUE.encode()
        for i in range(4_000):
            assert c.do(f"EXPIRE stays{i} 1000") == 1  # needs no memory
        wait_until(lambda: c.do("SET one more") == OK, what="room of those with a deadline")


def test_ttl_is_the_order(own):
    with own.connect() as c:
        for i in range(12_000):
            c.call("SET", f"soon{i}", VALUE, "EX", 1_000 + i % 100)
            if i < 3_000:
                c.call("SET", f"late{i}", VALUE, "EX", 100_000 + i % 100)
        limit_to(c, 64_000, "volatile-ttl")
        c.call("CONFIG", "SET", "maxmemory-samples", "10")
        assert fill(c, "new", 2_000) == 0
        assert left(c, "late", 3_000) >= 2_990
        assert left(c, "soon", 12_000) < 11_000


def test_lru_takes_the_oldest(own):
    with own.connect() as c:
        assert c.do("CONFIG SET maxmemory-policy allkeys-lru") == OK
        fill(c, "old", 6_000)
        time.sleep(2.1)  # its clock has seconds
        fill(c, "new", 3_000)
        c.pipeline([("GET", f"old{i}") for i in range(1_000)])
        c.call("CONFIG", "SET", "maxmemory-samples", "10")
        limit_to(c, 100_000, "allkeys-lru")
        assert fill(c, "last", 3_000) == 0
        assert left(c, "new", 3_000) > 2_900
        assert left(c, "old", 1_000) > 950
        assert left(c, "old", 6_000) < 5_000


def test_lfu_keeps_what_is_used(own):
    with own.connect() as c:
        assert c.do("CONFIG SET maxmemory-policy allkeys-lfu") == OK
        fill(c, "hot", 2_000)
        limit_to(c, 10 * MB, "allkeys-lfu")  # buffers take some of it
        c.call("CONFIG", "SET", "maxmemory-samples", "10")
        for i in range(40):
            c.pipeline([("GET", f"hot{j}") for j in range(2_000)])
            assert fill(c, f"cold{i}:", 2_000) == 0
        assert left(c, "hot", 2_000) > 1_800


def test_object_freq_and_idletime_follow_the_policy(own):
    with own.connect() as c:
        c.do("SET k v")
        assert c.do("OBJECT FREQ k") == NOT_LFU
        assert c.do("OBJECT IDLETIME k") == 0
        for policy in ("allkeys-lfu", "volatile-lfu"):
            c.do("FLUSHALL")  # the clocks of keys that are there begin anew a little later
            c.call("CONFIG", "SET", "maxmemory-policy", policy)
            c.do("SET k v")
            assert c.do("OBJECT FREQ k") == 5
            c.do("GET k")
            assert c.do("OBJECT FREQ k") == 6
            assert c.do("OBJECT IDLETIME k") == IS_LFU
            assert c.do("OBJECT FREQ none") is None
            payload = c.do("DUMP k")
            assert c.call("RESTORE", "r", 0, payload, "REPLACE", "FREQ", 100) == OK
            assert c.do("OBJECT FREQ r") == 100
        c.call("CONFIG", "SET", "lfu-log-factor", 0)
        c.pipeline([("GET", "k")] * 50)
        assert c.do("OBJECT FREQ k") >= 55
        c.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        c.do("GET k")
        assert c.do("OBJECT IDLETIME k") == 0
        assert c.do("OBJECT FREQ k") == NOT_LFU


@only_dragonfly("Redis reads the clock of one kind as that of the other")
def test_clocks_of_a_replica_begin_anew_too(start_server):
    """Also where nothing expires actively."""
    primary, replica = start_server(), start_server()
    with primary.connect() as c, replica.connect() as r:
        assert fill(c, "k", 100) == 0
        assert r.do(f"REPLICAOF 127.0.0.1 {primary.port}") == OK
        wait_until(lambda: r.do("DBSIZE") == 100, what="the keys on the replica")
        r.pipeline([("GET", "k7")] * 10)
        assert r.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu") == OK
        wait_until(
            lambda: [r.call("OBJECT", "FREQ", f"k{i}") for i in range(100)] == [5] * 100,
            what="the clocks",
        )


LRM = ["allkeys-lrm", "volatile-lrm"]


@only_dragonfly("came with 8.6")
@pytest.mark.parametrize("policy", LRM)
def test_lrm_goes_by_changes(own, policy):
    with own.connect() as c:
        assert c.call("CONFIG", "SET", "maxmemory-policy", policy) == OK
        c.do("SET s 1")
        c.do("HSET h a 1")
        dumps = {key: c.do(f"DUMP {key}") for key in ("s", "h")}

        def idle_after(line, key="s"):
            assert c.call("RESTORE", key, 100_000, dumps[key], "REPLACE", "IDLETIME", 1000) == OK
            reply = c.do(line)
            assert not isinstance(reply, Error), reply
            return c.do(f"OBJECT IDLETIME {key}")

        for line in ("GET s", "MGET s other", "STRLEN s", "EXISTS s", "TYPE s", "DUMP s", "TTL s"):
            assert idle_after(line) >= 1000, line
        for line in ("SET s 2", "APPEND s 2", "EXPIRE s 1000", "PERSIST s", "INCR s"):
            assert idle_after(line) < 500, line
        assert idle_after("HGETALL h", "h") >= 1000
        assert idle_after("HSET h a 2", "h") < 500
        assert c.do("OBJECT FREQ s") == NOT_LFU
        c.do("CONFIG SET maxmemory-policy allkeys-lru")
        assert idle_after("GET s") < 500


@only_dragonfly("came with 8.6")
@pytest.mark.parametrize("policy", LRM)
def test_lrm_takes_what_was_changed_first(own, policy):
    with own.connect() as c:
        assert c.call("CONFIG", "SET", "maxmemory-policy", policy) == OK
        c.call("SET", "k", VALUE)
        payload = c.do("DUMP k")
        names = [f"{age}{i}" for i in range(3_000) for age in ("old", "new")]
        c.pipeline(
            [
                ("RESTORE", name, 1_000_000, payload, "IDLETIME", 5000 if name[0] == "o" else 1000)
                for name in names
            ]
        )
        c.pipeline([("GET", name) for name in names if name[0] == "o"])
        c.call("CONFIG", "SET", "maxmemory-samples", "10")
        limit_to(c, 100_000, policy)
        assert fill(c, "last", 3_000, "EX", 1_000_000) == 0
        gone = {age: 3_000 - left(c, age, 3_000) for age in ("old", "new")}
        assert gone["old"] > 100 and gone["new"] * 4 < gone["old"], gone


def test_settings(own):
    with own.connect() as c:
        for policy in [*ALL_KEYS, *VOLATILE, *([] if REFERENCE else LRM), "noeviction"]:
            assert c.call("CONFIG", "SET", "maxmemory-policy", policy.upper()) == OK
            assert c.do("CONFIG GET maxmemory-policy") == [b"maxmemory-policy", policy.encode()]
            assert c.info("memory")["maxmemory_policy"] == policy
        assert c.do("CONFIG SET maxmemory-policy lru") == Error(
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) "
            "must be one of the following: "
            + (
                "volatile-lru, volatile-lfu, volatile-random, volatile-ttl, "
                "allkeys-lru, allkeys-lfu, allkeys-random, noeviction"
                if REFERENCE
                else "volatile-lru, volatile-lrm, volatile-lfu, volatile-random, volatile-ttl, "
                "allkeys-lru, allkeys-lrm, allkeys-lfu, allkeys-random, noeviction"
            )
        )
        for name, value in (
            ("maxmemory-samples", b"5"),
            ("lfu-log-factor", b"10"),
            ("lfu-decay-time", b"1"),
        ):
            assert c.do(f"CONFIG GET {name}") == [name.encode(), value]
            assert c.do(f"CONFIG SET {name} 7") == OK
            assert c.do(f"CONFIG GET {name}") == [name.encode(), b"7"]
            assert isinstance(c.do(f"CONFIG SET {name} -1"), Error)
        assert isinstance(c.do("CONFIG SET maxmemory-samples 0"), Error)


def test_commands_that_are_refused_are_those_whose_row_says_so(own):
    """With a limit of one byte and no policy. The rows themselves are those of redis-server:
    test_command_table.py."""
    with own.connect() as c:
        rows = c.do("COMMAND")
        c.do("CONFIG SET maxmemory-policy noeviction")
        c.do("CONFIG SET maxmemory 1")
        wrong = []
        seen = 0
        for name, arity, flags, first_key, *_ in rows:
            name = name.decode()
            if first_key == 0 or "blocking" in {str(f) for f in flags}:
                continue
            reply = c.call(name, *["1"] * (abs(arity) - 1))
            denied = Status("denyoom") in flags or b"denyoom" in flags
            if (reply == OOM) != denied:
                wrong.append((name, denied, reply))
            seen += denied
        assert not wrong
        assert seen > 50


def test_a_smaller_limit_is_obeyed_at_once(own):
    with own.connect() as c:
        limit_to(c, 100 * MB, "allkeys-lru")
        assert fill(c, "k", 40_000) == 0
        before = used(c)
        assert evicted(c) == 0
        limit = before - 5 * MB
        assert c.call("CONFIG", "SET", "maxmemory", limit) == OK
        settled(c, limit)
        assert evicted(c) > 10_000
        assert c.do("SET k v") == OK
        # Without a policy nothing goes, and nothing comes.
        assert c.do("CONFIG SET maxmemory-policy noeviction") == OK
        assert c.call("CONFIG", "SET", "maxmemory", limit - 2 * MB) == OK
        there = c.do("DBSIZE")
        assert c.do("SET k v") == OOM
        assert c.do("DBSIZE") == there
        assert c.do("CONFIG SET maxmemory 0") == OK
        assert c.do("SET k v") == OK


@only_dragonfly("STICK is ours")
@pytest.mark.parametrize("policy", [*ALL_KEYS, "volatile-ttl"])
def test_sticky_keys_fill_memory_and_writes_are_refused(own, policy):
    with own.connect() as c:
        limit = limit_to(c, 3 * MB, policy)
        refused = fill(c, "k", 30_000, "EX", "10000", "STICK")
        there = c.do("DBSIZE")
        assert refused == 30_000 - there
        assert 3_000 < there < 15_000
        assert evicted(c) == 0
        assert used_besides_clients(c) < limit * 1.02
        assert c.do("MSET a 1 b 2 c 3 d 4") == OOM
        # What is not sticky makes room.
        assert c.call("DEL", *[f"k{i}" for i in range(there // 2)]) > 0
        wait_until(lambda: c.do("SET k v") == OK, what="room")
        assert fill(c, "free", 20_000, "EX", "10000") < 5_000
        assert evicted(c) > 2_000
        assert left(c, "k", 30_000) >= there // 2


def test_a_key_that_is_evicted_is_no_change(own):
    with own.connect() as c:
        limit_to(c, MB, "allkeys-random")
        before = int(c.info("persistence")["rdb_changes_since_last_save"])
        assert fill(c, "k", 30_000) == 0
        assert evicted(c) > 1_000
        assert int(c.info("persistence")["rdb_changes_since_last_save"]) == before + 30_000


@only_dragonfly("STICK is ours")
def test_set_stick_is_kept_and_a_later_set_keeps_it(own):
    with own.connect() as c:
        for i in range(500):
            assert c.call("SET", f"s{i}", "v", "STICK") == OK
            assert c.call("SET", f"s{i}", VALUE) == OK
            c.call("SET", f"t{i}", VALUE)
        assert c.call("STICK", *[f"t{i}" for i in range(500)]) == 500
        limit_to(c, MB, "allkeys-random")
        assert fill(c, "k", 30_000) == 0
        assert left(c, "s", 500) == left(c, "t", 500) == 500


def test_exec_is_refused_or_carried_out_as_a_whole(own):
    with own.connect() as c, own.connect() as other:
        limit_to(c, 2 * MB, "allkeys-lru")
        assert fill(c, "k", 20_000) == 0
        for i in range(2_000):
            keys = [f"{{{i}}}a", f"{{{i}}}b"] if i % 2 else [f"a{i}", f"b{i}"]
            commands = [("MULTI",), *[("SET", key, VALUE * 3) for key in keys], ("EXEC",)]
            assert c.pipeline(commands)[-1] == [OK, OK]
        # Commands without keys make room for none.
        commands = [("MULTI",), ("PING",), ("MSET", *"a1b2c3d4"), ("DBSIZE",), ("EXEC",)]
        for _ in range(200):
            assert c.pipeline(commands)[-1][:2] == [Status("PONG"), OK]
            fill(other, "k", 100)
        # Without a policy a full server refuses what is queued, and EXEC.
        other.do("CONFIG SET maxmemory-policy noeviction")
        c.do("MULTI")
        c.do("SET k v")
        other.do("CONFIG SET maxmemory 1")
        assert c.do("EXEC") == Error(
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory "
            "> 'maxmemory'."
        )
        assert c.do("SET k v") == OOM
        library = "#!lua name=l\nredis.register_function('f', function() end)"
        assert c.call("FUNCTION", "LOAD", library) == OOM


def test_scripts_write_to_a_full_server(own):
    script = """
        for i = 1, 20 do redis.call('SET', KEYS[1] .. i, ARGV[1]) end
        return redis.call('GET', KEYS[1] .. '7')"""
    small = "return redis.call('SET', KEYS[1], 'v')"
    flags = "--!df flags=allow-undeclared-keys\n" if not REFERENCE else ""
    with own.connect() as c:
        limit = limit_to(c, 2 * MB, "allkeys-lfu")
        assert fill(c, "k", 20_000) == 0
        for i in range(1_000):
            assert c.call("EVAL", flags + script, 1, f"{{{i}}}", VALUE) == VALUE.encode()
        settled(c, limit)
        assert evicted(c) > 15_000
        assert c.call("EVAL", "#!lua\n" + small, 1, "s") == OK
        c.do("CONFIG SET maxmemory-policy noeviction")
        c.do("CONFIG SET maxmemory 1")
        assert c.call("EVAL", "#!lua\n" + small, 1, "s") == OOM
        assert c.call("EVAL", "#!lua flags=allow-oom\n" + small, 1, "s") == OK


def test_a_watched_key_that_is_evicted_has_changed(own):
    with own.connect() as c, own.connect() as other:
        c.do("SET watched v")
        assert c.do("WATCH watched") == OK
        limit_to(other, MB, "allkeys-random")
        for i in range(100):
            fill(other, f"k{i}:", 2_000)
            if not other.do("EXISTS watched"):
                break
        assert other.do("EXISTS watched") == 0
        assert c.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1] is None


def test_big_values_go_as_one_key(own):
    with own.connect() as c:
        limit = limit_to(c, 20 * MB, "allkeys-lru")
        members = [f"member-{i:06}" for i in range(20_000)]
        for i in range(60):  # about 500 KB each
            for begin in range(0, len(members), 2_000):
                assert c.call("SADD", f"set{i}", *members[begin : begin + 2_000]) == 2_000
            # Others free what they have evicted when they have their turn.
            wait_until(lambda: used(c) < limit + 3 * MB, what="not much above the limit")
        settled(c, limit)
        assert 5 < c.do("DBSIZE") < 60


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "volatile-lru"])
def test_memory_stays_under_the_limit_while_many_write(own, policy):
    writers, rounds = 6, 10 if SANITIZED else 40
    with own.connect() as c:
        limit = limit_to(c, 16 * MB, policy)
        failures, most = [], []

        def write(number):
            rng = random.Random(number)
            try:
                with own.connect() as mine:
                    for _ in range(rounds):
                        commands = [
                            ("SETEX", rng.randrange(10**9), 10_000, "x" * rng.randrange(400))
                            if rng.random() < 0.9
                            else ("GET", rng.randrange(10**9))
                            for _ in range(1_000)
                        ]
                        bad = [r for r in mine.pipeline(commands) if isinstance(r, Error)]
                        failures.extend(bad)
            except Exception as e:  # shown by the assertion below
                failures.append(e)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(writers)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            most.append(used(c))
            time.sleep(0.01)
        for t in threads:
            t.join()
        assert not failures[:3]
        # Replies and input of the clients come and go while it is looked at.
        assert max(most) < limit + (2 if not REFERENCE else 8) * MB
        settled(c, limit)
        assert evicted(c) > 1_000


@only_dragonfly("it has no shards")
def test_shards_give_in_proportion(start_server):
    """All writes go to one shard that has little; it must not lose what it has for that."""
    server = start_server(proactor_threads=4)
    with server.connect() as c:
        assert fill(c, "k", 40_000) == 0
        assert fill(c, "{tag}old", 200) == 0
        limit = limit_to(c, MB, "allkeys-random")
        assert fill(c, "{tag}new", 20_000, batch=100) == 0
        settled(c, limit)
        # About 25,000 of 60,000 have gone, of each a share, and of the old ones the most.
        assert left(c, "{tag}new", 20_000) > 5_000
        assert 10_000 < left(c, "k", 40_000) < 32_000


@only_dragonfly("cache_mode is ours")
@pytest.mark.parametrize("threads", [1, 4])
def test_cache_mode(start_server, threads):
    server = start_server(proactor_threads=threads, cache_mode="true", maxmemory="100mb")
    with server.connect() as c:
        info = c.info("memory")
        assert (info["cache_mode"], info["maxmemory_policy"]) == ("cache", "allkeys-lfu")
        assert c.do("CONFIG GET cache_mode") == [b"cache_mode", b"yes"]
        assert c.do("CONFIG SET maxmemory-policy allkeys-lfu") == OK
        assert isinstance(c.do("CONFIG SET maxmemory-policy allkeys-lru"), Error)
        limit = used(c) + 16 * MB  # buffers of the clients take up to 3 of it
        c.call("CONFIG", "SET", "maxmemory", limit)
        assert fill(c, "hot", 3_000) == 0
        for i in range(60):
            for begin in range(0, 3_000, 300):  # replies take memory, too
                c.pipeline([("GET", f"hot{j}") for j in range(begin, begin + 300)])
            assert fill(c, f"cold{i}:", 2_000) == 0
        settled(c, limit)
        assert left(c, "hot", 3_000) > 2_900
        # Of those that are there: any single one may have gone.
        hot, cold = (
            [f for f in c.pipeline([("OBJECT", "FREQ", f"{prefix}{i}") for i in range(2_000)])
             if isinstance(f, int)]
            for prefix in ("hot", "cold59:"))
        assert statistics.median(hot) > statistics.median(cold)


@only_dragonfly("it has no default")
def test_the_default_limit_is_a_part_of_the_machine(start_server):
    server = start_server(proactor_threads=1)
    with server.connect() as c:
        info = c.info("memory")
        total = int(info["total_system_memory"])
        limit = int(c.do("CONFIG GET maxmemory")[1])
        assert limit == int(info["maxmemory"]) == total // 5 * 4
    server = start_server(proactor_threads=1, maxmemory="0")
    with server.connect() as c:
        assert c.do("CONFIG GET maxmemory") == [b"maxmemory", b"0"]


def exceeded(c):
    stats = c.info("stats")
    names = ("total_eviction_exceeded_time", "current_eviction_exceeded_time")
    return tuple(int(stats[name]) for name in names)


@only_dragonfly("redis-server counts it while it evicts only")
def test_how_long_the_limit_was_passed_is_counted(own):
    with own.connect() as c:
        assert exceeded(c) == (0, 0)
        limit_to(c, 4 * MB, "noeviction")
        assert exceeded(c) == (0, 0)
        c.call("CONFIG", "SET", "maxmemory", used(c) - 1000)
        before = wait_until(lambda: exceeded(c)[1] and exceeded(c))
        wait_until(lambda: exceeded(c)[1] > before[1])
        c.call("CONFIG", "SET", "maxmemory", used(c) + 8 * MB)
        total, now = exceeded(c)
        assert total > before[0] and now == 0
        # And by what is written.
        assert c.call("SETRANGE", "big", 20 * MB, "x") > 20 * MB
        wait_until(lambda: exceeded(c)[1] > 0)
        c.call("DEL", "big")
        wait_until(lambda: exceeded(c)[1] == 0)
        assert exceeded(c)[0] > total
        assert c.call("CONFIG", "RESETSTAT") == OK
        assert exceeded(c) == (0, 0)


@only_dragonfly("of redis-server everything counts, too, but by other numbers")
def test_buffers_count(own):
    """A client that does not read its replies uses memory that others then cannot have."""
    with own.connect() as c, own.connect() as slow:
        c.call("SET", "big", "x" * (8 * MB))
        limit_to(c, 4 * MB, "noeviction")
        assert c.do("SET k v") == OK
        for _ in range(8):
            slow.send_command("GET", "big")
        wait_until(lambda: c.do("SET k v") == OOM, what="the replies to be counted")
        for _ in range(8):
            slow.read()
        wait_until(lambda: c.do("SET k v") == OK, what="their end")


@only_dragonfly("it keeps clocks in its files")
def test_what_is_loaded_is_as_new(own):
    with own.connect() as c:
        for policy in ("allkeys-lru", "volatile-lfu"):
            c.call("CONFIG", "SET", "maxmemory-policy", policy)
            assert fill(c, "k", 100) == 0
            c.call("RPUSH", "list", *range(1_000))
            assert c.do("DEBUG RELOAD") == OK
            for key in ("k7", "list"):
                if policy == "allkeys-lru":
                    assert c.call("OBJECT", "IDLETIME", key) < 60
                else:
                    assert c.call("OBJECT", "FREQ", key) == 5


# --- A policy for each database ---


def limit_by_db(c, extra_bytes, policies):
    assert c.call("CONFIG", "SET", "maxmemory-policy-db", policies) == OK
    limit = used(c) + extra_bytes
    assert c.call("CONFIG", "SET", "maxmemory", limit) == OK
    return limit


def dbsize(c, db):
    assert c.call("SELECT", db) == OK
    return c.do("DBSIZE")


@only_dragonfly("maxmemory-policy-db is ours")
def test_a_cache_gives_and_a_queue_does_not(own):
    """The queue grows at the cost of the cache, until that is empty; then it is refused."""
    with own.connect() as c, own.connect() as queue:
        assert queue.do("SELECT 5") == OK
        limit_by_db(c, 4 * MB, "0 allkeys-lru")
        assert c.do("CONFIG GET maxmemory-policy")[1] == b"noeviction"
        assert fill(c, "cache", 20_000, batch=100) == 0
        assert 3_000 < c.do("DBSIZE") < 19_000
        assert fill(queue, "job", 2_000, batch=100) == 0
        assert queue.do("DBSIZE") == 2_000
        refused = fill(queue, "more", 30_000, batch=100)
        assert queue.do("DBSIZE") == 32_000 - refused
        assert refused > 1_000
        assert left(queue, "job", 2_000) == 2_000
        # Nothing is left that may go. What the queue gives up, the cache may have again.
        assert c.do("SET cached v") == OOM
        assert c.do("DBSIZE") == 0
        assert queue.call("DEL", *[f"job{i}" for i in range(2_000)]) == 2_000
        wait_until(lambda: c.do("SET cached v") == OK, what="room")


@only_dragonfly("maxmemory-policy-db is ours")
def test_all_shards_make_room_for_a_queue_that_is_in_one(start_server):
    """What its own shard may evict is not enough: the others give, too, and nothing is refused."""
    server = start_server(proactor_threads=4)
    with server.connect() as c, server.connect() as queue:
        assert queue.do("SELECT 5") == OK
        assert fill(c, "cache", 40_000) == 0
        before = c.do("DBSIZE")
        limit = limit_by_db(c, 0, "0 allkeys-lru")
        for i in range(8_000):
            assert queue.call("RPUSH", "{one}queue", f"{i:0500}") == i + 1
        settled(c, limit)
        # More than any one of them had.
        assert c.do("DBSIZE") < before - 11_000


@only_dragonfly("maxmemory-policy-db is ours")
@pytest.mark.parametrize("policy", ["allkeys-lfu", "volatile-ttl", "volatile-lru", "allkeys-lrm"])
def test_each_database_goes_by_its_own_policy(own, policy):
    with own.connect() as c:
        limit_by_db(c, 3 * MB, f"3 {policy}")
        assert c.do("SELECT 3") == OK
        assert fill(c, "k", 20_000, "EX", "10000", batch=100) == 0
        assert evicted(c) > 1_000
        lasting = fill(c, "lasting", 20_000, batch=100)
        assert (lasting > 0) == policy.startswith("volatile"), lasting
        c.do("CONFIG SET maxmemory 0")
        assert c.do("SET k v") == OK
        frequency, idle = c.do("OBJECT FREQ k"), c.do("OBJECT IDLETIME k")
        assert c.do("SELECT 0") == OK
        assert c.do("SET k v") == OK
        assert c.do("OBJECT FREQ k") == NOT_LFU
        assert isinstance(c.do("OBJECT IDLETIME k"), int)
        if "lfu" in policy:
            assert isinstance(frequency, int)
            assert idle == IS_LFU
        else:
            assert frequency == NOT_LFU
            assert isinstance(idle, int)


@only_dragonfly("maxmemory-policy-db is ours")
def test_a_policy_of_a_database_in_config_and_info(own):
    with own.connect() as c:
        name = "maxmemory-policy-db"
        assert c.do(f"CONFIG GET {name}") == [name.encode(), b""]
        assert c.info("memory")["maxmemory_policy_db"] == ""
        assert c.call("CONFIG", "SET", name, " 5  NoEviction\t0 allkeys-LRU ") == OK
        kept = [name.encode(), b"0 allkeys-lru 5 noeviction"]
        assert c.do(f"CONFIG GET {name}") == kept
        assert c.info("memory")["maxmemory_policy_db"] == "0=allkeys-lru,5=noeviction"
        for bad, why in [
            ("5", "must be pairs of a database and a policy"),
            ("0 allkeys-lru 5", "must be pairs of a database and a policy"),
            ("16 noeviction", "'16' is no database: there are 0 to 15"),
            ("-1 noeviction", "'-1' is no database: there are 0 to 15"),
            ("x noeviction", "'x' is no database: there are 0 to 15"),
            ("99999999999999999999 noeviction",
             "'99999999999999999999' is no database: there are 0 to 15"),
            ("0 lru", "'lru' is no policy"),
            ("0 noeviction 0 allkeys-lru", "database 0 is named twice"),
        ]:
            assert c.call("CONFIG", "SET", name, bad) == Error(
                f"ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            )
            assert c.do(f"CONFIG GET {name}") == kept
        # A new value replaces the old one.
        assert c.call("CONFIG", "SET", name, "7 volatile-ttl") == OK
        assert c.do(f"CONFIG GET {name}")[1] == b"7 volatile-ttl"
        assert c.call("CONFIG", "SET", name, "") == OK
        assert c.do(f"CONFIG GET {name}")[1] == b""


@only_dragonfly("maxmemory-policy-db is ours")
def test_a_queue_beside_cache_mode(start_server):
    server = start_server(proactor_threads=2, cache_mode="true", maxmemory="100mb",
                          maxmemory_policy_db="1 noeviction 2 allkeys-lfu")
    with server.connect() as c, server.connect() as queue:
        assert queue.do("SELECT 1") == OK
        limit = used(c) + 6 * MB
        c.call("CONFIG", "SET", "maxmemory", limit)
        assert fill(queue, "job", 5_000, batch=100) == 0
        assert fill(c, "cache", 40_000, batch=100) == 0
        assert left(queue, "job", 5_000) == 5_000
        assert evicted(c) > 5_000
        c.do("SET k v")
        assert isinstance(c.do("OBJECT FREQ k"), int)
        queue.do("SET k v")
        assert queue.do("OBJECT FREQ k") == NOT_LFU


@only_dragonfly("maxmemory-policy-db is ours")
def test_the_policy_belongs_to_the_number_of_a_database(own):
    with own.connect() as c:
        c.call("CONFIG", "SET", "maxmemory-policy-db", "0 allkeys-lru 1 allkeys-lfu")
        c.do("SET k v")
        assert c.do("SWAPDB 0 1") == OK
        c.do("SET k2 v")
        assert c.do("OBJECT FREQ k2") == NOT_LFU
        assert c.do("SELECT 1") == OK
        # Its seconds say nothing of its hits: it begins as new.
        wait_until(lambda: c.do("OBJECT FREQ k") == 5, what="the clock of the key")
        c.call("CONFIG", "SET", "maxmemory-policy-db", "0 allkeys-lfu 1 allkeys-lru")
        wait_until(lambda: c.do("OBJECT IDLETIME k") < 60, what="the clock of the key")
        c.call("CONFIG", "SET", "maxmemory-policy-db", "0 allkeys-lru 1 allkeys-lfu")
        # A key that moves begins to be counted anew.
        assert c.do("SET moved v") == OK
        for db, reply in [(0, NOT_LFU), (1, 5), (2, NOT_LFU)]:
            c.do(f"MOVE moved {db}")
            assert c.do(f"SELECT {db}") == OK
            assert c.do("OBJECT FREQ moved") == reply
            assert isinstance(c.do("OBJECT IDLETIME moved"), Error if reply == 5 else int)
            if reply != 5:
                assert c.do("OBJECT IDLETIME moved") < 60
