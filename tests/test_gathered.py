# SPDX-License-Identifier: Apache-2.0
"""MGETs of a pipeline that follow each other are one transaction, and so are MSETs (Gathered): what
their client, and others, see of that."""

import re

import pytest

from harness.lua import threads_of
from harness.resp import OK, Error, Status, encode
from harness.server import only_dragonfly, wait_until
from test_monitor import commands, monitor

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]

__all__ = ["monitor"]  # a fixture

KEYS = [f"k{i}" for i in range(20)]  # in all shards
FOREVER = "while redis.call('get', KEYS[1]) ~= 'stop' do end"


@pytest.fixture
def filled(r):
    assert r.call("MSET", *[word for key in KEYS for word in (key, f"v-{key}")]) == OK
    return r


def values(*keys):
    return [f"v-{key}".encode() for key in keys]


def transactions(r):
    return int(r.info("transaction")["tx_multi_shard"])


@only_dragonfly("it has no shards")
def test_they_are_one_transaction(server, filled):
    before = transactions(filled)
    assert filled.pipeline([("MGET", *KEYS)] * 30) == [values(*KEYS)] * 30
    count = transactions(filled) - before
    assert count == 0 if threads_of(server) == 1 else 1 <= count < 30


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 100])
@pytest.mark.parametrize("keys", [2, 20, 60, 700, 3000])
def test_each_has_its_reply(filled, count, keys):
    count = min(count, 60_000 // keys)
    pipeline, expected = [], []
    for i in range(count):
        names = [KEYS[(i + j) % 20] if j % 7 else f"no{j}" for j in range(keys - i % 2)]
        pipeline.append(("MGET", *names))
        expected.append([None if name.startswith("no") else f"v-{name}".encode() for name in names])
    assert filled.pipeline(pipeline) == expected


BETWEEN = {
    "write": (("SET", "k3", "v-k3"), OK),
    "read": (("GET", "k4"), b"v-k4"),
    "one-shard": (("MGET", "k5"), [b"v-k5"]),
    "other-case": (("mGeT", "k5", "k6", "k7"), values("k5", "k6", "k7")),
    "other-command": (("EXISTS", *KEYS), 20),
    "session": (("SELECT", "0"), OK),
    "echo": (("ECHO", "text"), b"text"),
    "wrong-type": (("LLEN", "k3"), "WRONGTYPE"),
    "arity": (("MGET",), "ERR wrong number of arguments for 'mget' command"),
    "unknown": (("NOSUCH",), "ERR unknown command 'NOSUCH'"),
    "script": (("EVAL", "return redis.call('get', KEYS[1])", 1, "k3"), b"v-k3"),
    "blocking": (("BLPOP", "none", "none2", "0.001"), None),
    "coordinator": (("DBSIZE",), 20),
    "large": (("ECHO", "x" * 100_000), b"x" * 100_000),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_stands_between_them_is_answered_in_its_place(filled, name):
    command, reply = BETWEEN[name]
    pipeline = [("MGET", *KEYS), ("MGET", *KEYS[:2]), command] * 5 + [("MGET", *KEYS)]
    replies = filled.pipeline(pipeline)
    for i, got in enumerate(replies):
        if i % 3 != 2:
            assert got == (values(*KEYS) if i % 3 == 0 else values(*KEYS[:2]))
        elif isinstance(reply, str):
            assert isinstance(got, Error) and got.text.startswith(reply)
        else:
            assert got == reply


def test_each_sees_what_was_written_before_it(filled):
    pipeline, expected = [], []
    for i in range(50):
        pipeline += [("MGET", *KEYS[:6]), ("MGET", "k3", "k1")]
        now = values("k0", "k1", "k2") + [f"{i}".encode()] * 3
        expected += [now if i else values(*KEYS[:6])]
        expected += [[f"{i}".encode() if i else b"v-k3", b"v-k1"]]
        pipeline += [("MSET", *[word for k in KEYS[3:6] for word in (k, i + 1)])]
        expected += [OK]
    assert filled.pipeline(pipeline) == expected


def test_a_protocol_error_comes_behind_them(filled, server):
    with server.connect() as c:
        c.send(encode("MGET", *KEYS) * 3 + b"*x\r\n" + encode("MGET", *KEYS))
        assert [c.read() for _ in range(3)] == [values(*KEYS)] * 3
        assert c.read() == Error("ERR Protocol error: invalid multibulk length")
        assert c.read_until_closed() == b""
    with server.connect() as c:
        c.send(encode("MGET", *KEYS) * 3 + b"*2\r\n$3\r\nGET\r\n$-5\r\n")
        assert [c.read() for _ in range(3)] == [values(*KEYS)] * 3
        assert c.read() == Error("ERR Protocol error: invalid bulk length")
        assert c.read_until_closed() == b""


def test_without_replies(filled, server):
    with server.connect() as c:
        off, on = (encode("CLIENT", "REPLY", how) for how in ("OFF", "ON"))
        c.send(off + encode("MGET", *KEYS) * 3 + on + encode("MGET", *KEYS[:3]))
        assert c.read() == OK and c.read() == values(*KEYS[:3])
        skip = encode("CLIENT", "REPLY", "SKIP")
        c.send(skip + encode("MGET", *KEYS) + encode("MGET", *KEYS[:2]) * 2)
        assert [c.read(), c.read()] == [values(*KEYS[:2])] * 2


def test_in_multi_they_are_queued(filled):
    pipeline = [("MULTI",), *[("MGET", *KEYS)] * 3, ("EXEC",), ("MGET", *KEYS)]
    queued = [Status("QUEUED")] * 3
    assert filled.pipeline(pipeline) == [OK, *queued, [values(*KEYS)] * 3, values(*KEYS)]


def test_the_client_may_be_gone(filled, server):
    def clients():
        return int(filled.info("clients")["connected_clients"])

    before = clients()
    for _ in range(20):
        with server.connect() as c:
            c.send(encode("MGET", *KEYS) * 50)
    wait_until(lambda: clients() == before, what="they are gone")
    assert filled.call("MGET", *KEYS) == values(*KEYS)


def test_all_are_counted(filled):
    def counted():
        line = filled.info("commandstats").get("cmdstat_mget", "calls=0,failed_calls=0")
        processed = int(filled.info("stats")["total_commands_processed"])
        return int(re.match(r"calls=(\d+)", line)[1]), processed

    calls, processed = counted()
    assert len(filled.pipeline([("MGET", *KEYS)] * 70)) == 70
    calls_then, processed_then = counted()
    assert calls_then - calls == 70
    assert processed_then - processed == 72  # with one INFO of each


def test_all_are_shown(filled, monitor):
    filled.pipeline([("MGET", *KEYS[: 2 + i]) for i in range(3)])
    shown = [" ".join(f'"{word}"' for word in ("MGET", *KEYS[: 2 + i])) for i in range(3)]
    assert commands(monitor, 3) == shown


@only_dragonfly("a script stops it")
@pytest.mark.flags(busy_reply_threshold=10)
@pytest.mark.parametrize("name", ["MGET", "MSET"])
def test_all_are_refused_if_one_would_wait_for_a_slow_script(server, filled, name):
    if threads_of(server) == 1:
        pytest.skip("one thread has one shard, and only commands over several are gathered")
    command = ("MGET", *KEYS) if name == "MGET" else mset("w")
    with server.connect() as c:
        c.send(encode("EVAL", FOREVER, 1, "k3"))
        wait_until(lambda: isinstance(filled.call("GET", "k3"), Error), what="it is slow")
        replies = filled.pipeline([("PING",), *[command] * 3, ("PING",)])
        assert replies[0] == replies[4] == Status("PONG")
        for reply in replies[1:4]:
            assert isinstance(reply, Error) and reply.text.startswith("BUSY")
        assert filled.call("SCRIPT", "KILL") == OK
        assert isinstance(c.read(), Error)
    assert filled.pipeline([("MGET", *KEYS)] * 3) == [values(*KEYS)] * 3


# --- MSETs ---


def mset(value, keys=KEYS):
    return ("MSET", *[word for key in keys for word in (key, f"{value}-{key}")])


def set_to(value, keys=KEYS):
    return [f"{value}-{key}".encode() for key in keys]


@only_dragonfly("it has no shards")
def test_msets_are_one_transaction(server, filled):
    before = transactions(filled)
    assert filled.pipeline([mset(i) for i in range(30)]) == [OK] * 30
    count = transactions(filled) - before
    assert count == 0 if threads_of(server) == 1 else 1 <= count < 30
    assert filled.call("MGET", *KEYS) == set_to(29)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 100])
@pytest.mark.parametrize("keys", [2, 20, 60, 120, 700])
def test_each_mset_has_its_reply_and_the_last_one_wins(r, count, keys):
    names = [f"n{i}" for i in range(keys)]
    # Some set a key twice, and each leaves one of the keys out.
    pipeline = []
    for i in range(count):
        words = mset(i, [name for j, name in enumerate(names) if j != i % keys])
        pipeline.append((*words, *words[1:3]))
    assert r.pipeline(pipeline) == [OK] * count
    last = [max((i for i in range(count) if i % keys != j), default=None) for j in range(keys)]
    wanted = [None if i is None else f"{i}-n{j}".encode() for j, i in enumerate(last)]
    assert r.call("MGET", *names) == wanted


@pytest.mark.parametrize("name", BETWEEN)
def test_what_stands_between_msets_is_answered_in_its_place(filled, name):
    command, reply = BETWEEN[name]
    same = [word for key in KEYS for word in (key, f"v-{key}")]
    pipeline = [("MSET", *same), ("MSET", *same[:4]), command] * 5 + [("MSET", *same)]
    replies = filled.pipeline(pipeline)
    for i, got in enumerate(replies):
        if i % 3 != 2:
            assert got == OK
        elif isinstance(reply, str):
            assert isinstance(got, Error) and got.text.startswith(reply)
        else:
            assert got == reply


def test_an_mset_without_a_value_is_refused_alone(filled):
    wrong = ("MSET", *KEYS[:3])
    replies = filled.pipeline([mset(1), wrong, mset(2), wrong, wrong, mset(3, KEYS[:2])])
    error = Error("ERR wrong number of arguments for 'mset' command")
    assert replies == [OK, error, OK, error, error, OK]
    assert filled.call("MGET", *KEYS) == set_to(3, KEYS[:2]) + set_to(2, KEYS[2:])


def test_msets_and_mgets_in_turn(filled):
    pipeline, expected = [], []
    for i in range(40):
        pipeline += [mset(i), mset(f"{i}b", KEYS[:3]), ("MGET", *KEYS), ("MGET", "k1", "k9")]
        expected += [OK, OK, set_to(f"{i}b", KEYS[:3]) + set_to(i, KEYS[3:])]
        expected += [[f"{i}b-k1".encode(), f"{i}-k9".encode()]]
    assert filled.pipeline(pipeline) == expected


@pytest.mark.parametrize("size", [100, 3000, 5000, 70_000])
def test_msets_of_long_values(r, size):
    """Together they have more than what is copied at once, or each of them has."""
    values = [bytes([ord("a") + i]) * size for i in range(12)]
    pipeline = [("MSET", *[word for key in KEYS[:5] for word in (key, v)]) for v in values]
    assert r.pipeline(pipeline) == [OK] * 12
    assert r.call("MGET", *KEYS[:5]) == [values[-1]] * 5


def test_all_msets_are_counted_and_shown(filled, monitor):
    line = filled.info("commandstats")["cmdstat_mset"]
    before = int(re.match(r"calls=(\d+)", line)[1])
    assert commands(monitor, 1)  # the INFO
    sent = [mset(i, KEYS[: 2 + i]) for i in range(3)]
    filled.pipeline(sent)
    assert commands(monitor, 3) == [" ".join(f'"{word}"' for word in words) for words in sent]
    line = filled.info("commandstats")["cmdstat_mset"]
    assert int(re.match(r"calls=(\d+)", line)[1]) == before + 3


def test_all_msets_are_refused_without_memory(start_server):
    server = start_server(proactor_threads=4, maxmemory_policy="noeviction")
    with server.connect() as r:
        r.call("SET", "large", "x" * 10_000_000)
        used = int(r.info("memory")["used_memory"])
        r.call("CONFIG", "SET", "maxmemory", used // 2)
        replies = r.pipeline([("PING",), *[mset(1)] * 3, ("PING",)])
        assert replies[0] == replies[4] == Status("PONG")
        oom = Error("OOM command not allowed when used memory > 'maxmemory'.")
        assert replies[1:4] == [oom] * 3
        assert r.call("EXISTS", *KEYS) == 0
