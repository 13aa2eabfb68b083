# SPDX-License-Identifier: Apache-2.0
"""Everything at once, for long: all families of commands, transactions, scripts, blocking commands,
pub/sub, tracking, administration, HTTP, and clients that leave without a word. Whatever comes of
it, a server that is at rest again has as many fibers, descriptors and threads as before, and no
more memory.

DFLY_SOAK_MINUTES=20 makes it long; docs/testing.md."""

import multiprocessing
import os
import random
import signal
import socket
import time
import traceback

import pytest

from differential.grammar import Grammar
from differential.grammars import FAMILIES
from harness.at_rest import at_rest
from harness.resp import OK, Error, Push, RespSocket, encode
from harness.seeds import new_seed
from harness.server import SANITIZED, configuration_flags, only_dragonfly, wait_until

MINUTES = float(os.environ.get("DFLY_SOAK_MINUTES", "0"))
PHASES = 5
PHASE_S = MINUTES * 60 / PHASES if MINUTES else (4.0 if SANITIZED else 2.0)
MB = 1 << 20

pytestmark = [
    only_dragonfly("its fibers and its memory by kind"),
    pytest.mark.sanitized,
    pytest.mark.timeout(MINUTES * 60 * 2 + 600),
]

ACCOUNTS = [f"bank:{i}" for i in range(40)]
MONEY = 1000 * len(ACCOUNTS)


class Load:
    """What one process does until its time is over. Leaving is a part of it: with replies unread,
    in the middle of a command, by a reset."""

    def __init__(self, address, seed, ends_at):
        self.address, self.rng, self.ends_at = address, random.Random(seed), ends_at

    def goes_on(self):
        return time.monotonic() < self.ends_at

    def connect(self, resp3=None):
        c = RespSocket(self.address, timeout=120)
        if self.rng.random() < 0.5 if resp3 is None else resp3:
            c.call("HELLO", "3")
        return c

    def leave(self, c):
        how = self.rng.randrange(4)
        if how == 0:
            c.send(encode("SET", "half", "x" * 1000)[: self.rng.randrange(1, 900)])
        elif how == 1:
            c.send(encode("KEYS", "*") * 20)
        if how == 2:
            c.abort()
        else:
            c.close()


def all_families(load):
    grammar = Grammar(load.rng, [name for name in FAMILIES if name != "administration"])
    while load.goes_on():
        c = load.connect()
        c.call("SELECT", "3")
        for _ in range(20):
            batch = []
            while len(batch) < 40:
                batch += grammar.block()
            # What would reach the other loads' keys.
            batch = [b for b in batch if b[0].upper() not in (b"FLUSHALL", b"SWAPDB", b"SELECT")]
            c.pipeline(batch)
        load.leave(c)


def expiring(load):
    while load.goes_on():
        c = load.connect()
        for _ in range(50):
            names = [f"soon:{load.rng.randrange(100_000)}" for _ in range(100)]
            sets = [
                ("SET", name, "v" * load.rng.randrange(500), "PX", load.rng.randrange(1, 2000))
                for name in names
            ]
            assert c.pipeline(sets) == [OK] * len(sets)
        load.leave(c)


def transactions(load):
    """What one account loses another one gets, wherever they are."""
    while load.goes_on():
        c = load.connect(resp3=False)
        for _ in range(200):
            a, b = load.rng.sample(ACCOUNTS, 2)
            if load.rng.random() < 0.3:
                c.call("WATCH", a)
            assert c.call("MULTI") == OK
            c.call("DECRBY", a, "3"), c.call("INCRBY", b, "3")
            done = c.call("EXEC" if load.rng.random() < 0.9 else "DISCARD")
            assert done is None or done == OK or len(done) == 2, done
            total = sum(map(int, c.call("MGET", *ACCOUNTS)))
            assert total == MONEY, total
        load.leave(c)


def scripts(load):
    move = "redis.call('DECRBY', KEYS[1], 2) return redis.call('INCRBY', KEYS[2], 2)"
    library = "#!lua name=soak\nredis.register_function('{}', function(k) return #k end)"
    while load.goes_on():
        c = load.connect()
        for i in range(100):
            a, b = load.rng.sample(ACCOUNTS, 2)
            assert isinstance(c.call("EVAL", move, "2", a, b), int)
            number = load.rng.randrange(500)
            assert c.call("EVAL", f"return {number}", "0") == number
            # Keys that it does not declare; and an error in the middle.
            c.call("EVAL", f"return redis.call('GET', 'bank:' .. {number % 40})", "1", a)
            assert isinstance(c.call("EVAL", "return nothing.at.all", "0"), Error)
            c.call("EVAL", "for i = 1, 20000 do end return 1", "1", a)
            if i % 20 == 0:
                c.call("FUNCTION", "LOAD", "REPLACE", library.format(f"f{number}"))
                c.call("FCALL", f"f{number}", "1", "x")
            if i % 50 == 49:
                c.call("SCRIPT", "FLUSH")
        load.leave(c)


def blocking(load):
    """Every element that was pushed is popped once."""
    name = f"queue:{load.rng.random()}"
    while load.goes_on():
        producer, consumer, gone = load.connect(), load.connect(), load.connect()
        sent = [f"{name}:{i}" for i in range(100)]
        gone.send(encode("BLPOP", "nothing:a", "nothing:b", "0"))
        for element in sent:
            way = load.rng.randrange(4)
            if way == 0:
                consumer.send_command("BLPOP", "other", name, "0")
            elif way == 1:
                consumer.send_command("BLMOVE", name, f"{name}:moved", "LEFT", "RIGHT", "0")
            elif way == 2:
                consumer.send_command("BLMPOP", "0", "2", "other", name, "LEFT")
            else:
                consumer.send_command("BRPOPLPUSH", name, name + "{x}", "0")
            producer.call("RPUSH", name, element)
            assert element.encode() in str(consumer.read()).encode()
        producer.call("DEL", f"{name}:moved", name + "{x}")
        assert producer.call("XADD", f"{name}:s", "MAXLEN", "10", "*", "f", "v")
        consumer.call("XREAD", "BLOCK", "2", "STREAMS", f"{name}:s", "$")
        assert consumer.call("BZPOPMIN", "no:zset", "0.003") is None
        gone.abort()
        load.leave(producer), load.leave(consumer)


def pubsub(load):
    while load.goes_on():
        subscriber, publisher = load.connect(resp3=True), load.connect()
        channels = [f"news:{load.rng.randrange(50)}" for _ in range(5)]
        for channel in channels:
            subscriber.call("SUBSCRIBE", channel)
        subscriber.call("PSUBSCRIBE", "news:*"), subscriber.call("SSUBSCRIBE", "shard:news")
        for i in range(200):
            publisher.call("PUBLISH", load.rng.choice(channels), f"{i}")
            publisher.call("SPUBLISH", "shard:news", "x")
        assert isinstance(subscriber.read(), Push)
        # A subscriber that does not read.
        for _ in range(20):
            publisher.call("PUBLISH", channels[0], "x" * 20_000)
        load.leave(subscriber), load.leave(publisher)


def tracking(load):
    while load.goes_on():
        c, writer = load.connect(resp3=True), load.connect()
        mode = load.rng.choice(
            [(), ("BCAST", "PREFIX", "cached:"), ("OPTIN",), ("NOLOOP",), ("BCAST", "NOLOOP")]
        )
        assert c.call("CLIENT", "TRACKING", "ON", *mode) == OK
        for _ in range(100):
            name = f"cached:{load.rng.randrange(1000)}"
            if mode == ("OPTIN",):
                c.send_command("CLIENT", "CACHING", "YES")
            c.send_command("GET", name)
            writer.call("SET", name, "v", "EX", "100")
        load.leave(c), load.leave(writer)


def administration(load):
    while load.goes_on():
        c, monitor = load.connect(), load.connect()
        monitor.call("MONITOR")
        for command in (
            ("INFO", "everything"),
            ("CLIENT", "LIST"),
            ("SLOWLOG", "GET", "10"),
            ("SLOWLOG", "EXPLAIN", "10"),
            ("LATENCY", "HISTOGRAM"),
            ("MEMORY", "STATS"),
            ("MEMORY", "DOCTOR"),
            ("CONFIG", "GET", "*"),
            ("COMMAND", "DOCS"),
            ("ACL", "SETUSER", "soak", "on", ">secret", "~bank:*", "+get"),
            ("AUTH", "soak", "secret"),
            ("GET", "bank:1"),
            ("DBSIZE",),
        ):
            c.call(*command)
        with load.connect() as admin:
            admin.call("ACL", "DELUSER", "soak")  # who has logged in as that is disconnected
            admin.call("BGSAVE")
            admin.call("DEBUG", "DEFRAG")
            admin.call("SCAN", "0", "COUNT", "1000")
        load.leave(c), load.leave(monitor)
        time.sleep(0.1)  # these cost more than all the others


def strangers(load):
    """Who connects and says nothing, or something else."""
    while load.goes_on():
        made = []
        for _ in range(20):
            s = socket.create_connection(load.address)
            s.settimeout(60)
            made.append(s)
            what = load.rng.randrange(5)
            if what == 0:
                page = b"metrics" if load.rng.random() < 0.02 else b"livez"
                s.sendall(b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % page)
                assert s.recv(12) == b"HTTP/1.1 200"
            elif what == 1:
                s.sendall(b"*3\r\n$3\r\nSET\r\n$1000000\r\n" + b"x" * load.rng.randrange(70_000))
            elif what == 2:
                s.sendall(b"*1\r\n!oops\r\n")
                assert s.recv(1) == b"-"
            elif what == 3:
                s.sendall(b"POST /api/commands HTTP/1.1\r\nContent-Length: 1000\r\n\r\n[[")
        for s in made:
            s.close()


LOADS = [
    *[all_families, all_families, expiring, transactions, scripts, blocking, pubsub, tracking],
    *[administration, strangers],
]


def run(function, address, seed, ends_at):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        function(Load(address, seed, ends_at))
        os._exit(0)
    except BaseException:
        print(f"{function.__name__}, seed {seed}:", flush=True)
        traceback.print_exc()
        os._exit(1)


@pytest.mark.long
@pytest.mark.threads
def test_a_server_at_rest_is_as_it_was_before(start_server, configuration):
    server = start_server(
        **configuration_flags(configuration),
        slowlog_log_slower_than=1000,
        enable_debug_command="yes",
        client_output_buffer_limit="pubsub 1mb 1mb 60",
    )
    seed = new_seed()
    processes = multiprocessing.get_context("fork")
    rests = []
    with server.connect() as r:
        for phase in range(PHASES):
            for account in ACCOUNTS:
                assert r.call("SET", account, "1000") == OK
            ends_at = time.monotonic() + PHASE_S
            started = [
                processes.Process(
                    target=run, args=(function, server.address, seed + phase * 100 + i, ends_at)
                )
                for i, function in enumerate(LOADS)
            ]
            for process in started:
                process.start()
            for process, function in zip(started, LOADS):
                process.join(PHASE_S + 300)
                assert process.exitcode == 0, f"{function.__name__}: {process.exitcode}"
            wait_until(lambda: r.info("clients")["connected_clients"] == "1", what="clients leave")
            assert sum(map(int, r.call("MGET", *ACCOUNTS))) == MONEY
            rests.append(at_rest(server, r))
            print(rests[-1], flush=True)
            server.assert_healthy()
    # In the first phase threads are started, stacks are kept, tables grow.
    first, last = rests[1], rests[-1]
    for name in ("fibers", "descriptors", "threads"):
        assert last[name] <= first[name], rests
    assert last["used"] <= first["used"] * 1.1 + MB, rests
    if not SANITIZED:  # a sanitizer keeps what was freed, to see who touches it
        assert last["resident"] <= first["resident"] * 1.1 + 8 * MB, rests
