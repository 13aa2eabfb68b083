# SPDX-License-Identifier: Apache-2.0
"""States of a server in which different parts of it have the memory. For tests/test_memory.py and
tools/bench/memory.py.

Each is a context manager that takes a Server; the state lasts until its end. They wait for what
they make by asking the server, never for a time.
"""

import contextlib
import re
import threading

from .resp import OK, RespSocket, encode
from .server import wait_blocked, wait_until

KEY_BYTES = 16
VALUE = b"v" * 32

# Names of MEMORY STATS: together they are the resident memory.
HEAP_PARTS = [
    "dataset.bytes",
    "clients.normal",
    "lua.caches",
    "functions.caches",
    "coordinators",
    "snapshot",
    "acl.users",
]
RSS_PARTS = [
    "rss.files",
    "rss.program",
    "rss.startup-heap",
    "rss.fiber-stacks",
    "rss.receive-buffers",
    "rss.allocator-overhead",
    "rss.untouched-buffers",
]


def fill(server, count, value=VALUE, options=(), batch=1000):
    """SETs `count` keys of KEY_BYTES; None as the value: a number of its own."""
    with server.connect(timeout=120) as c:
        for begin in range(0, count, batch):
            commands = [
                ("SET", b"key:%012d" % i, i if value is None else value, *options)
                for i in range(begin, min(begin + batch, count))
            ]
            assert set(c.pipeline(commands)) == {OK}


def wait_until_steady(c, field):
    """Until a field of INFO memory has been the same some times in a row."""
    seen = []

    def is_steady():
        seen.append(c.info("memory")[field])
        return len(seen) > 4 and len(set(seen[-4:])) == 1

    wait_until(is_steady, 60, f"{field} is steady")


@contextlib.contextmanager
def empty(server):
    yield


@contextlib.contextmanager
def keys(server, count=1_000_000):
    fill(server, count)
    yield


@contextlib.contextmanager
def many_keys(server):
    with keys(server, 5_000_000):
        yield


@contextlib.contextmanager
def deleted_keys(server, count=300_000):
    """Every tenth of them is left: pages that are mostly free."""
    fill(server, count)
    with server.connect(timeout=120) as c:
        for begin in range(0, count, 1000):
            gone = [b"key:%012d" % i for i in range(begin, begin + 1000) if i % 10]
            assert c.call("DEL", *gone) == len(gone)
    yield


@contextlib.contextmanager
def large_values(server, count=64, size=3 << 20):
    fill(server, count, b"x" * size, batch=1)
    yield


@contextlib.contextmanager
def idle_clients(server, count=1000):
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            c = stack.enter_context(server.connect())
            c.call("PING")
        yield


@contextlib.contextmanager
def busy_clients(server, count=200, value_bytes=64 << 10):
    """Each has asked for more than its socket takes, and reads nothing."""
    fill(server, 1, b"x" * value_bytes)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            c = stack.enter_context(contextlib.closing(RespSocket(server.address, rcvbuf=4096)))
            c.send(encode("GET", b"key:%012d" % 0) * 100)
        with server.connect() as c:
            wait_until(
                lambda: c.call("CLIENT", "LIST").count(b" cmd=get ") >= count,
                what="all have been read from",
            )
            wait_until_steady(c, "mem_clients_normal")
        yield


@contextlib.contextmanager
def incomplete_commands(server, count=100, size=512 << 10):
    """Arguments that have arrived of commands that are not complete."""
    with contextlib.ExitStack() as stack:
        head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (2 * size)
        for _ in range(count):
            c = stack.enter_context(server.connect())
            c.send(head + b"x" * size)
        with server.connect() as c:
            wait_until(
                lambda: int(c.info("memory")["mem_clients_normal"]) >= count * size,
                what="it has arrived",
            )
            yield


@contextlib.contextmanager
def subscribers(server, count=50, message_bytes=64 << 10, messages=100):
    """They do not read what is published."""
    with contextlib.ExitStack() as stack:
        for i in range(count):
            c = stack.enter_context(contextlib.closing(RespSocket(server.address, rcvbuf=4096)))
            c.call("SUBSCRIBE", "news")
        with server.connect() as c:
            for _ in range(messages):
                assert c.call("PUBLISH", "news", b"x" * message_bytes) == count
        yield


@contextlib.contextmanager
def blocked_clients(server, count=1000):
    with contextlib.ExitStack() as stack:
        for i in range(count):
            c = stack.enter_context(server.connect())
            c.send_command("BLPOP", f"queue:{i}", 0)
        with server.connect() as c:
            wait_blocked(c, count)
        yield


@contextlib.contextmanager
def scripts(server, count=2000):
    with server.connect() as c:
        for i in range(count):
            c.call("EVAL", f"local t = {{}} for i = 1, 10 do t[i] = i + {i} end return #t", 0)
        yield


@contextlib.contextmanager
def running_script(server):
    """One that holds more than 16 MB and does not end."""
    script = "local t = {} for i = 1, 300000 do t[i] = i .. ' and so on' end while true do end"
    with server.connect() as runs, server.connect() as c:
        runs.send_command("EVAL", script, 0)
        wait_until(
            lambda: int(c.info("memory")["used_memory_lua"]) > 16 << 20, what="it has its memory"
        )
        wait_until_steady(c, "used_memory_lua")
        yield
        assert c.call("SCRIPT", "KILL") == OK


@contextlib.contextmanager
def waiting_transactions(server, count=300, size=64 << 10):
    """Each over two keys that a script holds, which does not end."""
    with contextlib.ExitStack() as stack:
        runs = stack.enter_context(server.connect())
        with server.connect() as c:
            runs.send_command("EVAL", "while true do end", 2, "a", "b")
            wait_until(
                lambda: c.info("transaction")["script_running"] == "1", what="the script runs"
            )
            for _ in range(count):
                waits = stack.enter_context(server.connect())
                waits.send_command("MSET", "a", b"x" * size, "b", b"x" * size)
            wait_until(
                lambda: c.call("CLIENT", "LIST").count(b" cmd=mset ") == count,
                what="all have come",
            )
            wait_until_steady(c, "used_memory")
            yield
            assert c.call("SCRIPT", "KILL") == OK


@contextlib.contextmanager
def saving(server, count=1_000_000):
    """One save after another, while keys change."""
    fill(server, count)
    ends = threading.Event()

    def save():
        with server.connect() as c:
            while not ends.is_set():
                c.call("BGSAVE")
                while not ends.is_set() and c.info("persistence")["rdb_bgsave_in_progress"] == "1":
                    c.pipeline([("SET", b"key:%012d" % i, VALUE) for i in range(0, count, 1009)])

    thread = threading.Thread(target=save)
    thread.start()
    try:
        with server.connect() as c:
            wait_until(
                lambda: c.info("persistence")["rdb_bgsave_in_progress"] == "1", what="a save"
            )
        yield
    finally:
        ends.set()
        thread.join()


@contextlib.contextmanager
def queued_commands(server, count=100, size=64 << 10, commands=10):
    """Between MULTI and EXEC."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            c = stack.enter_context(server.connect())
            c.call("MULTI")
            c.pipeline([("SET", "k", b"x" * size)] * commands)
        yield


@contextlib.contextmanager
def one_client(server, commands, replies_each=1, **options):
    """That has sent these, and stays."""
    with server.connect(timeout=120, **options) as c:
        for command in commands:
            c.send_command(*command)
            for _ in range(replies_each):
                c.read()
        yield c


def names(count, text="key"):
    return [f"{text}:{i:06}:{'x' * 20}" for i in range(count)]


def chunks(words, size=1000):
    return [words[i : i + size] for i in range(0, len(words), size)]


def subscriptions(server, count=100_000, command="SUBSCRIBE"):
    """Of one client."""
    commands = [(command, *some) for some in chunks(names(count))]
    return one_client(server, commands, replies_each=1000)


def patterns(server, count=20_000):
    return subscriptions(server, count, "PSUBSCRIBE")


def shard_subscriptions(server, count=100_000):
    return subscriptions(server, count, "SSUBSCRIBE")


def tracked_keys(server, count=100_000):
    """Keys that one client has read, which caches them."""
    commands = [("CLIENT", "TRACKING", "ON"), *[("MGET", *some) for some in chunks(names(count))]]
    return one_client(server, commands, resp3=True)


def prefixes(server, count=20_000):
    """That one client wants to hear of."""
    on = ("CLIENT", "TRACKING", "ON", "BCAST")
    pairs = [word for name in names(count) for word in ("PREFIX", name)]
    return one_client(server, [(*on, *some) for some in chunks(pairs)], resp3=True)


def watched_keys(server, count=100_000):
    return one_client(server, [("WATCH", *some) for some in chunks(names(count))])


@contextlib.contextmanager
def waited_keys(server, count=100_000):
    """For which one client waits."""
    with server.connect() as c, server.connect() as other:
        c.send_command("BLPOP", *names(count), 0)
        wait_until(
            lambda: other.info("transaction")["tx_waited_keys"] == str(count), what="it waits"
        )
        yield


@contextlib.contextmanager
def named_clients(server, count=20, size=1 << 20):
    """Their names are long."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            c = stack.enter_context(server.connect())
            assert c.call("CLIENT", "SETNAME", "x" * size) == OK
            assert c.call("CLIENT", "SETINFO", "LIB-NAME", "x" * size) == OK
        yield


def resident(server):
    """RSS, and of it what is not of files, as the kernel says. Bytes."""
    with open(f"/proc/{server.pid}/status") as f:
        text = f.read()
    return [
        int(re.search(name + r":\s*(\d+)", text).group(1)) << 10
        for name in ("VmRSS", "RssAnon", "RssFile")
    ]


# Of which MEMORY STATS names all that is resident.
STATES = [
    empty,
    keys,
    deleted_keys,
    large_values,
    idle_clients,
    busy_clients,
    incomplete_commands,
    subscribers,
    subscriptions,
    patterns,
    tracked_keys,
    prefixes,
    named_clients,
    blocked_clients,
    scripts,
    running_script,
    queued_commands,
    waiting_transactions,
    saving,
]
