# SPDX-License-Identifier: Apache-2.0
"""What a script may do, and when it is held, by the flags of its call: those that its first line or
its function has, or its command's (EVAL_RO). CLIENT PAUSE WRITE, read-only scripts, memory."""

import pytest

from harness.resp import OK, Error, Status
from harness.server import wait_until

pytestmark = [pytest.mark.threads]

QUEUED = Status("QUEUED")
LIBRARY = """#!lua name=lib
local function call(keys, args) return redis.call(unpack(args)) end
redis.register_function('writer', call)
redis.register_function{function_name='reader', callback=call, flags={'no-writes'}}
"""
BODY = "return redis.call(unpack(ARGV))"
NO_WRITES = "#!lua flags=no-writes\n" + BODY
WITH_FLAGS = "#!lua flags=allow-stale\n" + BODY

# How the arguments of a command are given to a script that calls it.
READERS = {
    "EVAL_RO": lambda r: ("EVAL_RO", BODY, "0"),
    "EVALSHA_RO": lambda r: ("EVALSHA_RO", r.call("SCRIPT", "LOAD", BODY), "0"),
    "EVAL no-writes": lambda r: ("EVAL", NO_WRITES, "0"),
    "EVALSHA no-writes": lambda r: ("EVALSHA", r.call("SCRIPT", "LOAD", NO_WRITES), "0"),
    "FCALL no-writes": lambda r: ("FCALL", "reader", "0"),
    "FCALL_RO": lambda r: ("FCALL_RO", "reader", "0"),
}


@pytest.fixture
def c(server):
    with server.connect() as connection:
        connection.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        yield connection
        connection.call("FUNCTION", "FLUSH")
        connection.call("SCRIPT", "FLUSH")


@pytest.mark.parametrize("reader", READERS)
def test_a_script_that_only_reads_neither_writes_nor_publishes(c, reader):
    script = READERS[reader](c)
    c.call("PFADD", "hll", "a")
    for command in (("SET", "k", "v"), ("PUBLISH", "channel", "m"), ("SPUBLISH", "channel", "m"),
                    ("PFCOUNT", "hll")):
        answer = c.call(*script, *command)
        assert isinstance(answer, Error), command
        assert answer.text.startswith(
            "ERR Write commands are not allowed from read-only scripts. script: "), answer
    assert c.call(*script, "GET", "none") is None
    assert c.call("EVAL", BODY, "0", "PUBLISH", "channel", "m") == 0
    assert c.call("FCALL", "writer", "0", "PFCOUNT", "hll") == 1


HELD = {
    "SET": ("SET", "k", "v"),
    "PUBLISH": ("PUBLISH", "channel", "m"),
    "SPUBLISH": ("SPUBLISH", "channel", "m"),
    "PFCOUNT": ("PFCOUNT", "hll"),
    "EVAL": ("EVAL", BODY, "0", "PING"),
    "EVAL with a first line": ("EVAL", WITH_FLAGS, "0", "PING"),
    "EVAL_RO of one that may write": ("EVAL_RO", WITH_FLAGS, "0", "PING"),
    "EVAL with a wrong first line": ("EVAL", "#!lua flags=nonsense\n" + BODY, "0"),
    "EVALSHA of none": ("EVALSHA", "0" * 40, "0"),
    "FCALL": ("FCALL", "writer", "0", "PING"),
    "FCALL_RO of one that may write": ("FCALL_RO", "writer", "0", "PING"),
    "FCALL of none": ("FCALL", "nosuch", "0"),
}
FREE = {
    "GET": ("GET", "k"),
    "EVAL no-writes": ("EVAL", NO_WRITES, "0", "GET", "k"),
    "EVAL_RO": ("EVAL_RO", BODY, "0", "GET", "k"),
    "EVALSHA_RO of none": ("EVALSHA_RO", "0" * 40, "0"),
    "FCALL no-writes": ("FCALL", "reader", "0", "GET", "k"),
    "FCALL_RO": ("FCALL_RO", "reader", "0", "GET", "k"),
    "FCALL_RO of none": ("FCALL_RO", "nosuch", "0"),
    "PUBSUB": ("PUBSUB", "NUMPAT"),
}


def held(r):
    return r.info("clients")["blocked_clients"] == "1"


@pytest.mark.parametrize("in_multi", [False, True], ids=["alone", "in EXEC"])
@pytest.mark.parametrize("name", HELD)
def test_a_pause_of_writes_holds_what_may_write(server, c, name, in_multi):
    with server.connect() as client:
        if in_multi:
            assert client.pipeline([("MULTI",), ("GET", "k"), HELD[name]]) == [OK, QUEUED, QUEUED]
        assert c.call("CLIENT", "PAUSE", 10_000_000, "WRITE") == OK
        try:
            client.send_command(*(["EXEC"] if in_multi else HELD[name]))
            wait_until(lambda: held(c))
        finally:
            c.call("CLIENT", "UNPAUSE")
        client.read()
        assert client.call("PING") == Status("PONG")


@pytest.mark.parametrize("in_multi", [False, True], ids=["alone", "in EXEC"])
@pytest.mark.parametrize("name", FREE)
def test_a_pause_of_writes_lets_go_what_only_reads(server, c, name, in_multi):
    with server.connect() as client:
        if in_multi:
            assert client.pipeline([("MULTI",), FREE[name]]) == [OK, QUEUED]
        assert c.call("CLIENT", "PAUSE", 10_000_000, "WRITE") == OK
        try:
            client.call(*(["EXEC"] if in_multi else FREE[name]))
        finally:
            c.call("CLIENT", "UNPAUSE")


@pytest.mark.parametrize("name", ["EVAL", "FCALL"])
def test_without_memory_exec_refuses_a_script_that_says_it_may_write(start_server, name):
    server = start_server(maxmemory="0")
    with server.connect() as r:
        r.call("FUNCTION", "LOAD", LIBRARY)
        calls = {"EVAL": (("EVAL", WITH_FLAGS, "0"), ("EVAL", NO_WRITES, "0")),
                 "FCALL": (("FCALL", "writer", "0"), ("FCALL", "reader", "0"))}
        writer, reader = calls[name]
        with server.connect() as writes, server.connect() as reads:
            for client, script in ((writes, writer), (reads, reader)):
                assert client.pipeline([("MULTI",), (*script, "GET", "k")]) == [OK, QUEUED]
            r.call("CONFIG", "SET", "maxmemory", "1")
            assert writes.call("EXEC").text.startswith("EXECABORT")
            assert reads.call("EXEC") == [None]
            assert r.call(*writer, "GET", "k").text.startswith("OOM")
            assert r.call(*reader, "GET", "k") is None
            r.call("CONFIG", "SET", "maxmemory", "0")
