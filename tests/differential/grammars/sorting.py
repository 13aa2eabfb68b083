# SPDX-License-Identifier: Apache-2.0
"""SORT, of lists and sets: of a packed sorted set it makes a table there, which OBJECT ENCODING
tells. By text only where the order is compared elsewhere: strcoll stops at a NUL."""

from . import lists, sets

WEIGHT = 2
PREFIX = b"o"  # of keys that nobody else writes


def key(g):
    return g.few(PREFIX, 6)


def pattern(g):
    return g.rng.choice([b"k*", b"h*->f1", b"h*->f*", b"#", b"nosort", b"*", b"s*", b"k*->", b""])


def order(g):
    if g.rng.random() < 0.3:
        return [b"ALPHA", *g.maybe(b"DESC")]
    limit = g.maybe(b"LIMIT", g.index(), g.index())
    return [*g.maybe(b"BY", g.rng.choice([b"k*", b"h*->f1", b"none*"])), *g.maybe(b"DESC"), *limit]


def has_no_order(command):
    """BY without a star keeps the order of a set's table. ALPHA with other keys has ties."""
    words = [word.upper() for word in command]
    if words[0] not in (b"SORT", b"SORT_RO"):
        return False
    bys = [by for name, by in zip(words, words[1:]) if name == b"BY"]
    if any(b"*" not in by for by in bys):
        return True
    return b"ALPHA" in words and (bys or b"LIMIT" in words or b"STORE" in words or b"GET" in words)


def before(command):
    """redis-server's SORT takes the ERANGE that an earlier command left behind for its own; this
    one clears it."""
    if command[0].upper() in (b"SORT", b"SORT_RO"):
        return [[b"GEORADIUS_RO", b"none", b"0", b"0", b"1", b"m"]]
    return []


EXCLUDED = [has_no_order]

COMMANDS = [
    (1, lambda g: [b"RPUSH", key(g), *lists.elements(g)]),
    (1, lambda g: [b"SADD", key(g), *sets.elements(g)]),
    (0.3, lambda g: [b"DEL", key(g)]),
    (3, lambda g: [b"SORT", key(g), *order(g)]),
    (1, lambda g: [b"SORT_RO", key(g), *order(g)]),
    (2, lambda g: [b"SORT", key(g), *g.maybe(b"BY", b"none*"), b"GET", pattern(g), b"GET", b"#"]),
    (1, lambda g: [b"SORT", key(g), b"STORE", key(g), *g.maybe(b"GET", pattern(g))]),
]
