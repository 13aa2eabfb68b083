# SPDX-License-Identifier: Apache-2.0
"""Writes that make a value of large ones, whose keys are all in one shard, whatever thread has it:
they are made in slices. Every test also passes on redis-server, unless marked."""

import pytest

from harness.beside import incrementing
from harness.resp import OK, Status
from harness.server import only_dragonfly

pytestmark = pytest.mark.sanitized

COUNT = 20_000
TAGS = [f"{{{i}}}" for i in range(8)]  # in shards of all threads
ELEMENTS = [b"element:%012d" % i for i in range(COUNT)]

# What is run with keys of a tag, and what it replies.
WRITES = {
    "SUNIONSTORE": ("SUNIONSTORE {}to {}set {}none", COUNT),
    "SINTERSTORE": ("SINTERSTORE {}to {}set {}set", COUNT),
    "SDIFFSTORE": ("SDIFFSTORE {}to {}set {}none", COUNT),
    "ZUNIONSTORE": ("ZUNIONSTORE {}to 2 {}zset {}none", COUNT),
    "ZINTERSTORE": ("ZINTERSTORE {}to 2 {}zset {}zset", COUNT),
    "SORT": ("SORT {}list ALPHA LIMIT 0 1", ELEMENTS[:1]),
    "SORT STORE": ("SORT {}list ALPHA STORE {}to", COUNT),
    "COPY": ("COPY {}hash {}to REPLACE", 1),
}


def fill(r, tag):
    assert r.call("SADD", tag + "set", *ELEMENTS) == COUNT
    assert r.call("ZADD", tag + "zset", *(w for i, e in enumerate(ELEMENTS) for w in (i, e)))
    assert r.call("RPUSH", tag + "list", *ELEMENTS) == COUNT
    assert r.call("HSET", tag + "hash", *(w for e in ELEMENTS for w in (e, e))) == COUNT


def command_of(name, tag):
    text, reply = WRITES[name]
    return text.replace("{}", tag).split(), reply


@only_dragonfly("a command is one step")
@pytest.mark.parametrize("name", WRITES)
def test_others_run_in_between(start_server, name):
    """Between two GETs of a pipeline another client's INCRs come only if the command gives way: all
    three have the same shard, which takes what comes together at once."""
    server = start_server(proactor_threads=4, migrate_connections="false")
    with server.connect() as c, server.connect() as other:
        for tag in TAGS:
            fill(c, tag)
            command, wanted = command_of(name, tag)
            count = ("GET", tag + "n")
            c.call("SET", tag + "n", 0)
            with incrementing(other, tag + "n"):
                for _ in range(200):  # the other client may get no core meanwhile
                    before, reply, after = c.pipeline([count, command, count])
                    assert reply == wanted
                    if int(after) > int(before):
                        break
            assert int(after) > int(before), tag


@pytest.mark.alone
@pytest.mark.parametrize("name", WRITES)
def test_commands_around_it_keep_their_order(r, name):
    for tag in TAGS:
        fill(r, tag)
        command, wanted = command_of(name, tag)
        stores = tag + "to" in command
        before = [("SET", tag + "to", "replaced"), ("SET", tag + "n", 1)]
        after = [("INCR", tag + "n"), ("TYPE", tag + "to"), ("DEL", tag + "to")]
        replies = r.pipeline([*before, command, *after])
        assert replies[:4] == [OK, OK, wanted, 2]
        assert (replies[4] != Status("string")) == stores
        assert replies[5] == 1
