# SPDX-License-Identifier: Apache-2.0
"""MULTI EXEC DISCARD WATCH UNWATCH: scripts of several clients whose replies have to equal those of
redis-server byte for byte, random streams of the same, and what cannot be compared so."""

import os
import random
import shutil

import pytest

from harness.resp import OK, Error, Status, Verbatim, encode
from harness.server import REFERENCE, SANITIZED, Server, configuration_flags, wait_until
from test_differential import Grammar, comparable

pytestmark = [pytest.mark.sanitized]

QUEUED = Status("QUEUED")
OOM = "OOM command not allowed when used memory > 'maxmemory'."


# --- Scripts: "client: command", and for all but the first some words about what it shows ---

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
    "WATCH in MULTI": """
        a: MULTI
        a: WATCH k
        a: SET k v
        a: EXEC
        a: GET k""",
    "UNWATCH in MULTI is queued": """
        a: WATCH k
        a: MULTI
        a: UNWATCH
        a: SET k v
        b: SET k w
        a: EXEC
        a: GET k
        a: WATCH k
        a: MULTI
        a: UNWATCH
        a: SET k v
        a: EXEC
        a: GET k""",
    "an aborted one is no dirty one": """
        a: WATCH k
        a: MULTI
        a: NOSUCH
        b: SET k v
        a: EXEC
        a: MULTI
        a: GET k
        a: EXEC""",
    "discard ends the watch": """
        a: WATCH k
        a: MULTI
        a: DISCARD
        b: SET k v
        a: MULTI
        a: GET k
        a: EXEC""",
    "exec ends the watch": """
        a: WATCH k
        b: SET k v
        a: MULTI
        a: GET k
        a: EXEC
        a: MULTI
        a: GET k
        a: EXEC""",
    "an aborted exec ends the watch": """
        a: WATCH k
        b: SET k v
        a: MULTI
        a: GET
        a: EXEC
        a: MULTI
        a: GET k
        a: EXEC""",
    "unwatch": """
        a: WATCH k l m
        a: UNWATCH
        b: SET k v
        a: MULTI
        a: GET k
        a: EXEC""",
    "one of many keys": """
        a: WATCH a b c d e f g h
        b: SET h v
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH a b c d e f g h
        a: WATCH i a a
        b: SET z v
        a: MULTI
        a: PING
        a: EXEC""",
    "one's own writes touch": """
        a: WATCH k
        a: SET k v
        a: MULTI
        a: GET k
        a: EXEC""",
    "a write that changes nothing": """
        a: SET k v
        a: SET l w
        a: WATCH k l
        b: SETNX k w
        b: DEL none
        b: SET k w NX
        b: MSETNX k w x y
        b: RENAMENX k l
        b: EXPIRE none 10
        b: PERSIST k
        b: COPY k l
        b: LPUSHX none x
        b: LPUSH k x
        b: INCR k
        b: GETEX k
        b: TOUCH k
        b: MOVE none 1
        a: MULTI
        a: GET k
        a: EXEC""",
    "an append of nothing": """
        a: SET k v
        a: WATCH k
        b: APPEND k ''
        a: MULTI
        a: GET k
        a: EXEC""",
    "a range of nothing": """
        a: SET k v
        a: WATCH k none
        b: SETRANGE k 0 ''
        b: SETRANGE none 5 ''
        a: MULTI
        a: GET k
        a: EXEC""",
    "the same value": """
        a: SET k v
        a: WATCH k
        b: SET k v
        a: MULTI
        a: GET k
        a: EXEC""",
    "there and back": """
        a: WATCH k
        b: SET k v
        b: DEL k
        a: MULTI
        a: GET k
        a: EXEC""",
    "delete": """
        a: SET k v
        a: WATCH k
        b: DEL k
        a: MULTI
        a: GET k
        a: EXEC
        a: SET k v
        a: WATCH k
        b: UNLINK k
        a: MULTI
        a: GET k
        a: EXEC""",
    "deadlines": """
        a: SET k v
        a: WATCH k
        b: EXPIRE k 1000
        a: MULTI
        a: GET k
        a: EXEC
        a: WATCH k
        b: PERSIST k
        a: MULTI
        a: GET k
        a: EXEC
        a: WATCH k
        b: EXPIRE k -1
        a: MULTI
        a: GET k
        a: EXEC
        a: SET k v
        a: WATCH k
        b: GETEX k EX 1000
        a: MULTI
        a: GET k
        a: EXEC
        a: WATCH k
        b: EXPIRE k 2000 XX
        a: MULTI
        a: GET k
        a: EXEC
        a: WATCH k
        b: EXPIRE k 1000 GT
        a: MULTI
        a: GET k
        a: EXEC""",
    "expiry that nobody has noticed": """
        a: DEBUG SET-ACTIVE-EXPIRE 0
        a: SET k v PX 30
        a: SET l v PX 30
        a: WATCH k
        a: <pass> 60
        a: MULTI
        a: GET k
        a: EXEC
        a: WATCH k
        a: MULTI
        a: GET k
        a: EXEC
        a: DEBUG SET-ACTIVE-EXPIRE 1""",
    "expiry that somebody has noticed": """
        a: DEBUG SET-ACTIVE-EXPIRE 0
        a: SET k v PX 30
        a: WATCH k
        a: <pass> 60
        b: GET k
        a: MULTI
        a: GET k
        a: EXEC
        a: DEBUG SET-ACTIVE-EXPIRE 1""",
    "a key that was due when it was watched": """
        a: DEBUG SET-ACTIVE-EXPIRE 0
        a: SET k v PX 30
        a: <pass> 60
        a: WATCH k
        a: MULTI
        a: GET k
        a: EXEC
        a: SET k v PX 30
        a: <pass> 60
        a: WATCH k
        b: GET k
        b: EXISTS k
        a: MULTI
        a: GET k
        a: EXEC
        a: DEBUG SET-ACTIVE-EXPIRE 1""",
    "a key that was due is written again": """
        a: DEBUG SET-ACTIVE-EXPIRE 0
        a: SET k v PX 30
        a: <pass> 60
        a: WATCH k
        b: SET k w
        a: MULTI
        a: GET k
        a: EXEC
        a: DEBUG SET-ACTIVE-EXPIRE 1""",
    "flush": """
        a: SET k v
        a: WATCH k
        b: FLUSHALL
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH none
        b: FLUSHALL
        b: FLUSHDB
        a: MULTI
        a: PING
        a: EXEC
        a: SET k v
        a: WATCH k
        b: FLUSHDB
        a: MULTI
        a: PING
        a: EXEC
        a: SET k v
        a: WATCH none
        b: FLUSHDB ASYNC
        a: MULTI
        a: PING
        a: EXEC
        a: SET k v
        a: WATCH k
        b: SELECT 1
        b: FLUSHDB
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        a: MULTI
        a: FLUSHALL
        a: SET k w
        a: GET k
        a: DBSIZE
        a: EXEC""",
    "swapdb": """
        a: SET k v
        a: WATCH k
        b: SWAPDB 0 1
        a: MULTI
        a: GET k
        a: EXEC
        a: GET k
        a: WATCH k
        b: SWAPDB 0 1
        a: MULTI
        a: GET k
        a: EXEC
        a: WATCH none
        b: SWAPDB 0 1
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: SWAPDB 2 3
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: SWAPDB 0 0
        a: MULTI
        a: PING
        a: EXEC
        b: SWAPDB 0 1
        a: WATCH k
        b: SELECT 1
        b: SET k other
        a: MULTI
        a: SWAPDB 0 1
        a: GET k
        a: EXEC""",
    "swapdb and keys that are due": """
        a: DEBUG SET-ACTIVE-EXPIRE 0
        a: SET x foo PX 20
        a: SET y foo
        a: <pass> 40
        a: SELECT 1
        a: WATCH x
        a: SWAPDB 0 1
        a: MULTI
        a: GET x
        a: EXEC
        a: FLUSHALL
        a: SET x foo PX 20
        a: SELECT 0
        a: SET x bar PX 20
        a: <pass> 40
        a: SELECT 1
        a: WATCH x
        b: WATCH x
        b: SET z 1
        a: SWAPDB 0 1
        a: MULTI
        a: GET x
        a: EXEC
        b: MULTI
        b: GET x
        b: EXEC
        a: SELECT 0
        a: SET x bar PX 20
        a: WATCH x
        a: <pass> 40
        a: SWAPDB 0 1
        a: MULTI
        a: GET x
        a: EXEC
        a: DEBUG SET-ACTIVE-EXPIRE 1""",
    "both of swapdb have the key": """
        a: SET k v
        a: SELECT 1
        a: SET k w
        a: WATCH k
        b: SWAPDB 0 1
        a: MULTI
        a: GET k
        a: EXEC
        a: SELECT 0
        a: DEL k
        a: WATCH k
        b: SWAPDB 0 1
        a: MULTI
        a: GET k
        a: EXEC""",
    "rename and copy": """
        a: SET k v
        a: WATCH k
        b: RENAME k l
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: RENAME l k
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: RENAME k k
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: COPY k m
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: COPY m k REPLACE
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        b: RENAME none k
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k x
        b: MOVE k 1
        a: MULTI
        a: PING
        a: EXEC
        a: SELECT 1
        a: WATCH x
        b: SET x v
        b: MOVE x 1
        a: MULTI
        a: GET x
        a: EXEC""",
    "lists": """
        a: RPUSH k a b c
        a: WATCH k
        b: LRANGE k 0 -1
        b: LPOS k b
        b: LINDEX k 0
        b: LREM k 0 none
        b: LINSERT k BEFORE none x
        b: LPUSHX none x
        b: LPOP none
        a: MULTI
        a: LLEN k
        a: EXEC
        a: WATCH k
        b: LMOVE k l LEFT LEFT
        a: MULTI
        a: LLEN k
        a: EXEC
        a: WATCH l
        b: LMPOP 2 none l LEFT
        a: MULTI
        a: LLEN k
        a: EXEC
        a: WATCH k
        b: LTRIM k 0 -1
        a: MULTI
        a: LLEN k
        a: EXEC
        a: WATCH k
        b: LSET k 0 b
        a: MULTI
        a: LLEN k
        a: EXEC
        a: WATCH k
        b: LPOP k 0
        a: MULTI
        a: LLEN k
        a: EXEC
        a: WATCH k
        b: RPOPLPUSH k k
        a: MULTI
        a: LLEN k
        a: EXEC""",
    "keys of other databases": """
        a: WATCH k
        b: SELECT 1
        b: SET k v
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        a: SELECT 1
        a: WATCH l
        a: SELECT 0
        b: SET l v
        a: MULTI
        a: PING
        a: EXEC
        a: WATCH k
        a: SELECT 1
        b: SELECT 0
        b: SET k v
        a: MULTI
        a: PING
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
        a: CONFIG GET maxmemory
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
    "a waiting client's pop touches what is watched": """
        c: WATCH k
        b: <send> BLPOP k 0
        a: <blocked> 1
        a: RPUSH k v
        b: <read>
        c: MULTI
        c: PING
        c: EXEC""",
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
    "a watcher that leaves": """
        b: WATCH k
        b: <close>
        a: SET k v
        c: WATCH k
        a: SET k w
        c: MULTI
        c: PING
        c: EXEC""",
    "exec touches the watches of others": """
        b: WATCH k
        c: WATCH l
        d: WATCH m
        a: MULTI
        a: SET k v
        a: MSET x 1 y 2 l 3
        a: EXEC
        b: MULTI
        b: PING
        b: EXEC
        c: MULTI
        c: PING
        c: EXEC
        d: MULTI
        d: PING
        d: EXEC""",
    "exec and one's own watched keys": """
        a: WATCH k
        a: MULTI
        a: SET k v
        a: SET k w
        a: EXEC
        a: MULTI
        a: GET k
        a: EXEC""",
}


class Client:
    """One name of a script, on one server."""

    def __init__(self, server, resp3):
        self.server = server
        self.connection = server.connect(resp3=resp3, timeout=20)

    def do(self, line):
        """The bytes of the reply; what needs none says so."""
        word, _, rest = line.partition(" ")
        if word == "<read>":
            return self.connection.read_raw()
        if word == "<send>":  # <read> comes later
            self.connection.send_command(*rest.split(" "))
            return b"sent"
        if word == "<blocked>":
            wait_until(lambda: self.connection.info("clients")["blocked_clients"] == rest)
            return b"blocked"
        if word == "<close>":
            self.connection.close()
            return b"closed"
        if word == "<end>":
            return self.connection.read_until_closed()
        if word == "<pass>":  # so many milliseconds of the server's time
            wait_until(clock_passes(self.connection, int(rest)))
            return b"passed"
        words = ["" if w == "''" else w for w in line.split(" ")]
        raw = self.connection.raw(*words)
        if words[0] == "EXEC" and self.changes_subscriptions:
            self.changes_subscriptions = False
            raw += read_all_there_is(self.connection)
        if words[0] in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE"):
            self.changes_subscriptions = True
        return raw

    changes_subscriptions = False


def read_all_there_is(connection):
    """In EXEC a SUBSCRIBE's confirmation is an element in RESP2, and a push in between in RESP3."""
    connection.send_command("PING", "the end")
    raw = b""
    while not raw.endswith(b"the end\r\n"):
        raw += connection.read_raw()
    return raw


def clock_passes(connection, ms):
    def now_ms():
        seconds, micros = map(int, connection.call("TIME"))
        return seconds * 1000 + micros // 1000

    end = now_ms() + ms
    return lambda: now_ms() > end


def play(server, script, resp3):
    """[(line, bytes of the reply)]"""
    with server.connect() as c:
        c.call("FLUSHALL")
    clients = {}
    got = []
    for line in filter(None, map(str.strip, script.split("\n"))):
        name, command = line.split(": ", 1)
        if name not in clients:
            clients[name] = Client(server, resp3)
        got.append((line, clients[name].do(command)))
    for client in clients.values():
        client.connection.close()
    return got


def pytest_generate_tests(metafunc):
    if "configuration_of_pair" in metafunc.fixturenames:
        small = os.environ.get("DFLY_MATRIX") == "small"
        names = ["redis"] if REFERENCE else ["4t"] if small else ["4t", "1t", "4t-epoll"]
        metafunc.parametrize("configuration_of_pair", names, scope="module")


@pytest.fixture(scope="module")
def pair(configuration_of_pair):
    ours = Server(**configuration_flags(configuration_of_pair))
    reference = Server(reference=True)
    yield ours, reference
    reference.stop()
    ours.stop()
    for server in (ours, reference):
        shutil.rmtree(server.dir, ignore_errors=True)


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gets_the_replies_of_redis_server(pair, name, resp3):
    ours, expected = (play(server, SCRIPTS[name], resp3) for server in pair)
    assert ours == expected


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
            if comparable(made, b"*1\r\n:1\r\n") == b"*1\r\n:1\r\n":
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
    seed = int(os.environ.get("DFLY_SEED", random.randrange(1 << 32)))
    print(f"DFLY_SEED={seed}")
    rng = random.Random(seed)
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


def counts(connection):
    """Commands and errors, without times and without what this itself calls."""
    got = {}
    for section in ("commandstats", "errorstats"):
        for name, value in connection.info(section).items():
            if "cmdstat_info" not in name:
                got[name] = ",".join(v for v in value.split(",") if not v.startswith("usec"))
    return got


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_counted_as_by_redis_server(pair, name):
    def calls(server):
        with server.connect() as c:
            c.call("FLUSHALL")
            c.call("CONFIG", "RESETSTAT")
            play(server, SCRIPTS[name], resp3=False)
            got = counts(c)
            return {k: v for k, v in got.items() if "time" not in k and "flushall" not in k}

    ours, expected = (calls(server) for server in pair)
    assert ours == expected


def test_random_streams_are_counted_as_by_redis_server(pair):
    seed = int(os.environ.get("DFLY_SEED", random.randrange(1 << 32)))
    print(f"DFLY_SEED={seed}")
    streams = Streams(random.Random(seed))
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


# --- What cannot be compared so ---


@pytest.fixture(params=["4t", "1t"] if not REFERENCE else ["redis"])
def own(request, start_server):
    """A server of the test's own."""
    return start_server(**configuration_flags(request.param))


def fields_of(connection):
    text = connection.call("CLIENT", "LIST")
    text = text.text if isinstance(text, Verbatim) else text.decode()
    clients = [dict(f.split("=", 1) for f in line.split(" ")) for line in text.splitlines()]
    return {c["name"]: c for c in clients}


def test_client_list_tells_what_is_queued(own):
    with own.connect() as a, own.connect() as b:
        a.call("CLIENT", "SETNAME", "a")
        assert fields_of(b)["a"]["multi"] == "-1"
        assert fields_of(b)["a"]["flags"] == "N"
        a.call("MULTI")
        assert fields_of(b)["a"]["multi"] == "0"
        assert fields_of(b)["a"]["flags"] == "x"
        a.call("SET", "k", "v" * 1000)
        a.call("GET", "k")
        a.call("GET", "l")
        a.call("GET")  # an error; from here on nothing is queued any more
        assert a.call("SET", "k", "v" * 1000) == QUEUED
        fields = fields_of(b)["a"]
        assert (fields["multi"], fields["flags"]) == ("3", "x")
        assert int(fields["multi-mem"]) > 1000
        assert int(fields["tot-mem"]) > int(fields["multi-mem"])
        a.call("DISCARD")
        assert (fields_of(b)["a"]["multi"], fields_of(b)["a"]["flags"]) == ("-1", "N")
        # Inside EXEC it is still there.
        lines = a.pipeline([("MULTI",), ("SET", "k", "v"), ("CLIENT", "INFO"), ("EXEC",)])[-1]
        assert b" flags=x " in lines[1] and b" multi=2 " in lines[1]
        assert fields_of(b)["a"]["multi"] == "-1"
        assert fields_of(b)["a"]["cmd"] == "exec"


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "CLIENT REPLY OFF;MULTI;SET k v;EXEC;GET k;CLIENT REPLY ON;GET k",
        "CLIENT REPLY OFF;MULTI;SET k v;CLIENT REPLY ON;GET k;EXEC;GET k",
        "MULTI;SET k v;CLIENT REPLY OFF;GET k;EXEC;GET k;CLIENT REPLY ON;GET k",
        "MULTI;CLIENT REPLY OFF;GET k;CLIENT REPLY ON;SET k v;EXEC;GET k",
        "CLIENT REPLY SKIP;MULTI;SET k v;EXEC;GET k",
        "MULTI;SET k v;CLIENT REPLY SKIP;GET k;EXEC;ECHO a;ECHO b",
        "MULTI;SET k v;CLIENT REPLY SKIP;EXEC;ECHO a;ECHO b",
        "MULTI;SET k v;GET k;CLIENT REPLY SKIP;DISCARD;ECHO a;ECHO b",
        "CLIENT REPLY OFF;MULTI;NOSUCH;CLIENT REPLY ON;EXEC;CLIENT REPLY ON;EXEC;ECHO a",
        "CLIENT REPLY OFF;MULTI;SET k v;RESET;ECHO a",
        "CLIENT REPLY SKIP;EXEC;ECHO a",
        "CLIENT REPLY SKIP;WATCH k;MULTI;SET k v;EXEC;CLIENT REPLY SKIP;WATCH k;ECHO a",
        "MULTI;SET k v;QUIT;GET k",
        "WATCH k;MULTI;SET k v;GET k;RESET;EXEC;QUIT",
        "MULTI;HELLO 3;GET none;HELLO 2;GET none;CLIENT REPLY OFF;EXEC;QUIT",
    ],
)
def test_replies_that_are_off_or_skipped(pair, line, spread):
    got = []
    for server in pair:
        with server.connect() as c:
            c.call("FLUSHALL")
            commands = [command.split(" ") for command in line.split(";")]
            if spread:
                many = [["MSET", *[x for k in "abcdefgh" for x in (k, "v")]], ["MGET", *"abcd"]]
                at = commands.index(["MULTI"]) + 1 if ["MULTI"] in commands else 0
                commands[at:at] = many
            c.send(b"".join(encode(*command) for command in commands))
            c.sock.shutdown(1)
            raw = c.read_until_closed()
        if "HELLO" in line:
            raw = raw.count(b"$-1\r\n"), raw.count(b"_\r\n"), raw[:1]
        got.append(raw)
    assert got[0] == got[1]


def test_a_pause_holds_back_what_writes(own):
    with own.connect() as a, own.connect() as b, own.connect() as reader:
        for c in (a, reader):
            assert c.pipeline([("MULTI",), ("GET", "k")]) == [OK, QUEUED]
        assert a.call("SET", "k", "v") == QUEUED
        b.call("CLIENT", "PAUSE", 100_000, "WRITE")
        a.send_command("EXEC")
        assert reader.call("EXEC") == [None]
        assert reader.call("WATCH", "k") == OK
        assert reader.call("MULTI") == OK
        reader.send_command("SET", "l", "v")  # not even queued
        fields = wait_until(lambda: fields_of(b), what="it answers")
        assert len(fields) == 1  # without names
        assert b.call("GET", "k") is None
        b.call("CLIENT", "UNPAUSE")
        assert a.read() == [None, OK]
        assert reader.read() == QUEUED
        assert reader.call("EXEC") is None  # it watched k, which was written meanwhile


def test_a_pause_of_all_holds_exec_back(own):
    with own.connect() as a, own.connect() as b:
        assert a.pipeline([("MULTI",), ("GET", "k"), ("GET", "l")])[0] == OK
        b.pipeline([("SET", "k", "v"), ("CLIENT", "PAUSE", 100, "ALL")])
        assert a.call("EXEC") == [b"v", None]


def fill(r):
    """From now on no memory is left."""
    r.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    r.call("SET", "big", "x" * 100_000)
    assert r.call("CONFIG", "SET", "maxmemory", 1) == OK


def test_out_of_memory_when_it_is_queued(own):
    with own.connect() as r:
        fill(r)
        assert r.call("GET", "big") == b"x" * 100_000
        assert r.call("MULTI") == OK
        assert r.call("SET", "k", "v") == Error(OOM)
        # A queue takes memory, so this is refused, too.
        assert r.call("GET", "big") == Error(OOM)
        assert r.call("EXEC") == Error(
            "EXECABORT Transaction discarded because of previous errors."
        )
        assert r.call("EXEC") == Error("ERR EXEC without MULTI")
        assert r.pipeline([("MULTI",), ("EXEC",), ("MULTI",), ("DISCARD",)]) == [OK, [], OK, OK]
        assert r.info("commandstats")["cmdstat_set"].endswith("rejected_calls=1,failed_calls=0")
        assert r.info("errorstats")["errorstat_OOM"] == "count=2"


@pytest.mark.parametrize("spread", [False, True])
def test_out_of_memory_when_it_is_executed(own, spread):
    with own.connect() as r, own.connect() as other:
        other.call("SET", "none", "x")
        assert r.call("WATCH", "none") == OK
        assert r.call("MULTI") == OK
        for key in "abcdef" if spread else "a":
            assert r.call("SET", key, "v") == QUEUED
        fill(other)
        assert r.call("EXEC") == Error(f"EXECABORT Transaction discarded because of: {OOM}")
        assert r.call("EXEC") == Error("ERR EXEC without MULTI")
        assert r.call("EXISTS", *"abcdef") == 0
        assert other.call("CONFIG", "SET", "maxmemory", 0) == OK
        other.call("SET", "none", "y")
        assert r.pipeline([("MULTI",), ("SET", "a", "v"), ("EXEC",)])[-1] == [OK]
        stats = r.info("commandstats")["cmdstat_exec"]
        assert stats.endswith("rejected_calls=1,failed_calls=1"), stats


def test_a_client_that_leaves_forgets_what_it_watched(own):
    with own.connect() as r:
        for n in range(20):
            with own.connect() as c:
                c.call("WATCH", *[f"k{i}" for i in range(10)])
                if n % 2:
                    c.call("MULTI"), c.call("SET", "k1", "lost")
                if n % 3 == 0:
                    c.abort()
            r.call("SET", f"k{n % 10}", "v")
        wait_until(lambda: r.info("clients")["connected_clients"] == "1", what="all have left")
        assert r.call("GET", "k1") == b"v"


def test_ten_thousand_commands(own):
    count = 2_000 if SANITIZED else 10_000
    with own.connect(timeout=60) as r:
        commands = [("SET", f"k{i % 300}", i) for i in range(count)]
        commands += [("INCR", f"k{i}") for i in range(300)]
        for one_shard in (False, True):
            if one_shard:
                commands = [(name, "{tag}" + key, *more) for name, key, *more in commands]
            replies = r.pipeline([("MULTI",), *commands, ("EXEC",)])
            assert replies[0] == OK and replies[1:-1] == [QUEUED] * len(commands)
            assert replies[-1][:count] == [OK] * count
            lasts = [max(i for i in range(count) if i % 300 == k) + 1 for k in range(300)]
            assert replies[-1][count:] == lasts


def test_long_arguments_and_long_replies(own):
    value = bytes(range(256)) * 4096  # 1 MB
    with own.connect(timeout=60) as r:
        commands = [("SET", f"k{i}", value) for i in range(8)]
        commands += [("GET", f"k{i}") for i in range(8)]
        commands += [("APPEND", "k0", value), ("STRLEN", "k0"), ("MGET", "k1", "none", "k2")]
        for tag in ("", "{tag}"):
            tagged = [(name, tag + key, *more) for name, key, *more in commands[:-1]]
            tagged.append(("MGET", *[tag + key for key in commands[-1][1:]]))
            assert r.call("MULTI") == OK
            for command in tagged:
                assert r.call(*command) == QUEUED
            got = r.call("EXEC")
            assert got[:8] == [OK] * 8
            assert got[8:16] == [value] * 8
            assert got[16:18] == [2 << 20, 2 << 20]
            assert got[18] == [value, None, value]


def test_everything_mixed_in_one_exec(own):
    """Commands of one shard, of several, of all, of the session, and messages."""
    with own.connect() as r, own.connect() as subscriber:
        subscriber.call("SUBSCRIBE", "news")
        r.call("SELECT", 3)
        expected = {
            ("SET", "a", "1"): OK,
            ("MSET", "b", "2", "c", "3", "d", "4", "e", "5"): OK,
            ("PUBLISH", "news", "one"): 1,
            ("ECHO", "x"): b"x",
            ("RENAME", "a", "z"): OK,
            ("DBSIZE",): 5,
            ("SELECT", "4"): OK,
            ("GET", "z"): None,
            ("SWAPDB", "3", "4"): OK,
            ("MGET", "z", "b", "c", "d", "e"): [b"1", b"2", b"3", b"4", b"5"],
            ("INCR", "b"): 3,
            ("DEL", "b", "c", "nope"): 2,
            ("RPUSH", "list", "x", "y"): 2,
            ("LMOVE", "list", "other", "LEFT", "RIGHT"): b"x",
            ("INCR", "list"): Error(
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            ),
            ("CLIENT", "GETNAME"): None,
            ("FLUSHDB",): OK,
            ("EXISTS", "z", "list", "other"): 0,
            ("PUBLISH", "news", "two"): 1,
            ("SET", "last", "v"): OK,
        }
        replies = r.pipeline([("MULTI",), *expected, ("EXEC",), ("GET", "last"), ("DBSIZE",)])
        assert replies[1:-3] == [QUEUED] * len(expected)
        assert replies[-3] == list(expected.values())
        assert replies[-2:] == [b"v", 1]
        assert subscriber.read() == [b"message", b"news", b"one"]
        assert subscriber.read() == [b"message", b"news", b"two"]


def test_info_and_config_inside_exec(own):
    with own.connect() as r:
        got = r.pipeline(
            [
                ("MULTI",),
                ("SET", "k", "v"),
                ("INFO", "keyspace"),
                ("CONFIG", "SET", "timeout", "0"),
                ("COMMAND", "COUNT"),
                ("GET", "k"),
                ("EXEC",),
            ]
        )[-1]
        assert got[0] == OK and got[2] == OK and got[4] == b"v"
        assert b"db0:keys=1" in got[1]
        assert got[3] > 50


def test_pipelines_of_transactions(own):
    """Many EXECs in one send, with plain commands between them; some spread, some not."""
    rng = random.Random(7)
    model = {}
    commands, expected = [], []
    for n in range(300):
        keys = [f"k{rng.randrange(20)}" for _ in range(rng.randint(1, 5))]
        commands.append(("MULTI",))
        expected.append(OK)
        results = []
        for key in keys:
            commands.append(("INCR", key))
            expected.append(QUEUED)
            model[key] = model.get(key, 0) + 1
            results.append(model[key])
        if n % 7 == 0:
            commands.append(("DISCARD",))
            expected.append(OK)
            for key in keys:
                model[key] -= 1
        else:
            commands.append(("EXEC",))
            expected.append(results)
        key = rng.choice(keys)
        commands.append(("INCRBY", key, 10))
        model[key] += 10
        expected.append(model[key])
    with own.connect() as r:
        assert r.pipeline(commands) == expected
