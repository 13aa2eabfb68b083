# SPDX-License-Identifier: Apache-2.0
"""HyperLogLog. Its bytes are the same here and there, so GET compares all of it."""

WEIGHT = 4
KEY = b"p"


def key(g):
    return g.key_of(KEY)


def element(g):
    return b"e%d" % g.rng.randrange(20_000)


def changes_bytes(command):
    """What is written into one by other commands than its own. redis-server trusts its bytes."""
    name = command[0].upper()
    if name in (b"SETRANGE", b"SETBIT", b"BITFIELD", b"APPEND"):
        return any(word.startswith(KEY) for word in command[1:2])
    return False


EXCLUDED = [changes_bytes]

COMMANDS = [
    (4, lambda g: [b"PFADD", key(g), *g.times(lambda: element(g), (0, 1, 3, 30))]),
    (0.3, lambda g: [b"PFADD", key(g), *g.times(lambda: element(g), (300, 1000))]),
    (1, lambda g: [b"PFADD", key(g), *g.times(g.element)]),
    (3, lambda g: [b"PFCOUNT", *g.times(lambda: key(g), (1, 1, 2, 4))]),
    (2, lambda g: [b"PFMERGE", key(g), *g.times(lambda: key(g), (0, 1, 2, 3))]),
    (2, lambda g: [b"GET", key(g)]),
    (0.5, lambda g: [b"STRLEN", key(g)]),
    (0.5, lambda g: [b"PFDEBUG", g.rng.choice([b"ENCODING", b"DECODE", b"TODENSE"]), key(g)]),
    (0.5, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
    (0.5, lambda g: [b"DEL", key(g)]),
]
