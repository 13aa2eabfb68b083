# SPDX-License-Identifier: Apache-2.0
"""Small hashes with the same names of fields share these (docs/internals/key-space.md). Nobody sees
it but in the memory that they take."""

import pytest

from harness.resp import OK, Error
from harness.seeds import new_rng
from harness.server import REFERENCE, SANITIZED, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="redis-server shares no names"),
]

RECORDS = 200 if SANITIZED else 1000
# Of two kinds, and some in another order.
NAMES = [
    [b"name", b"mail_address", b"17", b"created_at", b"last_seen_at"],
    [b"status", b"attempts", b"payload_of_job"],
    [b"mail_address", b"name", b"17", b"created_at", b"last_seen_at"],
]


def value_of(rng):
    return rng.choice([b"%d" % rng.randrange(10**9), b"v" * rng.randrange(60), b"", b"\x00\xff"])


class Records:
    """Hashes of the server, and a model of them: the same fields in the same order."""

    def __init__(self, c, rng):
        self.c, self.rng, self.model = c, rng, {}

    def fill(self):
        for i in range(RECORDS):
            fields = {name: value_of(self.rng) for name in NAMES[i % len(NAMES)]}
            self.model[b"record:%d" % i] = fields
            words = [word for pair in fields.items() for word in pair]
            assert self.c.call("HSET", b"record:%d" % i, *words) == len(fields)

    def change(self):
        for key in list(self.model):
            fields = self.model[key]
            name = self.rng.choice([*fields, b"new", b"another", b"only of " + key])
            name = b"new" if name == b"count" else name  # that is a number
            value = value_of(self.rng)
            what = self.rng.randrange(4)
            if what == 0:
                assert self.c.call("HDEL", key, name) == (fields.pop(name, None) is not None)
            elif what == 1:
                assert self.c.call("HSETNX", key, name, value) == (name not in fields)
                fields.setdefault(name, value)
            elif what == 2:
                assert self.c.call("HSET", key, name, value) == (name not in fields)
                fields[name] = value
            else:
                count = int(self.c.call("HINCRBY", key, b"count", 1))
                fields[b"count"] = b"%d" % count
            if not fields:
                del self.model[key]

    def check(self, c=None, suffix=b""):
        c = c or self.c
        for key, fields in self.model.items():
            flat = c.call("HGETALL", key + suffix)
            assert list(zip(flat[::2], flat[1::2], strict=True)) == list(fields.items()), key
            assert c.call("HMGET", key + suffix, *fields, b"none") == [*fields.values(), None]
            assert c.call("OBJECT", "ENCODING", key + suffix) == b"listpack"


@pytest.fixture
def records(r):
    records = Records(r, new_rng())
    records.fill()
    return records


def bytes_of(c, keys):
    return sum(c.call("MEMORY", "USAGE", key) for key in keys)


def test_records_take_less_and_read_the_same(records):
    records.check()
    c = records.c
    fields = dict.fromkeys(NAMES[0], b"12345678")
    for i in range(RECORDS):
        same = [word for pair in fields.items() for word in pair]
        own = [word for k, v in fields.items() for word in (k[:-1] + b"%04d" % i, v)]
        c.call("HSET", b"same:%d" % i, *same)
        c.call("HSET", b"own:%d" % i, *own)
    # Without the first ones, of which the server does not know yet that there are many.
    half = range(RECORDS // 2, RECORDS)
    same = bytes_of(c, [b"same:%d" % i for i in half])
    own = bytes_of(c, [b"own:%d" % i for i in half])
    assert same < 0.75 * own


def test_changes_of_all_kinds(records):
    for _ in range(10):
        records.change()
    records.check()


@pytest.mark.parametrize("name", ["dump", "dump.rdb"])
def test_a_restart_keeps_them_and_shares_again(start_server, name):
    server = start_server(dbfilename=name, proactor_threads=2)
    with server.connect() as c:
        records = Records(c, new_rng())
        records.fill()
        records.change()
        before = bytes_of(c, records.model)
        assert c.call("SAVE") == OK
    server.stop()
    server.start_again()
    with server.connect() as c:
        records.check(c)
        # About: which ones came first is another order.
        assert bytes_of(c, records.model) < 1.1 * before


def test_copies_payloads_and_other_shards(records):
    c = records.c
    for key in records.model:
        payload = c.call("DUMP", key)
        assert c.call("RESTORE", key + b":restored", 0, payload) == OK
        assert c.call("DUMP", key + b":restored") == payload
        assert c.call("COPY", key, key + b":copy") == 1
        assert c.call("RENAME", key + b":copy", key + b":renamed") == OK
    records.check(suffix=b":restored")
    records.check(suffix=b":renamed")
    records.change()
    records.check()


def test_a_replica_and_a_log_have_the_same(start_server, tmp_path):
    server = start_server(appendonly="yes", repl_diskless_sync_delay=0, dir=str(tmp_path))
    replica_server = start_server()
    with server.connect() as c, replica_server.connect() as replica:
        records = Records(c, new_rng())
        records.fill()
        assert replica.call("REPLICAOF", "127.0.0.1", server.port) == OK
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
        for _ in range(3):
            records.change()
        assert c.call("WAIT", 1, 60_000) == 1
        records.check(replica)
    server.stop()
    server.start_again()
    with server.connect() as c:
        records.check(c)


def test_limits_of_small_hashes_hold(r):
    c = r
    words = [word for name in NAMES[0] for word in (name, b"v")]
    for i in range(100):
        c.call("HSET", b"h:%d" % i, *words)
    assert c.call("CONFIG", "SET", "hash-max-listpack-value", 8) == OK
    assert c.call("HSET", "h:99", NAMES[0][1], b"123456789") == 0
    assert c.call("OBJECT", "ENCODING", "h:99") == b"hashtable"
    assert c.call("HLEN", "h:99") == len(NAMES[0])
    assert c.call("CONFIG", "SET", "hash-max-listpack-entries", 4) == OK
    assert not isinstance(c.call("HSET", "h:98", "one-more", "v"), Error)
    assert c.call("OBJECT", "ENCODING", "h:98") == b"hashtable"
    assert c.call("HSET", "h:1000", *words) == len(NAMES[0])
    assert c.call("OBJECT", "ENCODING", "h:1000") == b"hashtable"
    assert c.call("HGETALL", "h:97") == words
