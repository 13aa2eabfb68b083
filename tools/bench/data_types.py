#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands on the types that are no strings: the server's CPU for each command; redis-server's and
ours in turn, and their ratio (the median of the rounds' ratios). What the types cost in memory:
memory.py types.

One thread each, ten connections with pipelines. Servers, cores and the way CPU time is measured are
those of compare.py. A load is a row of LOADS; the replies of all its commands have one length, or
one number of lines.
"""

import dataclasses
import random
from collections.abc import Callable

import side_by_side
from compare import BenchError, Connection, Server, encode
from transactions import Pipelines

KEYS = 100_000
MANY = 1_000_000
FIELDS = 5
VALUE = b"x" * 16
BULK = len(b"$16\r\n" + VALUE + b"\r\n")
INTEGER = len(b":1\r\n")


class LinePipelines(Pipelines):
    """Its replies have so many lines, of any length."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lines = self.reply_bytes

    def run(self, count):
        for begin in range(0, count, len(self.connections)):
            turn = self.connections[: count - begin]
            for i, connection in enumerate(turn):
                connection.sock.sendall(self.requests[(begin + i) % len(self.requests)])
            for connection in turn:
                lines = 0
                while lines < self.lines:
                    data = connection.sock.recv(1 << 16)
                    if not data:
                        raise BenchError("the server closed the connection")
                    lines += data.count(b"\n")


def fill(connection, commands):
    """Sends all of `commands`, and waits for their replies."""
    batch = []
    for command in [*commands, None]:
        if command is not None:
            batch.append(command)
        if batch and (command is None or len(batch) == 500):
            connection.sock.sendall(b"".join(encode(*each) for each in batch))
            for _ in batch:
                connection.reply()
            batch.clear()


def fill_one(connection, command, key, elements, at_once=100):
    """`elements` are groups of arguments of a command that takes many."""
    batches = (elements[i : i + at_once] for i in range(0, len(elements), at_once))
    fill(connection, ((command, key, *(w for e in batch for w in e)) for batch in batches))


# --- What is there ---


def member(i):
    return b"member:%07d" % i


def nothing(_connection):
    pass


def small_hashes(connection):
    words = [word for i in range(FIELDS) for word in (b"field:%d" % i, VALUE)]
    fill(connection, ((b"HSET", b"hash:%d" % i, *words) for i in range(KEYS)))


def large_hash(connection):
    fill_one(connection, b"HSET", b"hash", [(b"field:%d" % i, VALUE) for i in range(KEYS)])


def small_sets(connection):
    members = [member(i) for i in range(10)]
    fill(connection, ((b"SADD", b"set:%d" % i, *members) for i in range(KEYS)))


def large_set(connection):
    fill_one(connection, b"SADD", b"set", [(member(i),) for i in range(KEYS)])


def small_zsets(connection):
    words = [word for i in range(20) for word in (b"%d" % i, member(i))]
    fill(connection, ((b"ZADD", b"zset:%d" % i, *words) for i in range(KEYS // 2)))


def large_zset(connection, count=KEYS):
    fill_one(connection, b"ZADD", b"zset", [(b"%d" % i, member(i)) for i in range(count)])


def huge_zset(connection):
    large_zset(connection, MANY)


def lists(connection):
    fill(connection, ((b"RPUSH", b"list:%d" % i, *[VALUE] * 20) for i in range(KEYS // 2)))


def two_sets(connection):
    """10,000 members each, half of them in both, in one shard or in two."""
    fill_one(connection, b"SADD", b"a", [(member(i),) for i in range(10_000)])
    fill_one(connection, b"SADD", far_key(connection), [(member(i + 5000),) for i in range(10_000)])


def far_key(connection):
    """A key in another shard than `a`, if there is another shard, among far:0 .. far:9."""
    for i in range(10):
        name = b"far:%d" % i
        before = across(connection)
        connection.call(b"EXISTS", b"a", name)
        if across(connection) > before:
            return name
    return b"far:0"


def across(connection):
    info = connection.call(b"INFO", b"transaction").decode()
    found = [line for line in info.splitlines() if line.startswith("tx_multi_shard:")]
    return int(found[0].split(":")[1]) if found else 0


# --- What is asked ---


def small(prefix, keys=KEYS):
    return lambda rng: b"%s:%d" % (prefix, rng.randrange(keys))


def any_member(count):
    return lambda rng: member(rng.randrange(count))


any_hash, any_set = small(b"hash"), small(b"set")
any_zset, any_list = small(b"zset", KEYS // 2), small(b"list", KEYS // 2)
any_field, any_large_field = small(b"field", FIELDS), small(b"field")


@dataclasses.dataclass
class Load:
    name: str
    asked: float
    fill: Callable
    command: Callable | None  # command(rng): its words; None: SINTER of two_sets
    reply_bytes: int = 0  # of each
    reply_lines: int = 0  # instead
    pipelines: int = 20_000
    depth: int = 10
    requests: int = 200  # different pipelines
    shards: int = 1


RANGE_10 = len(b"*10\r\n") + 10 * len(b"$14\r\n" + member(0) + b"\r\n")
LIST_10 = len(b"*10\r\n") + 10 * BULK
SCORE = len(b"$1\r\n5\r\n")
INTERSECTION = len(b"*5000\r\n") + 5000 * len(b"$14\r\n" + member(0) + b"\r\n")

LOADS = [
    Load("hset-5-fields", 0.75, small_hashes,
         lambda g: (b"HSET", any_hash(g), any_field(g), VALUE), INTEGER),
    Load("hget-5-fields", 0.75, small_hashes,
         lambda g: (b"HGET", any_hash(g), any_field(g)), BULK),
    Load("hset-100000-fields", 0.75, large_hash,
         lambda g: (b"HSET", b"hash", any_large_field(g), VALUE), INTEGER),
    Load("hget-100000-fields", 0.75, large_hash,
         lambda g: (b"HGET", b"hash", any_large_field(g)), BULK),
    Load("sadd-10-members", 0.75, small_sets,
         lambda g: (b"SADD", any_set(g), any_member(20)(g)), INTEGER),
    Load("sismember-10-members", 0.75, small_sets,
         lambda g: (b"SISMEMBER", any_set(g), any_member(20)(g)), INTEGER),
    Load("sadd-100000-members", 0.75, large_set,
         lambda g: (b"SADD", b"set", any_member(2 * KEYS)(g)), INTEGER, requests=2000),
    Load("sismember-100000-members", 0.75, large_set,
         lambda g: (b"SISMEMBER", b"set", any_member(2 * KEYS)(g)), INTEGER),
    Load("zadd-20-members", 0.75, small_zsets,
         lambda g: (b"ZADD", any_zset(g), b"%d" % g.randrange(20), any_member(20)(g)), INTEGER,
         requests=2000),
    Load("zscore-20-members", 0.75, small_zsets,
         lambda g: (b"ZSCORE", any_zset(g), any_member(10)(g)), SCORE),
    Load("zrange-10-of-20", 0.75, small_zsets,
         lambda g: (b"ZRANGE", any_zset(g), b"5", b"14"), RANGE_10),
    Load("zrange-10-of-100000", 0.75, large_zset,
         lambda g: (b"ZRANGE", b"zset", b"%d" % (begin := g.randrange(KEYS - 10)),
                    b"%d" % (begin + 9)), RANGE_10),
    Load("zadd-1000000-members", 0.7, huge_zset,
         lambda g: (b"ZADD", b"zset", b"%d" % g.randrange(MANY), any_member(MANY)(g)), INTEGER,
         requests=10_000),
    Load("zrank-1000000-members", 0.7, huge_zset,
         lambda g: (b"ZRANK", b"zset", member(g.randrange(100_000, MANY))), len(b":100000\r\n"),
         requests=2000),
    Load("lpush", 0.75, nothing, lambda g: (b"LPUSH", any_list(g), VALUE), reply_lines=1,
         requests=2000),
    Load("lrange-10-of-20", 0.75, lists, lambda g: (b"LRANGE", any_list(g), b"5", b"14"), LIST_10),
    Load("xadd", 0.75, nothing,
         lambda g: (b"XADD", small(b"stream", 1000)(g), b"*", b"name", VALUE, b"number", b"12345"),
         reply_lines=2),
    Load("sinter-10000-one-shard", 0.8, two_sets, None, INTERSECTION, pipelines=400, depth=1),
    Load("sinter-10000-two-shards", 1.2, two_sets, None, INTERSECTION, pipelines=400, depth=1,
         shards=2),
]


def measure(kind, load, options):
    """CPU nanoseconds of the server for each command."""
    options.server_flag = [*options.extra_flag, f"--num_shards={load.shards}"]
    server = Server(kind, 1, options)
    try:
        filler = Connection(server.port)
        load.fill(filler)
        command, lines = load.command, load.reply_lines
        if load.fill is two_sets:
            names = (b"far:%d" % i for i in range(10))
            far = next(name for name in names if int(filler.call(b"EXISTS", name)))
            command = lambda _: (b"SINTER", b"a", far)  # noqa: E731
        filler.close()

        def request(rng):
            return b"".join(encode(*command(rng)) for _ in range(load.depth))

        made = LinePipelines if lines else Pipelines
        client = made(server.port, 10, request, load.depth * (lines or load.reply_bytes),
                      requests=load.requests)
        client.run(max(10, load.pipelines // 10))
        begin = server.cpu_ns()
        client.run(load.pipelines)
        spent = server.cpu_ns() - begin
        client.close()
        return spent / (load.pipelines * load.depth)
    finally:
        server.stop()


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--extra-flag", action="append", default=[], help="for our server")
    options = parser.parse_args()
    side_by_side.prepare()
    random.seed(1)
    side_by_side.print_head("load", "redis-server, ns", "ours, ns")
    for load in LOADS:
        if options.only not in load.name:
            continue
        if options.quick:
            load = dataclasses.replace(load, pipelines=max(10, load.pipelines // 20))
        side_by_side.print_row(
            (load.name,), lambda kind: measure(kind, load, options), load.asked, options
        )


if __name__ == "__main__":
    side_by_side.run("data_types", main)
