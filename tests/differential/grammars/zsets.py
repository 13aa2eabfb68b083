# SPDX-License-Identifier: Apache-2.0
"""Sorted sets. Those of `KEY_LEX` have one score, as ranges by lexicographical order need."""

WEIGHT = 14
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


def only_lex(command):
    """What gives a set for ranges by lexicographical order a second score: their order is open."""
    if not any(word.startswith(KEY_LEX) for word in command[1:]):
        return False
    name = command[0].upper()
    if name == b"ZADD":
        return len(command) < 4 or any(word != b"7" for word in command[2::2])
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
    (1, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
]
