# SPDX-License-Identifier: Apache-2.0
"""Strings as bits."""

import re

WEIGHT = 6
KEY = b"b"


def key(g):
    return g.key_of(KEY)


def offset(g):
    return g.rng.choice(
        [b"0", b"1", b"7", b"8", b"100", b"1000", b"2999", b"-1", b"x", b"4294967296"]
    )


def number(g):
    edges = [b"255", b"256", b"-128", b"-129", b"9223372036854775807", b"99999", b"x"]
    return g.rng.choice([b"0", b"1", b"-1", *edges])


def index(g):
    return g.rng.choice([b"0", b"1", b"3", b"-1", b"-2", b"-100", b"100", b"9223372036854775807"])


def interval(g, counts):
    unit = g.rng.choice([b"BIT", b"byte"])
    return [index(g), index(g), unit][: g.rng.choice(counts)]


def field(g):
    rng = g.rng
    kind = rng.choice([b"i", b"u"]) + rng.choice([b"1", b"5", b"8", b"16", b"32", b"63", b"64"])
    place = [kind if rng.random() < 0.97 else b"i65", rng.choice([b"", b"#"]) + offset(g)]
    return rng.choice(
        [
            [b"GET", *place],
            [b"SET", *place, number(g)],
            [b"INCRBY", *place, number(g)],
            [b"OVERFLOW", rng.choice([b"WRAP", b"sat", b"FAIL", b"no"])],
        ]
    )


def fields(g):
    return [word for _ in range(g.rng.randrange(4)) for word in field(g)]


def has_errors_of_7_2(command):
    """In arguments of BITCOUNT and BITPOS: since 7.2 they come before the look at the key."""
    words = [word.upper() for word in command]
    first = {b"BITCOUNT": 2, b"BITPOS": 3}.get(words[0])
    if first is None:
        return False
    interval = words[first:]
    if len(interval) > 3 or (first == 2 and len(interval) == 1):
        return True
    is_unit_good = len(interval) < 3 or interval[2] in (b"BIT", b"BYTE")
    return not is_unit_good or not all(is_integer(word) for word in interval[:2])


def is_integer(word):
    return bool(re.fullmatch(rb"0|-?[1-9]\d*", word)) and -(2**63) <= int(word) < 2**63


def saturates_far_below(command):
    """docs/differences.md: redis-server's sum overflows there."""
    return command[0].upper() == b"BITFIELD" and b"-9223372036854775808" in command


EXCLUDED = [has_errors_of_7_2, saturates_far_below]

COMMANDS = [
    (2, lambda g: [b"SETBIT", key(g), offset(g), g.rng.choice([b"0", b"1", b"1", b"2"])]),
    (1, lambda g: [b"GETBIT", key(g), offset(g)]),
    (1, lambda g: [b"BITCOUNT", key(g), *interval(g, (0, 2, 2, 3))]),
    (
        1,
        lambda g: [
            b"BITPOS",
            key(g),
            g.rng.choice([b"0", b"1", b"1", b"2"]),
            *interval(g, (0, 1, 2, 3)),
        ],
    ),
    (
        2,
        lambda g: [
            b"BITOP",
            g.rng.choice([b"AND", b"or", b"XOR", b"NOT", b"NAND"]),
            key(g),
            *g.times(lambda: key(g), (1, 1, 2, 3)),
        ],
    ),
    (2, lambda g: [g.rng.choice([b"BITFIELD", b"BITFIELD", b"BITFIELD_RO"]), key(g), *fields(g)]),
    (1, lambda g: [b"SET", key(g), g.rng.choice([b"", b"foobar", b"123", b"\x7f" * 40, b"-5"])]),
    (1, lambda g: [g.rng.choice([b"GET", b"STRLEN"]), key(g)]),
    (1, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
]
