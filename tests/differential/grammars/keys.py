# SPDX-License-Identifier: Apache-2.0
"""Commands about keys of any type."""

from ..words import INTS, NOW_MS, ODD

WEIGHT = 10


def database(g):
    choice = [b"0", b"1", b"16", b"-1", b"x", b"3000000000"]
    return g.rng.choices(choice, weights=[9, 9, 1, 1, 1, 1])[0]


def is_short_lived(command):
    """A deadline in the near future: the two servers would pass it at different commands. Or one of
    SET in the past: redis-server sets such a key and DBSIZE counts it until somebody notices."""
    name = command[0].upper()
    candidates = []  # (argument, its unit in milliseconds, what is far enough)
    if name in (b"EXPIRE", b"SETEX"):
        candidates = [(argument, 1000, 90_000) for argument in command[2:3]]
    elif name in (b"PEXPIRE", b"PSETEX"):
        candidates = [(argument, 1, 90_000) for argument in command[2:3]]
    elif name in (b"SET", b"GETEX"):
        for option, argument in zip(command, command[1:]):
            unit_ms = 1000 if option.upper() in (b"EX", b"EXAT") else 1
            is_absolute = option.upper() in (b"EXAT", b"PXAT")
            candidates.append((argument, unit_ms, NOW_MS if is_absolute else 90_000))
    for argument, unit_ms, far_ms in candidates:
        try:
            if 0 < int(argument) * unit_ms < far_ms:
                return True
        except ValueError:
            pass
    return False


def depends_on_the_clock(command):
    """GT and LT of a relative deadline: whether the same one again is later, is a question of the
    millisecond in which each server gets to it."""
    if command[0].upper() not in (b"EXPIRE", b"PEXPIRE") or len(command) < 4:
        return False
    try:
        is_valid = int(command[2]) > 0
    except ValueError:
        is_valid = False
    return is_valid and any(word.upper() in (b"GT", b"LT") for word in command[3:])


EXCLUDED = [is_short_lived, depends_on_the_clock]

COMMANDS = [
    (2, lambda g: [b"DEL", *g.times(g.any_key, (1, 1, 1, 3))]),
    (1, lambda g: [b"UNLINK", g.any_key()]),
    (1, lambda g: [b"EXISTS", *g.times(g.any_key, (1, 2, 4))]),
    (1, lambda g: [b"TOUCH", *g.times(g.any_key, (1, 2, 4))]),
    (1, lambda g: [b"EXPIRE", g.any_key(), g.rng.choice([b"0", b"-1", b"x", b"10000"])]),
    (1, lambda g: [b"EXPIREAT", g.any_key(), g.deadline(), *g.conditions()]),
    (1, lambda g: [b"PEXPIREAT", g.any_key(), g.deadline_ms(), *g.conditions()]),
    (1, lambda g: [b"PEXPIREAT", g.any_key(), g.rng.choice(INTS), *g.conditions()]),
    (1, lambda g: [b"EXPIRE", g.any_key(), g.rng.choice(INTS[7:]), *g.conditions()]),
    (
        1,
        lambda g: [
            g.rng.choice([b"EXPIREAT", b"PEXPIREAT", b"EXPIRE", b"PEXPIRE"]),
            g.any_key(),
            g.rng.choice([b"33177117420", b"33177117420000", b"-5", b"x"]),
            *g.rng.choices([b"NX", b"XX", b"GT", b"LT", *ODD], k=g.rng.randint(1, 4)),
        ],
    ),
    (1, lambda g: [b"PERSIST", g.any_key()]),
    (2, lambda g: [b"TYPE", g.any_key()]),
    (1, lambda g: [b"DBSIZE"]),
    (2, lambda g: [b"RENAME", g.any_key(), g.any_key()]),
    (1, lambda g: [b"RENAMENX", g.any_key(), g.any_key()]),
    (2, lambda g: [b"COPY", g.any_key(), g.any_key(), *g.maybe(b"REPLACE", chance=0.5)]),
    (
        1,
        lambda g: [
            b"COPY",
            g.any_key(),
            g.any_key(),
            *[x for _ in range(g.rng.randrange(3)) for x in (b"DB", database(g))],
            *g.rng.choice([[], [b"REPLACE"], [b"replace"], [b"DB"], [b"WHAT"]]),
        ],
    ),
    (1, lambda g: [b"MOVE", g.any_key(), database(g)]),
    (0.3, lambda g: [b"SWAPDB", database(g), database(g)]),
    (1, lambda g: [g.rng.choice([b"EXPIRETIME", b"PEXPIRETIME"]), g.any_key()]),
    (1, lambda g: [b"OBJECT", g.rng.choice([b"REFCOUNT", b"WHAT", b"help "]), b"missing"]),
    (
        2,
        lambda g: [
            b"OBJECT",
            g.rng.choice([b"ENCODING", b"ENCODING", b"FREQ", b"REFCOUNT"]),
            g.any_key(),
        ],
    ),
    (0.5, lambda g: [b"KEYS", g.rng.choice([b"nothing*", b"", b"k[", b"\\"])]),
    (0.5, lambda g: [b"SCAN", g.rng.choice([b"x", b"", b"-"]), b"COUNT", g.small()]),
    (0.5, lambda g: [b"SCAN", b"0", g.rng.choice([b"COUNT", b"MATCH", b"WHAT"])]),
]

VERBATIM = [
    (1, lambda g: [b"FLUSHDB", g.odd(), *g.odds(1)]),
    (0.05, lambda g: [b"FLUSHDB"]),
    (0.05, lambda g: [b"FLUSHDB", g.rng.choice([b"SYNC", b"ASYNC"])]),
    (1, lambda g: [b"FLUSHDB", g.rng.choice([b"SYNC", b"ASYNC"]), g.odd()]),
    (1, lambda g: [b"FLUSHALL", g.rng.choice([b"WHAT", b"", b"SYNC ASYNC"])]),
    (1, lambda g: [b"SCAN", *g.odds(4)]),
    (
        2,
        lambda g: [
            b"SCAN",
            b"0",
            *g.rng.choice(
                [
                    *[[b"COUNT", b"0"], [b"COUNT", b"x"], [b"TYPE"], [b"TYPE", b"nosuch"]],
                    *[[b"MATCH", b"a", b"COUNT"], [b"COUNT", b"1", b"COUNT", b"-1"]],
                    [b"MATCH", b"*", b"MATCH"],
                ]
            ),
        ],
    ),
    (1, lambda g: [b"KEYS", *g.odds(2)]),
    (1, lambda g: [b"RANDOMKEY", g.odd()]),
    (1, lambda g: [b"DBSIZE", g.odd()]),
    (1, lambda g: [b"OBJECT", *g.odds(4)]),
    (
        1,
        lambda g: [
            b"OBJECT",
            g.rng.choice([b"ENCODING", b"FREQ", b"REFCOUNT", b"IDLETIME", b"HELP"]),
            *g.rng.choice([[], [b"missing"], [b"missing", b"more"], [b""]]),
        ],
    ),
]
