# SPDX-License-Identifier: Apache-2.0
"""GEOSEARCH and GEOSEARCHSTORE ... BYPOLYGON, which came with Valkey 9: beside a real one."""

import pytest

from harness.resp import Error
from harness.seeds import new_rng
from harness.server import only_dragonfly
from harness.valkey import running_valkey

pytestmark = [pytest.mark.threads, only_dragonfly("they came with Valkey 9")]

SQUARE = "BYPOLYGON 4 12 37 16 37 16 39 12 39"


def test_places_in_a_polygon(r, r3):
    r.do("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 14 38 Mid 0 0 zero")
    assert r.do(f"GEOSEARCH g {SQUARE} ASC") == [b"Mid", b"Palermo", b"Catania"]
    assert r3.do(f"GEOSEARCH g {SQUARE} COUNT 1 WITHDIST") == [[b"Mid", b"1884.0123"]]
    assert r.do(f"GEOSEARCHSTORE {{x}}target g {SQUARE} STOREDIST") == 3
    assert r.do("ZRANGE {x}target 0 -1") == [b"Mid", b"Palermo", b"Catania"]
    script = "return redis.call('GEOSEARCH', KEYS[1], 'BYPOLYGON', 3, -1, -1, 1, -1, 0, 1)"
    assert r.call("EVAL", script, 1, "g") == [b"zero"]
    r.do("MULTI")
    r.do(f"GEOSEARCH g {SQUARE} DESC")
    assert r.do("EXEC") == [[b"Catania", b"Palermo", b"Mid"]]
    assert r.do("GEOSEARCH g BYPOLYGON 2 1 1 2 2") == Error(
        "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"
    )


def near(rng, center, degrees):
    x, y = (c + rng.uniform(-degrees, degrees) for c in center)
    return max(-180.0, min(180.0, x)), max(-85.0, min(85.0, y))


def test_replies_are_those_of_valkey(r):
    """Byte for byte, also in the order of places that nobody asks to be sorted."""
    rng = new_rng()
    found = 0
    with running_valkey() as v:
        for _ in range(200):
            center = rng.uniform(-180, 180), rng.uniform(-85, 85)
            # Of larger ones Valkey finds other places with ASC than without.
            degrees = rng.choice([0.001, 0.1, 1, 5, 20, 60])
            places = [near(rng, center, degrees) for _ in range(50)]
            add = [word for i, (x, y) in enumerate(places) for word in (repr(x), repr(y), f"m{i}")]
            for c in (r, v):
                c.do("DEL g target")
                c.call("GEOADD", "g", *add)
            for _ in range(5):
                vertices = [near(rng, center, degrees) for _ in range(rng.choice([3, 3, 4, 5, 9]))]
                numbers = [repr(number) for vertex in vertices for number in vertex]
                polygon = ["BYPOLYGON", len(vertices), *numbers]
                everything = ["WITHDIST", "WITHCOORD", "WITHHASH"]
                for rest in ([], ["ASC"], ["DESC", *everything], ["COUNT", 3], ["COUNT", 2, "ANY"]):
                    words = ["GEOSEARCH", "g", *polygon, *rest]
                    assert r.raw(*words) == v.raw(*words), words
                found += len(r.call("GEOSEARCH", "g", *polygon))
                option = rng.choice([[], ["STOREDIST"]])
                words = ["GEOSEARCHSTORE", "target", "g", *polygon, *option]
                assert r.raw(*words) == v.raw(*words), words
                scores = ["ZRANGE", "target", "0", "-1", "WITHSCORES"]
                ours, theirs = (c.call(*scores) for c in (r, v))
                assert ours[::2] == theirs[::2]
                # The last digits of a distance are the processor's and the compiler's.
                assert [float(s) for s in ours[1::2]] == pytest.approx(
                    [float(s) for s in theirs[1::2]], rel=1e-6
                )
    assert found > 1000


def test_errors_are_those_of_valkey(r):
    polygon = "BYPOLYGON 3 0 0 2 0 1 2"
    rests = [
        "BYPOLYGON 2 0 0 2 0",
        "BYPOLYGON 3 0 0 2 0 1",
        "BYPOLYGON 0 1 1 1 1",
        "BYPOLYGON -3 1 1 1 1",
        "BYPOLYGON x 1 1 1 1",
        "BYPOLYGON 2147483651 1 1 1 1",
        "BYPOLYGON 3 nan 0 2 0 1 2",
        "BYPOLYGON 3 inf 0 2 0 1 2",
        "BYPOLYGON 3 0 86 2 0 1 2",
        f"{polygon} 3 3",
        f"{polygon} FROMMEMBER a",
        f"{polygon} FROMLONLAT 1 1",
        f"{polygon} BYRADIUS 1 km",
        f"{polygon} BYBOX 1 1 km",
        f"FROMMEMBER a {polygon}",
        f"BYRADIUS 1 km {polygon}",
        f"{polygon} ANY",
        f"{polygon} COUNT 0",
        f"{polygon} STOREDIST",
        f"{polygon} WITHDIST WITHDIST",
    ]
    with running_valkey() as v:
        for c in (r, v):
            c.do("GEOADD g 1 1 a")
            c.do("SET text v")
        for rest in rests:
            for begin in ("GEOSEARCH g", "GEOSEARCH none", "GEOSEARCH text", "GEOSEARCHSTORE d g"):
                words = f"{begin} {rest}".split()
                assert r.raw(*words) == v.raw(*words), words
