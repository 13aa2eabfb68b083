# SPDX-License-Identifier: Apache-2.0
"""XREAD and XREADGROUP that wait: what serves them, and how a wait ends otherwise. Every test also
passes on redis-server, unless marked."""

import pytest

from harness.resp import OK, Error, Status, encode
from harness.server import REFERENCE, only_dragonfly, wait_blocked

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

KEY = "{k}"
NOGROUP = "NOGROUP"
WRONGTYPE = "WRONGTYPE"
NO_GROUP = Error(
    "NOGROUP No such key '{k}' or consumer group 'g' in XREADGROUP with GROUP option"
)
WRONG_TYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
UNBLOCKED = Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")


def nobody_is_forgotten(r):
    if not REFERENCE:
        facts = r.info("transaction")
        assert facts["tx_ready_keys"] == "0" and facts["tx_queue_length"] == "0", facts


# (what happens, what XREAD gets, what XREADGROUP gets), each one by one and in one EXEC. An id: the
# entry; None: it waits on. {o} is another key, with an entry 3-1 and the group.
OPERATIONS = {
    "XADD": (["XADD {k} 2-1 a b"], ("2-1", "2-1"), ("2-1", "2-1")),
    "XADD, XADD": (["XADD {k} 2-1 a b", "XDEL {k} 1-1"], ("2-1", "2-1"), ("2-1", "2-1")),
    "XADD, DEL": (["XADD {k} 2-1 a b", "DEL {k}"], ("2-1", None), ("2-1", NOGROUP)),
    "XTRIM": (["XTRIM {k} MAXLEN 0"], (None, None), (None, None)),
    "XDEL": (["XDEL {k} 1-1"], (None, None), (None, None)),
    "XSETID": (["XSETID {k} 9-9"], (None, None), (None, None)),
    "XGROUP CREATE": (["XGROUP CREATE {k} h 0"], (None, None), (None, None)),
    "XGROUP DESTROY": (["XGROUP DESTROY {k} g"], (None, None), (NOGROUP, NOGROUP)),
    "DEL": (["DEL {k}"], (None, None), (NOGROUP, NOGROUP)),
    "DEL, XADD": (["DEL {k}", "XADD {k} 2-1 a b"], ("2-1", "2-1"), (NOGROUP, NOGROUP)),
    "DEL, XADD of an old id": (["DEL {k}", "XADD {k} 0-5 a b"], (None, None), (NOGROUP, NOGROUP)),
    "expiry": (["PEXPIREAT {k} 1"], (None, None), (NOGROUP, NOGROUP)),
    "SET": (["SET {k} v"], (None, None), (WRONGTYPE, WRONGTYPE)),
    "RENAME away": (["RENAME {k} x{k}"], (None, None), (NOGROUP, NOGROUP)),
    "RENAME over it": (["RENAME {o} {k}"], ("3-1", "3-1"), ("3-1", "3-1")),
    "MOVE": (["MOVE {k} 1"], (None, None), (NOGROUP, NOGROUP)),
    "FLUSHDB": (["FLUSHDB"], (None, None), (NOGROUP, NOGROUP)),
    "FLUSHALL": (["FLUSHALL ASYNC"], (None, None), (NOGROUP, NOGROUP)),
    "SWAPDB": (["SWAPDB 0 1"], (None, None), (NOGROUP, NOGROUP)),
}
# Redis 7.0 has other words for the ends of XREADGROUP's wait, and lacks some of them.
ONLY_7_2 = {"RENAME over it", "SWAPDB", "MOVE", "XADD, DEL"}

XREAD = {
    "XREAD": "XREAD BLOCK 0 STREAMS {k} $",
    "XREAD of an id": "XREAD BLOCK 0 COUNT 5 STREAMS {k} 1-1",
    "XREAD of several": "XREAD BLOCK 0 STREAMS far1 far2 {k} far3 far4 $ $ $ $ $",
    "XREAD of one twice": "XREAD BLOCK 0 STREAMS {k} {k} $ 1-1",
}
XREADGROUP = {
    "XREADGROUP": "XREADGROUP GROUP g c BLOCK 0 STREAMS {k} >",
    "XREADGROUP NOACK": "XREADGROUP GROUP g c NOACK BLOCK 0 STREAMS {k} >",
    "XREADGROUP of several": "XREADGROUP GROUP g c BLOCK 0 STREAMS {o} {k} > >",
}


@pytest.mark.parametrize("form", ["plain", "EXEC"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_ends_a_wait(server, r, name, form):
    if REFERENCE and name in ONLY_7_2:
        pytest.skip("redis-server 7.0 does not wake XREADGROUP for it")
    commands, of_read, of_group = OPERATIONS[name]
    other = "{o}"
    waits = [(line, of_read) for line in XREAD.values()]
    waits += [(line, of_group) for line in XREADGROUP.values()]
    for line, outcomes in waits:
        expected = outcomes[form == "EXEC"]
        cell = (line, commands, form)
        takes_other = any(word == other for command in commands for word in command.split())
        if takes_other and other in line:
            continue
        with server.connect() as waiter, server.connect() as actor:
            r.call("FLUSHALL")
            for key, id_ in ((KEY, "1-1"), (other, "3-1")):
                r.call("XADD", key, id_, "a", "b")
                r.call("XGROUP", "CREATE", key, "g", "0" if takes_other and key == other else "$")
            waiter_id = waiter.call("CLIENT", "ID")
            waiter.send(encode(*line.split()))
            wait_blocked(r, 1)
            if form == "EXEC":
                assert actor.call("MULTI") == OK
                for command in commands:
                    assert actor.do(command) == Status("QUEUED"), cell
                actor.call("EXEC")
            else:
                for command in commands:
                    actor.do(command)
            if expected is None:
                wait_blocked(r, 1)
                assert r.call("CLIENT", "UNBLOCK", waiter_id) == 1, cell
                assert waiter.read() is None, cell
            elif expected in (NOGROUP, WRONGTYPE):
                error = waiter.read()
                if other in line and name.startswith(("FLUSH", "SWAPDB")):
                    assert isinstance(error, Error), cell  # of either key
                elif REFERENCE:
                    assert isinstance(error, Error), cell
                else:
                    assert error == (NO_GROUP if expected == NOGROUP else WRONG_TYPE), cell
            else:
                reply = waiter.read()
                assert reply == [[KEY.encode(), [[expected.encode(), [b"a", b"b"]]]]], cell
            wait_blocked(r, 0)
            nobody_is_forgotten(r)


def test_an_entry_serves_all_that_read_and_one_of_a_group(server, r):
    r.do("XGROUP CREATE s g $ MKSTREAM")
    readers = [server.connect() for _ in range(6)]
    for i, reader in enumerate(readers):
        line = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >" if i % 2 else "XREAD BLOCK 0 STREAMS s $"
        reader.send(encode(*line.split()))
        wait_blocked(r, i + 1)
    entry = lambda id_: [[b"s", [[id_, [b"a", b"b"]]]]]  # noqa: E731
    r.do("XADD s 1-1 a b")
    for reader in readers[0::2]:
        assert reader.read() == entry(b"1-1")
    assert readers[1].read() == entry(b"1-1")
    wait_blocked(r, 2)
    assert r.call("XPENDING", "s", "g")[0] == 1
    r.do("XADD s 2-1 a b")
    assert readers[3].read() == entry(b"2-1")
    r.do("XADD s 3-1 a b")
    assert readers[5].read() == entry(b"3-1")
    assert r.call("XPENDING", "s", "g")[0] == 3
    nobody_is_forgotten(r)
    for reader in readers:
        reader.close()


def test_waits_for_a_list_and_a_stream_at_one_key_do_not_hinder_each_other(server, r):
    with server.connect() as pops, server.connect() as reads:
        pops.send(encode("BLPOP", "k", "0"))
        wait_blocked(r, 1)
        reads.send(encode("XREAD", "BLOCK", "0", "STREAMS", "k", "0"))
        wait_blocked(r, 2)
        r.do("XADD k 1-1 a b")
        assert reads.read() == [[b"k", [[b"1-1", [b"a", b"b"]]]]]
        wait_blocked(r, 1)
        r.do("DEL k")
        r.do("RPUSH k e")
        assert pops.read() == [b"k", b"e"]
        nobody_is_forgotten(r)


def test_a_consumer_of_an_absent_group_behind_a_pop_hears_that_the_key_goes(server, r):
    with server.connect() as pops, server.connect() as reads:
        r.do("XGROUP CREATE k g $ MKSTREAM")
        r.do("RENAME k kept")
        pops.send(encode("BLPOP", "k", "0"))
        wait_blocked(r, 1)
        r.do("RENAME kept k")
        reads.send(encode("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "k", ">"))
        wait_blocked(r, 2)
        r.do("DEL k")
        assert isinstance(reads.read(), Error)
        wait_blocked(r, 1)
        r.do("RPUSH k e")
        assert pops.read() == [b"k", b"e"]


@pytest.mark.parametrize("line", ["XREAD BLOCK 20 STREAMS s $", "XREAD BLOCK 20 STREAMS s t $ 0"])
def test_a_wait_ends_with_its_time(server, r, r3, line):
    assert r.raw(*line.split()) == b"*-1\r\n"
    assert r3.raw(*line.split()) == b"_\r\n"
    wait_blocked(r, 0)


def test_client_unblock_ends_a_wait(server, r):
    with server.connect() as waiter:
        waiter_id = waiter.call("CLIENT", "ID")
        for how, reply in (("TIMEOUT", None), ("ERROR", UNBLOCKED)):
            waiter.send(encode("XREAD", "BLOCK", "0", "STREAMS", "s", "t", "$", "$"))
            wait_blocked(r, 1)
            assert r.call("CLIENT", "UNBLOCK", waiter_id, how) == 1
            assert waiter.read() == reply


def test_nobody_waits_in_an_exec(r):
    r.do("XGROUP CREATE s g $ MKSTREAM")
    r.do("MULTI")
    r.do("XREAD BLOCK 0 STREAMS s t $ $")
    r.do("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    r.do("XADD s 1-1 a b")
    r.do("XREAD BLOCK 0 STREAMS s t 0 0")
    entry = [[b"s", [[b"1-1", [b"a", b"b"]]]]]
    assert r.do("EXEC") == [None, None, b"1-1", entry]


def test_a_history_is_never_waited_for(r):
    r.do("XGROUP CREATE s g $ MKSTREAM")
    assert r.do("XREADGROUP GROUP g c BLOCK 0 STREAMS s 0") == [[b"s", []]]


@pytest.mark.parametrize(
    "line",
    [
        "XREADGROUP GROUP g c BLOCK 0 STREAMS s nokey > >",
        "XREADGROUP GROUP nogroup c BLOCK 0 STREAMS s >",
        "XREAD BLOCK 0 STREAMS s str $ $",
        "XREAD BLOCK 0 STREAMS s t $ x",
        "XREAD BLOCK x STREAMS s $",
        "XREAD BLOCK -1 STREAMS s $",
        "XREAD BLOCK 0 STREAMS s t $",
    ],
)
def test_an_error_does_not_wait(r, line):
    r.do("XGROUP CREATE s g $ MKSTREAM")
    r.do("SET str v")
    assert isinstance(r.do(line), Error)


def test_a_key_that_expires_tells_its_consumers(server, r):
    r.do("XGROUP CREATE s g $ MKSTREAM")
    with server.connect() as waiter:
        waiter.send(encode("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"))
        wait_blocked(r, 1)
        r.do("PEXPIRE s 20")
        assert isinstance(waiter.read(), Error)


@only_dragonfly("there XGROUP SETID wakes nobody")
def test_a_group_that_is_set_back_serves_who_waits(server, r):
    r.do("XADD s 1-1 a b")
    r.do("XGROUP CREATE s g $")
    with server.connect() as waiter:
        waiter.send(encode("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"))
        wait_blocked(r, 1)
        r.do("XGROUP SETID s g 0")
        assert waiter.read() == [[b"s", [[b"1-1", [b"a", b"b"]]]]]
        nobody_is_forgotten(r)


@only_dragonfly("it has no such flag")
def test_the_general_way_gives_the_same_results(start_server):
    server = start_server(proactor_threads=3, num_shards=5, singlehop_blocking=False)
    with server.connect() as r:
        for name in OPERATIONS:
            for form in ("plain", "EXEC"):
                test_what_ends_a_wait(server, r, name, form)


def test_the_error_that_ends_a_wait_is_counted(server, r):
    r.call("CONFIG", "RESETSTAT")
    r.do("XGROUP CREATE k g $ MKSTREAM")
    with server.connect() as c:
        c.send_command(*"XREADGROUP GROUP g me BLOCK 0 STREAMS k >".split())
        wait_blocked(r, 1)
        assert r.do("XGROUP DESTROY k g") == 1
        assert "NOGROUP" in c.read().text
    assert r.info("errorstats")["errorstat_NOGROUP"] == "count=1"
