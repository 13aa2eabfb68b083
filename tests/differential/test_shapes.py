# SPDX-License-Identifier: Apache-2.0
"""Of what kinds replies are, in RESP2 and RESP3: maps, sets, doubles, nulls, verbatim strings; also
of commands whose texts and numbers are each server's own. Those are not compared, and names of
fields are."""

import shlex

import pytest

from .compare import AGGREGATES, LATER_STREAM_FIELDS, Node, parse

LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"

SET_UP = r"""
SET s v
HSET h f v
LPUSH l a b
SADD set a b
ZADD z 1 a 2 b
XADD x 1-1 f v
XGROUP CREATE x g 0
XREADGROUP GROUP g c STREAMS x >
PFADD pf a
GEOADD geo 1 1 m
SETEX ex 100 v
ACL SETUSER default sanitize-payload
ACL SETUSER u sanitize-payload on >p ~k* %R~r* &c +get (+set ~x)
ACL SETUSER v sanitize-payload
"""

COMMANDS = r"""
HELLO
CONFIG GET maxmemory-s*
CONFIG GET save
CONFIG GET nosuch
CLIENT TRACKINGINFO
CLIENT LIST
CLIENT INFO
CLIENT ID
CLIENT GETNAME
CLIENT GETREDIR
CLIENT KILL ID 100
CLIENT HELP
ACL GETUSER u
ACL GETUSER default
ACL GETUSER nobody
ACL LIST
ACL USERS
ACL CAT
ACL CAT read
ACL LOG
ACL WHOAMI
ACL GENPASS
ACL DRYRUN u get k1
ACL DRYRUN u set k1 v
ACL HELP
MEMORY USAGE s
MEMORY USAGE nosuch
MEMORY DOCTOR
MEMORY PURGE
MEMORY HELP
LATENCY HISTOGRAM set get
LATENCY RESET
LATENCY DOCTOR
SLOWLOG GET 2
SLOWLOG LEN
SLOWLOG HELP
COMMAND COUNT
COMMAND INFO get set nosuch
COMMAND DOCS get
COMMAND LIST FILTERBY ACLCAT hyperloglog
COMMAND GETKEYS SET a b
COMMAND GETKEYSANDFLAGS SET a b
COMMAND HELP
PUBSUB CHANNELS
PUBSUB NUMSUB a b
PUBSUB NUMPAT
PUBSUB SHARDCHANNELS
PUBSUB SHARDNUMSUB a
FUNCTION LIST
FUNCTION LIST WITHCODE
FUNCTION STATS
SCRIPT EXISTS a
XINFO STREAM x
XINFO STREAM x FULL
XINFO GROUPS x
XINFO CONSUMERS x g
XPENDING x g
XPENDING x g - + 10
XRANGE x - +
XREAD STREAMS x 0
XREAD STREAMS x 5
XAUTOCLAIM x g c 0 0
XCLAIM x g c 0 1-1
OBJECT ENCODING s
OBJECT FREQ s
OBJECT HELP
TIME
ROLE
LASTSAVE
DBSIZE
SCAN 0
HSCAN h 0
ZSCAN z 0
HGETALL h
HRANDFIELD h 1 WITHVALUES
HRANDFIELD h
SMEMBERS set
SPOP set 1
SRANDMEMBER set 1
SINTER set set
ZRANGE z 0 -1 WITHSCORES
ZPOPMIN z
ZADD z 5 q 6 w
ZPOPMAX z 1
ZMPOP 1 z MIN
ZSCORE z q
ZMSCORE z q nosuch
ZADD z INCR 1 e
ZINCRBY z 1 e
ZRANDMEMBER z 1 WITHSCORES
ZDIFF 2 z nosuch WITHSCORES
ZUNION 1 z
ZINTER 1 z WITHSCORES
BZPOPMIN z 1
GEOPOS geo m nosuch
GEODIST geo m m
GEOSEARCH geo FROMMEMBER m BYRADIUS 1 km WITHCOORD WITHDIST WITHHASH
GEOHASH geo m
INCRBYFLOAT fl 1.5
HINCRBYFLOAT h q 1.5
LMPOP 1 l LEFT
LPOS l a
LCS s ex IDX WITHMATCHLEN
LCS s ex
BITFIELD bf GET u8 0
SORT l
CLUSTER INFO
EXPIRETIME s
COPY s s2
EVAL "return {1,'a',{ok='x'},{err='e'},true,false}" 0
EVAL "redis.setresp(3) return redis.call('hgetall','h')" 0
EVAL "return {double=1.5}" 0
EVAL "return {map={a=1}}" 0
EVAL "return {set={a=true}}" 0
EVAL "return {big_number='123'}" 0
EVAL "return {verbatim_string={string='x',format='txt'}}" 0
FCALL f 0
MULTI
GET s
HGETALL h
EXEC
WATCH s
DISCARD
RESET
"""

# Fields that one of them has, and docs/differences.md tells so.
OWN_FIELDS = {
    *(b"notes", b"inactive", b"active-time", b"lib-name", b"lib-ver"),
    *LATER_STREAM_FIELDS,
}


def shape(node):
    """Kinds, and names in maps. Of many items of a list, each kind of them once."""
    kind = node.kind
    if kind in b"%" or is_flat_map(node):
        pairs = zip(node.items[::2], node.items[1::2])
        fields = [(name.data, shape(value)) for name, value in pairs if name.data not in OWN_FIELDS]
        numbers = {(b"number", value) for name, value in fields if name.isdigit()}
        return (kind, tuple(sorted([f for f in fields if not f[0].isdigit()] + list(numbers))))
    if kind in AGGREGATES:
        items = tuple(shape(item) for item in node.items)
        return (kind, tuple(sorted(set(items), key=repr)) if len(items) > 4 else items)
    return b"nil" if kind in b"$*" and node.data == b"-1" else kind


def is_flat_map(node):
    """RESP2's map: names at even places."""
    items = node.items
    return (
        node.kind == b"*"
        and len(items) > 4
        and len(items) % 2 == 0
        and all(name.kind == b"$" and name.data.replace(b"-", b"").isalpha() for name in items[::2])
        and any(value.kind != b"$" for value in items[1::2])
    )


def read(connection):
    """The raw reply; of nested sets, too."""
    raw = b""

    def one():
        nonlocal raw
        line = connection.read_line()
        raw += line + b"\r\n"
        kind, count = line[:1], line[1:]
        if kind in b"$=" and count != b"-1":
            raw += connection.read_bytes(int(count) + 2)
        elif kind in AGGREGATES and count != b"-1":
            for _ in range(int(count) * (2 if kind == b"%" else 1)):
                one()

    one()
    return parse(raw)[0]


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_replies_have_the_shapes_of_redis_server(pair, protocol):
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for c in (ours, reference):
            c.call("FLUSHALL"), c.call("FUNCTION", "FLUSH"), c.call("HELLO", protocol)
            c.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
            c.call("FUNCTION", "LOAD", LIBRARY)
        for line in SET_UP.strip().split("\n") + COMMANDS.strip().split("\n"):
            words = shlex.split(line)
            replies = []
            for c in (ours, reference):
                c.send_command(*words)
                replies.append(shape(read(c)))
            assert replies[0] == replies[1], line
        for c in (ours, reference):  # RESET, the last command, has left RESP3
            c.call("ACL", "DELUSER", "u", "v"), c.call("FUNCTION", "FLUSH")
            c.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")


def test_a_shape_tells_kinds_and_names():
    text, number = Node(b"$", b"x"), Node(b":", b"1")
    assert shape(Node(b"%", b"", (text, number))) == (b"%", ((b"x", b":"),))
    assert shape(Node(b"*", b"", (text, number))) != shape(Node(b"~", b"", (text, number)))
    assert shape(Node(b"$", b"-1")) == b"nil" != shape(text)
