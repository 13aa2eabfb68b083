# SPDX-License-Identifier: Apache-2.0

from ..words import INTS

WEIGHT = 14
KEY = b"k"


def key(g):
    return g.few(KEY, 25)


def keys(g, counts=(1, 2, 4, 8)):
    return g.times(lambda: key(g), counts)


def offset(g):
    if g.rng.random() < 0.85:
        return b"%d" % g.rng.randrange(0, 60)
    return g.rng.choice([i for i in INTS if i != b"4294967296"])


def expire_option(g, extra=()):
    rng = g.rng
    kind = rng.randrange(8)
    if kind == 0:
        return [b"EXAT", g.deadline()]
    if kind in (1, 2):
        return [b"PXAT", g.deadline_ms()]
    if kind == 3:
        return [
            rng.choice([b"EX", b"PX", b"EXAT", b"PXAT"]),
            rng.choice([b"0", b"-1", b"abc", b"", b"9223372036854775807", b"1.0"]),
        ]
    if kind == 4:
        return [rng.choice([b"EX", b"PX", b"NX ", b"WHAT", b""])]
    return [rng.choice([b"NX", b"XX", b"GET", b"KEEPTTL", b"nx", b"Get", *extra])]


def any_options(g, name, words, most):
    deadlines = [b"100000", b"33177117420", b"33177117420000", b"0", b"-1", b"x"]
    return [*name, *g.rng.choices([*words, *deadlines], k=g.rng.randint(1, most))]


EXPIRES = [b"EX", b"PX", b"EXAT", b"PXAT"]

COMMANDS = [
    (3, lambda g: [b"GET", key(g)]),
    (2, lambda g: [b"SET", key(g), g.value()]),
    (1, lambda g: [b"SET", key(g), g.value(), *expire_option(g)]),
    (1, lambda g: [b"SET", key(g), g.value(), *expire_option(g), *expire_option(g)]),
    (1, lambda g: [b"SETNX", key(g), g.value()]),
    (1, lambda g: [b"SETEX", key(g), g.rng.choice([b"1000", b"0", b"-1", b"x"]), g.value()]),
    (1, lambda g: [b"PSETEX", key(g), g.rng.choice([b"100000", b"0", b"-1", b"x"]), g.value()]),
    (1, lambda g: [b"GETSET", key(g), g.value()]),
    (1, lambda g: [b"GETDEL", key(g)]),
    (1, lambda g: [b"GETEX", key(g), *expire_option(g, (b"PERSIST", b"PERSIST"))]),
    (1, lambda g: [b"GETEX", key(g), *expire_option(g, (b"PERSIST",)), *expire_option(g)]),
    (1, lambda g: [b"GETEX", key(g)]),
    (1, lambda g: [b"APPEND", key(g), g.value()]),
    (1, lambda g: [b"STRLEN", key(g)]),
    (1, lambda g: [b"SETRANGE", key(g), offset(g), g.value()]),
    (2, lambda g: [g.rng.choice([b"GETRANGE", b"SUBSTR"]), key(g), g.small(), g.small()]),
    (1, lambda g: [g.rng.choice([b"INCR", b"DECR"]), key(g)]),
    (1, lambda g: [g.rng.choice([b"INCRBY", b"DECRBY"]), key(g), g.small()]),
    (1, lambda g: [b"INCRBYFLOAT", key(g), g.floating()]),
    (1, lambda g: [b"LCS", key(g), key(g)]),
    (
        1,
        lambda g: [
            b"LCS",
            key(g),
            key(g),
            *g.rng.choices([b"LEN", b"IDX", b"WITHMATCHLEN"], k=g.rng.randint(1, 2)),
            *g.maybe(b"MINMATCHLEN", g.small(), chance=0.5),
        ],
    ),
    (1, lambda g: [b"MGET", *keys(g)]),
    (1, lambda g: [b"MSET", *g.flat(lambda: key(g), g.value)]),
    (1, lambda g: [b"MSETNX", *g.flat(lambda: key(g), g.value, counts=(1, 2))]),
    (1, lambda g: [b"MSETNX", b"k7", g.value(), b"k7", g.value()]),
    (
        1,
        lambda g: any_options(
            g,
            [b"SET", key(g), g.value()],
            [b"NX", b"XX", b"GET", b"KEEPTTL", b"PERSIST", *EXPIRES],
            5,
        ),
    ),
    (
        1,
        lambda g: any_options(g, [b"GETEX", key(g)], [b"PERSIST", b"KEEPTTL", *EXPIRES], 4),
    ),
    (1, lambda g: [b"GET", *g.odds()]),
    (1, lambda g: [b"SET", key(g), *g.odds()]),
]
