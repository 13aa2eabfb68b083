# SPDX-License-Identifier: Apache-2.0
"""Probabilistic types: BF.*, CMS.*, TOPK.*, with replies as the documentation of RedisBloom has
them. probabilistic_test has the errors of arguments."""

import random

import pytest

from harness.resp import OK, WRONGTYPE, Error, Map, Status, arity
from harness.server import only_dragonfly

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.alone,
    only_dragonfly("these are commands of a module"),
]

KEYS = [f"k{i}" for i in range(8)]  # in all shards


def test_a_bloom_filter_has_what_was_added(r):
    assert r.do("BF.RESERVE b 0.01 100") == OK
    assert r.do("BF.RESERVE b 0.01 100") == Error("ERR item exists")
    for start in range(0, 5000, 500):
        r.call("BF.MADD", "b", *range(start, start + 500))
    assert r.call("BF.MEXISTS", "b", *range(5000)) == [1] * 5000
    others = r.call("BF.MEXISTS", "b", *range(100_000, 120_000))
    assert sum(others) < 270, "20,000 times the rate that was asked for, and some noise"
    info = r.do("BF.INFO b")
    assert info[0::2] == [
        Status(name)
        for name in (
            "Capacity",
            "Size",
            "Number of filters",
            "Number of items inserted",
            "Expansion rate",
        )
    ]
    capacity, size, filters, items, expansion = info[1::2]
    assert (capacity, filters, expansion) == (6300, 6, 2)
    assert 4900 <= items <= 5000
    assert r.do("BF.CARD b") == items
    assert 6300 < size < 20_000
    assert r.do("TYPE b") == Status("MBbloom--")
    r.do("SET text b")
    cursor, found = 0, []
    while True:
        cursor, keys = r.call("SCAN", cursor, "TYPE", "MBbloom--")
        found += keys
        if cursor == b"0":
            break
    assert found == [b"b"]


def test_a_bloom_filter_goes_to_another_key_in_pieces(r):
    r.do("BF.RESERVE b 0.001 1000000")
    r.call("BF.MADD", "b", *range(2000))
    for target in KEYS:
        iterator, pieces = 0, 0
        while True:
            iterator, data = r.call("BF.SCANDUMP", "b", iterator)
            if iterator == 0:
                assert data == b""
                break
            assert r.call("BF.LOADCHUNK", target, iterator, data) == OK
            pieces += 1
        assert pieces >= 3
        assert r.call("BF.MEXISTS", target, *range(2000)) == [1] * 2000
        assert r.call("BF.INFO", target) == r.do("BF.INFO b")
    assert r.do("BF.LOADCHUNK b 1 nonsense") == Error("ERR received bad data")


def test_replies_of_resp3(r3):
    assert r3.do("BF.ADD b x") is True
    assert r3.do("BF.MADD b x y") == [False, True]
    assert r3.do("BF.EXISTS b z") is False
    assert r3.do("BF.INFO b CAPACITY") == Map(((Status("Capacity"), 100),))
    r3.do("CMS.INITBYDIM c 10 2")
    sizes = ((Status("width"), 10), (Status("depth"), 2), (Status("count"), 0))
    assert r3.do("CMS.INFO c") == Map(sizes)
    r3.do("TOPK.RESERVE t 2")
    assert r3.do("TOPK.ADD t x") == [None]
    assert r3.do("TOPK.QUERY t x y") == [True, False]
    assert r3.do("TOPK.INFO t").dict()[Status("decay")] == 0.9


def test_sketches_never_count_too_little(r):
    rng = random.Random(3)
    counts = {}
    assert r.do("CMS.INITBYPROB c 0.001 0.01") == OK
    for _ in range(50):
        pairs = [(f"item{rng.randrange(500)}", rng.randrange(9)) for _ in range(40)]
        for item, count in pairs:
            counts[item] = counts.get(item, 0) + count
        r.call("CMS.INCRBY", "c", *(word for pair in pairs for word in pair))
    told = dict(zip(counts, r.call("CMS.QUERY", "c", *counts)))
    assert all(told[item] >= count for item, count in counts.items())
    total = sum(counts.values())
    too_large = sum(told[item] > count + total / 1000 for item, count in counts.items())
    assert too_large <= len(counts) / 50
    assert r.do("CMS.INFO c")[5] == total


@pytest.mark.parametrize("target", KEYS[:3])
def test_sketches_are_merged_over_shards(r, target):
    for i, key in enumerate(KEYS):
        assert r.call("CMS.INITBYDIM", key, 2000, 5) == OK
        assert r.call("CMS.INCRBY", key, "all", 1, key, 10 + i) == [1, 10 + i]
    assert r.call("CMS.MERGE", target, len(KEYS), *KEYS) == OK
    assert r.call("CMS.QUERY", target, "all", *KEYS) == [8, *(10 + i for i in range(8))]
    weights = range(2, 9)
    sources = [key for key in KEYS if key != target]
    assert r.call("CMS.MERGE", target, 7, *sources, "WEIGHTS", *weights) == OK
    expected = [w * (10 + KEYS.index(key)) for w, key in zip(weights, sources)]
    assert r.call("CMS.QUERY", target, "all", *sources) == [sum(weights), *expected]
    # In an EXEC the same, and errors leave all as it was.
    r.do("SET other text")
    for in_exec in (False, True):
        if in_exec:
            assert r.do("MULTI") == OK
        replies = [
            r.call("CMS.MERGE", target, 2, sources[0], "other"),
            r.call("CMS.MERGE", target, 2, sources[0], "missing"),
            r.call("CMS.MERGE", target, 1, sources[0], "WEIGHTS", -1),
            r.call("CMS.MERGE", target, 1, sources[0]),
            r.call("CMS.QUERY", target, "all"),
        ]
        if in_exec:
            replies = r.do("EXEC")
        assert replies == [
            WRONGTYPE,
            Error("CMS: key does not exist"),
            Error("CMS: MERGE overflow"),
            OK,
            [1],
        ]


def test_the_most_frequent_items_are_found(r):
    rng = random.Random(5)
    assert r.do("TOPK.RESERVE t 10 500 5 0.9") == OK
    assert r.do("TOPK.RESERVE t 10") == Error("TopK: key already exists")
    counts = {}
    for _ in range(100):
        items = [f"i{int(rng.paretovariate(0.8))}" for _ in range(200)]
        for item in items:
            counts[item] = counts.get(item, 0) + 1
        r.call("TOPK.ADD", "t", *items)
    expected = sorted(counts, key=counts.get, reverse=True)[:5]
    listed = [item.decode() for item in r.do("TOPK.LIST t")]
    assert len(listed) == 10
    assert listed[:5] == expected
    assert r.call("TOPK.QUERY", "t", *expected, "none") == [1] * 5 + [0]
    for item, count in zip(expected, r.call("TOPK.COUNT", "t", *expected)):
        assert abs(count - counts[item]) <= counts[item] / 20
    with_count = r.do("TOPK.LIST t WITHCOUNT")
    assert [item.decode() for item in with_count[0::2]] == listed
    assert with_count[1::2] == sorted(with_count[1::2], reverse=True)
    # Whoever comes with more than the last one expels it.
    counts_of = dict(zip(with_count[0::2], with_count[1::2]))
    (expelled,) = r.do("TOPK.INCRBY t new 5000")
    assert counts_of[expelled] == min(counts_of.values())
    assert set(r.do("TOPK.LIST t")) == set(counts_of) - {expelled} | {b"new"}


def test_copies_live_on_their_own(r):
    r.do("BF.ADD b x")
    r.do("CMS.INITBYDIM c 100 3")
    r.do("TOPK.RESERVE t 3")
    for i in range(6):
        for key in "bct":
            assert r.call("COPY", key, f"{key}{i}") == 1
        assert r.call("BF.ADD", f"b{i}", f"y{i}") == 1
        assert r.call("CMS.INCRBY", f"c{i}", "x", i + 1) == [i + 1]
        r.call("TOPK.ADD", f"t{i}", f"x{i}")
        assert r.call("TOPK.LIST", f"t{i}") == [f"x{i}".encode()]
        assert r.call("RENAME", f"c{i}", f"d{i}") == OK
        assert r.call("CMS.QUERY", f"d{i}", "x") == [i + 1]
    assert r.do("BF.CARD b") == 1
    assert r.do("CMS.QUERY c x") == [0]
    assert r.do("TOPK.LIST t") == []
    for key in "bct":
        payload = r.call("DUMP", key)
        assert r.call("RESTORE", f"{key}r", 0, payload) == OK
        assert r.call("DUMP", f"{key}r") == payload
        assert r.call("TYPE", f"{key}r") == r.call("TYPE", key)


def test_memory_of_large_ones_comes_back(r):
    before = r.info("memory")["used_memory"]
    for i in range(8):
        assert r.call("BF.RESERVE", f"b{i}", 0.01, 1_000_000) == OK
    assert int(r.info("memory")["used_memory"]) > int(before) + 8_000_000
    assert r.call("DEL", *(f"b{i}" for i in range(8))) == 8
    assert int(r.info("memory")["used_memory"]) < int(before) + 4_000_000


def test_too_few_arguments(r):
    for line in ("BF.ADD b", "BF.INSERT b ITEMS", "CMS.INCRBY c x", "CMS.MERGE c 1", "TOPK.ADD t"):
        assert r.do(line) == arity(line.split()[0].lower()), line
    assert r.do("BF.INSERT b NOCREATE ITEMS x") == Error("ERR not found")
    assert r.do("EXISTS b") == 0


def test_a_target_may_expire_while_sketches_are_merged(r):
    """Sums of so many counters take longer than the target has. The sources are in all shards."""
    sources = [f"c{i}" for i in range(4)]
    for key in (*sources, "model"):
        assert r.call("CMS.INITBYDIM", key, 500_000, 4) == OK
    allowed = (OK, Error("CMS: key does not exist"))
    for ttl_ms in (1, 2, 3, 5, 8) * 4:
        r.call("COPY", "model", "target", "REPLACE"), r.call("PEXPIRE", "target", ttl_ms)
        assert r.call("CMS.MERGE", "target", len(sources), *sources) in allowed
