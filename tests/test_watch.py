# SPDX-License-Identifier: Apache-2.0
"""WATCH and UNWATCH: scripts of several clients whose replies have to equal those of redis-server
byte for byte. test_multi.py has random streams of them."""

import pytest

from harness.scripts import check_counts, check_replies

pytestmark = [pytest.mark.sanitized]

SCRIPTS = {
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
    "a waiting client's pop touches what is watched": """
        c: WATCH k
        b: <send> BLPOP k 0
        a: <blocked> 1
        a: RPUSH k v
        b: <read>
        c: MULTI
        c: PING
        c: EXEC""",
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


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gets_the_replies_of_redis_server(pair, name, resp3):
    check_replies(pair, SCRIPTS[name], resp3)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_counted_as_by_redis_server(pair, name):
    check_counts(pair, SCRIPTS[name])
