# SPDX-License-Identifier: Apache-2.0
"""Keyspace events: what commands of all families publish has to equal what redis-server publishes,
in the same order. Keys of one script have one hashtag, so that they are in one shard: between
shards events have no order."""

import time

import pytest

from harness.resp import OK, Error, Push
from harness.server import only_dragonfly, wait_blocked, wait_until

pytestmark = [pytest.mark.sanitized]

ALL = "AKEnm"
END = "{t}end"

SCRIPTS = {
    "set": """
        SET {t}a 1
        SET {t}a 2
        SET {t}b 1 EX 100
        SET {t}b 2 KEEPTTL
        SET {t}b 3 XX GET
        SET {t}c 3 XX
        SET {t}c 3 NX
        SET {t}c 4 NX
        SETNX {t}d 1
        SETNX {t}d 1
        SETEX {t}e 100 v
        PSETEX {t}e 100000 v
        GETSET {t}f 1
        GETSET {t}f 2
        MSET {t}g 1 {t}a 2
        MSETNX {t}g 1 {t}h 2
        MSETNX {t}h 1 {t}i 2""",
    "get": """
        GET {t}none
        SET {t}a 1
        GET {t}a
        GETDEL {t}none
        GETDEL {t}a
        SET {t}a 1
        GETEX {t}a EX 100
        GETEX {t}a PERSIST
        GETEX {t}a PERSIST
        GETEX {t}a
        GETEX {t}none EX 100
        GETEX {t}a EXAT 1
        MGET {t}a {t}b {t}c
        STRLEN {t}none
        GETRANGE {t}none 0 1
        SUBSTR {t}none 0 1
        LCS {t}none {t}a""",
    "numbers and parts": """
        INCR {t}n
        INCRBY {t}n 5
        DECR {t}n
        DECRBY {t}n 2
        INCRBYFLOAT {t}n 1.5
        INCR {t}n
        APPEND {t}n x
        APPEND {t}m x
        APPEND {t}m
        SETRANGE {t}m 3 abc
        SETRANGE {t}m 3 ''
        SETRANGE {t}o 3 ''
        SETRANGE {t}o 3 abc
        SETBIT {t}p 7 1
        SETBIT {t}p 7 1
        GETBIT {t}none 7
        BITCOUNT {t}none
        BITPOS {t}none 1
        BITFIELD {t}p SET u8 0 1 INCRBY u8 0 1
        BITFIELD {t}p GET u8 0
        BITFIELD {t}none GET u8 0
        BITFIELD_RO {t}none GET u8 0
        BITOP AND {t}q {t}p {t}m
        BITOP AND {t}q {t}none {t}nothing
        BITOP AND {t}q {t}none {t}nothing""",
    "keys": """
        SET {t}a 1
        DEL {t}a {t}b
        SET {t}a 1
        UNLINK {t}a {t}b
        SET {t}a 1
        RENAME {t}a {t}b
        SET {t}a 1 EX 100
        RENAME {t}a {t}b
        RENAMENX {t}b {t}c
        SET {t}b 1
        RENAMENX {t}b {t}c
        RENAME {t}b {t}b
        COPY {t}b {t}d
        COPY {t}b {t}d
        COPY {t}b {t}d REPLACE
        COPY {t}b {t}b2 DB 1
        MOVE {t}b 1
        MOVE {t}b 1
        SET {t}b 1
        MOVE {t}b 1
        EXISTS {t}b {t}none
        TOUCH {t}b {t}none
        TYPE {t}none
        TTL {t}none
        PTTL {t}none
        EXPIRETIME {t}none
        OBJECT ENCODING {t}none
        OBJECT FREQ {t}none
        DUMP {t}none
        EXPIRE {t}b 100
        EXPIRE {t}b 100 NX
        PEXPIRE {t}b 100000
        EXPIREAT {t}b 99999999999
        PEXPIREAT {t}b 99999999999000
        PERSIST {t}b
        PERSIST {t}b
        EXPIRE {t}b -1
        EXPIRE {t}b -1
        SORT {t}none
        LPUSH {t}l 3 1 2
        SORT {t}l STORE {t}m
        SORT {t}none STORE {t}m
        SORT {t}none STORE {t}m
        SORT {t}l BY {t}w_* GET {t}o_* GET #
        RESTORE {t}r 0 \\x00\\xc0\\x01\\x0b\\x00\\xd3\\x2d\\xb9\\x1d\\x3c\\x4a\\xd3\\xe0
        RANDOMKEY
        SWAPDB 0 1
        SWAPDB 0 1
        FLUSHDB""",
    "lists": """
        LPUSH {t}l 1 2 3
        RPUSH {t}l 1 2 3
        LPUSHX {t}l 1
        RPUSHX {t}l 1
        LPUSHX {t}none 1
        LPOP {t}l
        RPOP {t}l
        LPOP {t}l 2
        LPOP {t}none
        LSET {t}l 0 x
        LINSERT {t}l BEFORE x y
        LINSERT {t}l BEFORE none y
        LREM {t}l 0 x
        LREM {t}l 0 x
        LTRIM {t}l 0 -1
        LTRIM {t}l 0 0
        LTRIM {t}l 1 0
        LTRIM {t}none 1 0
        RPUSH {t}l 1
        RPOP {t}l
        RPUSH {t}l 1
        LREM {t}l 0 1
        RPUSH {t}l 1 2
        LMOVE {t}l {t}m LEFT RIGHT
        LMOVE {t}l {t}m LEFT LEFT
        LMOVE {t}l {t}m LEFT LEFT
        RPOPLPUSH {t}m {t}m
        RPOPLPUSH {t}m {t}l
        LMPOP 2 {t}none {t}m LEFT COUNT 5
        LMPOP 2 {t}none {t}m LEFT COUNT 5
        BLPOP {t}none {t}l 1
        BLPOP {t}none {t}l 0.001
        RPUSH {t}l 1
        BRPOP {t}l 1
        RPUSH {t}l 1
        BLMOVE {t}l {t}m RIGHT RIGHT 1
        BRPOPLPUSH {t}m {t}l 1
        BLMPOP 1 1 {t}l RIGHT
        LLEN {t}none
        LRANGE {t}none 0 1
        LINDEX {t}none 0
        LPOS {t}none 0""",
    "sets": """
        SADD {t}s a b c
        SADD {t}s a
        SREM {t}s a x
        SREM {t}s x
        SREM {t}none x
        SPOP {t}s
        SPOP {t}none
        SADD {t}s a b c d e f
        SPOP {t}s 2
        SPOP {t}s 20
        SPOP {t}s 20
        SADD {t}s a
        SREM {t}s a
        SADD {t}s a
        SPOP {t}s
        SADD {t}s a b
        SMOVE {t}s {t}u a
        SMOVE {t}s {t}u a
        SMOVE {t}s {t}u b
        SMOVE {t}u {t}u b
        SISMEMBER {t}none a
        SMISMEMBER {t}none a
        SCARD {t}none
        SMEMBERS {t}none
        SRANDMEMBER {t}none
        SINTER {t}none {t}u
        SINTERCARD 2 {t}none {t}u
        SINTERSTORE {t}x {t}u {t}u
        SINTERSTORE {t}x {t}u {t}none
        SINTERSTORE {t}x {t}u {t}none
        SUNIONSTORE {t}x {t}u {t}none
        SUNIONSTORE {t}x {t}none
        SDIFFSTORE {t}x {t}u {t}none
        SDIFFSTORE {t}x {t}u {t}u
        SSCAN {t}none 0""",
    "hashes": """
        HSET {t}h a 1 b 2
        HSET {t}h a 1
        HMSET {t}h a 1 c 3
        HSETNX {t}h a 1
        HSETNX {t}h d 1
        HINCRBY {t}h a 1
        HINCRBYFLOAT {t}h a 1.5
        HDEL {t}h a x
        HDEL {t}h x
        HDEL {t}h b c d
        HDEL {t}h b c d
        HGET {t}none a
        HMGET {t}none a
        HGETALL {t}none
        HKEYS {t}none
        HEXISTS {t}none a
        HSTRLEN {t}none a
        HLEN {t}none
        HRANDFIELD {t}none
        HSCAN {t}none 0
        HINCRBY {t}i a 1
        HINCRBYFLOAT {t}j a 1.5""",
    "sorted sets": """
        ZADD {t}z 1 a 2 b 3 c
        ZADD {t}z 1 a
        ZADD {t}z 4 a
        ZADD {t}z XX 4 x
        ZADD {t}n XX 4 x
        ZADD {t}z INCR 4 a
        ZADD {t}z CH 5 a
        ZINCRBY {t}z 1 a
        ZINCRBY {t}y 1 a
        ZREM {t}z a x
        ZREM {t}z x
        ZREM {t}z b c
        ZADD {t}z 1 a 2 b 3 c 4 d 5 e 6 f
        ZREMRANGEBYRANK {t}z 0 0
        ZREMRANGEBYRANK {t}z 10 10
        ZREMRANGEBYSCORE {t}z 2 2
        ZREMRANGEBYLEX {t}z [c [c
        ZREMRANGEBYSCORE {t}z 0 100
        ZADD {t}z 1 a 2 b 3 c 4 d 5 e 6 f
        ZPOPMIN {t}z
        ZPOPMAX {t}z 2
        ZPOPMAX {t}z 20
        ZPOPMAX {t}z 20
        ZADD {t}z 1 a 2 b 3 c 4 d 5 e 6 f
        ZMPOP 2 {t}none {t}z MIN COUNT 2
        BZPOPMIN {t}none {t}z 1
        BZPOPMAX {t}none {t}z 1
        BZMPOP 1 1 {t}z MAX COUNT 10
        ZADD {t}z 1 a 2 b
        ZADD {t}y 1 a 2 b
        ZUNIONSTORE {t}x 2 {t}z {t}y
        ZINTERSTORE {t}x 2 {t}z {t}y
        ZDIFFSTORE {t}x 2 {t}z {t}y
        ZDIFFSTORE {t}x 2 {t}z {t}y
        ZDIFFSTORE {t}x 2 {t}z {t}none
        ZRANGESTORE {t}x {t}z 0 -1
        ZRANGESTORE {t}x {t}none 0 -1
        ZRANGESTORE {t}x {t}none 0 -1
        ZSCORE {t}none a
        ZMSCORE {t}none a
        ZRANK {t}none a
        ZCARD {t}none
        ZCOUNT {t}none 0 1
        ZLEXCOUNT {t}none - +
        ZRANGE {t}none 0 1
        ZUNION 2 {t}none {t}z
        ZINTERCARD 2 {t}none {t}z
        ZRANDMEMBER {t}none
        ZSCAN {t}none 0
        GEOADD {t}g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        GEOADD {t}g 13.361389 38.115556 Palermo
        GEOSEARCHSTORE {t}x {t}g FROMLONLAT 15 37 BYRADIUS 200 km
        GEOSEARCHSTORE {t}x {t}g FROMLONLAT 15 37 BYRADIUS 1 km
        GEOSEARCHSTORE {t}x {t}g FROMLONLAT 15 37 BYRADIUS 1 km
        GEORADIUS {t}g 15 37 200 km STORE {t}x
        GEORADIUS {t}g 15 37 1 km STORE {t}x
        GEORADIUSBYMEMBER {t}g Palermo 200 km STOREDIST {t}x
        GEOPOS {t}none a
        GEODIST {t}none a b
        GEOHASH {t}none a
        GEOSEARCH {t}none FROMLONLAT 15 37 BYRADIUS 1 km""",
    "streams": """
        XADD {t}s 1-1 a 1
        XADD {t}s MAXLEN 1 2-1 a 1
        XADD {t}n NOMKSTREAM 2-1 a 1
        XADD {t}s 3-1 a 1
        XADD {t}s 4-1 a 1
        XTRIM {t}s MAXLEN 2
        XTRIM {t}s MAXLEN 2
        XDEL {t}s 3-1
        XDEL {t}s 3-1
        XSETID {t}s 9-1
        XGROUP CREATE {t}s g 0
        XGROUP CREATE {t}m g 0 MKSTREAM
        XGROUP SETID {t}s g 0
        XGROUP CREATECONSUMER {t}s g c
        XGROUP CREATECONSUMER {t}s g c
        XREADGROUP GROUP g d COUNT 1 STREAMS {t}s >
        XREADGROUP GROUP g d COUNT 1 STREAMS {t}s 0
        XACK {t}s g 4-1
        XADD {t}s 10-1 a 1
        XREADGROUP GROUP g d COUNT 1 STREAMS {t}s >
        XCLAIM {t}s g e 0 10-1
        XAUTOCLAIM {t}s g f 0 0
        XGROUP DELCONSUMER {t}s g c
        XGROUP DELCONSUMER {t}s g c
        XGROUP DESTROY {t}s g
        XGROUP DESTROY {t}s g
        XDEL {t}s 4-1 10-1
        XLEN {t}none
        XRANGE {t}none - +
        XINFO STREAM {t}none
        XPENDING {t}none g
        XACK {t}none g 1-1""",
    "hyperloglogs": """
        PFADD {t}p a b
        PFADD {t}p a
        PFADD {t}q
        PFADD {t}q
        PFCOUNT {t}p
        PFCOUNT {t}none
        PFCOUNT {t}p {t}q {t}none
        PFMERGE {t}q {t}p
        PFMERGE {t}r {t}p""",
    "EXEC": """
        MULTI
        SET {t}a 1
        LPUSH {t}l 1
        LPOP {t}l
        GET {t}none
        DEL {t}a
        EXEC""",
    "scripts": """
        EVAL redis.call('SET',KEYS[1],1);redis.call('INCR',KEYS[1]);redis.call('DEL',KEYS[1]) 1 {t}a
        EVAL return(redis.call('GET',KEYS[1])) 1 {t}none""",
}

# 7.4 and valkey have these; expected values are written down.
OURS = {
    "fields' deadlines": (
        """
        HSET {t}h a 1 b 2 c 3
        HEXPIRE {t}h 100 FIELDS 1 a
        HPERSIST {t}h FIELDS 1 a
        HEXPIRE {t}h 0 FIELDS 1 a
        HPEXPIREAT {t}h 1 FIELDS 2 b c""",
        "new hset hexpire hpersist hdel hdel del",
    ),
    "filters": (
        """
        BF.ADD {t}b x
        CMS.INITBYDIM {t}c 10 10
        CMS.INCRBY {t}c x 1
        TOPK.RESERVE {t}k 3
        TOPK.ADD {t}k x""",
        "new bf.add new cms.init cms.incrby new topk.reserve topk.add",
    ),
    "JSON": (
        """
        JSON.SET {t}j $ {"a":[1],"n":1,"s":"s","t":true}
        JSON.ARRAPPEND {t}j $.a 2
        JSON.ARRINSERT {t}j $.a 0 2
        JSON.ARRTRIM {t}j $.a 0 1
        JSON.ARRPOP {t}j $.a
        JSON.NUMINCRBY {t}j $.n 1
        JSON.NUMMULTBY {t}j $.n 2
        JSON.STRAPPEND {t}j $.s "x"
        JSON.TOGGLE {t}j $.t
        JSON.MERGE {t}j $ {"m":1}
        JSON.CLEAR {t}j $.a
        JSON.MSET {t}j $.n 1
        JSON.DEL {t}j $.n
        JSON.DEL {t}j""",
        "new json.set json.arrappend json.arrinsert json.arrtrim json.arrpop json.numincrby "
        "json.nummultby json.strappend json.toggle json.merge json.clear json.mset json.del "
        "json.del",
    ),
    "PREPEND": ("PREPEND {t}p x", "new prepend"),
    "members' deadlines": (
        """
        SADDEX {t}s 100 a b
        SADD {t}s c""",
        "new sadd sexpire sadd",
    ),
}


class Events:
    """What a subscriber gets, from its start to the event of a last key."""

    def __init__(self, server, classes, resp3=False, patterns=("__key*@*__:*",)):
        self.c = server.connect()
        self.c.call("FLUSHALL")
        assert self.c.call("CONFIG", "SET", "notify-keyspace-events", classes) == OK
        self.resp3 = resp3
        self.subscriber = server.connect(resp3=resp3)
        self.subscriber.send_command("PSUBSCRIBE", *patterns)
        for _ in patterns:
            self.subscriber.read()

    def play(self, script):
        for line in filter(None, map(str.strip, script.split("\n"))):
            words = [b"" if w == "''" else unescape(w) for w in line.split(" ")]
            self.c.call(*words)

    def take(self):
        """[(channel, message)] up to the event of END."""
        self.c.call("SET", END, "")
        self.c.call("DEL", END)
        return self.take_to_end()

    def take_to_end(self):
        got = []
        while True:
            message = self.subscriber.read()
            assert isinstance(message, Push) == self.resp3
            message = getattr(message, "items", message)
            channel, text = message[2].decode(), message[3].decode()
            if END not in (text, channel.partition(":")[2]):
                got.append((channel, text))
            elif channel.endswith(":del"):
                return got

    def close(self):
        self.c.call("CONFIG", "SET", "notify-keyspace-events", "")
        self.c.close()
        self.subscriber.close()


def unescape(word):
    return word.encode().decode("unicode_escape").encode("latin-1")


def events_of(server, script, resp3=False):
    events = Events(server, ALL, resp3)
    try:
        events.play(script)
        return events.take()
    finally:
        events.close()


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
def test_events_are_those_of_redis(pair, name, resp3):
    ours, expected = (events_of(server, SCRIPTS[name], resp3) for server in pair)
    assert ours == expected


@only_dragonfly("redis-server 7.0 has no such commands")
@pytest.mark.parametrize("name", OURS)
def test_events_of_what_redis_has_not(server, name):
    script, expected = OURS[name]
    got = events_of(server, script)
    assert [text for channel, text in got if "keyspace" in channel] == expected.split()
    assert [c.partition(":")[2] for c, _ in got if "keyevent" in c] == expected.split()


@pytest.mark.parametrize("classes,expected", [
    ("K$", {"__keyspace@0__:{t}k": "set"}),
    ("E$", {"__keyevent@0__:set": "{t}k"}),
    ("KEg", {"__keyspace@0__:{t}k": "del", "__keyevent@0__:del": "{t}k"}),
    ("Kn", {"__keyspace@0__:{t}k": "new"}),
    ("Em", {"__keyevent@0__:keymiss": "{t}k"}),
    ("Kl", {}),
])  # fmt: skip
def test_classes_choose_what_is_published(server, classes, expected):
    events = Events(server, classes)
    events.play("SET {t}k v\nDEL {t}k\nGET {t}k")
    events.c.call("CONFIG", "SET", "notify-keyspace-events", "KEg")
    assert dict(events.take()) == expected
    events.close()


def test_config_shows_the_canonical_form_and_refuses_what_is_none(r):
    for given, shown in {"KEA": "AKE", "zhsltKm": "lshztKm", "g$lshzxetdKE": "AKE", "": ""}.items():
        assert r.call("CONFIG", "SET", "notify-keyspace-events", given) == OK
        assert r.call("CONFIG", "GET", "notify-keyspace-events")[1] == shown.encode()
    assert r.call("CONFIG", "SET", "notify-keyspace-events", "Kq") == Error(
        "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - "
        "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."
    )


@only_dragonfly("flags")
def test_the_flag_switches_events_on(start_server):
    server = start_server(notify_keyspace_events="KEx", proactor_threads=2)
    with server.connect() as c, server.connect() as subscriber:
        assert c.call("CONFIG", "GET", "notify-keyspace-events")[1] == b"xKE"
        subscriber.call("SUBSCRIBE", "__keyevent@0__:expired")
        c.call("SET", "k", "v", "PX", "20")
        assert subscriber.read() == [b"message", b"__keyevent@0__:expired", b"k"]


def test_what_serves_a_waiter_is_an_event_behind_the_push(pair):
    def play(server):
        events = Events(server, ALL)
        with server.connect() as waiter:
            waiter.send_command("BLPOP", "{t}l", "0")
            wait_blocked(events.c, 1)
            events.play("RPUSH {t}l a b")
            waiter.read()
            waiter.send_command("BLMOVE", "{t}m", "{t}n", "LEFT", "LEFT", "0")
            wait_blocked(events.c, 1)
            events.play("RPUSH {t}m a")
            waiter.read()
        got = events.take()
        events.close()
        return got

    # Ours pushes, then serves: redis-server has "keymiss" of the one who waits in another place.
    ours, expected = ([e for e in play(server) if "keymiss" not in "".join(e)] for server in pair)
    assert ours == expected


def test_each_keys_events_are_in_order_over_all_shards(server):
    events = Events(server, "KEA")
    keys = [f"key:{i}" for i in range(200)]
    with server.connect() as c:
        for key in keys:
            for command in (["RPUSH", key, "a"], ["LPOP", key], ["SET", key, "1"], ["DEL", key]):
                c.send_command(*command)
        for _ in range(4 * len(keys)):
            c.read()
    of_key = {key: [] for key in keys}
    for _ in range(5 * len(keys) * 2):
        _, _, channel, text = events.subscriber.read()
        kind, _, rest = channel.decode().partition("@0__:")
        if kind == "__keyspace":
            of_key[rest].append(text.decode())
        else:
            assert of_key[text.decode()][-1] == rest  # the keyspace's comes first
    assert all(of_key[key] == ["rpush", "lpop", "del", "set", "del"] for key in keys)
    events.close()


def test_what_is_evicted_is_an_event(server, r):
    events = Events(server, "Ee")
    used = int(r.info("memory")["used_memory"])
    old = {name: r.call("CONFIG", "GET", name)[1] for name in ("maxmemory", "maxmemory-policy")}
    try:
        r.do(f"CONFIG SET maxmemory-policy allkeys-random maxmemory {used + 4_000_000}")
        for i in range(1500):
            assert r.call("SET", f"k{i}", "x" * 10_000) == OK
        evicted = int(r.info("stats")["evicted_keys"])
        assert evicted > 0
    finally:
        for name, value in old.items():
            r.call("CONFIG", "SET", name, value)
    message = events.subscriber.read()
    assert message[2] == b"__keyevent@0__:evicted" and message[3].startswith(b"k")
    r.call("FLUSHALL")
    events.close()


@pytest.mark.parametrize("channel", ["__keyevent@0__:set", "__keyspace@0__:k"])
def test_the_channels_of_events_are_channels_as_others(server, r, channel):
    """All shards know them; the counts are those of one."""
    with server.connect() as first, server.connect() as second:
        for subscriber in (first, second):
            for name in (channel, "other"):
                subscriber.call("SUBSCRIBE", name)
        assert r.call("PUBSUB", "NUMSUB", channel) == [channel.encode(), 2]
        assert sorted(r.call("PUBSUB", "CHANNELS")) == sorted([channel.encode(), b"other"])
        assert r.info("stats")["pubsub_channels"] == "2"
        assert r.call("PUBLISH", channel, "x") == 2
        assert first.read() == [b"message", channel.encode(), b"x"]
        first.call("UNSUBSCRIBE", channel)
        assert r.call("PUBLISH", channel, "y") == 1
        assert second.read()[2] == b"x" and second.read()[2] == b"y"
        wait_until(lambda: r.call("PUBSUB", "NUMSUB", channel) == [channel.encode(), 1])
    wait_until(lambda: r.call("PUBSUB", "CHANNELS") == [])


def test_without_the_flag_nothing_is_published(server, r):
    with server.connect() as subscriber:
        subscriber.call("PSUBSCRIBE", "*")
        r.call("SET", "k", "v")
        r.call("PUBLISH", "end", "")
        assert subscriber.read()[2] == b"end"


@pytest.mark.parametrize("fields", ["1 a", "2 a b"])
@only_dragonfly("redis-server 7.0 has no such commands")
def test_fields_that_expire_are_an_event(server, fields):
    events = Events(server, "KA")
    events.play(f"HSET {{t}}h a 1 b 2\nHPEXPIRE {{t}}h 30 FIELDS {fields}")
    expected = [b"hset", b"hexpire", b"hexpired"] + [b"del"] * (fields == "2 a b")
    assert [events.subscriber.read()[3] for _ in expected] == expected
    events.close()


def test_each_expired_key_is_an_event_once_and_not_before_its_time(server):
    events = Events(server, "Ex")
    count = 1000
    seconds, micros = map(int, events.c.call("TIME"))
    now_ms = seconds * 1000 + micros // 1000
    # Time enough for all that follows, on a busy machine as well.
    due = {f"k{i}": now_ms + 5000 + i % 500 for i in range(count)}
    for key, at_ms in due.items():
        events.c.send_command("SET", key, "v", "PXAT", str(at_ms))
    for _ in range(count):
        assert events.c.read() == OK
    # Some get other deadlines, and some none.
    for i in range(0, count, 10):
        assert events.c.call("PEXPIREAT", f"k{i}", str(due[f"k{i}"] + 700)) == 1
        due[f"k{i}"] += 700
        assert events.c.call("PERSIST", f"k{i + 1}") == 1
        del due[f"k{i + 1}"]
    while due:
        key = events.subscriber.read()[3].decode()
        assert time.time() * 1000 > due.pop(key)
    assert events.c.call("DBSIZE") == count // 10
    events.close()


@only_dragonfly("redis-server wakes up ten times a second")
def test_keys_with_far_deadlines_keep_nobody_awake(start_server):
    server = start_server(proactor_threads=2)
    with server.connect() as c:
        for i in range(1000):
            c.call("SET", f"k{i}", "v", "EX", "3600")

        def is_asleep():  # the machine may be busy: a second comes in which nothing is done
            before = int(c.info("dispatch")["loop_wakeups"])
            time.sleep(1)
            return int(c.info("dispatch")["loop_wakeups"]) - before <= 10  # of which INFO has some

        wait_until(is_asleep)
