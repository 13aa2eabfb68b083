# SPDX-License-Identifier: Apache-2.0
"""MAXCOUNT and MAXSIZE of XREAD and XREADGROUP, of Redis 8.10. More of them is in
src/commands/streams/stream_budget_test.cc."""

import pytest

from harness.resp import OK
from harness.server import only_dragonfly, wait_blocked, wait_until

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized, only_dragonfly("they came with 8.10")]

KEYS = ["one", "two", "three", "four", "five"]
ZEROS = ["0"] * len(KEYS)
NEW = [">"] * len(KEYS)


def fill(r, count=6):
    r.do("FLUSHALL")
    for key in KEYS:
        for i in range(1, count + 1):
            r.call("XADD", key, f"{i}-1", "field", "v" * i)
        r.call("XGROUP", "CREATE", key, "g", "0")


def counts(reply):
    return [len(entries) for _, entries in reply]


@pytest.mark.alone
def test_the_reply_has_as_many_bytes_as_it_may(r):
    fill(r)
    command = ["STREAMS", *KEYS, *ZEROS]
    whole = r.raw("XREAD", *command)
    for size in range(1, len(whole) + 10, 7):
        reply = r.call("XREAD", "MAXSIZE", size, *command)
        entries = sum(counts(reply))
        # The frame, "*5\r\n", is not counted.
        raw = len(r.raw("XREAD", "MAXSIZE", size, *command)) - 4
        assert raw <= size or entries == 1
        if entries == 6 * len(KEYS):
            continue
        more = len(r.raw("XREAD", "MAXCOUNT", entries + 1, *command)) - 4
        assert more > size
        # And it is the beginning of all.
        assert counts(reply) == [6] * (entries // 6) + [entries % 6] * (entries % 6 > 0)


@pytest.mark.parametrize("way", ["alone", "EXEC", "script", "script of many shards"])
def test_a_group_reads_all_in_portions(server, r, way):
    fill(r)
    command = ["XREADGROUP", "GROUP", "g", "me", "MAXCOUNT", "4", "STREAMS", *KEYS, *NEW]

    def read():
        if way == "alone":
            return r.call(*command)
        if way == "EXEC":
            r.call("MULTI")
            r.call(*command)
            r.call("PING")
            return r.call("EXEC")[0]
        keys = KEYS if way == "script" else KEYS + ["another"]
        return r.call("EVAL", "return redis.call(unpack(ARGV))", len(keys), *keys, *command)

    got = {key: [] for key in KEYS}
    while (reply := read()) is not None:
        assert 1 <= sum(counts(reply)) <= 4
        for key, entries in reply:
            got[key.decode()] += [entry[0] for entry in entries]
        for key in KEYS:
            assert r.call("XPENDING", key, "g")[0] == len(got[key])
    assert got == {key: [b"%d-1" % i for i in range(1, 7)] for key in KEYS}


@pytest.mark.parametrize("limit, entries", [(["MAXCOUNT", "2"], 2), (["MAXSIZE", "1"], 1),
                                            (["COUNT", "2", "MAXCOUNT", "3"], 2), ([], 3)])
def test_who_has_waited_gets_no_more(server, r, limit, entries):
    for of_group in (False, True):
        fill(r, count=1)
        with server.connect() as c:
            if of_group:
                c.call("XREADGROUP", "GROUP", "g", "me", "STREAMS", *KEYS, *NEW)
                c.send_command("XREADGROUP", "GROUP", "g", "me", *limit, "BLOCK", "0",
                               "STREAMS", *KEYS, *NEW)
            else:
                c.send_command("XREAD", *limit, "BLOCK", "0", "STREAMS", *KEYS, *["$"] * len(KEYS))
            wait_blocked(r, 1)
            r.do("MULTI")
            for i in range(3):
                r.do(f"XADD three {i + 5}-1 f v")
            r.do("XADD one 9-1 f v")
            r.do("EXEC")
            (key, got), = c.read()
            if key == b"three":  # another shard's may be the first
                assert len(got) == entries
            else:
                assert key == b"one" and len(got) == 1
            if of_group and key == b"three":
                assert r.do("XPENDING three g")[0] == 1 + entries
            wait_blocked(r, 0)


def test_a_replica_has_what_was_given(start_server):
    primary = start_server(proactor_threads=3, repl_diskless_sync_delay=0)
    replica = start_server(proactor_threads=2)
    with primary.connect() as p, replica.connect() as r:
        fill(p)
        assert r.call("REPLICAOF", *map(str, primary.address)) == OK
        wait_until(lambda: r.info("replication")["master_link_status"] == "up", what="a link")
        p.call("XREADGROUP", "GROUP", "g", "me", "MAXCOUNT", "8", "STREAMS", *KEYS, *NEW)
        p.call("XREADGROUP", "GROUP", "g", "me", "MAXSIZE", "120", "STREAMS", *KEYS, *NEW)
        assert p.do("WAIT 1 0") == 1
        for key in KEYS:
            assert r.call("XPENDING", key, "g") == p.call("XPENDING", key, "g")
            shown = [c.call("XINFO", "GROUPS", key) for c in (p, r)]
            assert shown[0] == shown[1]
