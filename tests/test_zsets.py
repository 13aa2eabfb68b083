# SPDX-License-Identifier: Apache-2.0
"""The sorted set family, geo included. Every test also passes on redis-server, unless marked.
Random commands are in differential/, what waits in test_blocking.py."""

import random

import pytest
import redis

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, Status
from harness.server import SANITIZED, only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

KEYS = [f"z{i}" for i in range(8)]  # in all shards


def members(r, key):
    """{member: score}"""
    flat = r.call("ZRANGE", key, 0, -1, "WITHSCORES")
    return dict(zip(flat[::2], map(float, flat[1::2])))


def test_replies_have_redis_shape_in_both_protocols(r, r3):
    r.do("ZADD z 1 a 2 b")
    r.do("SADD s a")
    r.do("GEOADD g 0 0 p")
    for line, resp2, resp3 in (
        ("ZSCAN z 0", b"*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n", None),
        ("ZSCAN none 0", b"*2\r\n$1\r\n0\r\n*0\r\n", None),
        ("ZUNION 1 s", b"*1\r\n$1\r\na\r\n", None),
        (
            "ZINTER 2 z s WITHSCORES",
            b"*2\r\n$1\r\na\r\n$1\r\n2\r\n",
            b"*1\r\n*2\r\n$1\r\na\r\n,2\r\n",
        ),
        (
            "ZDIFF 2 z s WITHSCORES",
            b"*2\r\n$1\r\nb\r\n$1\r\n2\r\n",
            b"*1\r\n*2\r\n$1\r\nb\r\n,2\r\n",
        ),
        ("ZINTERCARD 2 z s", b":1\r\n", None),
        ("ZMPOP 1 none MIN", b"*-1\r\n", b"_\r\n"),
        ("GEODIST g p p", b"$6\r\n0.0000\r\n", None),
        ("GEODIST g p none", b"$-1\r\n", b"_\r\n"),
        ("GEOPOS g none", b"*1\r\n*-1\r\n", b"*1\r\n_\r\n"),
        ("GEOHASH g none", b"*1\r\n$-1\r\n", b"*1\r\n_\r\n"),
        (
            "GEOPOS g p",
            b"*1\r\n*2\r\n$19\r\n0.00000268220901489\r\n$19\r\n0.00000126736058093\r\n",
            b"*1\r\n*2\r\n,0.00000268220901489\r\n,0.00000126736058093\r\n",
        ),
        (
            "GEOSEARCH g FROMMEMBER p BYRADIUS 1 m WITHDIST WITHHASH",
            b"*1\r\n*3\r\n$1\r\np\r\n$6\r\n0.0000\r\n:3377699720527872\r\n",
            None,
        ),
    ):
        assert r.raw(*line.split()) == resp2, line
        assert r3.raw(*line.split()) == (resp3 or resp2), line
    for command in ("ZMPOP 1 {} MIN", "BZMPOP 0 1 {} MAX"):
        pair = b"$1\r\na\r\n"
        for c, one in ((r, b"$1\r\n1\r\n"), (r3, b",1\r\n")):
            r.do("ZADD p 1 a")
            expected = b"*2\r\n$1\r\np\r\n*1\r\n*2\r\n" + pair + one
            assert c.raw(*command.format("p").split()) == expected
            r.do("ZADD p 1 a")
            assert c.raw("BZPOPMIN", "p", 0) == b"*3\r\n$1\r\np\r\n" + pair + one


def test_redis_py_sees_sorted_sets_and_places(server):
    client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=60)
    with client:
        assert client.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3
        assert dict(client.zscan_iter("z")) == {b"a": 1, b"b": 2.5, b"c": float("inf")}
        assert client.zunion(["z", "z"], withscores=True)[0] == (b"a", 2)
        assert client.zinterstore("t", {"z": 2, "z2": 1}) == 0
        assert client.zunionstore("t", {"z": 2, "z2": 1}, aggregate="MAX") == 3
        assert client.zscore("t", "b") == 5
        assert client.zrangestore("t", "z", 0, 0) == 1
        assert client.bzpopmin(["none", "t"], timeout=1) == (b"t", b"a", 1)
        assert client.bzmpop(1, 2, ["none", "z"], max=True) == [b"z", [[b"c", b"inf"]]]
        assert client.zmpop(1, ["none"], min=True) is None
        assert client.geoadd("g", (13.361389, 38.115556, "Palermo")) == 1
        assert client.geoadd("g", (15.087269, 37.502669, "Catania")) == 1
        assert client.geodist("g", "Palermo", "Catania", "km") == 166.2742
        assert client.geosearch("g", member="Palermo", radius=200, unit="km", sort="DESC") == [
            b"Catania",
            b"Palermo",
        ]
        found = client.georadius("g", 15, 37, 200, unit="km", withdist=True, sort="ASC")
        assert found == [[b"Catania", 56.4413], [b"Palermo", 190.4424]]


@pytest.mark.parametrize(
    "line, error",
    [
        ("ZSCAN z x", Error("ERR invalid cursor")),
        ("ZSCAN z 0 COUNT 0", SYNTAX),
        ("ZUNION 0 z", Error("ERR at least 1 input key is needed for 'zunion' command")),
        ("ZUNIONSTORE z x z", NOT_INT),
        ("ZUNIONSTORE z 2 z", SYNTAX),
        ("ZINTERSTORE z 1 z WEIGHTS x", Error("ERR weight value is not a float")),
        ("ZINTERSTORE z 1 z AGGREGATE avg", SYNTAX),
        ("ZDIFFSTORE z 1 z WEIGHTS 1", SYNTAX),
        ("ZINTERCARD 1 z LIMIT -1", Error("ERR LIMIT can't be negative")),
        ("ZRANGESTORE z z 0 -1 WITHSCORES", SYNTAX),
        ("ZRANGESTORE z z a b", NOT_INT),
        ("ZMPOP 0 z MIN", Error("ERR numkeys should be greater than 0")),
        ("ZMPOP 1 z MIN COUNT 0", Error("ERR count should be greater than 0")),
        ("BZPOPMIN z x", Error("ERR timeout is not a float or out of range")),
        ("BZMPOP -1 1 z MIN", Error("ERR timeout is negative")),
        ("GEOADD z 200 0 a", Error("ERR invalid longitude,latitude pair 200.000000,0.000000")),
        ("GEOADD z 0 0 a 0", SYNTAX),
        (
            "GEOSEARCHSTORE z z FROMMEMBER x BYRADIUS 1 m",
            Error("ERR could not decode requested zset member"),
        ),
        (
            "GEORADIUS z 0 0 1 mm STORE z",
            Error("ERR unsupported unit provided. please use M, KM, FT, MI"),
        ),
    ],
)
def test_an_error_changes_nothing(r, line, error):
    r.do("ZADD z 1 a 2 b")
    assert r.do(line) == error
    assert members(r, "z") == {b"a": 1, b"b": 2}
    assert r.do("DBSIZE") == 1


@pytest.mark.parametrize("other", KEYS[1:6])
def test_other_types_are_refused(r, other):
    r.do("ZADD z0 1 a")
    r.call("RPUSH", other, "v")
    for line in (
        f"ZSCAN {other} 0",
        f"ZUNION 2 z0 {other}",
        f"ZINTER 2 missing {other}",
        f"ZDIFF 2 missing {other}",
        f"ZINTERCARD 2 z0 {other}",
        f"ZUNIONSTORE t 2 z0 {other}",
        f"ZINTERSTORE t 2 missing {other} WHAT",
        f"ZDIFFSTORE t 2 z0 {other}",
        f"ZRANGESTORE t {other} 0 -1",
        f"ZMPOP 2 missing {other} MIN",
        f"BZPOPMIN missing {other} 1",
        f"GEOADD {other} 0 0 a",
        f"GEOSEARCHSTORE t {other} FROMLONLAT 0 0 BYRADIUS 1 m",
        f"GEORADIUS {other} 0 0 1 m STORE t",
    ):
        assert r.do(line) == WRONGTYPE, line
    assert r.do("EXISTS t") == 0 and members(r, "z0") == {b"a": 1}
    assert r.call("ZUNIONSTORE", other, 1, "z0") == 1
    assert r.call("TYPE", other) == Status("zset")
    r.call("DEL", other)
    r.call("RPUSH", other, "v")
    assert r.call("GEOSEARCHSTORE", other, "z0", *"FROMLONLAT 0 0 BYRADIUS 1 m".split()) == 0
    assert r.call("EXISTS", other) == 0


def test_operations_do_what_python_does(r):
    rng = random.Random(4)
    model = {key: {} for key in KEYS}
    for key in KEYS[1:]:
        for _ in range(rng.choice([3, 40, 200])):
            model[key][b"m%d" % rng.randrange(300)] = rng.randrange(-50, 50)
        r.call("ZADD", key, *[x for pair in model[key].items() for x in pair[::-1]])
    for _ in range(30 if SANITIZED else 120):
        keys = [rng.choice(KEYS) for _ in range(rng.randint(1, 4))]
        weights = [rng.randint(-2, 3) for _ in keys]
        name, combine = rng.choice([("SUM", sum), ("MIN", min), ("MAX", max)])
        found = {}
        for key, weight in zip(keys, weights):
            for member, score in model[key].items():
                found.setdefault(member, []).append(score * weight)
        union = {member: combine(scores) for member, scores in found.items()}
        inter = {m: combine(scores) for m, scores in found.items() if len(scores) == len(keys)}
        others = set().union(*[model[key] for key in keys[1:]])
        diff = {m: score for m, score in model[keys[0]].items() if m not in others}
        for command, expected in (("ZUNION", union), ("ZINTER", inter), ("ZDIFF", diff)):
            line = [len(keys), *keys]
            if command != "ZDIFF":
                line += ["WEIGHTS", *weights, "AGGREGATE", name]
            flat = r.call(command, *line, "WITHSCORES")
            assert dict(zip(flat[::2], map(float, flat[1::2]))) == expected, line
            ordered = sorted(expected.items(), key=lambda item: (item[1], item[0]))
            assert flat[::2] == [member for member, _ in ordered]
            if rng.random() < 0.2:
                target = rng.choice(KEYS)
                assert r.call(command + "STORE", target, *line) == len(expected)
                model[target] = expected
                assert members(r, target) == expected
                assert r.call("EXISTS", target) == (1 if expected else 0)
                break
        else:
            assert r.call("ZINTERCARD", len(keys), *keys) == len(inter)
            assert r.call("ZINTERCARD", len(keys), *keys, "LIMIT", 5) == min(5, len(inter))


def test_all_of_it_in_an_exec(r):
    r.do("ZADD z0 1 a 2 b 3 c")
    r.do("ZADD z1 10 b 20 c 30 d")
    r.do("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania")
    commands = {
        "ZUNIONSTORE z2 2 z0 z1": 4,
        "ZINTER 3 z0 z1 z2": [b"b", b"c"],
        "ZDIFFSTORE z3 2 z2 z1": 1,
        "ZRANGESTORE z4 z2 -2 -1": 2,
        "BZPOPMAX none z4 0": [b"z4", b"d", b"30"],
        "BZMPOP 0 2 none z4 MIN": [b"z4", [[b"c", b"23"]]],
        "BZPOPMIN z4 none 0": None,
        "ZMPOP 2 z4 z3 MAX COUNT 9": [b"z3", [[b"a", b"1"]]],
        "GEOSEARCHSTORE z5 g FROMLONLAT 15 37 BYBOX 400 400 km": 2,
        "GEORADIUS g 15 37 100 km STORE z6": 1,
        "EXISTS z3 z4 z5 z6": 2,
    }
    assert r.do("MULTI") == OK
    for line in commands:
        assert r.do(line) == Status("QUEUED")
    for line, got in zip(commands, r.do("EXEC")):
        assert got == commands[line], line


def test_keys_are_found_wherever_they_stand(r):
    """ZUNIONSTORE's target stands before their number, GEORADIUS' behind an option: WATCH, locks
    and COMMAND GETKEYS have to know."""
    assert r.do("COMMAND GETKEYS ZUNIONSTORE t 2 a b WEIGHTS 1 2") == [b"t", b"a", b"b"]
    assert r.do("COMMAND GETKEYS ZINTER 2 a b") == [b"a", b"b"]
    assert r.do("COMMAND GETKEYS BZMPOP 0 2 a b MIN") == [b"a", b"b"]
    assert r.do("COMMAND GETKEYS BZPOPMIN a b 0") == [b"a", b"b"]
    assert r.do("COMMAND GETKEYS GEORADIUS g 1 2 3 m STORE t") == [b"g", b"t"]
    assert r.do("COMMAND GETKEYS GEORADIUSBYMEMBER g m 3 m ASC STOREDIST t") == [b"g", b"t"]
    assert r.do("COMMAND GETKEYS GEORADIUS_RO g 1 2 3 m") == [b"g"]
    r.do("ZADD z0 1 a")
    r.do("GEOADD g 1 2 a")
    for line in ("ZUNIONSTORE {} 1 z0", "GEORADIUS g 1 2 3 m STORE {}", "ZRANGESTORE {} z0 0 -1"):
        for key in KEYS[1:]:
            r.call("WATCH", key)
            r.do(line.format(key))
            r.do("MULTI")
            r.do("PING")
            assert r.do("EXEC") is None, line


def test_changes_are_counted_as_in_redis(r):
    def changes():
        return int(r.info("persistence")["rdb_changes_since_last_save"])

    r.do("ZADD a 1 x 2 y 3 z")
    r.do("ZADD b 1 x")
    r.do("GEOADD g 1 2 p 1 2.00001 q")
    for line, count in (
        ("ZUNIONSTORE t 2 a b", 1),
        ("ZINTERSTORE t 2 a none", 1),
        ("ZINTERSTORE t 2 a none", 0),
        ("ZRANGESTORE t a 0 -1", 1),
        ("ZRANGESTORE t a 9 9", 1),
        ("ZRANGESTORE t a 9 9", 0),
        ("ZMPOP 1 a MIN COUNT 2", 2),
        ("BZPOPMIN a 0", 1),
        ("GEOADD g 5 6 r 5 7 s", 2),
        ("GEOSEARCHSTORE t g FROMLONLAT 1 2 BYRADIUS 1 km", 2),
        ("GEORADIUS g 80 80 1 m STORE t", 1),
        ("GEORADIUS g 80 80 1 m STORE t", 0),
    ):
        before = changes()
        r.do(line)
        assert changes() - before == count, line


def test_encodings_follow_the_settings(r):
    assert r.do("CONFIG GET zset-max-ziplist-entries") == [b"zset-max-ziplist-entries", b"128"]
    try:
        assert r.do("CONFIG SET zset-max-listpack-entries 3 zset-max-ziplist-value 5") == OK
        assert r.do("CONFIG GET zset-max-listpack-value")[1] == b"5"
        for key in KEYS[:4]:
            r.call("ZADD", key, 1, "a", 2, "b", 3, "fiver")
            assert r.call("OBJECT", "ENCODING", key) == b"listpack"
            assert r.call("ZSCAN", key, 0, "COUNT", 1)[0] == b"0"
            r.call("ZADD", key, 4, "d")
            assert r.call("OBJECT", "ENCODING", key) == b"skiplist"
            r.call("ZRANGESTORE", "t", key, 0, 2)
            assert r.call("OBJECT", "ENCODING", "t") == b"listpack"
            r.call("ZUNIONSTORE", "t", 1, key)
            assert r.call("OBJECT", "ENCODING", "t") == b"skiplist"
            r.call("GEOADD", "g", 1, 1, "longer")
            assert r.call("OBJECT", "ENCODING", "g") == b"skiplist"
    finally:
        assert r.do("CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64") == OK


def test_a_walk_meets_all_that_stays(r):
    count = 2000
    r.call("ZADD", "z", *[x for i in range(count) for x in (i, f"m{i}")])
    seen, cursor = {}, b"0"
    while True:
        cursor, flat = r.call("ZSCAN", "z", cursor, "COUNT", 50)
        seen.update(zip(flat[::2], flat[1::2]))
        r.call("ZADD", "z", *[x for i in range(20) for x in (1, f"new{len(seen)}:{i}")])
        r.call("ZREM", "z", f"new{len(seen)}:3")
        if cursor == b"0":
            break
    for i in range(count):
        assert seen[b"m%d" % i] == b"%d" % i
    found = [x for x in r.call("ZSCAN", "z", 0, "COUNT", 100000, "MATCH", "m199?")[1][::2]]
    assert sorted(found) == [b"m199%d" % i for i in range(10)]


@only_dragonfly("it has one thread: nothing could go wrong")
def test_a_sum_over_shards_never_changes(server, r):
    """Points move between keys in different shards, in EXECs; unions see all of them, always."""
    from harness.threads import run_all

    total = 60
    r.call("ZADD", KEYS[0], total, "points")
    rounds = 20 if SANITIZED else 60

    def move(shift):
        with server.connect() as c:
            for n in range(rounds):
                for i, source in enumerate(KEYS):
                    target = KEYS[(i + n + shift) % len(KEYS)]
                    c.pipeline(
                        [
                            ["MULTI"],
                            ["ZINCRBY", source, -1, "points"],
                            ["ZINCRBY", target, 1, "points"],
                            ["EXEC"],
                        ]
                    )

    def look(target):
        with server.connect() as c:
            for _ in range(rounds * 2):
                assert c.call("ZUNION", len(KEYS), *KEYS, "WITHSCORES") == [b"points", b"60"]
                c.call("ZUNIONSTORE", target, len(KEYS), *KEYS)
                assert c.call("ZSCORE", target, "points") == b"60"

    run_all([lambda: move(1), lambda: move(3), lambda: look("t1"), lambda: look("other")])
    assert r.call("ZUNION", len(KEYS), *KEYS, "WITHSCORES") == [b"points", b"60"]
