# SPDX-License-Identifier: Apache-2.0
"""What Redis 8.2 to 8.10 brought, where no other file has it: operations of BITOP, INCREX,
SUNIONCARD, SDIFFCARD. Nobody here has such a server: the documentation says what they do."""

import pytest
import redis

from harness.resp import OK, Error
from harness.seeds import new_rng
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, only_dragonfly("they came with Redis 8")]


def of_bits(operation, first, others):
    if operation == "DIFF":
        return first & ~others[0] if len(others) == 1 else of_bits("DIFF", first, [union(others)])
    if operation == "DIFF1":
        return union(others) & ~first
    if operation == "ANDOR":
        return union(others) & first
    one, more = first, 0
    for other in others:
        more |= one & other
        one |= other
    return one & ~more


def union(numbers):
    result = 0
    for number in numbers:
        result |= number
    return result


@pytest.mark.parametrize("operation", ["DIFF", "DIFF1", "ANDOR", "ONE"])
def test_operations_on_bits(r, operation):
    rng = new_rng()
    for _ in range(100):
        texts = [rng.randbytes(rng.randrange(40)) for _ in range(rng.randint(2, 6))]
        keys = [f"bits-{i}" for i in range(len(texts))]
        r.do("FLUSHALL")
        for key, text in zip(keys, texts):
            if text:
                r.call("SET", key, text)
        size = max(map(len, texts))
        first, *others = (int.from_bytes(text.ljust(size, b"\0"), "big") for text in texts)
        expected = of_bits(operation, first, others).to_bytes(size, "big")
        assert r.call("BITOP", operation, "target", *keys) == size
        assert (r.do("GET target") or b"") == expected
        assert r.call("BITOP", operation, keys[0], *keys) == size  # over its own source
        assert (r.call("GET", keys[0]) or b"") == expected


def test_increx_with_numbers_that_no_double_can_hold(r, r3):
    """Text in both protocols, as of INCRBYFLOAT: hiredis takes no such double."""
    for c in (r, r3):
        c.do("SET n 0")
        assert len(c.do("INCREX n BYFLOAT -1e400")[0]) == 402
        assert c.do("INCREX n BYFLOAT 0.5 UBOUND 1")[1] in (0.5, b"0.5")
        largest = c.do("INCREX n BYFLOAT 1e4000 UBOUND 1e4932 SATURATE")
        assert [type(number) for number in largest] == [bytes, bytes]
        assert len(largest[0]) in (4000, 4001)
        assert c.do("INCREX n BYFLOAT 1e4932 UBOUND 12 SATURATE")[0] in (12.0, b"12")
        largest = c.do("INCREX n BYFLOAT 1e4932")
        assert c.do("INCRBYFLOAT n 0") == largest[0] == c.do("GET n")
    assert r3.do("INCREX double BYFLOAT 1e308") == [1e308, 1e308]


def test_increx_limits_a_rate(r, r3):
    assert [r.do("INCREX rate UBOUND 3 EX 100 ENX") for _ in range(5)] == [
        [1, 1],
        [2, 1],
        [3, 1],
        [3, 0],
        [3, 0],
    ]
    assert 0 < r.do("TTL rate") <= 100
    assert r.do("INCREX rate BYINT 10 UBOUND 8 SATURATE PERSIST") == [8, 5]
    assert r.do("TTL rate") == -1
    assert r.do("INCREX price BYFLOAT 0.25") == [b"0.25", b"0.25"]
    assert r3.do("INCREX price BYFLOAT 0.5") == [0.75, 0.5]
    assert r.do("INCREX rate LBOUND 5 UBOUND 4") == Error("ERR LBOUND can't be greater than UBOUND")
    assert r.do("INCREX rate BYINT 1 PX 1") == [9, 1]
    wait_until(lambda: r.do("EXISTS rate") == 0, what="expiry")
    script = "return redis.call('INCREX', KEYS[1], 'BYINT', ARGV[1], 'UBOUND', 10)"
    assert r.call("EVAL", script, 1, "stock", 7) == [7, 7]
    assert r.call("EVAL", script, 1, "stock", 7) == [7, 0]
    r.do("MULTI")
    r.do("INCREX stock BYINT -2")
    assert r.do("EXEC") == [[5, -2]]


def test_increx_of_many_clients_never_passes_the_bound(server, r):
    clients = [server.connect() for _ in range(8)]
    for client in clients:
        for _ in range(50):
            client.send_command("INCREX", "sold", "UBOUND", "100")
    replies = [client.read() for client in clients for _ in range(50)]
    assert sum(added for _, added in replies) == 100
    assert sorted(value for value, added in replies if added) == list(range(1, 101))
    assert r.do("GET sold") == b"100"
    for client in clients:
        client.close()


def test_sets_are_counted(r):
    rng = new_rng()
    keys = [f"set-{i}" for i in range(5)]
    for _ in range(50):
        r.do("FLUSHALL")
        sets = []
        for key in keys:
            sets.append({str(rng.randrange(60)) for _ in range(rng.randrange(40))})
            if sets[-1]:
                r.call("SADD", key, *sets[-1])
        together = len(set.union(*sets))
        alone = len(sets[0].difference(*sets[1:]))
        limit = rng.randrange(1, 70)
        assert r.call("SUNIONCARD", 5, *keys) == together
        assert r.call("SUNIONCARD", 5, *keys, "LIMIT", limit) == min(limit, together)
        assert r.call("SUNIONCARD", 5, *keys, "APPROX") == together
        assert r.call("SDIFFCARD", 5, *keys) == alone
        assert r.call("SDIFFCARD", 5, *keys, "LIMIT", limit) == min(limit, alone)
    assert r.do("COMMAND GETKEYS SUNIONCARD 2 a b LIMIT 5") == [b"a", b"b"]
    assert r.do("COMMAND GETKEYS SDIFFCARD 1 a") == [b"a"]
    assert r.call("SET", "set-0", "text") == OK
    assert r.call("SDIFFCARD", 2, "set-1", "set-0").text.startswith("WRONGTYPE")


def test_the_calls_of_redis_py(server):
    client = redis.Redis(port=server.port, decode_responses=True)
    assert client.increx("n", byint=5, ubound=7, saturate=True, ex=100) == [5, 5]
    assert client.increx("n", byint=5, ubound=7, saturate=True, ex=200, enx=True) == [7, 2]
    assert 0 < client.ttl("n") <= 100
    assert client.increx("n", byint=1, lbound=0, ubound=7, persist=True) == [7, 0]
    assert [float(x) for x in client.increx("f", byfloat=1.5)] == [1.5, 1.5]
    client.sadd("a", 1, 2, 3)
    client.sadd("b", 3, 4)
    assert client.sunioncard(2, ["a", "b"]) == 4
    assert client.sunioncard(2, ["a", "b"], limit=2, approx=True) == 2
    assert client.sdiffcard(2, ["a", "b"]) == 2
    assert client.sdiffcard(2, ["a", "b"], limit=1) == 1
    client.set("x", b"\x0f")
    client.set("y", b"\x05")
    assert client.bitop("DIFF", "d", "x", "y") == 1
    client.close()
