# SPDX-License-Identifier: Apache-2.0
"""Hashes. The deadlines of fields are newer than the reference; their tests are elsewhere."""

WEIGHT = 10
KEY = b"h"


def key(g):
    return g.key_of(KEY)


def field(g):
    rng = g.rng
    if rng.random() < 0.9:
        return g.few(b"f", 10)
    return rng.choice([b"", b"1", b"-7", b"x" * 64, b"x" * 65, g.value()])


def fields(g):
    return g.times(lambda: field(g))


def pairs(g):
    return g.flat(lambda: field(g), g.value)


COMMANDS = [
    (4, lambda g: [g.rng.choice([b"HSET", b"HSET", b"HMSET"]), key(g), *pairs(g)]),
    (0.2, lambda g: [b"HSET", key(g), *g.flat(lambda: field(g), g.value, counts=(30, 130, 600))]),
    (2, lambda g: [b"HSET", key(g), field(g), g.small()]),
    (1, lambda g: [b"HSETNX", key(g), field(g), g.value()]),
    (3, lambda g: [g.rng.choice([b"HGET", b"HEXISTS", b"HSTRLEN"]), key(g), field(g)]),
    (3, lambda g: [g.rng.choice([b"HLEN", b"HGETALL", b"HKEYS", b"HVALS", b"HRANDFIELD"]), key(g)]),
    (1, lambda g: [b"HMGET", key(g), *fields(g)]),
    (2, lambda g: [b"HDEL", key(g), *fields(g)]),
    (1, lambda g: [b"HINCRBY", key(g), field(g), g.small()]),
    (1, lambda g: [b"HINCRBYFLOAT", key(g), field(g), g.floating()]),
    (
        1,
        lambda g: [
            b"HRANDFIELD",
            key(g),
            g.index(),
            *g.rng.choice([[], [b"WITHVALUES"], [b"withvalues"], [b"WHAT"]]),
        ],
    ),
    (
        1,
        lambda g: [
            b"HSCAN",
            key(g),
            g.rng.choice([b"0", b"0", b"x", b""]),
            *g.scan_options(b"f?"),
        ],
    ),
    (1, lambda g: [b"HSCAN", key(g), b"0", *g.maybe(b"MATCH", b"f?"), b"COUNT", b"10000"]),
    (1, lambda g: g.rng.choice([[b"TYPE", key(g)], [b"OBJECT", b"ENCODING", key(g)]])),
]
