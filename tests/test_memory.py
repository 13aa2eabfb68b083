# SPDX-License-Identifier: Apache-2.0
"""used_memory tells the truth: the parts that MEMORY STATS names are what is resident, and what
clients make large counts for maxmemory. States: harness/memory_states.py."""

import pytest

from harness import memory_states
from harness.resp import OK, Error, Status, Verbatim, encode
from harness.server import REFERENCE, SANITIZED, only_dragonfly, wait_until

MB = 1 << 20

# Pages that several threads' parts share, and a thread's first use of something, do not shrink
# with the state; RSS itself is told by the kernel in steps of some pages for each thread.
FLOOR_BYTES = 2 * MB

unsanitized = pytest.mark.skipif(
    SANITIZED, reason="a sanitizer's allocator keeps what is freed, and shadows all of it"
)


def stats(c):
    reply = c.call("MEMORY", "STATS")
    return {
        name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)
    }


@only_dragonfly("the parts are ours")
@unsanitized
@pytest.mark.parametrize(
    "state,threads",
    [
        pytest.param(state, threads, id=f"{state.__name__}-{threads}")
        for state in memory_states.STATES
        for threads in (1, 4)
    ],
)
def test_the_named_parts_are_the_resident_memory(start_server, state, threads):
    server = start_server(proactor_threads=threads)
    with state(server), server.connect() as c:
        s = stats(c)
        parts = {name: s[name] for name in memory_states.HEAP_PARTS + memory_states.RSS_PARTS}
        rss = memory_states.resident(server)[0]
        allowed = max(rss * 5 // 100, FLOOR_BYTES)
        assert abs(rss - sum(parts.values())) <= allowed, (rss, parts)
        assert s["rss.unexplained"] == s["rss.total"] - sum(parts.values())


@only_dragonfly("the parts are ours")
@pytest.mark.sanitized
def test_the_parts_are_the_same_in_info_and_stats(server, r):
    fields = {
        "mem_clients_normal": "clients.normal",
        "mem_fiber_stacks": "fiber.stacks",
        "mem_receive_buffers": "receive.buffers",
        "mem_snapshot": "snapshot",
        "mem_acl_users": "acl.users",
        "used_memory_startup": "startup.allocated",
        "used_memory_dataset": "dataset.bytes",
    }
    for _ in range(3):  # the first commands of a connection have buffers
        info, s = r.info("memory"), stats(r)
    for field, name in fields.items():
        if field not in ("mem_clients_normal", "mem_receive_buffers"):  # of this very connection
            assert int(info[field]) == s[name], field
        assert name in s


def used(c):
    return int(c.info("memory")["used_memory"])


OOM = "OOM command not allowed when used memory > 'maxmemory'."


def refused(c):
    reply = c.call("SET", "another", "x")
    assert reply == OK or reply == Error(OOM), reply
    return reply != OK


GROWN = [
    (memory_states.busy_clients, {"count": 50}),
    (memory_states.incomplete_commands, {"count": 50}),
    (memory_states.subscribers, {"count": 20, "messages": 60}),
    (memory_states.blocked_clients, {"count": 1000}),
    (memory_states.queued_commands, {"count": 50}),
]


@only_dragonfly("redis-server does not count all of these")
@pytest.mark.sanitized
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("state,size", GROWN, ids=lambda v: getattr(v, "__name__", ""))
def test_what_clients_make_large_counts_for_maxmemory(start_server, state, size, threads):
    """Without any data: it is all of buffers, queues and stacks, and it ends with its clients."""
    server = start_server(proactor_threads=threads)
    with server.connect() as c:
        c.call("SET", "another", "x")
        before = used(c)
        with state(server, **size):
            grown = used(c) - before
            assert grown > 3 * MB
            # Some stacks stay.
            limit = before + grown * 3 // 4
            assert c.call("CONFIG", "SET", "maxmemory", limit) == OK
            wait_until(lambda: refused(c), what="writes are refused")
        wait_until(lambda: not refused(c), what="room, as the clients are gone")


@only_dragonfly("redis-server answers nobody meanwhile")
@pytest.mark.sanitized
def test_a_script_that_runs_is_counted(start_server):
    server = start_server(proactor_threads=1)
    with server.connect() as c:
        before = used(c)
        with memory_states.running_script(server):
            assert used(c) - before > 16 * MB


@only_dragonfly("redis-server does not count queued commands")
@pytest.mark.sanitized
def test_a_transaction_is_not_queued_beyond_maxmemory(start_server):
    server = start_server(proactor_threads=1)
    with server.connect() as c:
        assert c.call("CONFIG", "SET", "maxmemory", used(c) + 8 * MB) == OK
        assert c.call("MULTI") == OK
        replies = c.pipeline([("SET", "k", b"x" * MB)] * 64)
        queued = replies.count(Status("QUEUED"))
        assert 0 < queued < 16
        assert replies[queued:] == [Error(OOM)] * (64 - queued)
        with server.connect() as other:
            assert int(other.info("memory")["mem_queued_commands"]) < 16 * MB
        assert c.call("EXEC").text.startswith("EXECABORT")
        wait_until(lambda: not refused(c), what="room")


@only_dragonfly("a name of ours")
@pytest.mark.sanitized
def test_arguments_of_blocked_commands_count(server, r):
    before = int(r.info("memory")["mem_coordinators"])
    names = [f"{'k' * 10_000}:{i}" for i in range(100)]
    with server.connect() as blocked:
        blocked.send_command("BLPOP", *names, 0)
        wait_until(
            lambda: int(r.info("memory")["mem_coordinators"]) - before > 1_000_000,
            what="its keys are counted",
        )
    # Tables of waiters keep their room.
    wait_until(
        lambda: int(r.info("memory")["mem_coordinators"]) < before + 100_000, what="they are gone"
    )


@only_dragonfly("it copies nothing")
@pytest.mark.sanitized
@pytest.mark.parametrize("threads", [1, 4])
def test_what_a_command_copies_counts(start_server, threads):
    server = start_server(proactor_threads=threads)
    members = [b"%0200d" % i for i in range(50_000)]
    with server.connect() as c, server.connect() as other:
        assert c.call("SADD", "s", *members) == c.call("RPUSH", "l", *members) == len(members)

        def coordinators():
            return int(c.info("memory")["mem_coordinators"])

        kept = coordinators()

        def is_counted(line, expected):
            other.send(encode(*line))
            most = max(coordinators() for _ in range(100))  # some of them while that runs
            assert sorted(other.read()) == expected
            return most - kept > 8 * MB

        wait_until(lambda: is_counted(("SMEMBERS", "s"), members), what="SMEMBERS")
        sort = ("SORT", "l", "ALPHA", "LIMIT", 0, 1)
        wait_until(lambda: is_counted(sort, members[:1]), what="SORT")
        assert coordinators() < kept + MB


@pytest.mark.sanitized
def test_malloc_stats_is_text(server, r):
    reply = r.call("MEMORY", "MALLOC-STATS")
    assert isinstance(reply, bytes) and len(reply) > 20
    if not REFERENCE and not SANITIZED:
        assert b"committed" in reply
    with server.connect(resp3=True) as c:
        assert isinstance(c.call("MEMORY", "MALLOC-STATS"), Verbatim)
