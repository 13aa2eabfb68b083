# SPDX-License-Identifier: Apache-2.0
"""SLOWLOG: what is logged, how it looks, whose it is, and where the time went."""

import time

import pytest

from harness.resp import Error, OK
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]

ALL = ("CONFIG", "SET", "slowlog-log-slower-than", "0")
NONE = ("CONFIG", "SET", "slowlog-log-slower-than", "-1")


@pytest.fixture
def log(r):
    """A connection that logs everything; the log is empty."""
    r.call("CLIENT", "SETNAME", "logged")
    assert r.call(*ALL) == OK
    assert r.call("SLOWLOG", "RESET") == OK
    yield r
    r.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")
    r.call("CONFIG", "SET", "slowlog-max-len", "128")
    r.call("SLOWLOG", "RESET")


def logged(r):
    """What was logged since RESET, oldest first: the commands."""
    assert r.call(*NONE) == OK
    entries = r.call("SLOWLOG", "GET", "-1")[::-1]
    # CONFIG SET -1 is over when nothing is logged any more.
    return [entry[3] for entry in entries if entry[3][:2] != [b"SLOWLOG", b"RESET"]]


def explained(r):
    """SLOWLOG EXPLAIN, oldest first."""
    entries = [dict(zip(e[::2], e[1::2])) for e in r.call("SLOWLOG", "EXPLAIN", "-1")[::-1]]
    return [e for e in entries if e[b"command"][0] != b"SLOWLOG"]


def test_an_entry_has_id_time_duration_command_and_client(log):
    log.call("SET", "k", "v")
    log.call(*NONE)
    newest, before = log.call("SLOWLOG", "GET", "2")
    assert newest[3] == [b"SET", b"k", b"v"]
    assert newest[0] == before[0] + 1
    assert newest[1] > 1_600_000_000
    assert 0 <= newest[2] < 5_000_000
    assert newest[4].startswith(b"127.0.0.1:") and newest[5] == b"logged"


def test_keys_of_every_shard_are_logged_with_their_client(log):
    for i in range(20):
        log.call("SET", f"key:{i}", "v")
    assert logged(log) == [[b"SET", b"key:%d" % i, b"v"] for i in range(20)]
    assert {(e[4] != b"", e[5]) for e in log.call("SLOWLOG", "GET", "-1")} == {(True, b"logged")}


def test_exec_shows_its_commands_and_not_itself(log):
    for command in (("MULTI",), ("SET", "a", "1"), ("SET", "b", "2"), ("PING",), ("EXEC",)):
        log.call(*command)
    assert logged(log) == [[b"MULTI"], [b"SET", b"a", b"1"], [b"SET", b"b", b"2"], [b"PING"]]


def test_a_command_over_shards_is_logged_once(log):
    log.call("MSET", "a", "1", "b", "2", "c", "3")
    log.call("MGET", "a", "b", "c")
    assert logged(log) == [
        [b"MSET", b"a", b"1", b"b", b"2", b"c", b"3"],
        [b"MGET", b"a", b"b", b"c"],
    ]


def test_a_wait_for_keys_is_not_its_time(log, connect):
    assert log.call("BLPOP", "nothing", "0.2") is None
    waiting = connect()
    waiting.send_command("BLPOP", "q", "0")
    wait_until(lambda: b"cmd=blpop" in log.call("CLIENT", "LIST"))
    log.call("LPUSH", "q", "x")
    assert waiting.read() == [b"q", b"x"]
    log.call(*NONE)
    entries = [e for e in log.call("SLOWLOG", "GET", "-1") if e[3][0] == b"BLPOP"]
    # redis-server does not log one that found nothing.
    assert [e[3][1] for e in entries] in ([b"q", b"nothing"], [b"q"])
    assert all(e[2] < 150_000 for e in entries), entries


def test_long_commands_are_cut(log):
    log.call("SADD", "set", *[str(i) for i in range(40)])
    log.call("SADD", "set", "A" * 129)
    many, long = logged(log)
    assert len(many) == 32 and many[-1] == b"... (11 more arguments)"
    assert long[2] == b"A" * 128 + b"... (1 more bytes)"


@only_dragonfly("they came with 8.8")
def test_how_much_of_a_command_is_kept(log):
    assert log.call("CONFIG", "GET", "slowlog-entry-max-*") == [
        b"slowlog-entry-max-argc", b"32", b"slowlog-entry-max-string-len", b"128"]
    command = ["MGET", *(str(i) * 10 for i in range(5))]
    try:
        for argc, length in ((6, 9), (5, 200), (40, 1), (1, 1)):
            assert log.call("CONFIG", "SET", "slowlog-entry-max-argc", argc,
                            "slowlog-entry-max-string-len", length) == OK
            log.call("SLOWLOG", "RESET")
            log.call(*ALL)
            log.call(*command)
            *_, kept = logged(log)
            shown = [word.encode() for word in command]
            if len(shown) > argc:
                shown = [*shown[:argc - 1], b"... (%d more arguments)" % (len(shown) - argc + 1)]
            assert kept[0] == (shown[0] if len(shown[0]) <= length or argc == 1
                               else shown[0][:length] + b"... (%d more bytes)" % (4 - length))
            assert len(kept) == len(shown)
            if argc > 1:
                assert kept[1] == (shown[1] if length >= 10 else
                                   shown[1][:length] + b"... (%d more bytes)" % (10 - length))
            assert kept[-1] == shown[-1] or argc >= len(command)
    finally:
        log.call("CONFIG", "SET", "slowlog-entry-max-argc", 32, "slowlog-entry-max-string-len", 128)
    for name in ("slowlog-entry-max-argc", "slowlog-entry-max-string-len"):
        for value in ("0", "-1", "2147483648", "x"):
            assert isinstance(log.call("CONFIG", "SET", name, value), Error)


def test_secrets_are_not_logged(log):
    log.call("AUTH", "default", "secret")
    log.call("HELLO", "2", "AUTH", "default", "secret")
    log.call("CONFIG", "SET", "requirepass", "")
    log.call("CONFIG", "SET", "maxmemory", "0", "requirepass", "")
    hidden = b"(redacted)"
    assert logged(log) == [
        [b"AUTH", hidden, hidden],
        [b"HELLO", b"2", b"AUTH", hidden, hidden],
        [b"CONFIG", b"SET", b"requirepass", hidden],
        [b"CONFIG", b"SET", b"maxmemory", b"0", b"requirepass", hidden],
    ]


def test_only_what_is_slow_enough_is_kept_and_only_so_many(log):
    log.call("CONFIG", "SET", "slowlog-max-len", "3")
    for i in range(20):
        log.call("SET", f"k{i}", "v")
    assert log.call("SLOWLOG", "LEN") == 3
    assert [e[3][0] for e in log.call("SLOWLOG", "GET", "-1")] == [b"SLOWLOG", b"SET", b"SET"]
    assert log.call("SLOWLOG", "GET", "0") == []
    log.call("CONFIG", "SET", "slowlog-log-slower-than", "1000000")
    log.call("SLOWLOG", "RESET")
    log.call("SET", "k", "v")
    assert log.call("SLOWLOG", "LEN") == 0


def test_errors(r):
    count = Error("ERR count should be greater than or equal to -1")
    assert r.call("SLOWLOG", "GET", "-2") == count
    assert r.call("SLOWLOG", "GET", "x") == count
    assert r.call("SLOWLOG", "LEN", "x") == Error(
        "ERR wrong number of arguments for 'slowlog|len' command"
    )
    assert isinstance(r.call("CONFIG", "SET", "slowlog-log-slower-than", "-2"), Error)


@only_dragonfly("redis-server logs what scripts call as well, without a client")
def test_a_script_is_logged_and_not_what_it_calls(log):
    log.call("EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "k")
    assert logged(log) == [[b"EVAL", b"return redis.call('SET', KEYS[1], 1)", b"1", b"k"]]


@only_dragonfly("SLOWLOG EXPLAIN is ours")
def test_explain_tells_where_the_time_went(log, connect):
    holder = connect()
    holder.send_command("EVAL", "local t = redis.call('TIME') local n = 0 "
                        "while n < 3000000 do n = n + 1 end redis.call('SET', KEYS[1], n)",
                        "1", "locked")
    wait_until(lambda: b"cmd=eval" in log.call("CLIENT", "LIST"))
    log.call("GET", "locked")
    holder.read()
    log.call(*NONE)
    entries = explained(log)
    get = next(e for e in entries if e[b"command"][0] == b"GET")
    assert get[b"usec"] >= get[b"locks-usec"] >= 0
    assert get[b"usec"] == pytest.approx(get[b"run-usec"] + get[b"locks-usec"], abs=2)
    assert get[b"way"] in (b"in-place", b"batch")
    script = next(e for e in entries if e[b"command"][0] == b"EVAL")
    assert script[b"way"] == b"fiber" and script[b"usec"] > 1000


# Keeps what it has for a while, and gives way meanwhile.
HOLD = "redis.call('SET', KEYS[1], 1) local n = 0 while n < 6000000 do n = n + 1 end return n"


def waited(log, connect, holds, waits):
    """What EXPLAIN tells of a command that came while `holds` ran, and the holder's id."""
    holder, waiter = connect(), connect()
    client = holder.call("CLIENT", "ID")
    for _ in range(50):
        log.call("SLOWLOG", "RESET")
        if holds[0] != "MULTI":
            holder.send_command(*holds)
        else:
            holder.call("MULTI")
            for command in holds[1:]:
                holder.call(*command)
            holder.send_command("EXEC")
        wait_until(lambda: b"id=%d " % client in log.call("CLIENT", "LIST"))
        waiter.call(*waits)
        holder.read()
        entries = [e for e in explained(log) if e[b"command"][0] == waits[0].encode()]
        if entries and entries[0][b"locks-held-by"]:
            return entries[0], client
    raise AssertionError("it never had to wait")


@only_dragonfly("SLOWLOG EXPLAIN is ours")
@pytest.mark.parametrize("waits", [("GET", "held"), ("MGET", "held", "b", "c", "d", "e", "f")])
def test_explain_names_who_held_the_locks(log, connect, waits):
    entry, client = waited(log, connect, ("EVAL", HOLD, "1", "held"), waits)
    assert entry[b"locks-held-by"] == b"eval"
    assert entry[b"locks-held-by-client"] == client
    assert entry[b"locks-usec"] > 0
    assert entry[b"usec"] == pytest.approx(entry[b"run-usec"] + entry[b"locks-usec"], abs=2)


@only_dragonfly("SLOWLOG EXPLAIN is ours")
def test_explain_names_an_exec_as_holder(log, connect):
    holds = ("MULTI", ("EVAL", HOLD, "1", "held"), ("DBSIZE",))
    entry, client = waited(log, connect, holds, ("GET", "held"))
    assert entry[b"locks-held-by"] == b"exec"
    assert entry[b"locks-held-by-client"] == client


@only_dragonfly("SLOWLOG EXPLAIN is ours")
def test_explain_counts_hops_and_says_whose_it_was(log):
    keys = [f"key{i}" for i in range(40)]  # never all in one shard
    log.call("MGET", *keys)
    log.call("PING")
    log.call("MULTI")
    log.call("MGET", *keys)
    log.call("EXEC")
    mget, ping, _, in_exec = explained(log)
    has_one_shard = log.info("threads").keys() == {"thread0"}
    assert (mget[b"way"], mget[b"hops"]) == ((b"in-place", 0) if has_one_shard else (b"fiber", 1))
    assert (ping[b"way"], ping[b"hops"]) == (b"in-place", 0)
    assert (in_exec[b"command"][0], in_exec[b"hops"]) == (b"MGET", 0 if has_one_shard else 1)
    for entry in (mget, ping):
        assert entry[b"locks-held-by"] == b"" and entry[b"locks-held-by-client"] == 0
        assert entry[b"client-name"] == b"logged"
        assert entry[b"client"].startswith(b"127.0.0.1:")


@only_dragonfly("SLOWLOG EXPLAIN is ours")
def test_explain_tells_how_long_a_reply_took_to_send(log, connect):
    log.call("SET", "quick", "v")
    log.call("RPUSH", "long", *["x" * 10_000] * 1600)
    slow = connect()
    slow.send_command("LRANGE", "long", "0", "-1")

    def entry_of(name):
        return next((e for e in explained(log) if e[b"command"][0] == name), None)

    wait_until(lambda: entry_of(b"LRANGE") is not None)
    assert entry_of(b"LRANGE")[b"send-usec"] == -1  # the client does not read
    time.sleep(0.1)
    assert len(slow.read()) == 1600
    wait_until(lambda: entry_of(b"LRANGE")[b"send-usec"] != -1)
    assert entry_of(b"LRANGE")[b"send-usec"] >= 100_000
    assert 0 <= entry_of(b"SET")[b"send-usec"]
