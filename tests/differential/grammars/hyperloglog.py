# SPDX-License-Identifier: Apache-2.0
"""HyperLogLog. Its bytes are the same here and there, so GET compares all of it."""

WEIGHT = 4
KEY = b"p"


def key(g):
    return g.few(KEY)


def source(g):
    return g.key_of(KEY)


def element(g):
    return b"e%d" % g.rng.randrange(20_000)


def changes_bytes(command):
    """What other commands write into one, and what makes one where they may. Of one that has become
    corrupt, not the same is kept (docs/differences.md)."""
    name = command[0].upper()
    is_own = [word.startswith(KEY) for word in command[1:]]
    if name in (b"SETRANGE", b"SETBIT", b"BITFIELD", b"APPEND"):
        return any(is_own[:1])
    if name in (b"RENAME", b"RENAMENX", b"COPY"):
        return any(is_own[:1]) and not any(is_own[1:2])
    if name in (b"PFADD", b"PFMERGE"):
        return not any(is_own[:1])
    return name == b"BITOP" and any(is_own)


EXCLUDED = [changes_bytes]

COMMANDS = [
    (4, lambda g: [b"PFADD", key(g), *g.times(lambda: element(g), (0, 1, 3, 30))]),
    (0.3, lambda g: [b"PFADD", key(g), *g.times(lambda: element(g), (300, 1000))]),
    (1, lambda g: [b"PFADD", key(g), *g.times(g.element)]),
    (3, lambda g: [b"PFCOUNT", *g.times(lambda: source(g), (1, 1, 2, 4))]),
    (2, lambda g: [b"PFMERGE", key(g), *g.times(lambda: source(g), (0, 1, 2, 3))]),
    (2, lambda g: [b"GET", key(g)]),
    (0.5, lambda g: [b"STRLEN", key(g)]),
    (0.5, lambda g: [b"PFDEBUG", g.rng.choice([b"ENCODING", b"DECODE", b"TODENSE"]), key(g)]),
    (0.5, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
    (0.5, lambda g: [b"DEL", key(g)]),
]
