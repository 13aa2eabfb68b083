#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands on the types that are no strings: the server's CPU for each command, redis-server's and
ours in turn, and their ratio (the median of the rounds' ratios).

One thread each, ten connections with pipelines of 10. Servers, cores and the way CPU time is
measured are those of compare.py. A load is a row of LOADS; the replies of all its commands have
one length.
"""

import side_by_side
from compare import Connection, Server, encode
from transactions import Pipelines

DEPTH = 10
KEYS = 100_000
FIELDS = 5
VALUE = b"x" * 16
BULK = len(b"$16\r\n" + VALUE + b"\r\n")


def pipelined(command):
    """A pipeline of DEPTH commands, each made by command(rng)."""
    return lambda rng: b"".join(encode(*command(rng)) for _ in range(DEPTH))


def small_hash(rng):
    return b"hash:%d" % rng.randrange(KEYS)


def small_field(rng):
    return b"field:%d" % rng.randrange(FIELDS)


def large_field(rng):
    return b"field:%d" % rng.randrange(KEYS)


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


def small_hashes(connection):
    words = [word for i in range(FIELDS) for word in (b"field:%d" % i, VALUE)]
    fill(connection, ((b"HSET", b"hash:%d" % i, *words) for i in range(KEYS)))


def large_hash(connection):
    fill(connection, ((b"HSET", b"hash", b"field:%d" % i, VALUE) for i in range(KEYS)))


# name, fill(connection), command(rng), bytes of its reply, pipelines, asked
LOADS = [
    ("hset-5-fields-p10", small_hashes, lambda g: (b"HSET", small_hash(g), small_field(g), VALUE),
     4, 20000, 0.75),
    ("hget-5-fields-p10", small_hashes, lambda g: (b"HGET", small_hash(g), small_field(g)),
     BULK, 20000, 0.75),
    ("hset-100000-fields-p10", large_hash, lambda g: (b"HSET", b"hash", large_field(g), VALUE),
     4, 20000, 0.75),
    ("hget-100000-fields-p10", large_hash, lambda g: (b"HGET", b"hash", large_field(g)),
     BULK, 20000, 0.75),
]


def measure(kind, load, options):
    """CPU nanoseconds of the server for each command."""
    _, fill_in, command, reply_bytes, count, _ = load
    options.server_flag = [*options.extra_flag, "--num_shards=1"]
    server = Server(kind, 1, options)
    try:
        filler = Connection(server.port)
        fill_in(filler)
        filler.close()
        client = Pipelines(server.port, 10, pipelined(command), DEPTH * reply_bytes)
        client.run(max(10, count // 10))
        begin = server.cpu_ns()
        client.run(count)
        spent = server.cpu_ns() - begin
        client.close()
        return spent / (count * DEPTH)
    finally:
        server.stop()


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--extra-flag", action="append", default=[], help="for our server")
    options = parser.parse_args()
    side_by_side.prepare()
    side_by_side.print_head("load", "redis-server, ns", "ours, ns")
    for load in LOADS:
        if options.only not in load[0]:
            continue
        if options.quick:
            load = (*load[:4], max(10, load[4] // 20), load[5])
        side_by_side.print_row(
            load[:1], lambda kind: measure(kind, load, options), load[5], options
        )


if __name__ == "__main__":
    side_by_side.run("data_types", main)
