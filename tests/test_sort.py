# SPDX-License-Identifier: Apache-2.0
"""SORT and SORT_RO: replies have to equal those of redis-server byte for byte."""

import pytest

from harness.resp import Status
from harness.scripts import check_counts, check_replies

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

DATA = """
        a: RPUSH l 3 1 10 2
        a: SADD s c a b
        a: ZADD z 1 z1 2 10 3 9
        a: MSET w_1 30 w_2 20 w_3 10 w_10 40 o_1 one o_2 two o_3 three
        a: HSET h_1 name eins weight 4
        a: HSET h_2 name zwei weight 3
        a: HSET h_3 weight 2"""

SCRIPTS = {
    "by number and by text": """
        a: SORT l
        a: SORT l DESC
        a: SORT l ALPHA
        a: SORT_RO z ALPHA DESC
        a: SORT s ALPHA
        a: SORT s
        a: SORT none
        a: SORT h_1
        a: SORT w_1""",
    "limits": """
        a: SORT l LIMIT 1 2
        a: SORT l LIMIT 3 100
        a: SORT l LIMIT 4 1
        a: SORT l LIMIT -5 2
        a: SORT l LIMIT 2 -1
        a: SORT l LIMIT 0 0
        a: SORT l LIMIT x 1
        a: SORT l LIMIT 1 x
        a: SORT l LIMIT 1""",
    "patterns": """
        a: SORT l BY w_*
        a: SORT l BY w_* DESC LIMIT 0 2 GET #
        a: SORT l BY h_*->weight GET h_*->name GET o_*
        a: SORT l BY o_* ALPHA GET # GET w_*
        a: SORT l BY o_*
        a: SORT l BY nosort
        a: SORT l BY nosort DESC
        a: SORT l BY nosort DESC LIMIT 1 2
        a: SORT z BY nosort DESC
        a: SORT z BY nosort LIMIT 1 5
        a: SORT l GET fixed
        a: SORT l GET w_*->x
        a: SORT l GET h_*->
        a: SORT l GET h_*""",
    "store": """
        a: SORT l BY w_* GET o_* STORE t
        a: LRANGE t 0 -1
        a: TYPE t
        a: SORT l STORE l
        a: LRANGE l 0 -1
        a: SORT s BY nosort STORE t
        a: LRANGE t 0 -1
        a: SORT none STORE t
        a: EXISTS t
        a: SORT_RO l STORE t
        a: SORT l STORE""",
    "a set without an order, in a script": """
        a: SADD big 41 7 one 300 x1 y2 z3 5 66 seven
        a: EVAL return(redis.call('sort',KEYS[1],'by','nosort')) 1 big
        a: EVAL return(redis.call('sort',KEYS[1],'by','nosort','desc','limit','1','3')) 1 big
        a: EVAL return(redis.call('sort_ro','big','by','nosort','get','#')) 0
        a: EVAL return(redis.call('sort',KEYS[1],'by','nosort','store',KEYS[2])) 2 big t
        a: LRANGE t 0 -1
        a: SADD ints 3 200 10
        a: EVAL return(redis.call('sort',KEYS[1],'by','nosort')) 1 ints
        a: EVAL return(redis.call('sort',KEYS[1],'by','nosort','desc')) 1 l""",
    "in a transaction": """
        a: MULTI
        a: SORT l BY w_* GET o_*
        a: SORT l STORE t
        a: LPUSH t first
        a: SORT_RO t DESC ALPHA
        a: EXEC
        b: LRANGE t 0 -1""",
    "a watched target": """
        b: WATCH t
        a: SORT l STORE t
        b: MULTI
        b: GET w_1
        b: EXEC""",
    "a waiting client": """
        b: <send> BLPOP t 0
        a: <blocked> 1
        a: SORT l DESC STORE t
        b: <read>
        a: LRANGE t 0 -1""",
    "keys": """
        a: COMMAND GETKEYS SORT l STORE t
        a: COMMAND GETKEYS SORT l BY w_* STORE t STORE u GET x
        a: COMMAND GETKEYS SORT_RO l BY w_*""",
}


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gets_the_replies_of_redis_server(pair, name, resp3):
    check_replies(pair, DATA + SCRIPTS[name], resp3)


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"a waiting client", "keys"}))
def test_a_script_is_counted_as_by_redis_server(pair, name):
    check_counts(pair, DATA + SCRIPTS[name])


def test_elements_are_sorted_by_keys_of_all_shards(r):
    numbers = list(range(3000))
    r.pipeline([("SADD", "many", i) for i in numbers])
    r.pipeline([("SET", f"weight:{i}", -i) for i in numbers])
    expected = [b"%d" % i for i in reversed(numbers)]
    assert r.do("SORT many BY weight:*") == expected
    assert r.do("SORT many BY weight:* STORE sorted") == 3000
    assert r.do("TYPE sorted") == Status("list")
    assert r.do("LRANGE sorted 0 -1") == expected
