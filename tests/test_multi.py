# SPDX-License-Identifier: Apache-2.0
"""MULTI, EXEC and DISCARD: scripts of several clients whose replies have to equal those of
redis-server byte for byte, and random streams of the same, with WATCH."""

import pytest

from harness.resp import encode
from harness.scripts import check_counts, check_replies, counts
from harness.seeds import new_rng
from harness.server import SANITIZED
from differential.compare import is_compared_loosely
from differential.grammar import Grammar

pytestmark = [pytest.mark.sanitized]

SCRIPTS = {
    "simple": """
        a: MULTI
        a: SET k v
        a: GET k
        b: GET k
        a: EXEC
        b: GET k
        a: GET k""",
    "nothing queued": """
        a: MULTI
        a: EXEC
        a: MULTI
        a: DISCARD
        a: GET k""",
    "out of place": """
        a: EXEC
        a: DISCARD
        a: UNWATCH
        a: EXEC now
        a: MULTI now
        a: DISCARD now
        a: UNWATCH now
        a: WATCH""",
    "discard": """
        a: SET k v
        a: MULTI
        a: DEL k
        a: DISCARD
        a: GET k
        a: EXEC
        a: DISCARD""",
    "errors when it runs do not undo": """
        a: SET s text
        a: MULTI
        a: SET k 1
        a: INCR s
        a: LPUSH s x
        a: INCR k
        a: EXEC
        a: GET k""",
    "unknown command": """
        a: MULTI
        a: SET k v
        a: NOSUCH k v
        a: SET k w
        a: EXEC
        a: GET k
        a: EXEC""",
    "unknown subcommand": """
        a: MULTI
        a: CLIENT NOSUCH
        a: EXEC
        a: MULTI
        a: CONFIG GET
        a: EXEC""",
    "arity": """
        a: MULTI
        a: GET
        a: SET k v
        a: EXEC
        a: MULTI
        a: MGET
        a: DISCARD
        a: MULTI
        a: SET k v
        a: EXEC x
        a: EXEC
        a: MULTI
        a: MULTI x
        a: EXEC
        a: MULTI
        a: WATCH
        a: EXEC
        a: MULTI
        a: DISCARD x
        a: EXEC
        a: GET k""",
    "a syntax error is found when it runs": """
        a: MULTI
        a: SET k v WHAT
        a: SET k v
        a: EXEC
        a: GET k""",
    "nested": """
        a: MULTI
        a: MULTI
        a: SET k v
        a: EXEC
        a: EXEC""",
    "an aborted one is no dirty one": """
        a: WATCH k
        a: MULTI
        a: NOSUCH
        b: SET k v
        a: EXEC
        a: MULTI
        a: GET k
        a: EXEC""",
    "another form of the same value": """
        a: PFADD k a b c
        a: WATCH k
        b: PFDEBUG TODENSE k
        a: MULTI
        a: PFCOUNT k
        a: EXEC
        a: WATCH k
        b: PFADD k d
        a: MULTI
        a: PFCOUNT k
        a: EXEC""",
    "select in MULTI": """
        a: MULTI
        a: SET k 0
        a: SELECT 1
        a: SET k 1
        a: MSET l 1 m 1 n 1
        a: SELECT 99
        a: SET x 1
        a: SELECT x
        a: MGET k l m n x
        a: EXEC
        a: GET k
        a: SELECT 0
        a: GET k
        a: MULTI
        a: SELECT 2
        a: DISCARD
        a: GET k
        a: MULTI
        a: SELECT 1
        a: NOSUCH
        a: EXEC
        a: GET k""",
    "move and swapdb in MULTI": """
        a: MSET k v l w
        a: MULTI
        a: MOVE k 1
        a: SELECT 1
        a: GET k
        a: SWAPDB 0 1
        a: MGET k l
        a: SELECT 0
        a: MGET k l
        a: DBSIZE
        a: EXEC""",
    "session commands in MULTI": """
        a: MULTI
        a: PING
        a: PING hello
        a: ECHO x
        a: CLIENT SETNAME me
        a: CLIENT GETNAME
        a: SET k v
        a: CLIENT SETNAME ''
        a: CLIENT GETNAME
        a: GET k
        a: EXEC
        a: CLIENT GETNAME""",
    "hello in MULTI": """
        a: MULTI
        a: HELLO 9
        a: HELLO 3 AUTH
        a: EXEC""",
    "auth in MULTI": """
        a: MULTI
        a: AUTH x
        a: AUTH default x
        a: GET k
        a: EXEC
        a: GET k""",
    "reset": """
        a: SET k v
        a: WATCH k
        a: MULTI
        a: SET k w
        a: RESET
        a: EXEC
        a: GET k
        b: SET k x
        a: MULTI
        a: GET k
        a: EXEC
        a: SELECT 1
        a: MULTI
        a: RESET
        a: GET k""",
    "quit": """
        a: MULTI
        a: SET k v
        a: QUIT
        a: <end>
        b: GET k""",
    "all keys, in MULTI": """
        a: MULTI
        a: SET k v
        a: DBSIZE
        a: KEYS *
        a: EXISTS k k none
        a: RANDOMKEY
        a: FLUSHDB
        a: DBSIZE
        a: SET l w
        a: FLUSHALL
        a: DBSIZE
        a: EXEC""",
    "spread commands": """
        a: MULTI
        a: MSET a 1 b 2 c 3 d 4 e 5
        a: MGET a b c d e f
        a: DEL a b none
        a: EXISTS a b c d
        a: UNLINK c
        a: TOUCH a b c d e
        a: MSETNX d x y z
        a: MSETNX x 1 y 2 z 3
        a: RENAME x a
        a: RENAME none a
        a: RENAMENX y z
        a: COPY z b
        a: MGET a b c d e x y z
        a: INCR a
        a: LPUSH l1 a b c
        a: LMOVE l1 l2 LEFT RIGHT
        a: RPOPLPUSH l1 l3
        a: LMPOP 3 none l2 l3 LEFT COUNT 9
        a: LCS d e
        a: EXEC
        a: MGET a b c d e x y z""",
    "nil and empty replies": """
        a: MULTI
        a: GET none
        a: MGET none nothing
        a: LPOP none
        a: LPOP none 2
        a: LRANGE none 0 -1
        a: LPOS none x
        a: LPOS none x COUNT 0
        a: SET k v GET
        a: LMPOP 1 none LEFT
        a: LMOVE none l LEFT LEFT
        a: GETDEL k
        a: GETEX k
        a: OBJECT ENCODING none
        a: RANDOMKEY
        a: EXEC""",
    "floats and big numbers": """
        a: MULTI
        a: INCRBYFLOAT k 1.5
        a: INCRBY l 9223372036854775807
        a: INCR l
        a: LCS k l IDX
        a: EXEC""",
    "not in MULTI": """
        a: MULTI
        a: SHUTDOWN WHAT
        a: EXEC
        a: MULTI
        a: DEBUG SLEEP 0
        a: CONFIG GET timeout
        a: EXEC""",
    "blocking commands do not wait in MULTI": """
        a: MULTI
        a: BLPOP none nothing 0
        a: BRPOP none 0
        a: BLMOVE none l LEFT LEFT 0
        a: BRPOPLPUSH none l 0
        a: BLMPOP 0 2 none nothing LEFT
        a: BLPOP none -1
        a: BLPOP none x
        a: RPUSH k a b c d e f g
        a: BLPOP none k 0
        a: BRPOP k 0
        a: BLMOVE k l LEFT LEFT 0
        a: BRPOPLPUSH k l 0
        a: BLMPOP 0 2 none l LEFT COUNT 2
        a: SET s x
        a: BLPOP s 0
        a: LRANGE k 0 -1
        a: EXEC""",
    "a client that waits is served by EXEC as a whole": """
        b: <send> BLPOP k 0
        c: <send> BLPOP l 0
        a: <blocked> 2
        a: MULTI
        a: RPUSH k a
        a: RPUSH l b
        a: LPOP l
        a: RPUSH k c
        a: LLEN k
        a: EXEC
        b: <read>
        a: LRANGE k 0 -1
        a: RPUSH l last
        c: <read>
        b: <send> BLPOP k m 0
        b: <read>
        b: <send> BLPOP m k 0
        a: <blocked> 1
        a: MULTI
        a: SELECT 1
        a: RPUSH m none
        a: SELECT 0
        a: RPUSH k x
        a: EXEC
        b: <read>""",
    "publish": """
        b: SUBSCRIBE ch
        c: PSUBSCRIBE c*
        a: MULTI
        a: PUBLISH ch one
        a: SET k v
        a: PUBLISH ch two
        a: PUBLISH none three
        a: SPUBLISH ch four
        a: EXEC
        b: <read>
        b: <read>
        c: <read>
        c: <read>
        a: MULTI
        a: PUBLISH ch five
        a: DISCARD
        a: PUBLISH ch six
        b: <read>
        c: <read>""",
    "subscribe in MULTI": """
        a: MULTI
        a: SUBSCRIBE ch
        a: EXEC
        b: PUBLISH ch x
        a: <read>
        a: UNSUBSCRIBE ch
        a: GET k
        a: MULTI
        a: GET k
        a: SUBSCRIBE ch
        a: PSUBSCRIBE p*
        a: SSUBSCRIBE s
        a: UNSUBSCRIBE ch
        a: PUNSUBSCRIBE p*
        a: SUNSUBSCRIBE s
        a: SET k v
        a: EXEC
        a: GET k""",
    "two clients": """
        a: MULTI
        b: MULTI
        a: INCR k
        b: INCR k
        a: INCR k
        b: GET k
        a: EXEC
        b: EXEC""",
    "a client that leaves": """
        a: SET k v
        b: WATCH k
        b: MULTI
        b: SET k w
        b: <close>
        a: WATCH k
        a: MULTI
        a: GET k
        a: EXEC
        a: SET k x""",
}


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gets_the_replies_of_redis_server(pair, name, resp3):
    check_replies(pair, SCRIPTS[name], resp3)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_counted_as_by_redis_server(pair, name):
    check_counts(pair, SCRIPTS[name])


# --- Random streams ---


class Streams:
    """Commands of three clients on the same keys: what Grammar makes, and transactions."""

    # About the process itself, or connections; or with a reply that is compared as a whole only.
    LEFT_OUT = "KEYS SCAN CONFIG COMMAND INFO TIME OBJECT RANDOMKEY HELLO CLIENT DEBUG AUTH".split()
    LEFT_OUT += "RESET QUIT SHUTDOWN MEMORY LATENCY MONITOR SUBSCRIBE PSUBSCRIBE SSUBSCRIBE".split()
    LEFT_OUT += "UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE".split()

    def __init__(self, rng):
        self.rng = rng
        self.grammar = Grammar(rng)

    def plain(self):
        while True:
            made = self.grammar.command()
            if made[0].upper().decode("latin1") in self.LEFT_OUT:
                continue
            if not is_compared_loosely(made):
                return made

    def command(self):
        rng = self.rng
        kind = rng.randrange(20)
        if kind < 12:
            return self.plain()
        if kind < 14:
            return [b"WATCH", *[self.grammar.any_key() for _ in range(rng.randint(1, 3))]]
        choice = [
            *[[b"MULTI"]] * 6,
            *[[b"EXEC"]] * 6,
            [b"DISCARD"],
            [b"UNWATCH"],
            [b"exec", b"now"],
            [b"multi", b"x"],
            [b"NOSUCH"],
            [b"SWAPDB", b"0", b"1"],
            [b"FLUSHDB"],
            [b"SELECT", b"%d" % rng.randrange(2)],
            [b"PUBLISH", b"nobody", b"x"],
        ]
        return rng.choice(choice)


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("depth", [1, 8])
def test_random_streams_get_the_replies_of_redis_server(pair, resp3, depth):
    rng = new_rng()
    streams = Streams(rng)
    clients = [[server.connect(resp3=resp3) for _ in range(3)] for server in pair]
    history = []
    kept = 0
    for server in clients:
        server[0].call("FLUSHALL")
    for _ in range((500 if SANITIZED else 4000) // depth):
        number = rng.randrange(3)
        commands = [streams.command() for _ in range(depth)]
        history += [(number, command) for command in commands]
        replies = []
        for server in clients:
            server[number].send(b"".join(encode(*command) for command in commands))
            replies.append([server[number].read_raw() for _ in commands])
        for at, (got, expected) in enumerate(zip(*replies)):
            if got != expected:
                upto = history[: len(history) - depth + at + 1]
                lines = "\n".join(f"  {n}: {command}" for n, command in upto[-40:])
                pytest.fail(f"ours: {got!r}\nredis: {expected!r}\nlast of:\n{lines}")
            kept += commands[at] == [b"EXEC"] and got[:1] == b"*" and got[1:2] not in b"-0"
    assert kept > 0  # some of them were carried out
    for server in clients:
        for client in server:
            client.close()


def test_random_streams_are_counted_as_by_redis_server(pair):
    streams = Streams(new_rng())
    commands = [streams.command() for _ in range(300 if SANITIZED else 1500)]
    got = []
    for server in pair:
        with server.connect() as c:
            c.call("FLUSHALL"), c.call("CONFIG", "RESETSTAT")
            for command in commands:
                c.raw(*command)
            c.call("RESET")
            got.append(counts(c))
    assert got[0] == got[1]
