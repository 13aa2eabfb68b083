#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good and how dear eviction is: hit rate, and server CPU for each request, of a cache that
holds a tenth of the keys (or most of a loop), ours and redis-server in turn.

A client asks for keys in batches of 100 and sets those that were not there, as a cache's user does.
The traces are the same for all, from --seed. The second half of each is measured.

`same keys`: each server's maxmemory is what it used when it held that many keys without a limit.
`same bytes`: all have the maxmemory of redis-server, above what each used when it was empty.
"""

import bisect
import itertools
import random
import sys

import side_by_side
from compare import VALUE_BYTES, BenchError, Connection, encode, running

BATCH = 100


def zipf(keys, requests, rng):
    """Keys whose popularity is Zipf's with 0.99, the ranks shuffled over the names."""
    sums = list(itertools.accumulate((rank + 1) ** -0.99 for rank in range(keys)))
    names = list(range(keys))
    rng.shuffle(names)
    total = sums[-1]
    return [names[bisect.bisect_left(sums, rng.random() * total)] for _ in range(requests)]


def loop(keys, requests, _rng):
    return [i % keys for i in range(requests)]


def shifting(keys, requests, rng):
    """Zipf, but a tenth of the requests on the names move on 20 times."""
    ranks = zipf(keys, requests, rng)
    step = max(1, requests // 20)
    return [(rank + i // step * keys // 200) % keys for i, rank in enumerate(ranks)]


class Cache:
    """A server that is used as a cache."""

    def __init__(self, server):
        self.c = Connection(server.port)
        self.server = server

    def info(self, field):
        text = self.c.call("INFO").decode()
        return int(next(row for row in text.split() if row.startswith(field + ":")).split(":")[1])

    def bytes_of(self, keys):
        self.c.call("FLUSHALL")
        empty = self.info("used_memory")
        self.c.fill(keys, "key:%d", VALUE_BYTES)
        return empty, self.info("used_memory")

    def ask(self, names):
        """GETs them, SETs what is missing; returns how many were there."""
        misses = []
        for begin in range(0, len(names), BATCH):
            batch = names[begin : begin + BATCH]
            self.c.sock.sendall(b"".join([b"*2\r\n$3\r\nGET\r\n" + name for name in batch]))
            missing = []
            for name in batch:
                head = self.c.file.readline()
                if head == b"$-1\r\n":
                    missing.append(name)
                elif head[:1] == b"$":
                    self.c.file.read(int(head[1:]) + 2)
                else:
                    raise BenchError(head.decode())
            misses.append(len(missing))
            if not missing:
                continue
            self.c.sock.sendall(b"".join([b"*3\r\n$3\r\nSET\r\n" + n + VALUE for n in missing]))
            for _ in missing:
                if self.c.file.readline() != b"+OK\r\n":
                    raise BenchError("SET was refused")
        return len(names) - sum(misses)


VALUE = b"$%d\r\n%s\r\n" % (VALUE_BYTES, b"x" * VALUE_BYTES)


def names_of(trace):
    known = {}
    for key in trace:
        if key not in known:
            known[key] = encode("", "key:%d" % key).split(b"\r\n", 3)[3]
    return [known[key] for key in trace]


def measure(kind, policy, resident, limit_bytes, names, options):
    """Hit rate, CPU in ns per GET or SET, keys at the end. limit_bytes: none: as for `resident`."""
    options.server_flag = ["--cache_mode"] if policy == "cache_mode" else []
    with running(kind, options.threads if kind == "ours" else 1, options) as server:
        cache = Cache(server)
        empty, full = cache.bytes_of(resident)
        cache.c.call("FLUSHALL")
        cache.c.call("CONFIG", "SET", "maxmemory-samples", "10")
        if policy != "cache_mode":
            cache.c.call("CONFIG", "SET", "maxmemory-policy", policy)
        limit = full if limit_bytes is None else empty + limit_bytes
        cache.c.call("CONFIG", "SET", "maxmemory", str(limit))
        half = len(names) // 2
        cache.ask(names[:half])
        before = server.cpu_ns()
        hits = cache.ask(names[half:])
        measured = len(names) - half
        cpu = (server.cpu_ns() - before) / (2 * measured - hits)
        used = cache.info("used_memory")
        if used > limit * 1.01:
            raise BenchError(f"{kind} uses {used} bytes of {limit}")
        return hits / measured, cpu, int(cache.c.call("DBSIZE")), full - empty


RUNS = [
    ("redis", "allkeys-lru"), ("redis", "allkeys-lfu"), ("ours", "allkeys-lru"),
    ("ours", "allkeys-lfu"), ("ours", "cache_mode"),
]  # fmt: skip


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--resident", type=int, default=100_000, help="keys that fit")
    parser.add_argument("--requests", type=int, default=3_000_000)
    parser.add_argument("--threads", type=int, default=1, help="of ours")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.resident, options.requests = 5_000, 100_000
    side_by_side.prepare()
    fits = options.resident
    traces = {
        "Zipf 0.99, 10 times as many keys": lambda rng: zipf(10 * fits, options.requests, rng),
        "the same, popularity moves": lambda rng: shifting(10 * fits, options.requests, rng),
        "loop of 1.2 times as many": lambda rng: loop(fits * 12 // 10, options.requests, rng),
        "loop of twice as many": lambda rng: loop(fits * 2, options.requests, rng),
    }
    print("| trace | same | server | policy | hits | CPU ns / request | keys at the end |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for title, make in traces.items():
        if options.only not in title:
            continue
        names = names_of(make(random.Random(options.seed)))
        of_redis = None
        for same in ("keys", "bytes"):
            for kind, policy in RUNS:
                if same == "bytes" and kind == "redis":
                    continue  # as in `same keys`
                limit = of_redis if same == "bytes" else None
                hits, cpu, keys, size = measure(kind, policy, fits, limit, names, options)
                if kind == "redis":
                    of_redis = size
                row = [title, same, kind, policy, f"{hits:.4f}", f"{cpu:,.0f}", f"{keys:,}"]
                print(f"| {' | '.join(row)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
