# SPDX-License-Identifier: Apache-2.0
"""Memory that counts for maxmemory and is no data is given back before a key is evicted or a write
is refused, and when nothing happens. What each kind is: docs/memory.md."""

import contextlib
import time

import pytest

from harness import memory_states
from harness.resp import OK, Error
from harness.server import only_dragonfly, wait_blocked, wait_until

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
        wait_blocked(c, 0)
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


@contextlib.contextmanager
def refused_for_this(c, state):
    """While `state` lasts a write is refused; afterwards there is room again."""
    before = used(c)
    with state as value:
        limit = before + (used(c) - before) * 3 // 4
        assert c.call("CONFIG", "SET", "maxmemory", limit) == OK
        wait_until(lambda: is_refused(c), what="a write is refused")
        yield value
    wait_until(lambda: not is_refused(c), what="there is room again")


def is_refused(c):
    reply = c.call("SET", "another", "x")
    assert reply == OK or isinstance(reply, Error) and reply.text.startswith("OOM"), reply
    return reply != OK


# State, the field of INFO memory that it fills, and by how much at least. All end with clients.
OF_CLIENTS = [
    (memory_states.subscriptions, "mem_clients_normal", 20 * MB),
    (memory_states.patterns, "mem_clients_normal", 4 * MB),
    (memory_states.shard_subscriptions, "mem_clients_normal", 20 * MB),
    (memory_states.tracked_keys, "mem_clients_normal", 10 * MB),
    (memory_states.prefixes, "mem_clients_normal", 4 * MB),
    (memory_states.named_clients, "mem_clients_normal", 40 * MB),
    (memory_states.incomplete_commands, "mem_clients_normal", 50 * MB),
    (memory_states.busy_clients, "mem_clients_normal", 100 * MB),
    (memory_states.subscribers, "mem_clients_normal", 100 * MB),
    (memory_states.watched_keys, "mem_coordinators", 20 * MB),
    (memory_states.waited_keys, "mem_coordinators", 20 * MB),
    (memory_states.queued_commands, "mem_queued_commands", 50 * MB),
    (memory_states.blocked_clients, "mem_fiber_stacks", 7 * MB),
]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("state,field,least", OF_CLIENTS, ids=lambda v: getattr(v, "__name__", ""))
def test_what_clients_fill_is_a_reason_to_refuse_and_goes_with_them(
    start_server, state, field, least, threads
):
    """It cannot be given back before; afterwards nothing of it stays, not even the tables' room."""
    server = start_server(proactor_threads=threads)
    with server.connect(timeout=120) as c:
        before = used(c, field)
        with refused_for_this(c, state(server)):
            assert used(c, field) > before + least
        wait_until(lambda: used(c, field) < before + least // 20, what="it comes back")


@pytest.mark.parametrize("command", ["UNSUBSCRIBE", "RESET"])
def test_who_unsubscribes_gives_it_back_and_may_stay(start_server, command):
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c:
        before = used(c)
        with memory_states.subscriptions(server) as client:
            client.send_command(command)
            for _ in range(100_000 if command == "UNSUBSCRIBE" else 1):
                client.read()
            wait_until(lambda: used(c) < before + MB, what="it comes back")


@pytest.mark.parametrize("command", ["UNWATCH", "EXEC", "DISCARD", "RESET"])
def test_who_watches_no_more_gives_it_back_and_may_stay(start_server, command):
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c:
        before = used(c)
        with memory_states.watched_keys(server) as client:
            if command in ("EXEC", "DISCARD"):
                assert client.call("MULTI") == OK
            client.call(command)
            wait_until(lambda: used(c) < before + MB, what="it comes back")


def test_keys_that_are_watched_again_take_no_more(start_server):
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c, memory_states.watched_keys(server, 10_000) as client:
        before = used(c)
        for _ in range(20):
            for some in memory_states.chunks(memory_states.names(10_000)):
                client.call("WATCH", *some, *some)
        assert "watch=10000 " in client.call("CLIENT", "INFO").decode()
        assert used(c) < before + MB


@contextlib.contextmanager
def with_tracking(server, c):
    with memory_states.tracked_keys(server) as client:
        yield lambda: client.call("CLIENT", "TRACKING", "OFF")


@contextlib.contextmanager
def with_small_table(server, c):
    with memory_states.tracked_keys(server) as client:

        def free():
            c.call("CONFIG", "SET", "tracking-table-max-keys", 100)
            for _ in range(100_000 - 100):  # it is told of each key that is forgotten
                client.read()

        yield free


@contextlib.contextmanager
def with_slow_log(server, c):
    c.call("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 10_000)
    for _ in range(20):
        c.pipeline([("GET", "x" * 100)] * 1000)
    c.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
    yield lambda: c.call("SLOWLOG", "RESET")


@contextlib.contextmanager
def with_short_slow_log(server, c):
    with with_slow_log(server, c):
        yield lambda: c.call("CONFIG", "SET", "slowlog-max-len", 10)


@contextlib.contextmanager
def with_scripts(server, c):
    for i in range(2000):
        c.call("SCRIPT", "LOAD", f"return {i} --" + "x" * 1000)
    yield lambda: c.call("SCRIPT", "FLUSH")


@contextlib.contextmanager
def with_functions(server, c):
    for i in range(100):
        text = f"#!lua name=l{i}\nredis.register_function('f{i}', function() return 1 end) --"
        c.call("FUNCTION", "LOAD", text + "x" * 20_000)
    yield lambda: c.call("FUNCTION", "FLUSH")


@contextlib.contextmanager
def with_users(server, c):
    names = [f"user:{i}" for i in range(500)]
    patterns = [f"~{'k' * 30}:{i}:*" for i in range(40)]
    for name in names:
        c.call("ACL", "SETUSER", name, "on", "nopass", "+get", *patterns)
    yield lambda: c.call("ACL", "DELUSER", *names)


@contextlib.contextmanager
def with_keys_that_expire(server, c):
    memory_states.fill(server, 50_000, options=("EX", 1000))
    yield lambda: c.call("FLUSHALL")


WAYS_BACK = [
    with_tracking,
    with_small_table,
    with_slow_log,
    with_short_slow_log,
    with_scripts,
    with_functions,
    with_users,
    with_keys_that_expire,
]


@pytest.mark.parametrize("state", WAYS_BACK, ids=lambda v: v.__name__)
def test_what_has_a_command_to_free_it_is_freed_by_it(start_server, state):
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c:
        before = used(c)
        with state(server, c) as free:
            assert used(c) > before + MB, "it is filled"
            free()
            wait_until(lambda: used(c) < before + MB // 4, what="it is freed")


def test_users_with_their_rules_are_a_reason_to_refuse_until_they_are_deleted(start_server):
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c:
        before = used(c, "mem_acl_users")
        users = with_users(server, c)
        with refused_for_this(c, users) as free:
            assert used(c, "mem_acl_users") > before + MB
            free()
        assert used(c, "mem_acl_users") == before


def test_rules_that_go_are_not_counted_any_more(start_server):
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c, with_users(server, c) as free:
        assert c.call("ACL", "SETUSER", "one", "on", "nopass") == OK
        one = used(c, "mem_acl_users")
        rules = [f"~key:{i}:{'k' * 30}" for i in range(1000)]
        assert c.call("ACL", "SETUSER", "one", *rules) == OK
        assert used(c, "mem_acl_users") > one + 50_000
        assert c.call("ACL", "SETUSER", "one", "resetkeys") == OK
        assert c.call("ACL", "SETUSER", "one", "on") == OK  # its room goes with the next change
        assert used(c, "mem_acl_users") < one + 1000
        free()


@pytest.mark.parametrize("threads", [1, 4])
def test_users_of_a_file_count_once(start_server, threads, tmp_path):
    """Also when the file is loaded again, and when it has less."""
    patterns = " ".join(f"~{'k' * 30}:{i}:*" for i in range(40))
    many = "".join(f"user u{i} on nopass {patterns} +@all\n" for i in range(500))
    path = tmp_path / "users.acl"
    path.write_text(many)
    server = start_server(proactor_threads=threads, aclfile=path)
    with server.connect(timeout=120) as c:
        of_file = used(c, "mem_acl_users")
        assert of_file > MB
        assert c.call("ACL", "LOAD") == OK
        assert used(c, "mem_acl_users") == of_file
        path.write_text("")
        assert c.call("ACL", "LOAD") == OK
        assert used(c, "mem_acl_users") < of_file // 100


def test_flags_of_scripts_that_are_to_come_are_counted(start_server):
    """Each by its digest, once."""
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c:
        before = used(c, "used_memory_scripts_eval")
        all_before = used(c)
        for begin in range(0, 20_000, 1000):
            digests = range(begin, begin + 1000)
            c.pipeline([("SCRIPT", "FLAGS", f"{i:040x}", "no-writes") for i in digests])
        grown = used(c, "used_memory_scripts_eval") - before
        assert grown > 20_000 * 88
        assert used(c) > all_before + 20_000 * 88
        c.pipeline([("SCRIPT", "FLAGS", f"{i:040X}", "allow-oom") for i in range(1000)])
        assert used(c, "used_memory_scripts_eval") - before == grown


def test_logs_and_statistics_are_bounded(start_server):
    """Whatever clients name: users, keys, commands, errors."""
    server = start_server(proactor_threads=2)
    with server.connect(timeout=120) as c:
        c.call("ACL", "SETUSER", "weak", "on", "nopass", "~a", "+@all")
        c.call("CLIENT", "SETNAME", "n" * 100_000)
        c.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        c.pipeline([("AUTH", f"user:{i}:" + "x" * 100_000, "p") for i in range(200)])
        c.pipeline([("GET", f"key:{i}:" + "x" * 100_000) for i in range(200)])
        with server.connect() as weak:
            weak.call("AUTH", "weak", "")
            weak.pipeline([("GET", f"key:{i}:" + "x" * 100_000) for i in range(200)])
        text = "return redis.error_reply(ARGV[1] .. ' x')"
        c.pipeline([("EVAL", text, 0, f"E{i}" + "X" * (i % 2 * 100_000)) for i in range(300)])
        c.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        entries = c.call("ACL", "LOG", 1000)
        assert len(entries) == 128
        assert max(len(word) for e in entries for word in e if isinstance(word, bytes)) <= 1024
        entries = c.call("SLOWLOG", "GET", -1)
        assert len(entries) == 128
        assert max(len(word) for e in entries for word in [*e[3], e[5]]) <= 1024
        errors = [name for name in c.info("errorstats") if name.startswith("errorstat_")]
        assert 10 < len(errors) <= 129
        assert max(map(len, errors)) < 1000


# --- What is kept for reuse ---


@contextlib.contextmanager
def all_pools(server):
    """Many clients that have used at the same time what threads keep: buffers of replies, stacks of
    fibers, batches, MULTIs, Lua states and their fibers."""
    memory_states.fill(server, 1, b"x" * 60_000)
    spin = "local n = 0 for i = 1, 3000000 do n = n + 1 end return n"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect(timeout=120)) for _ in range(300)]
        for c in clients:
            c.call("MULTI")
            c.call("SET", "k", "x" * 4000)
            c.send_command("EXEC")
        for c in clients:
            assert c.read() == [OK]
        for i, c in enumerate(clients[:40]):
            c.send_command("EVAL", spin, 1, f"k{i}")
        for c in clients[:40]:
            assert c.read() == 3_000_000
        for i, c in enumerate(clients):
            c.send_command("BLPOP", f"queue:{i}", 0)
        with server.connect() as c:
            wait_blocked(c, len(clients))
        readers = [stack.enter_context(server.connect(timeout=120)) for _ in range(100)]
        for c in readers:
            c.send_command("GET", b"key:%012d" % 0)
        for c in readers:
            c.read()
        yield


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 4])
def test_what_nobody_uses_any_more_goes_by_itself(start_server, threads):
    server = start_server(proactor_threads=threads)
    with server.connect(timeout=120) as c:
        c.call("CONFIG", "SET", "slowlog-log-slower-than", -1, "latency-tracking", "no")
        with all_pools(server):
            pass
        wait_until(lambda: c.info("clients")["connected_clients"] == "1", what="all are gone")
        most = {
            "mem_clients_normal": 200_000 * threads,  # of OpenSSL, for the digests of scripts
            "mem_queued_commands": 0,
            "mem_fiber_stacks": 8192 * threads,  # INFO's own
            "used_memory_lua": 100_000 * threads,
        }


        def too_much():
            memory = c.info("memory")
            return {name: memory[name] for name in most if int(memory[name]) > most[name]}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not too_much())
        assert not too_much()
        if threads == 1:
            assert c.info("transaction")["script_interpreters"] == "1"


@pytest.mark.long
def test_pools_wake_their_threads_a_few_times_and_no_more(start_server):
    """A window of some seconds is the measurement; a quiet one comes, or never does."""
    server = start_server(proactor_threads=4)
    with server.connect(timeout=120) as c:
        with all_pools(server):
            pass

        def wakeups():
            threads = c.info("threads")
            return [int(text.split("wakeups=")[1].split(",")[0]) for text in threads.values()]

        def is_quiet():
            before = wakeups()
            time.sleep(12)
            # Each INFO wakes all of them, on a busy machine more than once, and works on one. A
            # pool that goes on shrinking would wake its thread each two seconds.
            return sorted(b - a for a, b in zip(before, wakeups(), strict=True))[2] <= 4

        wait_until(is_quiet, timeout_s=180, what="three of four threads sleep")
