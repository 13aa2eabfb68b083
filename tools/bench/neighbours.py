#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What small reads wait while a neighbour does something large: redis-server, Valkey and ours with
four threads, in turn, all on the same cores.

The probe (latency_probe.py) reads one of --keys small keys each half millisecond, for --seconds,
while one kind of neighbour works all the time. For each row and server: the 99th and the 99.9th
percentile and the longest, in ms; for ours also the p99 as a multiple of what it is when nobody
else is there.
"""

import contextlib
import itertools
import os
import random
import socket
import statistics
import tempfile
import threading
import time

import side_by_side
import tls
from compare import BenchError, Connection, encode, free_port
from latency_probe import Probe
from snapshots import FreeServer


class Client(Connection):
    """Reads replies of any form without a look at them."""

    def __init__(self, port):
        super().__init__(port, 300)

    def drain(self, *commands):
        """Sends commands and reads until the last one is answered."""
        requests = b"".join(encode(*command) for command in [*commands, ("PING", "the-end")])
        sender = threading.Thread(target=self.sock.sendall, args=(requests,))
        sender.start()
        end = b"$7\r\nthe-end\r\n"
        tail = b""
        while not tail.endswith(end):
            data = self.sock.recv(1 << 20)
            if not data:
                raise BenchError("the server closed the connection")
            tail = (tail + data)[-len(end) :]
        sender.join()

    def fill(self, head, count, words_of, step=10_000):
        """Commands of `head` and words_of(i) for `step` numbers i each, up to `count`."""
        commands = [
            (*head, *(word for i in range(first, min(first + step, count)) for word in words_of(i)))
            for first in range(0, count, step)
        ]
        for first in range(0, len(commands), 10):
            self.drain(*commands[first : first + 10])


class Neighbour:
    """One kind. `prepare` is called before, `work` again and again while the probe reads."""

    name = ""
    tls = False  # the server listens with TLS, too

    def __init__(self, server, options):
        self.server = server
        self.count = options.members
        self.client = Client(server.port)

    def prepare(self):
        pass

    def work(self):
        raise NotImplementedError


class Nobody(Neighbour):
    name = "nobody"

    def work(self):
        time.sleep(0.05)


class LargeValues(Neighbour):
    name = "values of 10 MB are set and read"
    value = b"x" * 10_000_000

    def work(self):
        self.client.drain(("SET", "large", self.value), ("GET", "large"))


class AllKeys(Neighbour):
    name = "KEYS * of ten times as many keys"

    def prepare(self):
        self.client.fill(["MSET"], 10 * self.count, lambda i: (f"k{i}", "v"), 1000)

    def work(self):
        self.client.drain(("KEYS", "*"))


class Sort(Neighbour):
    name = "SORT of a large list"

    def prepare(self):
        numbers = random.Random(1)
        self.client.fill(["RPUSH", "list"], self.count, lambda _: (numbers.randrange(10**9),))

    def work(self):
        self.client.drain(("SORT", "list", "STORE", "sorted"))


class Union(Neighbour):
    name = "SUNIONSTORE of two large sets"

    def prepare(self):
        half = self.count // 2
        self.client.fill(["SADD", "one"], self.count, lambda i: (f"member:{i}",))
        self.client.fill(["SADD", "two"], self.count, lambda i: (f"member:{i + half}",))

    def work(self):
        self.client.drain(("SUNIONSTORE", "union", "one", "two"))


class Members(Union):
    name = "SMEMBERS of a large set, and SUNION of two"

    def work(self):
        self.client.drain(("SMEMBERS", "one"), ("SUNION", "one", "two"))


class LongReads(Neighbour):
    name = "HGETALL, LRANGE and ZRANGE of all of a large value"

    def prepare(self):
        self.client.fill(["HSET", "hash"], self.count, lambda i: (f"field:{i}", "value"))
        self.client.fill(["RPUSH", "list"], self.count, lambda i: (f"element:{i}",))
        self.client.fill(["ZADD", "zset"], self.count, lambda i: (i, f"member:{i}"))

    def work(self):
        self.client.drain(("HGETALL", "hash"), ("LRANGE", "list", 0, -1), ("ZRANGE", "zset", 0, -1))


class ScoredUnion(Neighbour):
    name = "ZUNIONSTORE of two large sorted sets"

    def prepare(self):
        half = self.count // 2
        self.client.fill(
            ["ZADD", "one"], self.count, lambda i: (i * 7919 % 1000003, f"member:{i}")
        )
        self.client.fill(
            ["ZADD", "two"], self.count, lambda i: (i * 7919 % 1000003, f"member:{i + half}")
        )

    def work(self):
        self.client.drain(("ZUNIONSTORE", "union", "2", "one", "two"))


class LargeHash(Neighbour):
    def prepare(self):
        self.client.fill(["HSET", "hash"], self.count, lambda i: (f"field:{i}", "value"))


class Copy(LargeHash):
    name = "COPY of a large hash"

    def work(self):
        self.client.drain(("COPY", "hash", "copied", "REPLACE"))


class Delete(LargeHash):
    name = "DEL of a large hash, which HSETs of 10,000 fields fill again"

    def work(self):
        self.client.drain(("DEL", "hash"))
        self.prepare()


class Script(Neighbour):
    name = "a script of a second, for the fifth time and later"
    text = "local n = 0; for i = 1, tonumber(ARGV[1]) do n = n + i % 7 end; return n"

    def prepare(self):
        self.rounds = 1_000_000
        for _ in range(4):  # ours watches the first runs of a script, with all shards locked
            took = self.run()
        self.rounds = int(self.rounds / took)

    def run(self):
        """Seconds."""
        begin = time.monotonic()
        self.client.call("EVAL", self.text, "1", "key", str(self.rounds))
        return time.monotonic() - begin

    def work(self):
        self.run()


class Connects(Neighbour):
    name = "500 connections a second"

    def connect(self):
        client = Connection(self.server.port)
        client.call("PING")
        client.close()

    def work(self):
        begin = time.monotonic()
        for _ in range(25):
            self.connect()
        time.sleep(max(0, 0.05 - (time.monotonic() - begin)))


class TlsConnects(Connects):
    name = "500 connections a second with TLS, or as many as one client can"
    tls = True

    def __init__(self, server, options):
        super().__init__(server, options)
        self.tls_client = tls.Client(server.tls_port, server.cert)

    def connect(self):
        self.tls_client.connect().close()


class Save(Neighbour):
    name = "BGSAVE of twice as many keys"

    def prepare(self):
        self.client.fill(["MSET"], 2 * self.count, lambda i: (f"k{i}", "v" * 32), 1000)

    def work(self):
        self.server.save()


class Expire(Neighbour):
    name = "a tenth as many keys expire at one moment"

    def work(self):
        at_ms = int(time.time() * 1000) + 1000
        self.client.drain(
            *(("SET", f"e{i}", "v", "PXAT", at_ms) for i in range(self.count // 10))
        )
        time.sleep(max(0, at_ms / 1000 - time.time()) + 0.5)


class Evict(Neighbour):
    name = "keys of 200 bytes are written at the limit of memory"

    def prepare(self):
        used = int(self.server.info()["used_memory"])
        self.client.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self.client.call("CONFIG", "SET", "maxmemory", str(used + 50_000_000))
        self.made = itertools.count()

    def work(self):
        self.client.fill(["MSET"], 10_000, lambda _: (f"m{next(self.made)}", "v" * 200), 10)


class SlowReader(Neighbour):
    name = "clients ask for 100 MB and do not read"

    def prepare(self):
        self.client.drain(("SET", "large", b"x" * 1_000_000))

    def work(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as s:
            s.sendall(encode("GET", "large") * 100)
            time.sleep(0.2)


NEIGHBOURS = [
    *(Nobody, LargeValues, AllKeys, Sort, Union, Members, LongReads, ScoredUnion, Copy, Delete),
    *(Script, Connects, TlsConnects),
    *(Save, Expire, Evict, SlowReader),
]


@contextlib.contextmanager
def at_work(neighbour):
    """Works in a thread of its own until the block ends, and once at least."""
    ends = threading.Event()
    failed = []

    def run():
        try:
            while not ends.is_set():
                neighbour.work()
        except Exception as e:
            failed.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    if failed:
        raise BenchError(f"{neighbour.name}: {failed[0]!r}")


def measure(kind, neighbour_type, options):
    """p99, p99.9 and the longest wait in ms."""
    port = free_port()
    flags = tls.flags_of(kind, port, options.cert, options.key) if neighbour_type.tls else ()
    server = FreeServer(kind, options, threads=options.threads, flags=flags)
    server.tls_port, server.cert = port, options.cert
    try:
        server.fill()
        neighbour = neighbour_type(server, options)
        neighbour.prepare()
        probe = Probe(server.port, options.seconds, options.keys)
        with at_work(neighbour):
            probe.await_end()
        return probe.p99_ms, probe.p99_9_ms, probe.max_ms
    finally:
        server.stop()


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--members", type=int, default=1_000_000, help="of a large value")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--kinds", default="", help="only these servers, for example ours")
    options = parser.parse_args()
    options.dfly_bench = os.path.join(os.path.dirname(options.binary), "dfly_bench")
    if options.quick:
        options.rounds, options.members, options.seconds = 1, 50_000, 1
    with tempfile.TemporaryDirectory(prefix="dfly-neighbours-") as folder:
        options.cert, options.key = tls.make_certificate(folder)
        print_table(options)


def print_table(options):
    kinds = options.kinds.split(",") if options.kinds else side_by_side.kinds_of(options)
    heads = ["a neighbour", *(side_by_side.NAMES[kind] for kind in kinds), "ours, of quiet"]
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join("---" for _ in heads) + " |")
    quiet = None
    for neighbour in NEIGHBOURS:
        if options.only not in neighbour.name and neighbour is not Nobody:
            continue
        cells = []
        for kind in kinds:
            if neighbour.tls and kind == "valkey":
                cells.append("")  # its package has no TLS
                continue
            rounds = [measure(kind, neighbour, options) for _ in range(options.rounds)]
            middle = [statistics.median(of_one) for of_one in zip(*rounds, strict=True)]
            cells.append(", ".join(f"{ms:.2f}" for ms in middle))
        quiet = quiet or middle[0]
        print("| " + " | ".join([neighbour.name, *cells, f"{middle[0] / quiet:.1f}"]) + " |",
              flush=True)


if __name__ == "__main__":
    side_by_side.run("neighbours", main)
