# SPDX-License-Identifier: Apache-2.0
"""JSON.*, with replies as the documentation of Redis 8 has them; also as redis-py calls them.
json_test has the errors of arguments."""

import json
import math
import random

import pytest
import redis

from harness.nodes import await_offset, follow
from harness.resp import OK, Error, Status
from harness.server import only_dragonfly, wait_until

pytestmark = [
    pytest.mark.sanitized,
    only_dragonfly("these are commands of a module"),
]

KEYS = [f"k{i}" for i in range(8)]  # in all shards

# Those of redis-server 7.0, in its order, and the last one.
CATEGORIES = (
    "keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin "
    "fast slow blocking dangerous connection transaction scripting json"
)

EARBUDS = {
    "name": "Wireless earbuds",
    "connection": {"wireless": True, "type": "Bluetooth"},
    "price": 64.99,
    "stock": 17,
    "colors": ["black", "white"],
    "max_level": [80, 100, 120],
}


def text_of(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def get(r, key, *paths):
    return json.loads(r.call("JSON.GET", key, *paths))


@pytest.mark.alone
def test_a_document_is_set_and_read(r):
    assert r.call("JSON.SET", "item", "$", text_of(EARBUDS)) == OK
    assert r.call("JSON.GET", "item") == text_of(EARBUDS).encode()
    assert get(r, "item", "$.colors[*]") == ["black", "white"]
    assert r.call("JSON.ARRLEN", "item", "$.[*]") == [None, None, None, None, 2, 3]
    assert r.call("JSON.TYPE", "item", "$..type") == [b"string"]
    assert r.call("JSON.NUMINCRBY", "item", "$.stock", "-1") == b"[16]"
    assert r.call("JSON.NUMINCRBY", "item", "$.price", "0.01") == b"[65.0]"
    assert r.do("TYPE item") == Status("ReJSON-RL")
    cursor, found = r.call("SCAN", "0", "TYPE", "ReJSON-RL", "COUNT", "1000")
    assert (cursor, found) == (b"0", [b"item"])
    assert r.call("JSON.DEL", "item", "$..type") == 1
    assert r.call("JSON.DEL", "item") == 1
    assert r.call("JSON.GET", "item") is None


def test_keys_in_all_shards(r):
    words = [word for i, key in enumerate(KEYS) for word in (key, "$", text_of({"n": i}))]
    assert r.call("JSON.MSET", *words) == OK
    assert r.call("JSON.MGET", *KEYS, "none", "$.n") == [
        *(f"[{i}]".encode() for i in range(len(KEYS))),
        None,
    ]
    bad = [*words, "new", "$.a", "1"]
    assert r.call("JSON.MSET", *bad) == Error("ERR new objects must be created at the root")
    assert r.call("EXISTS", "new") == 0


def test_in_transactions_and_scripts(r, server):
    r.do("MULTI")
    r.call("JSON.SET", "{t}a", "$", "[1]")
    r.call("JSON.ARRAPPEND", "{t}a", "$", "2")
    r.call("JSON.MSET", "k1", "$", "1", "k2", "$", "2")
    r.call("JSON.MGET", "k1", "k2", "{t}a", ".")
    assert r.do("EXEC") == [OK, [2], OK, [b"1", b"2", b"[1,2]"]]
    script = "return redis.call('JSON.NUMINCRBY', KEYS[1], '$[*]', ARGV[1])"
    assert r.call("EVAL", script, "1", "{t}a", "5") == b"[6,7]"
    deep = "[" * 128 + "]" * 128
    script = "redis.call('JSON.SET', KEYS[1], '$', ARGV[1]); return redis.call('JSON.GET', KEYS[1])"
    assert r.call("EVAL", script, "1", "deep", deep) == deep.encode()
    script = "return #redis.call('JSON.GET', KEYS[1], '$..*')"
    assert r.call("EVAL", script, "1", "deep") > 128 * 127
    # A script's fiber has a small stack.
    path = "$[?" + "(" * 14 + '@.a =~ "(?i)^(x+|y[[:alpha:]]*){2,99}z$"' + ")" * 14 + "].a"
    assert r.call("JSON.SET", "deep", "$", '[{"a":"XyyxZ"},{"a":"xy"},{"a":1}]') == OK
    assert r.call("EVAL", "return redis.call('JSON.GET', KEYS[1], ARGV[1])", "1", "deep", path) == (
        b'["XyyxZ"]'
    )
    nested = "$" + "[?@" * 16 + "]" * 16
    values = text_of([[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]])
    assert r.call("JSON.SET", "deep", "$", values) == OK
    found = r.call("EVAL", "return redis.call('JSON.GET', KEYS[1], ARGV[1])", "1", "deep", nested)
    assert found == values.encode()
    for inner in (
        "$.n" + ".append(1)" * 15,
        "append(" * 14 + "$.n" + ", 1)" * 14,
        "$.n[?" + "abs(" * 14 + "@" + ")" * 14 + "]",
        "$.n[?" + "!" * 14 + "(@ + 1 == 2)]",
        "1" + " + 1" * 300,
    ):
        assert r.call("JSON.SET", "deep", "$", '{"n":[1]}') == OK
        script = "return redis.call('JSON.GET', KEYS[1], ARGV[1])"
        found = r.call("EVAL", script, "1", "deep", inner)
        assert json.loads(found)[0] in (1, 301), inner
    r.do("WATCH {t}a")
    with server.connect() as other:
        assert other.call("JSON.SET", "{t}a", "$[0]", "0") == OK
    r.do("MULTI")
    r.do("PING")
    assert r.do("EXEC") is None


@pytest.mark.alone
def test_paths_compute(r):
    assert r.call("JSON.SET", "item", "$", text_of(EARBUDS)) == OK
    assert get(r, "item", "$.price * 2") == [129.98]
    assert get(r, "item", "$.max_level.avg()") == [100.0]
    assert get(r, "item", "$.stock + 1", "$.name") == {
        "$.stock + 1": [18],
        "$.name": ["Wireless earbuds"],
    }
    assert get(r, "item", "$.connection~") == ["wireless", "type"]
    assert get(r, "item", "$.max_level[?@ / 2 > 45]") == [100, 120]
    assert r.call("JSON.NUMINCRBY", "item", "$.max_level[?@ % 40 == 0]", "1") == b"[81,121]"
    assert get(r, "item", ".max_level") == [81, 100, 121]
    for i, key in enumerate(KEYS):
        assert r.call("JSON.SET", key, "$", text_of({"n": [i, i + 1]})) == OK
    assert r.call("JSON.MGET", *KEYS, "none", "sum($.n)") == [
        *(f"[{2 * i + 1}]".encode() for i in range(len(KEYS))),
        None,
    ]
    before = r.call("JSON.GET", "item")
    for words in (("JSON.SET", "1"), ("JSON.DEL",), ("JSON.TYPE",), ("JSON.ARRAPPEND", "1")):
        refused = r.call(words[0], "item", "$.stock + 1", *words[1:])
        assert refused.text.startswith("ERR '$.stock + 1' computes a value"), words
    assert r.call("JSON.GET", "item") == before


@pytest.mark.alone
# Lua, which is in the same program, has a remainder of its own.
def test_remainders(r):
    for a, b in [
        (5.5, -2), (-5.5, 2), (-5.5, -2), (7.5, 2), (-7, 2), (7, -2), (1e308, 1e-308), (-1e308, 3),
        (1e300, 7.5), (5e-324, 3), (2.0**53, 0.1), (-0.5, 2),
    ]:  # fmt: skip
        assert r.call("JSON.SET", "n", "$", text_of([a, b])) == OK
        assert get(r, "n", "$[0] % $[1]") == [math.fmod(a, b)], (a, b)
    assert r.call("EVAL", "return tostring(5.5 % -2)", "0") == b"-0.5"


@pytest.mark.alone
def test_regular_expressions_are_short(r):
    assert r.call("JSON.SET", "d", "$", text_of({"t": ["ab"], "p": [r"\pL" * 100_000, "b"]})) == OK
    assert get(r, "d", "$.t[?@ =~ 'b']") == ["ab"]
    assert get(r, "d", "$.p[?'ab' =~ @]") == ["b"]
    refused = r.call("JSON.GET", "d", "$.t[?@ =~ '" + "x" * 1025 + "']")
    assert refused.text.endswith("expected a regular expression of at most 1024 bytes.")
    assert len(refused.text) < 600


@pytest.mark.alone
# An expression over a large array ends, and its memory is given back.
def test_what_expressions_take_is_bounded(r):
    too_much = Error("ERR the path visits more nodes than --json_path_visits_max allows")
    assert r.call("JSON.SET", "large", "$", "{}") == OK
    assert r.call("JSON.SET", "large", "$.n", text_of(list(range(100_000)))) == OK
    assert r.call("JSON.SET", "large", "$.t", text_of("x" * 1000)) == OK
    assert r.call("JSON.SET", "large", "$.s", text_of("x" * 100)) == OK
    used = int(r.info("memory")["used_memory"])
    assert get(r, "large", "$.n[?@ % 50000 == 1]") == [1, 50001]
    assert get(r, "large", "$.n.append(1).count()") == [100_001]
    assert r.call("JSON.GET", "large", "$.n[?sum($.n) == @]") == too_much
    assert r.call("JSON.GET", "large", "$.n[*] + $.n[*]") == too_much
    assert r.call("JSON.GET", "large", "$.n" + ".append($.n[*])" * 15) == too_much
    assert r.call("JSON.GET", "large", "concat(" + ", ".join(["$.t"] * 600) + ")") == too_much
    assert get(r, "large", "$.n[?concat($.s, 'y') == 'y']") == []
    wait_until(lambda: int(r.info("memory")["used_memory"]) < used + 500_000)


def random_value(rng, depth=4):
    kind = rng.randrange(9 if depth else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-(2**rng.randrange(63)), 2 ** rng.randrange(64))
    if kind in (2, 3):
        return rng.choice([0.1, 1.0, -2.5e-9, 1e22, rng.random(), rng.random() * 1e9])
    if kind in (4, 5):
        return "".join(rng.choice('a"\\/\n\x01äö€😀') for _ in range(rng.randrange(12)))
    if kind in (6, 7):
        names = (f"{rng.choice('abc')}{'x' * rng.randrange(9)}" for _ in range(rng.randrange(40)))
        return {name: random_value(rng, depth - 1) for name in names}
    return [random_value(rng, depth - 1) for _ in range(rng.randrange(6))]


@pytest.mark.alone
def test_any_document_comes_back(r):
    rng = random.Random(7)
    for _ in range(200):
        value = random_value(rng)
        assert r.call("JSON.SET", "any", "$", json.dumps(value)) == OK
        assert get(r, "any", ".") == value
        assert get(r, "any") == value
        text = r.call("JSON.GET", "any", ".")
        assert r.call("JSON.SET", "again", "$", text) == OK
        assert r.call("JSON.GET", "again", ".") == text
        assert r.call("DEL", "any") == 1


@pytest.mark.alone
def test_what_is_kept_over_a_restart(start_server):
    server = start_server(proactor_threads=2, dbfilename="dump")
    numbers = "[18446744073709551615,1.0,-0.0,1e300]"
    with server.connect() as c:
        assert c.call("JSON.SET", "doc", "$", json.dumps(random_value(random.Random(5)))) == OK
        assert c.call("JSON.SET", "numbers", "$", numbers) == OK
        before = c.call("JSON.GET", "doc")
        assert c.call("SAVE") == OK
    server.stop()
    server.start_again()
    with server.connect() as c:
        assert c.call("JSON.GET", "doc") == before
        assert c.call("JSON.GET", "numbers") == numbers.encode()


PACKED = '{"e":[0.1,1,-2.5],"changed":[0.1,2.5],"ids":[1,2]}'
PACKED_TEXT = b'{"e":[0.1,1.0,-2.5],"changed":[0.1,3.5],"ids":[1,2]}'


def set_packed(c):
    """Documents of each type in all shards, with an array that was unpacked for a change."""
    for key in KEYS:
        for name in ("FP16", "BF16", "FP32", "FP64"):
            assert c.call("JSON.SET", key + name, "$", PACKED, "FPHA", name) == OK
            assert c.call("JSON.NUMINCRBY", key + name, "$.changed[1]", "1") == b"[3.5]"


def packed_state(c):
    """Texts, and bytes: an array that is not packed takes more."""
    names = [key + name for key in KEYS for name in ("FP16", "BF16", "FP32", "FP64")]
    for name in names:
        assert c.call("JSON.GET", name) == PACKED_TEXT
    return [c.call("JSON.DEBUG", "MEMORY", name, "$..*") for name in names]


@pytest.mark.alone
@pytest.mark.parametrize("kept_by", ["snapshot", "log"])
def test_packed_arrays_are_kept_over_a_restart(start_server, kept_by):
    is_log = kept_by == "log"
    args = {"appendonly": "yes"} if is_log else {"dbfilename": "dump"}
    server = start_server(proactor_threads=2, **args)
    with server.connect() as c:
        set_packed(c)
        before = packed_state(c)
        if not is_log:
            assert c.call("SAVE") == OK
    server.stop()
    server.start_again()
    with server.connect() as c:
        assert packed_state(c) == before


def test_packed_arrays_go_to_replicas(start_server):
    primary = start_server(proactor_threads=2, repl_diskless_sync_delay=0)
    other = start_server(proactor_threads=2)
    with primary.connect() as c, other.connect() as replica:
        set_packed(c)
        follow(replica, primary)  # by a snapshot
        assert packed_state(replica) == packed_state(c)
        assert c.call("FLUSHALL") == OK
        set_packed(c)  # by commands
        await_offset(c, replica)
        assert packed_state(replica) == packed_state(c)


@pytest.mark.alone
def test_packed_arrays_take_few_bytes(r):
    numbers = json.dumps([random.Random(3).random() for _ in range(1024)])
    taken = {}
    for name in ("FP16", "BF16", "FP32", "FP64", None):
        assert r.call("JSON.SET", "e", "$", numbers, *(["FPHA", name] if name else [])) == OK
        taken[name] = r.call("JSON.DEBUG", "MEMORY", "e", ".")
        assert taken[name] <= r.call("MEMORY", "USAGE", "e")
    assert 2048 < taken["FP16"] == taken["BF16"] < 3000
    assert 4096 < taken["FP32"] < 6000
    assert 8192 < taken["FP64"] < 11000
    assert taken[None] > 16000
    # What a change makes of it is counted.
    assert r.call("JSON.SET", "e", "$", numbers, "FPHA", "FP16") == OK
    assert r.call("JSON.SET", "e", "$[0]", "1") == OK
    assert r.call("JSON.DEBUG", "MEMORY", "e", ".") > 8192
    assert r.call("MEMORY", "USAGE", "e") > 8192


@pytest.mark.alone
# What a filter with an expression changed is changed by the log, too.
def test_what_a_log_has(start_server):
    server = start_server(proactor_threads=2, appendonly="yes")
    with server.connect() as c:
        assert c.call("JSON.SET", "doc", "$", '{"n":[1,2,3,4],"t":["ab","c"]}') == OK
        assert c.call("JSON.NUMINCRBY", "doc", "$.n[?@ % 2 == 0]", "10") == b"[12,14]"
        assert c.call("JSON.DEL", "doc", "$.t[?length(@) == 1]") == 1
        before = c.call("JSON.GET", "doc")
    server.stop()
    server.start_again()
    with server.connect() as c:
        assert c.call("JSON.GET", "doc") == before == b'{"n":[1,12,3,14],"t":["ab"]}'


def test_events(r, server):
    r.do("CONFIG SET notify-keyspace-events Ed")
    listener = server.connect()
    listener.do("PSUBSCRIBE __keyevent@0__:*")
    r.call("JSON.SET", "e", "$", "[1]")
    r.call("JSON.ARRAPPEND", "e", "$", "2")
    r.call("JSON.DEL", "e")
    events = [listener.read()[2].split(b":")[1] for _ in range(3)]
    r.do("CONFIG SET notify-keyspace-events ''")
    assert events == [b"json.set", b"json.arrappend", b"json.del"]


@pytest.mark.alone
def test_the_category_of_users(r, server):
    assert r.do("ACL CAT") == [word.encode() for word in CATEGORIES.split()]
    assert b"json.set" in r.do("ACL CAT json")
    r.do("ACL SETUSER reader on nopass ~* +@all -@json +json.get")
    c = server.connect()
    assert c.do("AUTH reader x") == OK
    assert c.do("JSON.GET none") is None
    assert c.call("JSON.SET", "d", "$", "1").text.startswith("NOPERM")
    r.do("ACL DELUSER reader")


@pytest.mark.alone
def test_limits(r):
    assert r.call("CONFIG", "SET", "json_max_depth", "3") == OK
    assert r.call("JSON.SET", "d", "$", "[[[1]]]") == OK
    assert isinstance(r.call("JSON.SET", "d", "$", "[[[[1]]]]"), Error)
    assert r.call("CONFIG", "SET", "json_max_depth", "128", "json_path_visits_max", "1000") == OK
    assert r.call("JSON.SET", "d", "$", text_of([0] * 2000)) == OK
    assert r.call("JSON.GET", "d", "$[*]") == Error(
        "ERR the path visits more nodes than --json_path_visits_max allows"
    )
    # Those of a command share it. The keys are in all shards; many of them are in one of these.
    assert r.call("JSON.SET", "d", "$", text_of([0] * 20)) == OK
    assert get(r, "d", "$[*]") == [0] * 20
    too_much = Error("ERR the path visits more nodes than --json_path_visits_max allows")
    assert r.call("JSON.GET", "d", *["$[*]"] * 10) == too_much
    for i in range(100):
        assert r.call("JSON.SET", f"d{i}", "$", text_of([0] * 20)) == OK
    assert r.call("JSON.MGET", *(f"d{i}" for i in range(100)), "$[*]") == too_much
    assert r.call("CONFIG", "SET", "json_path_visits_max", "16000000") == OK
    assert r.call("JSON.SET", "d", "$", text_of([0] * 2000)) == OK
    assert get(r, "d", "$[*]") == [0] * 2000


def test_large_documents_are_freed_and_moved(r):
    used = int(r.info("memory")["used_memory"])
    value = {f"member {i}": {"a": [i] * 5, "text": "x" * 50} for i in range(20_000)}
    assert r.call("JSON.SET", "large", "$", text_of(value)) == OK
    assert r.call("MEMORY", "USAGE", "large") > 1_000_000
    assert get(r, "large", "$['member 19999'].a") == [[19999] * 5]
    assert r.call("JSON.DEL", "large", "$..text") == 20_000
    assert get(r, "large", "$..a[0]") == list(range(20_000))
    assert r.call("DEL", "large") == 1
    wait_until(lambda: int(r.info("memory")["used_memory"]) < used + 500_000)


@pytest.mark.alone
@pytest.mark.parametrize("protocol", [2, 3])
def test_as_redis_py_calls_it(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol) as client:
        client.flushall()
        doc = client.json()
        assert doc.set("d", "$", {"a": 2, "b": [1, "x"], "n": {"a": 4}})
        assert doc.get("d", "$..a") == [2, 4]
        assert doc.get("d", "$.a", "$.b") == {"$.a": [2], "$.b": [[1, "x"]]}
        assert doc.type("d", "$.b") in (["array"], [["array"]], [b"array"], [[b"array"]])
        assert doc.arrappend("d", "$.b", 3, {"y": None}) == [4]
        assert doc.arrindex("d", "$.b", "x") == [1]
        assert doc.arrinsert("d", "$.b", 0, True) == [5]
        assert doc.arrlen("d", "$.b") == [5]
        popped = doc.arrpop("d", "$.b")
        assert [json.loads(x) if isinstance(x, (str, bytes)) else x for x in popped] == [
            {"y": None}
        ]
        assert doc.arrtrim("d", "$.b", 1, 2) == [2]
        assert doc.numincrby("d", "$..a", 2) == [4, 6]
        assert doc.strappend("d", "y", "$.b[1]") == [2]
        assert doc.strlen("d", "$.b[1]") == [2]
        assert len(doc.objkeys("d", "$")[0]) == 3
        assert doc.objlen("d", "$") == [3]
        assert doc.merge("d", "$", {"b": None, "c": {"d": 1}})
        assert doc.mset([("e", "$", {"a": 1}), ("f", "$", {"a": False})])
        assert doc.mget(["d", "e"], "$.a") == [[4], [1]]
        assert doc.get("d", "$.a * 2", "$.c.keys()") == {"$.a * 2": [8], "$.c.keys()": ["d"]}
        assert doc.mget(["d", "e"], "$.a + 1") == [[5], [2]]
        with pytest.raises(redis.ResponseError, match="computes a value"):
            doc.type("d", "$.a + 1")
        assert doc.toggle("f", "$.a") == [1]
        assert doc.clear("d", "$.c") == 1
        assert doc.get("d", "$") == [{"a": 4, "n": {"a": 6}, "c": {}}]
        assert doc.delete("d", "$.n") == 1
        assert doc.forget("d", "$") == 1
        assert doc.get("d", "$") is None
