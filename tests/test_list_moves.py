# SPDX-License-Identifier: Apache-2.0
"""BLMOVEM, of Redis 8.10. More of it is in test_blocking.py, and of LMOVEM in
src/commands/collections/list_moves_test.cc."""

import pytest

from harness.resp import OK, WRONGTYPE
from harness.server import only_dragonfly
from test_blocking import apart, nobody_is_forgotten, waiting

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.sanitized,
    pytest.mark.alone,
    only_dragonfly("it came with 8.10"),
]


def test_who_wants_so_many_waits_until_there_are_so_many(server, r):
    for target in ("{k}t", *apart(r, "k")):
        r.call("FLUSHALL")
        wants = f"BLMOVEM k {target} LEFT RIGHT 0 EXACTLY 3 BULK"
        with waiting(server, r, [wants, "BLPOP k 0", wants]) as (first, one, second):
            # Who wants fewer is served before, whoever came first.
            r.do("RPUSH k a")
            assert one.read() == [b"k", b"a"]
            r.do("RPUSH k b c")
            assert r.do("LRANGE k 0 -1") == [b"b", b"c"]
            r.do("RPUSH k d e")
            assert first.read() == [b"b", b"c", b"d"]
            assert r.do("LRANGE k 0 -1") == [b"e"]
            r.do("MULTI")
            r.do("LPUSH k f")
            r.do("LPUSH k g")
            assert r.do("EXEC") == [2, 3]
            assert second.read() == [b"g", b"f", b"e"]
            assert r.call("LRANGE", target, 0, -1) == [b"b", b"c", b"d", b"g", b"f", b"e"]
            assert r.do("EXISTS k") == 0
        nobody_is_forgotten(r)


def test_what_a_blmovem_finds_it_takes_at_once(server, r):
    for target in ("{k}t", *apart(r, "k")):
        r.call("FLUSHALL")
        r.do("RPUSH k 1 2 3")
        assert r.do(f"BLMOVEM k {target} RIGHT LEFT 0 COUNT 2 OBO") == [b"2", b"3"]
        assert r.do(f"BLMOVEM k {target} RIGHT LEFT 0.01 EXACTLY 2 OBO") is None
        r.call("SET", target, "v")
        assert r.do(f"BLMOVEM k {target} RIGHT LEFT 0") == WRONGTYPE
        assert r.do("LRANGE k 0 -1") == [b"1"]
        assert r.do("SET k v") == OK
        assert r.do(f"BLMOVEM k {target} RIGHT LEFT 0 EXACTLY 9 BULK") == WRONGTYPE
        r.do("MULTI")
        r.do("DEL k")
        r.call("DEL", target)
        r.do(f"BLMOVEM k {target} LEFT LEFT 0")
        r.do("RPUSH k a b")
        r.do(f"BLMOVEM k {target} LEFT LEFT 0 EXACTLY 3 OBO")
        r.do(f"BLMOVEM k {target} LEFT LEFT 0 EXACTLY 2 OBO")
        assert r.do("EXEC") == [1, 1, None, 2, None, [b"b", b"a"]]
