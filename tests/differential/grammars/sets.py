# SPDX-License-Identifier: Apache-2.0

WEIGHT = 10
KEY = b"s"


def key(g):
    return g.key_of(KEY)


def elements(g):
    return g.times(g.element, (1, 1, 1, 2, 3, 8))


def keys(g, low=2, high=5):
    return [key(g) for _ in range(g.rng.randint(low, high))]


def pops_at_random(command):
    """SPOP of some of a set's members: each server takes its own."""
    if command[0].upper() != b"SPOP" or len(command) not in (2, 3):
        return False
    try:
        return len(command) == 2 or 0 < int(command[2]) < 10_000
    except ValueError:
        return False


EXCLUDED = [pops_at_random]

COMMANDS = [
    (3, lambda g: [b"SADD", key(g), *elements(g)]),
    (2, lambda g: [b"SADD", key(g), *[b"%d" % g.rng.randrange(30) for _ in range(6)]]),
    (0.2, lambda g: [b"SADD", key(g), *g.times(lambda: g.integer(0, 9999), (100, 130, 520))]),
    (0.2, lambda g: [b"SADD", key(g), *g.times(lambda: g.few(b"m", 300), (100, 130, 520))]),
    (2, lambda g: [b"SREM", key(g), *elements(g)]),
    (1, lambda g: [b"SISMEMBER", key(g), g.element()]),
    (1, lambda g: [b"SMISMEMBER", key(g), *elements(g)]),
    (2, lambda g: [b"SMEMBERS", key(g)]),
    (1, lambda g: [b"SPOP", key(g), g.rng.choice([b"0", b"-1", b"x", b"", b"10000"])]),
    (1, lambda g: [b"SRANDMEMBER", key(g), *g.maybe(g.index(), chance=0.7)]),
    (1, lambda g: [b"SSCAN", key(g), b"0", *g.maybe(b"MATCH", b"[0-3]*"), b"COUNT", b"10000"]),
    (1, lambda g: [b"SSCAN", key(g), g.rng.choice([b"0", b"x"]), *g.scan_options(b"m?")]),
    (1, lambda g: [b"SMOVE", key(g), key(g), g.element()]),
    (3, lambda g: [g.rng.choice([b"SINTER", b"SUNION", b"SDIFF"]), *keys(g, 1, 5)]),
    (
        3,
        lambda g: [g.rng.choice([b"SINTERSTORE", b"SUNIONSTORE", b"SDIFFSTORE"]), *keys(g)],
    ),
    (1, lambda g: [b"SINTERCARD", b"2", key(g), key(g), *g.maybe(b"LIMIT", g.index())]),
    (1, lambda g: [b"SINTERCARD", g.index(), key(g), key(g)]),
    (1, lambda g: [g.rng.choice([b"TYPE", b"SCARD"]), key(g)]),
    (1, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
]
