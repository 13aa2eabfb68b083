# SPDX-License-Identifier: Apache-2.0
"""Ranges, draws, searches and combinations of large sorted sets, which are made in slices while
others run in between. Every test also passes on redis-server, unless marked."""

import random

import pytest

from harness.beside import hops, incrementing
from harness.resp import WRONGTYPE
from harness.seeds import new_rng
from harness.server import only_dragonfly

pytestmark = pytest.mark.sanitized

COUNT = 20_000  # members: more than a slice, and more than 256 KB
MEMBERS = [b"member:%012d" % i for i in range(COUNT)]
SCORES = dict(zip(MEMBERS, range(COUNT)))
KEYS = [f"{{{i}}}" for i in range(4)]  # in several shards


def pairs(members, score=lambda i: i):
    return [word for i, member in members for word in (score(i), member)]


def fill(r, keys=KEYS):
    everyone = list(enumerate(MEMBERS))
    for key in keys:
        assert r.call("ZADD", "z" + key, *pairs(everyone)) == COUNT
        assert r.call("ZADD", "half" + key, *pairs(everyone[::2])) == COUNT // 2
        r.call("SET", "text" + key, "x")


def places(r, key, count):
    rng = random.Random(1)
    points = [
        word
        for i in range(count)
        for word in (f"{rng.uniform(-180, 180):.6f}", f"{rng.uniform(-85, 85):.6f}", f"p{i}")
    ]
    for at in range(0, len(points), 30_000):
        r.call("GEOADD", key, *points[at : at + 30_000])


RANGES = [
    ("0", "19999"), ("5", "15000"), ("(5", "(15000"), ("-inf", "+inf"), ("7", "3"),
    ("30000", "inf"), ("12000", "inf"),
]  # fmt: skip
LIMITS = [(), (0, 10), (3, 9000), (15_000, 9000), (0, -1), (-1, 5)]


def expected_range(low, high, limit, is_reverse):
    first = 0 if low == "-inf" else int(low.strip("(")) + low.startswith("(")
    last = COUNT if high.endswith("inf") else int(high.strip("(")) - high.startswith("(")
    found = MEMBERS[first : last + 1]
    if is_reverse:
        found = found[::-1]
    if not limit:
        return found
    if limit[0] < 0:
        return []
    return found[limit[0] :][: limit[1] if limit[1] >= 0 else None]


@pytest.mark.long
@pytest.mark.alone
def test_ranges_of_scores_and_texts(r, r3):
    fill(r)
    for key in KEYS:
        name = "z" + key
        for low, high in RANGES:
            for limit in LIMITS:
                end = ("LIMIT", *limit) if limit else ()
                up = expected_range(low, high, limit, False)
                down = expected_range(low, high, limit, True)
                assert r.call("ZRANGEBYSCORE", name, low, high, *end) == up
                assert r.call("ZREVRANGEBYSCORE", name, high, low, *end) == down
                assert r.call("ZRANGE", name, low, high, "BYSCORE", *end) == up
                assert r.call("ZRANGE", name, high, low, "BYSCORE", "REV", *end) == down
                found = r3.call("ZRANGEBYSCORE", name, low, high, "WITHSCORES", *end)
                assert found == [[member, SCORES[member]] for member in up]
                stored = ("ZRANGESTORE", "to" + key, name, low, high, "BYSCORE", *end)
                assert r.call(*stored) == len(up)
                assert r.call("ZRANGE", "to" + key, 0, -1) == up
        low, high = b"[" + MEMBERS[5], b"(" + MEMBERS[15_000]
        assert r.call("ZRANGEBYLEX", name, low, high) == MEMBERS[5:15_000]
        assert r.call("ZREVRANGEBYLEX", name, high, low) == MEMBERS[5:15_000][::-1]
        assert r.call("ZRANGEBYLEX", name, "-", "+", "LIMIT", 7, 9000) == MEMBERS[7:9007]
        assert r.call("ZRANGEBYSCORE", "text" + key, 0, "inf") == WRONGTYPE
        assert r.call("ZRANGEBYSCORE", "none" + key, 0, "inf") == []


@pytest.mark.alone
def test_unions_intersections_and_differences(r, r3):
    fill(r)
    half = MEMBERS[::2]
    for key in KEYS:
        for other in (key, KEYS[0]):  # in one shard, or in two
            names = ("z" + key, "half" + other)
            together = r.call("ZUNION", 2, *names, "WEIGHTS", 1, 2, "WITHSCORES")
            expected = {m: SCORES[m] * (3 if SCORES[m] % 2 == 0 else 1) for m in MEMBERS}
            ordered = sorted(MEMBERS, key=lambda m: (expected[m], m))
            assert together[::2] == ordered
            assert together[1::2] == [b"%d" % expected[m] for m in ordered]
            assert r.call("ZINTER", 2, *names) == half
            assert r3.call("ZINTER", 2, *names, "AGGREGATE", "MIN", "WITHSCORES") == [
                [m, SCORES[m]] for m in half
            ]
            assert r.call("ZDIFF", 2, *names) == MEMBERS[1::2]
            assert r.call("ZINTERCARD", 2, *names) == COUNT // 2
            assert r.call("ZINTERCARD", 2, *names, "LIMIT", 3000) == 3000
            assert r.call("ZUNION", 2, "z" + key, "text" + other) == WRONGTYPE
            assert r.call("ZUNION", 2, "z" + key, "none" + other) == MEMBERS


@pytest.mark.alone
@pytest.mark.parametrize("count", [10, 300, 6000, 9000, 19_999, 20_000, 50_000])
def test_draws(r, r3, count):
    fill(r)
    for key in KEYS:
        name = "z" + key
        found = r.call("ZRANDMEMBER", name, count)
        assert len(found) == len(set(found)) == min(count, COUNT)
        assert set(found) <= set(MEMBERS)
        found = r3.call("ZRANDMEMBER", name, count, "WITHSCORES")
        assert len(found) == min(count, COUNT)
        assert all(SCORES[member] == score for member, score in found)
        found = r.call("ZRANDMEMBER", name, -count)
        assert len(found) == count and set(found) <= set(MEMBERS)
        assert r.call("ZRANDMEMBER", "text" + key, count) == WRONGTYPE
        assert r.call("ZRANDMEMBER", "none" + key, count) == []


@pytest.mark.alone
def test_searches(r):
    for key in KEYS:
        places(r, "geo" + key, COUNT)
        world = ("FROMLONLAT", 0, 0, "BYRADIUS", 21_000, "km")
        found = r.call("GEOSEARCH", "geo" + key, *world, "ASC", "WITHDIST")
        assert len(found) == COUNT
        distances = [float(distance) for _, distance in found]
        assert distances == sorted(distances)
        nearest = [member for member, _ in found]
        assert r.call("GEOSEARCH", "geo" + key, *world, "COUNT", 9000) == nearest[:9000]
        assert r.call("GEOSEARCHSTORE", "to" + key, "geo" + key, *world, "COUNT", 9000) == 9000
        assert sorted(r.call("ZRANGE", "to" + key, 0, -1)) == sorted(nearest[:9000])
        stored = ("GEORADIUS", "geo" + key, 0, 0, 21_000, "km", "STOREDIST", "to" + key)
        assert r.call(*stored) == COUNT
        assert r.call("ZCARD", "to" + key) == COUNT
        some = r.call("GEOSEARCH", "geo" + key, *world, "COUNT", 8500, "ANY")
        assert len(set(some)) == 8500


@pytest.mark.alone
def test_removals(r):
    """Of all, of all but some, of some: what is left is right, and told so."""
    rng = new_rng()
    for key in KEYS:
        name = "z" + key
        for _ in range(6):
            assert r.call("ZADD", name, *pairs(enumerate(MEMBERS))) == COUNT
            left = list(MEMBERS)
            while left:
                first = rng.choice([0, rng.randrange(len(left))])
                last = rng.choice([len(left) - 1, rng.randrange(first, len(left))])
                gone = left[first : last + 1]
                how = rng.randrange(4)
                if how == 0:
                    removed = r.call("ZREMRANGEBYRANK", name, first, last)
                elif how == 1:
                    low, high = SCORES[gone[0]], SCORES[gone[-1]]
                    removed = r.call("ZREMRANGEBYSCORE", name, low, high)
                elif how == 2:
                    removed = r.call("ZREMRANGEBYLEX", name, b"[" + gone[0], b"[" + gone[-1])
                else:
                    first, gone = 0, left[: len(gone)]
                    removed = len(r.call("ZPOPMIN", name, len(gone))) // 2
                assert removed == len(gone)
                left[first : first + len(gone)] = []
                assert r.call("ZRANGE", name, 0, -1) == left
                assert r.call("EXISTS", name) == bool(left)


MANY = 100_000
READS = [
    ("ZRANGEBYSCORE", "z", "-inf", "+inf"), ("ZREVRANGEBYSCORE", "z", "+inf", "10"),
    ("ZRANGEBYLEX", "z", "-", "+"), ("ZREVRANGEBYLEX", "z", "+", "-"),
    ("ZRANGE", "z", "-inf", "+inf", "BYSCORE", "LIMIT", 10, 90_000),
    ("ZUNION", 1, "z"), ("ZINTER", 2, "z", "y", "WITHSCORES"), ("ZDIFF", 2, "z", "few"),
    ("ZINTERCARD", 2, "z", "y"), ("ZRANDMEMBER", "z", MANY), ("ZRANDMEMBER", "z", 30_000),
    ("ZRANDMEMBER", "z", 60_000), ("ZRANDMEMBER", "z", -MANY),
    ("GEOSEARCH", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 21_000, "km", "ASC", "WITHDIST"),
    ("GEORADIUS_RO", "geo", 0, 0, 21_000, "km"),
]  # fmt: skip
WRITES = [
    ("ZRANGESTORE", "to", "z", 0, -1), ("ZRANGESTORE", "to", "z", "-", "+", "BYLEX"),
    ("GEOSEARCHSTORE", "to", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 21_000, "km"),
    ("GEORADIUS", "geo", 0, 0, 21_000, "km", "STOREDIST", "to"),
]  # fmt: skip


def fill_many(c):
    for at in range(0, MANY, 10_000):
        words = pairs([(i, b"member:%d" % i) for i in range(at, at + 10_000)])
        c.call("ZADD", "{k}z", *words)
        c.call("ZADD", "{k}y", *words)
    c.call("ZADD", "{k}few", 1, "member:1")
    places(c, "{k}geo", MANY)


NAMES = {"z", "y", "few", "geo", "to"}


def tagged(line):
    return [f"{{k}}{word}" if word in NAMES else word for word in line]


def most_between(server, lines):
    """How many INCRs of another client came between two GETs with each of the lines in between."""
    with server.connect() as c, server.connect() as other:
        fill_many(c)
        c.call("SET", "{k}n", 0)
        counts = {}
        with incrementing(other, "{k}n"):
            for line in lines:
                most = 0
                for _ in range(50):  # the other client may get no core meanwhile
                    get = ("GET", "{k}n")
                    before, _, after = c.pipeline([get, tagged(line), get])
                    most = max(most, int(after) - int(before))
                    if most > 5:
                        break
                counts[" ".join(str(word) for word in line)] = most
        return counts


@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 4])
def test_others_run_in_between(start_server, threads):
    """Keys and counter are in one shard, whose thread the other client needs."""
    counts = most_between(start_server(proactor_threads=threads), READS)
    assert not [line for line, most in counts.items() if most <= 5], counts


FEW = [
    ("ZRANGEBYSCORE", "z", 100, 200), ("ZREVRANGEBYSCORE", "z", 200, "(100"),
    ("ZRANGEBYSCORE", "z", 5, 5 + 8190), ("ZRANGE", "z", 100, 200, "BYSCORE", "WITHSCORES"),
    ("ZRANGE", "z", 200, 100, "BYSCORE", "REV"), ("ZRANGEBYSCORE", "z", "-inf", 7),
    ("ZRANGEBYSCORE", "z", "-inf", "+inf", "LIMIT", 10, 8191),
    ("ZRANGEBYLEX", "z", "[member:000000000100", "(member:000000000200"),
    ("ZREVRANGEBYLEX", "z", "+", "[member:000000019000"),
    ("ZRANGE", "z", "[member:0000000001", "[member:0000000002", "BYLEX"),
    ("ZRANGESTORE", "to", "z", 100, 200, "BYSCORE"),
    ("GEOSEARCH", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 500, "km"),
    ("GEOSEARCH", "geo", "FROMMEMBER", "p7", "BYBOX", 300, 300, "km", "ASC"),
    ("GEOSEARCH", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 21_000, "km", "COUNT", 10, "ANY"),
    ("GEOSEARCHSTORE", "to", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 500, "km"),
    ("GEORADIUS", "geo", 0, 0, 500, "km", "STORE", "to"),
    ("GEORADIUSBYMEMBER_RO", "geo", "p7", 500, "km"),
]  # fmt: skip
STILL_MANY = [
    ("ZRANGEBYSCORE", "z", 5, 5 + 8191), ("ZREVRANGEBYSCORE", "z", "+inf", "-inf"),
    ("ZRANGEBYSCORE", "z", "-inf", "+inf", "LIMIT", 10, 8192), ("ZRANGEBYLEX", "z", "-", "+"),
    ("ZRANGE", "z", 100, 15_000, "BYSCORE"), ("ZRANGESTORE", "to", "z", 100, 15_000, "BYSCORE"),
    ("GEOSEARCH", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 21_000, "km"),
    ("GEORADIUS", "geo", 0, 0, 21_000, "km", "STORE", "to"),
    # It looks at all and finds none.
    ("GEOSEARCH", "geo", "FROMLONLAT", 0, 0, "BYBOX", 0, 39_000, "km", "COUNT", 10, "ANY"),
]  # fmt: skip


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 4])
def test_few_members_of_a_large_set_are_read_in_one_step(start_server, threads):
    server = start_server(proactor_threads=threads, migrate_connections="false")
    with server.connect() as c:
        for key in KEYS:
            fill(c, [key])
            places(c, "geo" + key, COUNT)
            own = [[word + key if word in NAMES else word for word in line] for line in FEW]
            assert [line for line in own if hops(c, *line) > 0] == []
            own = [[word + key if word in NAMES else word for word in line] for line in STILL_MANY]
            assert [line for line in own if hops(c, *line) < 5] == []


@pytest.mark.alone
@pytest.mark.parametrize("operation", ["ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD"])
def test_large_inputs_count_as_one_look_each(r, operation):
    """Wherever they are."""
    fill(r)
    names = [name + key for key in KEYS[:3] for name in ("z", "half")]

    def looks():
        info = r.info("stats")
        return int(info["keyspace_hits"]), int(info["keyspace_misses"])

    before = looks()
    r.call(operation, len(names) + 1, *names, "none")
    hits, misses = (now - then for now, then in zip(looks(), before))
    assert (hits, misses) == (len(names), 1)


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("command", ["ZPOPMIN", "ZPOPMAX"])
def test_others_run_before_many_are_popped(start_server, command):
    """What is popped is copied first, and then removed at once."""
    server = start_server(proactor_threads=1)
    words = pairs([(i, b"member:%d" % i) for i in range(MANY)])
    with server.connect() as c, server.connect() as other:
        c.call("SET", "n", 0)
        most = 0
        with incrementing(other, "n"):
            for _ in range(50):  # the other client may get no core meanwhile
                assert c.call("ZADD", "z", *words) == MANY
                lines = [("GET", "n"), (command, "z", 10**6), ("GET", "n")]
                before, popped, after = c.pipeline(lines)
                assert len(popped) == 2 * MANY and c.call("EXISTS", "z") == 0
                most = max(most, int(after) - int(before))
                if most > 5:
                    break
        assert most > 5


@pytest.mark.alone
@only_dragonfly("a command is one step")
def test_others_run_while_it_is_stored(start_server):
    counts = most_between(start_server(proactor_threads=1), WRITES)
    assert not [line for line, most in counts.items() if most <= 5], counts
