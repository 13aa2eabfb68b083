# SPDX-License-Identifier: Apache-2.0

WEIGHT = 10
KEY = b"l"
SHORTEST_WAIT = b"0.001"


def key(g):
    return g.key_of(KEY)


def elements(g):
    return g.times(g.element, (1, 1, 1, 2, 3, 8))


def end(g):
    return g.rng.choices(
        [b"LEFT", b"RIGHT", b"left", b"Right", b"BEFORE", b""], weights=[9, 9, 3, 3, 1, 1]
    )[0]


def position_option(g):
    name = g.rng.choices([b"RANK", b"COUNT", b"MAXLEN", b"rank", b"WHAT"], weights=[6, 6, 4, 2, 1])
    return [name[0], g.index()]


def timeout(g):
    return g.rng.choice([SHORTEST_WAIT] * 12 + [b"-1", b"x", b"", b"inf", b"nan", b"1e400"])


def waits_long(command):
    """A blocking command whose timeout a mutation has made long: it would end, but not today. Or
    one that is less than a millisecond below zero, which 7.0 rounds to zero."""
    name = command[0].upper()
    if not name.startswith(b"B") or name.startswith(b"BIT"):
        return False
    at = 1 if name in (b"BLMPOP", b"BZMPOP") else -1
    try:
        word = command[at].decode("ascii")
        seconds = float.fromhex(word) if "x" in word.lower() else float(word)
        return not 0 < seconds <= float(SHORTEST_WAIT) and seconds > -0.01
    except (ValueError, IndexError, OverflowError):
        return False


EXCLUDED = [waits_long, lambda c: c[0].upper() == b"LPOS" and b"-9223372036854775808" in c]

COMMANDS = [
    (
        6,
        lambda g: [
            g.rng.choice([b"LPUSH", b"RPUSH", b"LPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX"]),
            key(g),
            *elements(g),
        ],
    ),
    (0.2, lambda g: [b"RPUSH", key(g), *g.times(g.element, (100, 130, 600))]),
    (2, lambda g: [g.rng.choice([b"LPOP", b"RPOP"]), key(g), *g.maybe(g.index())]),
    (1, lambda g: [b"LLEN", key(g)]),
    (1, lambda g: [b"LINDEX", key(g), g.index()]),
    (1, lambda g: [b"LSET", key(g), g.index(), g.element()]),
    (
        1,
        lambda g: [
            b"LINSERT",
            key(g),
            g.rng.choice([b"BEFORE", b"AFTER", b"after", b"Before", b"LEFT"]),
            g.element(),
            g.element(),
        ],
    ),
    (1, lambda g: [b"LRANGE", key(g), g.index(), g.index()]),
    (1, lambda g: [b"LRANGE", key(g), b"0", b"-1"]),
    (1, lambda g: [b"LREM", key(g), g.index(), g.element()]),
    (1, lambda g: [b"LTRIM", key(g), g.index(), g.index()]),
    (2, lambda g: [b"LTRIM", key(g), b"0", b"40"]),
    (
        2,
        lambda g: [
            b"LPOS",
            key(g),
            g.element(),
            *[x for _ in range(g.rng.randrange(4)) for x in position_option(g)],
        ],
    ),
    (1, lambda g: [b"LMOVE", key(g), key(g), end(g), end(g)]),
    (1, lambda g: [b"RPOPLPUSH", key(g), key(g)]),
    (1, lambda g: [b"LMPOP", b"2", key(g), key(g), end(g), b"COUNT", g.index()]),
    (1, lambda g: [b"LMPOP", g.index(), key(g), end(g)]),
    (1, lambda g: [g.rng.choice([b"BLPOP", b"BRPOP"]), *g.times(lambda: key(g)), timeout(g)]),
    (1, lambda g: [b"BLMOVE", key(g), key(g), end(g), end(g), timeout(g)]),
    (1, lambda g: [b"BRPOPLPUSH", key(g), key(g), timeout(g)]),
    (1, lambda g: [b"BLMPOP", timeout(g), b"2", key(g), key(g), end(g), *g.maybe(b"COUNT", b"2")]),
    (1, lambda g: [b"TYPE", key(g)]),
]
