#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What memory is used for.

  types    bytes for each key, field, member and element of redis-server, Valkey and ours: what the
           rows of ROWS add to an empty server of one thread, by used_memory and by resident memory
  states   which parts have the resident memory in states of all kinds (tests/harness/
           memory_states.py), and what of it MEMORY STATS does not explain
"""

import argparse
import os
import sys

import compare as bench
import side_by_side
from data_types import VALUE, fill, member

sys.path.insert(0, os.path.join(bench.ROOT, "tests"))

from harness import memory_states  # noqa: E402
from harness.server import Server  # noqa: E402

STATES = [*memory_states.STATES, memory_states.many_keys]

SHORT = b"x" * 8
BINARY = bytes(range(0xF0, 0x100))  # 16 bytes that are not ASCII


def strings(value_bytes, *options):
    value = b"v" * value_bytes
    return lambda count: ((b"SET", b"key:%012d" % i, value, *options) for i in range(count))


def counters(count):
    return ((b"SET", b"key:%012d" % i, b"%d" % i) for i in range(count))


def small_hashes(value):
    fields = [word for i in range(5) for word in (b"field:%d" % i, value)]
    return lambda count: ((b"HSET", b"hash:%d" % i, *fields) for i in range(count))


def hashes_with_names_of_their_own(count):
    def fields(i):
        return [word for k in range(5) for word in (b"f%06d%d" % (i, k), SHORT)]

    return ((b"HSET", b"hash:%d" % i, *fields(i)) for i in range(count))


def small_sets(count):
    members = [member(i) for i in range(10)]
    return ((b"SADD", b"set:%d" % i, *members) for i in range(count // 10))


def small_zsets(count):
    words = [word for i in range(10) for word in (b"%d" % i, member(i))]
    return ((b"ZADD", b"zset:%d" % i, *words) for i in range(count // 10))


def one(command, key, element):
    """A key with all elements; element(i): the arguments of one."""

    def commands(count, at_once=100):
        for begin in range(0, count, at_once):
            elements = map(element, range(begin, min(begin + at_once, count)))
            yield (command, key, *(word for words in elements for word in words))

    return commands


def stream(count):
    entry = (b"name", VALUE, b"number", b"12345")
    return ((b"XADD", b"stream", b"%d-1" % (i + 1), *entry) for i in range(count))


# name, commands(count): what makes so many, bytes that were asked for
ROWS = [
    ("key of 16 bytes, value of 32", strings(32), 70),
    ("the same, and a value of 16 with a TTL", strings(16, b"EX", 1_000_000), 62),
    ("the same, and a value of 32 with a TTL", strings(32, b"EX", 1_000_000), None),
    ("the same, and a value of 200", strings(200), 240),
    ("the same, and a number", counters, None),
    ("hash of 5 fields of 8 bytes", small_hashes(SHORT), 125),
    ("the same, and each has names of its own", hashes_with_names_of_their_own, None),
    ("hash of 5 fields of 16 bytes", small_hashes(VALUE), None),
    (
        "field of a large hash, 16 bytes",
        one(b"HSET", b"hash", lambda i: (b"field:%d" % i, VALUE)),
        None,
    ),
    (
        "the same, and as short as its name",
        one(b"HSET", b"hash", lambda i: (b"field:%d" % i, b"value:%d" % i)),
        None,
    ),
    (
        "the same, and 16 bytes that are not ASCII",
        one(b"HSET", b"hash", lambda i: (b"field:%d" % i, BINARY)),
        None,
    ),
    ("member of a set of 10", small_sets, None),
    ("member of a large set", one(b"SADD", b"set", lambda i: (member(i),)), None),
    ("entry of a sorted set of 10", small_zsets, 27),
    ("entry of a large sorted set", one(b"ZADD", b"zset", lambda i: (b"%d" % i, member(i))), 52),
    ("element of a list, 16 bytes", one(b"RPUSH", b"list", lambda i: (VALUE,)), 17),
    ("entry of a stream", stream, None),
]


def used_memory(connection):
    info = connection.call(b"INFO", b"memory").decode()
    return int(next(line for line in info.splitlines() if line.startswith("used_memory:"))[12:])


def bytes_of_each(kind, commands, options):
    """By used_memory, and by resident memory."""
    server = bench.Server(kind, 1, options)
    try:
        connection = bench.Connection(server.port)
        # What the first pipelines touch once is no part of the data: ours has 64 buffers of 32 KB,
        # which these fill in turn.
        fill(connection, ((b"EXISTS", VALUE * 64) for _ in range(20_000)))
        used, resident = used_memory(connection), server.rss()
        fill(connection, commands(options.count))
        sizes = used_memory(connection) - used, server.rss() - resident
        connection.close()
        return [size / options.count for size in sizes]
    finally:
        server.stop()


def measure_types(options):
    kinds = side_by_side.kinds_of(options)
    names = [f"{side_by_side.NAMES[kind]}: used, RSS" for kind in kinds]
    side_by_side.print_names(f"bytes of each of {options.count:,}", *names, "asked")
    for name, commands, asked in ROWS:
        if options.only not in name:
            continue
        sizes = {kind: bytes_of_each(kind, commands, options) for kind in kinds}
        cells = [f"{used:.1f}, {resident:.1f}" for used, resident in sizes.values()]
        missed = " missed" if asked is not None and sizes["ours"][1] > asked else ""
        verdict = "" if asked is None else f"{asked}{missed}"
        print("| " + " | ".join([name, *cells, verdict]) + " |", flush=True)


def measure_states(options):
    for state in STATES:
        server = Server(reference=False, proactor_threads=options.threads)
        try:
            with state(server), server.connect() as c:
                reply = c.call("MEMORY", "STATS")
                stats = dict(zip(reply[::2], reply[1::2], strict=True))
                unexplained = stats[b"rss.unexplained"]
                total = stats[b"rss.total"]
                print(
                    f"{state.__name__}: {total / 1e6:.1f} MB resident, {unexplained / 1e6:.2f} MB "
                    f"({100 * unexplained / total:.1f} %) unexplained"
                )
                for name in memory_states.HEAP_PARTS + memory_states.RSS_PARTS:
                    if abs(stats[name.encode()]) >= 100_000:
                        print(f"    {name} {stats[name.encode()] / 1e6:.1f}")
        finally:
            server.kill()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["types", "states"])
    parser.add_argument("--count", type=int, default=1_000_000, help="keys, fields, ... of a row")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--threads", type=int, default=1, help="of a server with a state")
    binary = os.path.join(bench.ROOT, "build/release/dragonfly")
    parser.add_argument("--binary", type=os.path.abspath, default=binary)
    parser.add_argument("--valkey", default=bench.installed_valkey(), help="empty: without")
    options = parser.parse_args()
    options.server_flag = []
    {"types": measure_types, "states": measure_states}[options.what](options)


if __name__ == "__main__":
    side_by_side.run("memory", main)
