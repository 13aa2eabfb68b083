# SPDX-License-Identifier: Apache-2.0
"""Members of sets with deadlines: commands of Dragonfly's, so nothing here runs on redis-server."""

import pytest

from harness.resp import OK, Error, Status
from harness.server import only_dragonfly, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.alone,
    only_dragonfly("SADDEX, FIELDEXPIRE and FIELDTTL are Dragonfly's"),
]

QUEUED = Status("QUEUED")
KEYS = [f"s{i}" for i in range(8)]  # in all shards


def test_members_get_deadlines(r):
    assert r.do("SADDEX s 100 a b") == 2
    assert r.do("SADDEX s KEEPTTL 200 b c") == 1
    assert 90 < r.do("FIELDTTL s b") <= 100
    assert 190 < r.do("FIELDTTL s c") <= 200
    assert r.do("SADD s a d") == 1
    assert 90 < r.do("FIELDTTL s a") <= 100
    assert r.do("FIELDTTL s d") == -1
    assert r.do("FIELDTTL s x") == -3
    assert r.do("FIELDTTL none x") == -2
    assert r.do("OBJECT ENCODING s") == b"hashtable"
    payload = r.call("DUMP", "s")
    assert r.call("RESTORE", "copy", 0, payload) == OK
    assert r.call("DUMP", "copy") == payload


def test_fieldexpire_answers_per_member(r):
    r.do("SADD s a b")
    r.do("HSET h a 1 b 2")
    for key in "sh":
        assert r.do(f"FIELDEXPIRE {key} 100 a x") == [1, -2]
        assert 90 < r.do(f"FIELDTTL {key} a") <= 100
        assert r.do(f"FIELDEXPIRE {key} 0 a b") == [2, 2]
        assert r.do(f"EXISTS {key}") == 0
        assert r.do(f"FIELDEXPIRE {key} 100 a b") == [-2, -2]


@pytest.mark.threads
def test_due_members_go_and_the_key_with_the_last_one_without_being_looked_at(r):
    r.do("SADDEX stays 1 a")
    r.do("SADD stays b")
    for key in KEYS:
        r.do(f"SADDEX {key} 1 a b")
    wait_until(lambda: r.do("DBSIZE") == 1, what="active expiry")
    assert r.do("SMEMBERS stays") == [b"b"]


@pytest.mark.threads
def test_due_members_are_left_out_at_once(r):
    for key in KEYS:
        r.do(f"SADDEX {key} 1 a")
        r.do(f"SADD {key} b")
    wait_until(lambda: r.do(f"SISMEMBER {KEYS[-1]} a") == 0, what="the last deadline")
    keys = " ".join(KEYS)
    assert r.do(f"SINTER {keys}") == [b"b"]
    assert r.do(f"SUNION {keys}") == [b"b"]
    assert r.do(f"ZUNION {len(KEYS)} {keys}") == [b"b"]
    assert [r.do(f"SCARD {key}") for key in KEYS] == [1] * len(KEYS)


def test_inside_a_transaction(r):
    assert r.do("MULTI") == OK
    deadlines = ("SADDEX {t}s 100000 a", "FIELDEXPIRE {t}s 50000 a")
    for line in (*deadlines, "FIELDTTL {t}s a", "SCARD {t}s"):
        assert r.do(line) == QUEUED
    added, expired, ttl, count = r.do("EXEC")
    assert (added, expired, count) == (1, [1], 1)
    assert 0 < ttl <= 50_000, "the second deadline, not the first"


def test_a_new_deadline_is_a_change_to_watch(server, r):
    r.do("SADD s a")
    for line, reply in (
        ("SADDEX s 100 a", None),
        ("FIELDEXPIRE s 100 a", None),
        ("SADDEX s KEEPTTL 100 a", [0]),
        ("FIELDEXPIRE s 100 x", [0]),
    ):
        assert r.do("WATCH s") == OK
        with server.connect() as other:
            other.do(line)
        assert r.do("MULTI") == OK
        assert r.do("EXISTS none") == QUEUED
        assert r.do("EXEC") == reply, line
