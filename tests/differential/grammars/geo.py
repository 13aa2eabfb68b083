# SPDX-License-Identifier: Apache-2.0
"""Places all over the earth, and many near a few of them, poles and the date line included.

No two are at the same place: who comes first of them, is not defined. So others may not write to
these keys, and nothing is searched in other sorted sets."""

WEIGHT = 8
KEY_PLACES = b"geo"
KEY_RESULT = b"near"
WRONG_TYPE = b"str"

CENTERS = [(13.361, 38.115), (179.9, 0.1), (-179.99, -60.2), (0, 0), (-73.9, 40.7), (20, 84.9)]
CENTERS += [(-100, -85), (179.999, 84.99), (0.001, -0.001), (37.6, 66.1), (37.6, -79.99)]


def source(g):
    return g.few(KEY_PLACES, 3) if g.rng.random() > 0.03 else WRONG_TYPE


def target(g):
    return g.few(KEY_RESULT, 3)


def member(g):
    return b"m%d" % g.rng.randrange(g.rng.choice([30, 1500]))


def members(g):
    return g.times(lambda: member(g), (1, 2, 4))


def coordinates(g):
    rng = g.rng
    if rng.random() < 0.02:
        odd = [b"x", b"nan", b"inf", b"", b"1e3"]
        too_far = [[b"-180", b"85.05112879"], [b"180.1", b"-85.05112878"]]
        return rng.choice([[b"-180", rng.choice(odd)], [rng.choice(odd), b"85"], *too_far])
    if rng.random() < 0.4:
        anywhere = [b"%.12f" % rng.uniform(-180, 180), b"%.12f" % rng.uniform(-85.05, 85.05)]
        edges = [b"-180", b"180", b"-85.05112878", b"85.05112878"]
        if rng.random() < 0.05:
            side = rng.randrange(4)
            anywhere[side // 2] = edges[side]
        return anywhere
    longitude, latitude = rng.choice(CENTERS)
    spread = rng.choice([0.001, 0.1, 3])
    longitude = (longitude + rng.gauss(0, spread) + 180) % 360 - 180
    latitude = max(-85.05, min(85.05, latitude + rng.gauss(0, spread)))
    return [b"%.12f" % longitude, b"%.12f" % latitude]


def places(g):
    return [x for _ in range(g.rng.choice([1, 3, 10])) for x in (*coordinates(g), member(g))]


def length(g):
    if g.rng.random() < 0.03:
        return g.rng.choice([b"x", b"-1", b"0", b"inf", b"", b"1e300"])
    return b"%.3f" % (10 ** g.rng.uniform(0, 7.4))


def unit(g):
    if g.rng.random() < 0.02:
        return g.rng.choice([b"cm", b"", b"mm"])
    return g.rng.choice([b"m", b"m", b"M", b"km", b"ft", b"mi"])


def radius(g):
    return [length(g), unit(g)]


def options(g, withs=True):
    words = []
    for word in (b"WITHDIST", b"WITHCOORD", b"withhash") if withs else ():
        words.append(g.maybe(word, chance=0.4))
    words.append(g.maybe(g.rng.choice([b"ASC", b"DESC"]), chance=0.5))
    count = b"%d" % g.rng.randint(1, 40) if g.rng.random() < 0.95 else g.index()
    words.append(g.maybe(b"COUNT", count, *g.maybe(b"ANY", chance=0.4), chance=0.5))
    g.rng.shuffle(words)
    return [word for group in words for word in group] + g.maybe(b"what", chance=0.01)


def shape(g):
    center = [b"FROMLONLAT", *coordinates(g)]
    if g.rng.random() < 0.5:
        center = [b"FROMMEMBER", member(g)]
    form = [b"BYRADIUS", *radius(g)]
    if g.rng.random() < 0.5:
        form = [b"BYBOX", length(g), *radius(g)]
    parts = [center, form]
    if g.rng.random() < 0.03:
        parts.append(g.rng.choice([center, form, [b"FROMMEMBER", b"m1"], [b"BYBOX"]]))
    if g.rng.random() < 0.02:
        parts.pop()
    g.rng.shuffle(parts)
    return [word for part in parts for word in part]


def store(g):
    return g.maybe(g.rng.choice([b"STORE", b"storedist"]), target(g), chance=0.4)


def around(g, withs):
    return [*radius(g), *options(g, withs), *store(g)]


def has_ties(command):
    """What may put two members at one place, or looks for them where they are."""
    name = command[0].upper()
    named = [at for at, word in enumerate(command) if at and word.startswith(KEY_PLACES)]
    if not name.startswith(b"GEO"):
        return bool(named) and name not in (b"ZREM", b"ZCARD", b"COMMAND")
    at = 2 if name == b"GEOSEARCHSTORE" else 1
    return len(command) > at and named != [at] and command[at] != WRONG_TYPE


EXCLUDED = [has_ties]

COMMANDS = [
    (
        8,
        lambda g: [
            b"GEOADD",
            source(g),
            *g.maybe(g.rng.choice([b"NX", b"XX", b"CH", b"ch"])),
            *places(g),
        ],
    ),
    (1, lambda g: [b"GEOADD", source(g), *coordinates(g), member(g), *coordinates(g)]),
    (1, lambda g: [b"GEODIST", source(g), member(g), member(g), *g.maybe(unit(g))]),
    (1, lambda g: [g.rng.choice([b"GEOPOS", b"GEOHASH"]), source(g), *members(g)]),
    (6, lambda g: [b"GEOSEARCH", source(g), *shape(g), *options(g)]),
    (
        2,
        lambda g: [
            b"GEOSEARCHSTORE",
            target(g),
            source(g),
            *shape(g),
            *options(g, g.rng.random() < 0.05),
            *g.maybe(b"STOREDIST"),
        ],
    ),
    (1, lambda g: [b"GEORADIUS", source(g), *coordinates(g), *around(g, True)]),
    (1, lambda g: [b"GEORADIUS", source(g), *coordinates(g), *around(g, False)]),
    (1, lambda g: [b"GEORADIUS_RO", source(g), *coordinates(g), *radius(g), *options(g)]),
    (1, lambda g: [b"GEORADIUSBYMEMBER", source(g), member(g), *around(g, False)]),
    (1, lambda g: [b"GEORADIUSBYMEMBER_RO", source(g), member(g), *around(g, True)]),
    (1, lambda g: [b"ZRANGE", target(g), b"0", b"-1", b"WITHSCORES"]),
    (1, lambda g: [b"ZREM", source(g), *members(g)]),
    (1, lambda g: [b"ZCARD", source(g)]),
    (1, lambda g: [b"OBJECT", b"ENCODING", target(g)]),
    (0.5, lambda g: [b"SET", WRONG_TYPE, b"x"]),
    (1, lambda g: [b"COMMAND", b"GETKEYS", b"GEORADIUS", b"k", b"1", b"1", b"1", b"m", *store(g)]),
]
