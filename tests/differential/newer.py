# SPDX-License-Identifier: Apache-2.0
"""A family (see grammar.py) of commands that redis-server 7.0 does not have, and Valkey 9.1 does.

They are sent as they are here: an option that stands there twice, or a time that is none behind a
condition that does not hold, is an error to Redis 8 and to ours, and none to Valkey."""

from .grammars import hashes
from .words import FAR, FAR_MS

WEIGHT = 1
KEY = b"h"


def key(g):
    return g.key_of(b"h")


def text_key(g):
    return g.key_of(b"k")


def few_values(g):
    return g.rng.choice([b"a", b"b", b"", b"1", b"x" * 70, b"hello"])


def far(g, words=((b"EXAT", FAR), (b"PXAT", FAR_MS))):
    """A deadline that no run of the tests sees."""
    word, times = g.rng.choice(words)
    return [word, g.rng.choice(times)]


def field_list(g):
    """FIELDS count field ..., now and then with another count."""
    fields = hashes.fields(g)
    count = len(fields) if g.rng.random() > 0.05 else g.rng.choice([0, 1, 3, -1, 9999999999])
    return [b"FIELDS", b"%d" % count, *fields]


def value_list(g):
    pairs = hashes.pairs(g)
    count = len(pairs) // 2 if g.rng.random() > 0.05 else g.rng.choice([0, 1, 3, -1])
    return [b"FIELDS", b"%d" % count, *pairs]


def any_of(g, *choices):
    return g.rng.choice(choices)


def longitude(g):
    return b"%.6f" % g.rng.uniform(10, 20)


def latitude(g):
    return b"%.6f" % g.rng.uniform(35, 42)


def corners(g):
    count = g.rng.choice([3, 3, 4, 5, 8])
    words = [x for _ in range(count) for x in (longitude(g), latitude(g))]
    told = count if g.rng.random() > 0.05 else g.rng.choice([0, 1, 2, count + 1, -1])
    return [b"BYPOLYGON", b"%d" % told, *words]


def places(g):
    return [x for _ in range(g.rng.choice([1, 3, 10]))
            for x in (longitude(g), latitude(g), b"m%d" % g.rng.randrange(200))]


def search_options(g):
    return g.some([g.rng.choice([b"ASC", b"DESC"])], [b"COUNT", g.rng.choice([b"1", b"5", b"0"])],
                  chance=0.4)


COMMANDS = [
    (2, lambda g: [b"SET", text_key(g), few_values(g), *g.maybe(*far(g))]),
    (3, lambda g: [b"SET", text_key(g), few_values(g), b"IFEQ", few_values(g),
                   *g.some([b"GET"], far(g), [b"KEEPTTL"], [b"NX"], chance=0.15)]),
    (2, lambda g: [b"DELIFEQ", text_key(g), few_values(g)]),
    (1, lambda g: [any_of(g, b"GET", b"STRLEN", b"PEXPIRETIME", b"TYPE"), text_key(g)]),
    (1, lambda g: [b"HSET", key(g), *hashes.pairs(g)]),
    (0.3, lambda g: [b"DEL", any_of(g, key(g), text_key(g))]),
    (1, lambda g: [any_of(g, b"HGETALL", b"HLEN", b"HKEYS", b"HVALS", b"EXISTS"), key(g)]),
    (1, lambda g: [b"HDEL", key(g), *hashes.fields(g)]),
    (1, lambda g: [any_of(g, b"HINCRBY", b"HSETNX"), key(g), hashes.field(g), g.small()]),
    (3, lambda g: [b"HSETEX", key(g), *g.some([any_of(g, b"NX", b"XX")],
                                              [any_of(g, b"FNX", b"FXX")], far(g), [b"KEEPTTL"]),
                   *value_list(g)]),
    (3, lambda g: [b"HGETEX", key(g), *g.maybe(*far(g)), *g.maybe(b"PERSIST", chance=0.2),
                   *field_list(g)]),
    (2, lambda g: [b"HGETDEL", key(g), *field_list(g)]),
    (2, lambda g: [b"HPEXPIREAT", key(g), g.rng.choice(FAR_MS),
                   *g.maybe(any_of(g, b"NX", b"XX", b"GT", b"LT")), *field_list(g)]),
    (1, lambda g: [b"HEXPIREAT", key(g), g.rng.choice(FAR),
                   *g.maybe(any_of(g, b"NX", b"XX", b"GT", b"LT")), *field_list(g)]),
    (1, lambda g: [any_of(g, b"HPERSIST", b"HPEXPIRETIME"), key(g),
                   *field_list(g)]),
    (1, lambda g: [b"GEOADD", g.few(b"geo", 2), *places(g)]),
    (2, lambda g: [b"GEOSEARCH", g.few(b"geo", 3), *corners(g), *search_options(g),
                   *g.some([b"WITHCOORD"], [b"WITHHASH"])]),
    (1, lambda g: [b"GEOSEARCHSTORE", g.few(b"near", 2), g.few(b"geo", 3), *corners(g)]),
    (1, lambda g: [b"ZRANGE", g.few(b"near", 2), b"0", b"-1", b"WITHSCORES"]),
]
