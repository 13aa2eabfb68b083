# SPDX-License-Identifier: Apache-2.0
"""Streams, with ids that mostly grow. Ids made by the clock are excluded, and idle times that are
neither none nor longer than any run: XCLAIM's TIME and IDLE make the others."""

import re

WEIGHT = 16
KEY = b"x"
GROUPS = [b"g1", b"g1", b"g2"]
CONSUMERS = [b"c1", b"c2", b"c3"]
MOST = b"18446744073709551615-18446744073709551615"
LONG_MS = 1_000_000
NEWEST = b"7777777"  # the end of an id that XSETID sets, above all others of its millisecond


def key(g):
    return g.few(KEY, 4) if g.rng.random() > 0.03 else g.any_key()


def keys(g, counts):
    return g.times(lambda: key(g), counts)


def place(g):
    return [key(g), g.rng.choice(GROUPS)]


def consumer(g):
    return g.rng.choice(CONSUMERS)


def top(g):
    """The newest ids are here; it moves on. The grammar has nothing else that it remembers."""
    g.stream_top = getattr(g, "stream_top", 0) + g.rng.choice([0, 1, 1, 1, 7, 300])
    return g.stream_top


def new_id(g):
    chance = g.rng.random()
    if chance < 0.6:
        return b"%d-%d" % (top(g), g.rng.randrange(5))
    if chance < 0.8:
        return b"%d-*" % top(g)
    if chance < 0.95:
        return b"%d" % top(g)
    odd = [b"0-0", b"0-*", b"x", b"-", b"5-", b"(5", b"18446744073709551616-1", b"1-1-1"]
    return g.rng.choice([*odd, b"01-1", b"+1"])


def near_top(g):
    back = g.rng.randrange(g.rng.choice([5, 60, 600]))
    return b"%d-%d" % (max(0, getattr(g, "stream_top", 0) - back), g.rng.randrange(3))


def some_id(g):
    return near_top(g) if g.rng.random() < 0.95 else end(g)


def end(g):
    if g.rng.random() < 0.8:
        return near_top(g)
    odd = [b"0", b"0-0", b"-", b"+", b"(1-1", b"(0-0", b"x", b"1-", MOST, b"(" + MOST, b"(-"]
    return g.rng.choice([b"%d" % getattr(g, "stream_top", 0), *odd])


def trim(g):
    rng = g.rng
    if rng.random() < 0.3:
        options = [b"MINID", *rng.choice([[], [b"="], [b"~"]]), some_id(g)]
    else:
        most = rng.choice([b"0", b"1", b"5", b"20", b"50", b"150", b"-1"])
        options = [b"MAXLEN", *rng.choice([[], [b"="], [b"~"], [b"~"]]), most]
    limit = rng.choice([b"0", b"1", b"10", b"100", b"-1", b"x"])
    return [*options, *g.maybe(b"LIMIT", limit, chance=0.2)]


def value(g):
    values = [b"1", b"-5", b"v", b"100000", b"007", b"", b"x" * 10, b"x" * 70, b"x" * 300]
    return g.rng.choice([*values, g.value()])


def count(g):
    return g.maybe(b"COUNT", g.rng.choice([b"1", b"2", b"10", b"0", b"-1", b"x"]))


def add(g):
    options = [*g.maybe(b"NOMKSTREAM", chance=0.05), *(trim(g) if g.rng.random() < 0.15 else [])]
    names = g.rng.choice([b"a", b"a", b"ab", b"abc", b"q"])
    fields = [word for c in names for word in (b"%c" % c, value(g))]
    return [b"XADD", key(g), *options, new_id(g), *fields, *g.maybe(b"odd", chance=0.02)]


def wait(g):
    return g.maybe(b"BLOCK", g.rng.choice([b"1"] * 6 + [b"-1", b"x"]), chance=0.1)


def since_7_4(ids):
    """XREAD knows "+" from 7.4 on, and XREADGROUP has an error of its own for it."""
    return [b"x" if word == b"+" else word for word in ids]


def read(g):
    named = keys(g, (1, 1, 2, 3))
    ids = [g.rng.choice([some_id(g), b"$", b"0", end(g)]) for _ in named]
    return [b"XREAD", *count(g), *wait(g), b"STREAMS", *named, *since_7_4(ids)]


def read_group(g):
    named = keys(g, (1, 1, 2))
    ids = [g.rng.choice([b">", b">", b">", b"0", some_id(g), b"$", end(g)]) for _ in named]
    options = [*count(g), *wait(g), *g.maybe(b"NOACK")]
    who = [b"GROUP", g.rng.choice(GROUPS), consumer(g)]
    return [b"XREADGROUP", *who, *options, b"STREAMS", *named, *since_7_4(ids)]


def group(g):
    reads = g.rng.choice([[], [b"ENTRIESREAD", g.rng.choice([b"0", b"3", b"-1", b"-2"])], [b"FOO"]])
    return g.rng.choice(
        [
            [b"XGROUP", b"CREATE", *place(g), g.rng.choice([b"0", b"$", some_id(g)]), *reads],
            [b"XGROUP", b"CREATE", *place(g), g.rng.choice([b"0", b"$"]), b"MKSTREAM"],
            [b"XGROUP", b"SETID", *place(g), g.rng.choice([b"0", b"$", end(g)]), *reads],
            [b"XGROUP", b"CREATECONSUMER", *place(g), consumer(g)],
            g.rng.choice(
                [
                    [b"XGROUP", b"DESTROY", *place(g)],
                    [b"XGROUP", b"DELCONSUMER", *place(g), consumer(g)],
                ]
            ),
        ]
    )


def idle(g):
    return g.rng.choice([b"0", b"0", b"%d" % LONG_MS, b"x"])


def claim(g):
    options = [[], [b"JUSTID"], [b"FORCE"], [b"RETRYCOUNT", b"5"], [b"TIME", b"5"], [b"FOO"]]
    options += [[b"IDLE", b"1000"], [b"LASTID", some_id(g)], [b"IDLE", b"x"]]
    options += [[b"FORCE", b"RETRYCOUNT", b"-4"]]
    ids = g.times(lambda: some_id(g), (1, 5))
    return [b"XCLAIM", *place(g), consumer(g), idle(g), *ids, *g.rng.choice(options)]


def claim_any(g):
    options = g.rng.choice([[], [b"JUSTID"], [b"COUNT", b"3"], [b"COUNT", b"0"], [b"FOO"]])
    return [b"XAUTOCLAIM", *place(g), consumer(g), idle(g), end(g), *options]


def pending(g):
    if g.rng.random() < 0.3:
        return [b"XPENDING", *place(g)]
    idle_ms = g.rng.choice([[], [b"IDLE", b"0"], [b"IDLE", b"%d" % LONG_MS]])
    most = g.rng.choice([b"0", b"5", b"100", b"-1"])
    return [b"XPENDING", *place(g), *idle_ms, end(g), end(g), most, *g.maybe(consumer(g))]


def info(g):
    return g.rng.choice(
        [
            [b"XINFO", b"STREAM", key(g)],
            [b"XINFO", b"STREAM", key(g), b"FULL", *g.maybe(b"COUNT", g.index(), chance=0.6)],
            [b"XINFO", b"GROUPS", key(g)],
            [b"XINFO", b"CONSUMERS", *place(g)],
        ]
    )


def set_id(g):
    added = g.rng.choice([b"0", b"5", b"500", b"-1"])
    counters = [b"ENTRIESADDED", added, b"MAXDELETEDID", some_id(g)]
    newest = b"%d-%s" % (top(g), NEWEST)
    return [b"XSETID", key(g), newest, *g.rng.choice([[], counters, [b"FOO"]])]


def before(command):
    """7.2 makes a consumer at its first try, 7.0 when it gets something: so each has to exist."""
    words = [word.upper() for word in command]
    if words[0] in (b"XCLAIM", b"XAUTOCLAIM") and len(command) > 3:
        return [[b"XGROUP", b"CREATECONSUMER", *command[1:4]]]
    if words[0] == b"XREADGROUP" and b"STREAMS" in words:
        who = command[2:4]  # see hides_its_consumer
        named = command[words.index(b"STREAMS") + 1 :]
        named = dict.fromkeys(named[: len(named) // 2])  # ids follow
        return [[b"XGROUP", b"CREATECONSUMER", name, *who] for name in named]
    return []


def hides_its_consumer(command):
    words = [word.upper() for word in command]
    return words[0] == b"XREADGROUP" and (words[1:2] != [b"GROUP"] or words.count(b"GROUP") > 1)


def asks_the_clock(command):
    """An id made of the time; or who has been idle for how long, but for the two extremes."""
    words = [word.upper() for word in command]
    if words[0] == b"XADD":
        return b"*" in words
    if words[0] in (b"XCLAIM", b"XAUTOCLAIM"):
        times = words[4:5]
    elif words[0] == b"XPENDING":
        times = words[4:5] if words[3:4] == [b"IDLE"] else []
    else:
        return False
    return any(word.strip().isdigit() and 0 < int(word) < LONG_MS for word in times)


def waits_long(command):
    words = [word.upper() for word in command]
    if words[0] not in (b"XREAD", b"XREADGROUP"):
        return False
    times = [time for name, time in zip(words, words[1:]) if name == b"BLOCK"]
    return any(time not in (b"1", b"-1", b"X") for time in times)


def sets_back(command):
    """7.2 refuses an id below the largest that was deleted, 7.0 takes it: tests/test_streams.py. So
    none is set but the newest."""
    if command[0].upper() != b"XSETID" or len(command) < 3:
        return False
    return not re.fullmatch(rb"[1-9]\d{0,8}-" + NEWEST, command[2])


EXCLUDED = [hides_its_consumer, asks_the_clock, waits_long, sets_back]

COMMANDS = [
    (40, add),
    (6, read),
    (12, read_group),
    (4, group),
    (4, lambda g: [b"XACK", *place(g), *g.times(lambda: some_id(g), (1, 5))]),
    (3, claim),
    (3, claim_any),
    (4, pending),
    (8, info),
    (2, lambda g: [b"XLEN", key(g)]),
    (4, lambda g: [g.rng.choice([b"XRANGE", b"XREVRANGE"]), key(g), end(g), end(g), *count(g)]),
    (4, lambda g: [b"XDEL", key(g), *g.times(lambda: some_id(g), (1, 3))]),
    (2, lambda g: [b"XTRIM", key(g), *trim(g)]),
    (1, set_id),
    (0.5, lambda g: [b"COPY", key(g), key(g), b"REPLACE"]),
    (0.3, lambda g: [b"DEL", key(g)]),
    (0.5, lambda g: g.rng.choice([[b"TYPE", key(g)], [b"OBJECT", b"ENCODING", key(g)]])),
]
