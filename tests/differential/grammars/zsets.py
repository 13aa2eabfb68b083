# SPDX-License-Identifier: Apache-2.0
"""Sorted sets. Those of `KEY_LEX` have one score, as ranges by lexicographical order need."""

from . import sets
from .lists import timeout

WEIGHT = 24
KEY = b"z"
KEY_LEX = b"zl"


def key(g):
    return g.key_of(KEY)


def key_lex(g):
    return g.few(KEY_LEX, 3)


def member(g):
    rng = g.rng
    if rng.random() < 0.85:
        return b"m%d" % rng.randrange(rng.choice([12, 300]))
    return rng.choice([b"", b"5", b"x" * 63, b"x" * 64, b"x" * 65, g.value()])


def members(g):
    return g.times(lambda: member(g))


def score(g):
    rng = g.rng
    if rng.random() < 0.8:
        return b"%d" % rng.randrange(20)
    return rng.choice([g.floating(), b"(1", b"17179869184", b"-0", b"0.3333333333333333"])


def score_bound(g):
    bound = g.rng.choice([b"-inf", b"+inf", b"inf", score(g), score(g), score(g)])
    return b"(" + bound if g.rng.random() < 0.3 else bound


def lex_bound(g):
    kinds = [b"-", b"+", b"[", b"(", b"x", b"", b"[" + member(g), b"(" + member(g), b"[m1"]
    return g.rng.choices(kinds, weights=[5, 5, 1, 1, 1, 1, 6, 6, 3])[0]


def limit(g):
    return g.maybe(b"LIMIT", g.index(), g.index())


def add(g):
    options = g.some([b"NX"], [b"XX"], [b"GT"], [b"LT"], [b"CH"], [b"INCR"], [b"WHAT"])
    options = options if g.rng.random() < 0.4 else []
    return [b"ZADD", key(g), *options, *g.flat(lambda: score(g), lambda: member(g))]


def range_by(g):
    by, bound = g.rng.choice([([], g.index), ([b"BYSCORE"], lambda: score_bound(g))])
    options = [*by, *g.some([b"REV"], [b"WITHSCORES"]), *limit(g)]
    return [b"ZRANGE", key(g), bound(), bound(), *options]


def range_by_lex(g):
    options = [*g.some([b"REV"], [b"WITHSCORES"]), *limit(g)]
    return [b"ZRANGE", key_lex(g), lex_bound(g), lex_bound(g), b"BYLEX", *options]


def source(g):
    """A sorted set, or a set."""
    return key(g) if g.rng.random() < 0.7 else sets.key(g)


def counted(g, most=4):
    """A number and so many keys; sometimes not so many."""
    keys = [source(g) for _ in range(g.rng.randint(1, most))]
    return [b"%d" % len(keys) if g.rng.random() < 0.95 else g.index(), *keys]


def combining(g, keys, withscores):
    weights = [g.rng.choice([b"1", b"2", b"-3", b"0", b"inf", b"x", b"nan"]) for _ in keys[1:]]
    if g.rng.random() < 0.05:
        weights.pop()
    how = g.rng.choice([b"sum", b"MIN", b"MAX", b"SUM", b"MAX", b"avg"])
    return [
        *g.maybe(g.rng.choice([b"WEIGHTS", b"weights"]), *weights, chance=0.4),
        *g.maybe(b"AGGREGATE", how, chance=0.4),
        *g.maybe(b"WITHSCORES", chance=withscores),
    ]


def operation(g):
    name, keys = g.rng.choice([b"ZUNION", b"ZINTER", b"ZDIFF"]), counted(g)
    stores = g.rng.random() < 0.5
    start = [name + b"STORE", key(g), *keys] if stores else [name, *keys]
    if name == b"ZDIFF" and g.rng.random() < 0.9:
        return [*start, *g.maybe(b"WITHSCORES", chance=0.02 if stores else 0.7)]
    return [*start, *combining(g, keys, 0.05 if stores else 0.7)]


def range_store(g):
    return [b"ZRANGESTORE", key(g), *(range_by(g) if g.rng.random() < 0.7 else range_by_lex(g))[1:]]


def pop_many(g):
    return [*counted(g), g.rng.choice([b"MIN", b"max"]), *g.maybe(b"COUNT", g.index(), chance=0.5)]


def only_lex(command):
    """What gives a set for ranges by lexicographical order a second score: their order is open."""
    if not any(word.startswith(KEY_LEX) for word in command[1:]):
        return False
    name = command[0].upper()
    if name == b"ZADD":
        return len(command) < 4 or any(word != b"7" for word in command[2::2])
    if name == b"ZRANGESTORE" and not any(word.startswith(KEY_LEX) for word in command[1:2]):
        return False
    # Anything else that may write to such a key. No command that only reads begins like these.
    return name not in READS_LEX


READS_LEX = {
    *[b"ZRANGE", b"ZRANGEBYLEX", b"ZREVRANGEBYLEX", b"ZLEXCOUNT", b"ZREMRANGEBYLEX", b"ZCARD"],
    *[b"ZREM", b"DEL", b"TYPE", b"EXISTS"],
}

EXCLUDED = [only_lex]

COMMANDS = [
    (6, add),
    (
        0.2,
        lambda g: [
            b"ZADD",
            key(g),
            *g.flat(lambda: score(g), lambda: member(g), counts=(100, 130, 400)),
        ],
    ),
    (2, lambda g: [b"ZADD", key_lex(g), *g.flat(lambda: b"7", lambda: member(g))]),
    (1, lambda g: [b"ZINCRBY", key(g), score(g), member(g)]),
    (2, lambda g: [g.rng.choice([b"ZSCORE", b"ZRANK", b"ZREVRANK"]), key(g), member(g)]),
    (1, lambda g: [b"ZMSCORE", key(g), *members(g)]),
    (2, lambda g: [b"ZREM", key(g), *members(g)]),
    (1, lambda g: [b"ZCARD", key(g)]),
    (1, lambda g: [b"ZCOUNT", key(g), score_bound(g), score_bound(g)]),
    (1, lambda g: [b"ZLEXCOUNT", key_lex(g), lex_bound(g), lex_bound(g)]),
    (3, range_by),
    (2, range_by_lex),
    (
        2,
        lambda g: [
            g.rng.choice([b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE"]),
            key(g),
            score_bound(g),
            score_bound(g),
            *g.some([b"WITHSCORES"], [b"REV"], chance=0.2),
            *limit(g),
        ],
    ),
    (
        1,
        lambda g: [
            g.rng.choice([b"ZRANGEBYLEX", b"ZREVRANGEBYLEX"]),
            key_lex(g),
            lex_bound(g),
            lex_bound(g),
            *limit(g),
        ],
    ),
    (1, lambda g: [b"ZREVRANGE", key(g), g.index(), g.index(), *g.maybe(b"WITHSCORES")]),
    (1, lambda g: [b"ZREMRANGEBYRANK", key(g), g.index(), g.index()]),
    (1, lambda g: [b"ZREMRANGEBYSCORE", key(g), score_bound(g), score_bound(g)]),
    (1, lambda g: [b"ZREMRANGEBYLEX", key_lex(g), lex_bound(g), lex_bound(g)]),
    (2, lambda g: [g.rng.choice([b"ZPOPMIN", b"ZPOPMAX"]), key(g), *g.maybe(g.index())]),
    (
        1,
        lambda g: [
            b"ZRANDMEMBER",
            key(g),
            *g.maybe(g.index(), *g.maybe(b"WITHSCORES"), chance=0.7),
        ],
    ),
    (6, operation),
    (2, range_store),
    (1, lambda g: [b"ZINTERCARD", *counted(g), *g.maybe(b"LIMIT", g.index(), chance=0.5)]),
    (1, lambda g: [b"ZMPOP", *pop_many(g)]),
    (
        0.5,
        lambda g: [
            g.rng.choice([b"BZPOPMIN", b"BZPOPMAX"]),
            *g.times(lambda: key(g), (1, 2, 3)),
            timeout(g),
        ],
    ),
    (0.5, lambda g: [b"BZMPOP", timeout(g), *pop_many(g)]),
    (1, lambda g: [b"ZSCAN", key(g), b"0", *g.maybe(b"MATCH", b"m1*"), b"COUNT", b"10000"]),
    (0.5, lambda g: [b"ZSCAN", key(g), g.rng.choice([b"0", b"x"]), *g.scan_options(b"m?")]),
    (1, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
]
