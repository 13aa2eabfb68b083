#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MSET and MGET over shards, EXEC, and queues with BRPOP: the server's CPU for each key, EXEC or
pair: redis-server, Valkey and ours in turn, and their ratios (the medians of the rounds' ratios).

Clients send a pipeline each, and then read its replies. Servers, cores and the way CPU time is
measured are those of compare.py. Keys are drawn from 100,000, values have 64 bytes.
"""

import random
import select
import time

import side_by_side
from compare import BenchError, Connection, Server, encode

VALUE = b"x" * 64
KEYS = 100_000


def expect(connection, count):
    """Reads `count` bytes and drops them."""
    while count > 0:
        got = len(connection.sock.recv(min(count, 1 << 16)))
        if got == 0:
            raise BenchError("the server closed the connection")
        count -= got


class Pipelines:
    """Connections that send one of `requests` pipelines; its replies have `reply_bytes`."""

    def __init__(self, port, connections, make_request, reply_bytes, seed=1, requests=200):
        rng = random.Random(seed)
        self.requests = [make_request(rng) for _ in range(requests)]
        self.reply_bytes = reply_bytes
        self.connections = [Connection(port) for _ in range(connections)]

    def run(self, count):
        """`count` pipelines in all."""
        for begin in range(0, count, len(self.connections)):
            turn = self.connections[: count - begin]
            for i, connection in enumerate(turn):
                connection.sock.sendall(self.requests[(begin + i) % len(self.requests)])
            for connection in turn:
                expect(connection, self.reply_bytes)

    def close(self):
        for connection in self.connections:
            connection.close()


def key(rng):
    return b"key:%012d" % rng.randrange(KEYS)


def mset(rng):
    return b"".join(
        encode("MSET", *(word for _ in range(8) for word in (key(rng), VALUE))) for _ in range(10)
    )


def mget(rng):
    return b"".join(encode("MGET", *(key(rng) for _ in range(8))) for _ in range(10))


def exec_one_tag(rng):
    prefix = b"{%d}" % rng.randrange(1000)
    sets = b"".join(encode("SET", prefix + key(rng), VALUE) for _ in range(10))
    return encode("MULTI") + sets + encode("EXEC")


def exec_any(rng):
    sets = b"".join(encode("SET", key(rng), VALUE) for _ in range(10))
    return encode("MULTI") + sets + encode("EXEC")


EXEC_REPLY = len(b"+OK\r\n" + b"+QUEUED\r\n" * 10 + b"*10\r\n" + b"+OK\r\n" * 10)
MGET_REPLY = 10 * (len(b"*8\r\n") + 8 * len(encode(VALUE)[4:]))


class Pairs:
    """One consumer for each of 8 lists waits with BRPOP. A producer pushes to all of them, one
    after the other, or 8 producers push at the same time."""

    LISTS = 8

    def __init__(self, port, producers):
        self.producers = [Connection(port) for _ in range(producers)]
        self.consumers = [Connection(port) for _ in range(self.LISTS)]
        self.names = [b"queue:%d" % i for i in range(self.LISTS)]
        self.pushes = [encode("LPUSH", name, VALUE) for name in self.names]
        self.pops = [encode("BRPOP", name, "0") for name in self.names]
        self.reply_bytes = len(encode(self.names[0], VALUE))
        self.by_fd = {c.sock.fileno(): c for c in self.consumers}

    def run(self, count):
        for _ in range(count // self.LISTS):
            for consumer, pop in zip(self.consumers, self.pops):
                consumer.sock.sendall(pop)
            for begin in range(0, self.LISTS, len(self.producers)):
                for producer, push in zip(self.producers, self.pushes[begin:]):
                    producer.sock.sendall(push)
                for producer in self.producers:
                    expect(producer, 4)
            for consumer in self.consumers:
                expect(consumer, self.reply_bytes)

    def close(self):
        for connection in [*self.producers, *self.consumers]:
            connection.close()


# name, unit, threads of ours, shards of ours, units in a pipeline, pipelines, asked, client
LOADS = [
    ("mset8-4shards-p10", "key", 1, 4, 80, 4000, 1.20,
     lambda port: Pipelines(port, 10, mset, 10 * len(b"+OK\r\n"))),
    ("mget8-4shards-p10", "key", 1, 4, 80, 4000, 1.20,
     lambda port: Pipelines(port, 10, mget, MGET_REPLY)),
    ("4t-mset8-p10", "key", 4, 4, 80, 4000, 1.20,
     lambda port: Pipelines(port, 10, mset, 10 * len(b"+OK\r\n"))),
    ("4t-mget8-p10", "key", 4, 4, 80, 4000, 1.20,
     lambda port: Pipelines(port, 10, mget, MGET_REPLY)),
    ("exec10-1shard", "EXEC", 1, 4, 1, 20000, 0.80,
     lambda port: Pipelines(port, 10, exec_one_tag, EXEC_REPLY)),
    ("exec10-4shards", "EXEC", 1, 4, 1, 20000, 1.50,
     lambda port: Pipelines(port, 10, exec_any, EXEC_REPLY)),
    ("4t-exec10-1shard", "EXEC", 4, 4, 1, 20000, 0.80,
     lambda port: Pipelines(port, 10, exec_one_tag, EXEC_REPLY)),
    ("4t-exec10-4shards", "EXEC", 4, 4, 1, 20000, 1.50,
     lambda port: Pipelines(port, 10, exec_any, EXEC_REPLY)),
    ("lpush-brpop", "pair", 1, 1, 1, 20000, 0.85, lambda port: Pairs(port, 1)),
    ("lpush-brpop-8producers", "pair", 1, 1, 1, 20000, 0.80, lambda port: Pairs(port, 8)),
    ("4t-lpush-brpop-8producers", "pair", 4, 4, 1, 20000, 1.00, lambda port: Pairs(port, 8)),
]


def measure(kind, load, options):
    """CPU nanoseconds of the server for each unit."""
    name, _, threads, shards, units, count, _, make = load
    options.server_flag = [*options.extra_flag, f"--num_shards={shards}"]
    server = Server(kind, threads, options)
    try:
        filler = Connection(server.port)
        filler.fill(KEYS, "key:%012d", len(VALUE))
        filler.close()
        client = make(server.port)
        client.run(max(10, count // 10))
        begin = server.cpu_ns()
        client.run(count)
        spent = server.cpu_ns() - begin
        client.close()
        return spent / (count * units)
    finally:
        server.stop()


def wake_ups(kind, options, threads, waiters=1000):
    """Milliseconds from a push to its reply at the client that waited, for each of many clients."""
    options.server_flag = list(options.extra_flag)
    server = Server(kind, threads, options)
    try:
        poll = select.epoll()
        connections = {}
        for i in range(waiters):
            connection = Connection(server.port)
            connection.sock.sendall(encode("BLPOP", b"wait:%d" % i, "0"))
            connections[connection.sock.fileno()] = connection
            poll.register(connection.sock.fileno(), select.EPOLLIN)
        producer = Connection(server.port)
        deadline = time.monotonic() + 20
        while b"blocked_clients:%d\r" % waiters not in producer.call("INFO", "clients"):
            if time.monotonic() > deadline:
                raise BenchError("not all clients are blocked")
        begins, times = {}, []
        for i in range(waiters):
            begins[b"wait:%d" % i] = time.perf_counter()
            producer.sock.sendall(encode("RPUSH", b"wait:%d" % i, "1"))
            producer.reply()
            for fd, _ in poll.poll(0):
                name = connections[fd].sock.recv(4096).split(b"\r\n")[2]
                times.append(time.perf_counter() - begins[name])
        while len(times) < waiters:
            ready = poll.poll(5)
            if not ready:
                raise BenchError(f"only {len(times)} of {waiters} clients were served")
            for fd, _ in ready:
                name = connections[fd].sock.recv(4096).split(b"\r\n")[2]
                times.append(time.perf_counter() - begins[name])
        for connection in [producer, *connections.values()]:
            connection.close()
        return sorted(times)[waiters * 99 // 100] * 1000
    finally:
        server.stop()


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--extra-flag", action="append", default=[], help="for our server")
    options = parser.parse_args()
    side_by_side.prepare()
    side_by_side.print_kinds(options, "load", "unit; ns for each")
    for load in LOADS:
        if options.only not in load[0]:
            continue
        if options.quick:
            load = (*load[:5], max(10, load[5] // 20), *load[6:])
        side_by_side.print_row(
            load[:2], lambda kind: measure(kind, load, options), load[6], options
        )
    for threads in (1, 4):
        if options.only not in "wake-ups":
            continue
        side_by_side.print_row(
            [f"{threads}t-1000-blocked", "p99 of a wake-up, ms"],
            lambda kind: wake_ups(kind, options, threads),
            1.0,
            options,
            digits=3,
        )


if __name__ == "__main__":
    side_by_side.run("transactions", main)
