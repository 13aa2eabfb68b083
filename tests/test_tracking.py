# SPDX-License-Identifier: Apache-2.0
"""CLIENT TRACKING: what clients that cache are told has to equal what redis-server tells them. A
script names clients: "a: GET k" is sent by a, and "a<" are the pushes that a has got since, up to
the answer of a PING. Keys have one hashtag where their order matters."""

import contextlib
import random
import threading
import time

import pytest
import redis

from harness.resp import OK, Push
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized]

SCRIPTS = {
    "a key that was read": """
        a: CLIENT TRACKING on
        a: GET {t}k
        b: SET {t}k 1
        b: SET {t}k 2
        a<
        a: GET {t}k
        b: DEL {t}k
        a<""",
    "only keys of reads": """
        a: CLIENT TRACKING on
        a: SET {t}k 1
        a: INCR {t}n
        b: SET {t}k 2
        b: SET {t}n 2
        a<
        a: MGET {t}k {t}n {t}none
        b: SET {t}none 1
        b: SET {t}k 3
        a<""",
    "own changes": """
        a: CLIENT TRACKING on
        a: GET {t}k
        a: SET {t}k 1
        a<
        a: GET {t}k
        a: INCR {t}k
        a<
        a: MULTI
        a: GET {t}k
        a: INCR {t}k
        a: EXEC
        a<""",
    "NOLOOP": """
        a: CLIENT TRACKING on NOLOOP
        a: GET {t}k
        a: SET {t}k 1
        a<
        a: GET {t}k
        b: SET {t}k 2
        a<
        a: GET {t}k
        a: SET {t}k 3
        b: SET {t}k 4
        a<""",
    "changes of all kinds": """
        a: CLIENT TRACKING on
        b: RPUSH {t}l 1 2 3
        b: SADD {t}s 1 2 3
        b: HSET {t}h f 1
        b: ZADD {t}z 1 a
        b: XADD {t}x 1-1 f v
        b: SET {t}v 1
        a: LRANGE {t}l 0 -1
        a: SMEMBERS {t}s
        a: HGETALL {t}h
        a: ZRANGE {t}z 0 -1
        a: XRANGE {t}x - +
        a: GET {t}v
        a: EXISTS {t}e
        a: TTL {t}v
        b: LPOP {t}l
        b: SREM {t}s 1
        b: HDEL {t}h f
        b: ZINCRBY {t}z 1 a
        b: XADD {t}x 2-1 f v
        b: EXPIRE {t}v 100
        b: SET {t}e 1
        a<
        a: GET {t}v
        a: GET {t}w
        b: RENAME {t}v {t}w
        a<
        a: GET {t}w
        a: GET {t}y
        b: COPY {t}w {t}y
        a<
        a: GET {t}y
        b: PERSIST {t}y
        a<
        a: SMEMBERS {t}d
        b: SUNIONSTORE {t}d {t}s {t}s
        a<""",
    "FLUSHDB": """
        a: CLIENT TRACKING on
        a: GET {t}k
        a: GET {t}l
        b: FLUSHDB
        a<
        b: SET {t}k 1
        a<
        b: FLUSHALL
        a<""",
    "EXEC": """
        a: CLIENT TRACKING on
        a: MULTI
        a: GET {t}k
        a: GET {t}l
        a: EXEC
        b: MULTI
        b: SET {t}k 1
        b: SET {t}l 1
        b: EXEC
        a<""",
    "scripts": """
        a: CLIENT TRACKING on
        a: EVAL return(redis.call('GET',KEYS[1])) 1 {t}k
        b: EVAL return(redis.call('SET',KEYS[1],'x')) 1 {t}k
        a<
        a: EVAL_RO return(redis.call('GET',KEYS[1])) 1 {t}k
        b: SET {t}k 2
        a<""",
    "OPTIN": """
        a: CLIENT TRACKING on OPTIN
        a: GET {t}k
        b: SET {t}k 1
        a<
        a: CLIENT CACHING YES
        a: GET {t}k
        a: GET {t}l
        b: SET {t}k 2
        b: SET {t}l 2
        a<
        a: CLIENT CACHING YES
        a: PING
        a: GET {t}k
        b: SET {t}k 3
        a<
        a: CLIENT CACHING YES
        a: MULTI
        a: GET {t}k
        a: GET {t}l
        a: EXEC
        b: SET {t}k 4
        b: SET {t}l 4
        a<""",
    "OPTOUT": """
        a: CLIENT TRACKING on OPTOUT
        a: GET {t}k
        a: CLIENT CACHING NO
        a: GET {t}l
        a: GET {t}m
        b: SET {t}k 1
        b: SET {t}l 1
        b: SET {t}m 1
        a<""",
    "BCAST": """
        a: CLIENT TRACKING on BCAST PREFIX {t}u PREFIX {t}o
        b: SET {t}u1 1
        a<
        b: SET {t}o1 1
        a<
        b: SET {t}x1 1
        b: MSET {t}u3 1 {t}u2 1 {t}o2 1
        a<
        a: SET {t}u1 1
        a<
        b: FLUSHALL
        a<""",
    "BCAST of all keys": """
        a: CLIENT TRACKING on BCAST
        b: SET {t}u1 1
        a<
        b: DEL {t}u1
        a<""",
    "BCAST with NOLOOP": """
        a: CLIENT TRACKING on BCAST NOLOOP
        c: CLIENT TRACKING on BCAST
        a: SET {t}u1 1
        a<
        c<
        b: SET {t}u1 1
        a<
        c<""",
    "off again": """
        a: CLIENT TRACKING on
        a: GET {t}k
        a: CLIENT TRACKING off
        b: SET {t}k 1
        a<
        a: CLIENT TRACKING on
        a: GET {t}k
        a: RESET
        b: SET {t}k 2
        a<""",
    "databases": """
        a: CLIENT TRACKING on
        a: GET {t}k
        b: SELECT 1
        b: SET {t}k 1
        a<""",
    "expiry": """
        a: CLIENT TRACKING on
        b: SET {t}k 1 PX 1000
        a: GET {t}k
        <wait> 1100
        b: GET {t}k
        a<""",
    "errors": """
        a: CLIENT TRACKING
        a: CLIENT TRACKING maybe
        a: CLIENT TRACKING on foo
        a: CLIENT TRACKING on REDIRECT
        a: CLIENT TRACKING on REDIRECT x
        a: CLIENT TRACKING on REDIRECT 0
        a: CLIENT TRACKING on REDIRECT -5
        a: CLIENT TRACKING on REDIRECT 99999
        a: CLIENT TRACKING on PREFIX a
        a: CLIENT TRACKING off PREFIX a
        a: CLIENT TRACKING off BCAST
        a: CLIENT TRACKING on OPTIN OPTOUT
        a: CLIENT TRACKING on OPTIN BCAST
        a: CLIENT CACHING YES
        a: CLIENT CACHING maybe
        a: CLIENT GETREDIR
        a: CLIENT TRACKINGINFO
        a: CLIENT TRACKING on
        a: CLIENT TRACKING on BCAST
        a: CLIENT TRACKING on NOLOOP
        a: CLIENT CACHING YES
        a: CLIENT CACHING maybe
        a: CLIENT TRACKINGINFO
        a: CLIENT GETREDIR
        a: CLIENT TRACKING on OPTIN
        a: CLIENT CACHING NO
        a: CLIENT CACHING YES
        a: CLIENT TRACKINGINFO
        a: CLIENT TRACKING on OPTOUT
        a: CLIENT TRACKING off
        a: CLIENT TRACKING on OPTOUT
        a: CLIENT CACHING YES
        a: CLIENT CACHING NO
        a: CLIENT TRACKINGINFO
        a: CLIENT TRACKING off
        a: CLIENT TRACKING on BCAST PREFIX ab PREFIX abc
        a: CLIENT TRACKING on BCAST PREFIX ab PREFIX ab
        a: CLIENT TRACKING on BCAST PREFIX foo PREFIX bar
        a: CLIENT TRACKING on BCAST PREFIX fo
        a: CLIENT TRACKING on BCAST PREFIX foo
        a: CLIENT TRACKING on BCAST PREFIX baz
        a: CLIENT TRACKING on
        a: CLIENT TRACKINGINFO""",
}


class Player:
    def __init__(self, server, resp3=True):
        self.server, self.resp3 = server, resp3
        self.clients = {}
        self.pushes = {}

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = self.server.connect(resp3=self.resp3)
            self.pushes[name] = []
        return self.clients[name]

    def reply(self, name):
        """The next reply; what is pushed before it is kept."""
        while True:
            got = self.client(name).read()
            if not isinstance(got, Push):
                return got
            self.pushes[name].append(got.items)

    def do(self, name, *words):
        self.client(name).send_command(*words)
        return self.reply(name)

    def settled(self, name, expected=None):
        """What was pushed, when all that has happened before is told. With several threads that
        comes when it comes: what is `expected` is waited for, and then for what is too much."""

        def is_told():
            self.do(name, "PING")
            return expected is None or len(self.pushes[name]) >= len(expected)

        with contextlib.suppress(AssertionError):  # the comparison says it better
            wait_until(is_told)
        for _ in range(5):
            self.do(name, "PING")
            time.sleep(0.005)
        got, self.pushes[name] = self.pushes[name], []
        return got

    def close(self):
        for connection in self.clients.values():
            connection.close()


def play(server, script, expected=()):
    """[(line, reply or pushes)]. `expected`: the same of redis-server, which pushes before it
    answers the next command."""
    with server.connect() as c:
        c.call("FLUSHALL")
    player = Player(server)
    got = []
    for line in filter(None, map(str.strip, script.split("\n"))):
        if line.startswith("<wait>"):
            time.sleep(int(line.split()[1]) / 1000)
        elif line.endswith("<"):
            pushes = expected[len(got)][1] if expected else None
            got.append((line, player.settled(line[:-1], pushes)))
        else:
            name, command = line.split(": ", 1)
            got.append((line, player.do(name, *command.split(" "))))
    player.close()
    return got


@pytest.mark.parametrize("name", SCRIPTS)
def test_clients_are_told_what_redis_tells(pair, name):
    ours, theirs = pair
    expected = play(theirs, SCRIPTS[name])
    ours = play(ours, SCRIPTS[name], expected)
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine == theirs


def redirected(server, source_resp3, target_resp3, subscribes):
    """The target's messages, and what the source hears when it has gone."""
    with server.connect() as writer:
        writer.call("FLUSHALL")
        target = server.connect(resp3=target_resp3)
        source = server.connect(resp3=source_resp3)
        got = []
        if subscribes:
            target.call("SUBSCRIBE", "__redis__:invalidate")
        with server.connect() as c:
            c.call("CLIENT", "LIST")
        target_id = None
        ids = server.connect()
        for line in ids.call("CLIENT", "LIST").decode().splitlines():
            fields = dict(f.partition("=")[::2] for f in line.split(" "))
            if fields["addr"].endswith(f":{target.sock.getsockname()[1]}"):
                target_id = fields["id"]
        ids.close()
        got.append(source.call("CLIENT", "TRACKING", "on", "REDIRECT", target_id))
        got.append(source.call("CLIENT", "GETREDIR") == int(target_id))
        source.call("GET", "{t}k")
        writer.call("SET", "{t}k", "1")
        if subscribes or target_resp3:
            got.append(target.read())
        source.call("GET", "{t}k")
        writer.call("FLUSHALL")
        if subscribes or target_resp3:
            got.append(target.read())
        target.close()
        wait_until(
            lambda: b"id=%s " % target_id.encode() not in writer.call("CLIENT", "LIST"),
            what="the server has seen that it has gone",
        )
        source.call("GET", "{t}k")
        writer.call("SET", "{t}k", "2")
        if source_resp3:
            push = source.read()
            got.append((push.items[0], push.items[1] == int(target_id)))
        wait_until(lambda: "broken_redirect" in str(source.call("CLIENT", "TRACKINGINFO")))
        info = source.call("CLIENT", "TRACKINGINFO")
        got.append(str(info).replace(str(target_id), "ID"))
        source.close()
        return got


@pytest.mark.parametrize("subscribes", [True, False])
@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize("source", [2, 3])
def test_redirected_messages(pair, source, target, subscribes):
    ours, expected = (redirected(s, source == 3, target == 3, subscribes) for s in pair)
    if source != target:  # redis-server writes FLUSHALL's null as the source would like it
        ours[3:4] = expected[3:4] = []
    assert ours == expected


@pytest.mark.threads
def test_who_has_the_answer_to_quit_gets_no_more_messages(server):
    with server.connect() as writer, server.connect(resp3=True) as source:
        for i in range(30):
            target = server.connect()
            target_id = target.call("CLIENT", "ID")
            assert source.call("CLIENT", "TRACKING", "on", "REDIRECT", target_id) == OK
            source.call("GET", "k")
            assert target.call("QUIT") == OK
            writer.call("SET", "k", i)  # whether or not the server has closed that connection
            push = source.read()
            assert list(push.items) == [b"tracking-redir-broken", target_id]
            assert source.call("CLIENT", "TRACKING", "off") == OK
            target.close()


def test_resp2_without_redirect_is_told_nothing(server, r):
    r.call("CLIENT", "TRACKING", "on")
    r.call("GET", "k")
    with server.connect() as c:
        c.call("SET", "k", "1")
        c.call("FLUSHALL")
    time.sleep(0.05)
    assert r.call("PING") is not None


def test_keys_in_all_shards(server):
    player = Player(server)
    keys = [f"key:{i}" for i in range(300)]
    assert player.do("a", "CLIENT", "TRACKING", "on") == OK
    player.do("a", "MGET", *keys[:200])
    for key in keys[200:]:
        player.do("a", "GET", key)
    info = player.client("c").info("stats")
    assert info["tracking_total_keys"] == info["tracking_total_items"] == "300"
    player.do("b", "MSET", *(w for key in keys for w in (key, "1")))
    wait_until(lambda: player.do("a", "PING") and len(player.pushes["a"]) == 300)
    told = [push[1][0].decode() for push in player.pushes["a"]]
    assert sorted(told) == sorted(keys)
    assert player.client("c").info("stats")["tracking_total_keys"] == "0"
    player.close()
    with server.connect() as c:
        wait_until(lambda: c.info("clients")["tracking_clients"] == "0")


def test_sinter_and_scripts_over_shards_are_tracked(server):
    player = Player(server)
    player.do("a", "CLIENT", "TRACKING", "on")
    for change, read in [
        (["SADD", "x", "1"], ["SUNION", "x", "y", "z"]),
        (["SADD", "y", "1"], ["SUNION", "x", "y", "z"]),
        (["SET", "q", "1"], ["EVAL", "return {redis.call('GET',KEYS[1]),redis.call('GET',KEYS[2])}",
                             "2", "p", "q"]),
        (["SET", "p", "1"], ["PFCOUNT", "p2", "p"]),
    ]:  # fmt: skip
        player.do("a", *read)
        player.do("b", *change)
        wait_until(lambda: player.do("a", "PING") and len(player.pushes["a"]) == 1)
        assert player.pushes["a"].pop()[1] == [change[1].encode()]
    player.close()


def test_the_table_is_bounded(server, r):
    r.call("CONFIG", "SET", "tracking-table-max-keys", "100")
    player = Player(server)
    player.do("a", "CLIENT", "TRACKING", "on")
    for i in range(1000):
        player.do("a", "GET", f"k{i}")
    stats = r.info("stats")
    assert 0 < int(stats["tracking_total_keys"]) <= 100
    # Those that left it count as changed.
    wait_until(lambda: player.do("a", "PING") and len(player.pushes["a"]) >= 900)
    r.call("CONFIG", "SET", "tracking-table-max-keys", "1000000")
    player.close()


def test_expired_and_evicted_keys_are_told(server, r):
    player = Player(server)
    player.do("a", "CLIENT", "TRACKING", "on")
    player.do("b", "SET", "k", "v", "PX", "30")
    player.do("a", "GET", "k")
    wait_until(lambda: player.do("a", "PING") and player.pushes["a"])
    assert player.pushes["a"] == [(b"invalidate", [b"k"])]
    player.close()


def test_client_list_shows_it(server, r):
    with server.connect(resp3=True) as c:
        me = str(c.call("CLIENT", "ID"))

        def shown():
            line = r.call("CLIENT", "LIST", "ID", me).decode()
            fields = dict(f.partition("=")[::2] for f in line.split(" "))
            return fields["flags"], fields["redir"]

        assert shown() == ("N", "-1")
        c.call("CLIENT", "TRACKING", "on")
        assert shown() == ("t", "0")
        assert r.info("clients")["tracking_clients"] == "1"
        c.call("CLIENT", "TRACKING", "off")
        c.call("CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "a", "PREFIX", "b")
        assert shown() == ("tB", "0")
        assert r.info("stats")["tracking_total_prefixes"] == "2"
    wait_until(lambda: r.info("stats")["tracking_total_prefixes"] == "0")


@only_dragonfly("threads")
@pytest.mark.parametrize("how", ["default", "broadcast", "pipelined"])
def test_a_cache_that_obeys_is_never_older_than_what_was_acknowledged(server, how):
    """Readers cache what they get and forget what they are told; writers count up. What a reader
    has in its cache after it has heard all is what is there."""
    keys = [f"key:{i}" for i in range(20)]
    stop = threading.Event()
    errors = []

    def write(seed):
        choose = random.Random(seed)
        with server.connect() as c:
            while not stop.is_set():
                key = choose.choice(keys)
                kind = choose.randrange(10)
                if kind == 0:
                    c.call("DEL", key)
                elif kind == 1:
                    c.call("MSET", key, str(choose.random()), choose.choice(keys), "m")
                elif kind == 2:
                    c.call("SET", key, str(choose.random()), "PX", str(choose.randrange(1, 20)))
                elif kind == 3:
                    c.call("EVAL", "redis.call('SET',KEYS[1],ARGV[1])", "1", key, str(seed))
                else:
                    c.call("SET", key, str(choose.random()))

    def read(seed):
        choose = random.Random(seed)
        cache = {}
        c = server.connect(resp3=True)

        def take():
            while True:
                got = c.read()
                if not isinstance(got, Push):
                    return got
                if got.items[1] is None:
                    cache.clear()
                else:
                    for key in got.items[1]:
                        cache.pop(key.decode(), None)

        try:
            bcast = ["BCAST"] if how == "broadcast" else []
            c.send_command("CLIENT", "TRACKING", "on", *bcast)
            assert take() == OK
            while not stop.is_set():
                asked = [choose.choice(keys) for _ in range(8 if how == "pipelined" else 1)]
                missing = [key for key in asked if key not in cache]
                if not missing:
                    c.send_command("PING")
                    take()
                if choose.randrange(8) == 0 and missing:
                    c.send_command("MGET", *missing)
                    for key, value in zip(missing, take(), strict=True):
                        cache[key] = value
                else:
                    for key in missing:
                        c.send_command("GET", key)
                    for key in missing:
                        cache[key] = take()
            # All is quiet now.
            quiet.wait()
            with server.connect() as other:
                def is_right():
                    c.send_command("PING")
                    take()
                    return all(other.call("GET", k) == v for k, v in cache.items())

                wait_until(is_right, what="the cache has what the server has")
        except Exception as error:
            errors.append(error)
            raise
        finally:
            c.close()

    quiet = threading.Barrier(3)
    readers = [threading.Thread(target=read, args=(i,)) for i in range(2)]
    writers = [threading.Thread(target=write, args=(100 + i,)) for i in range(2)]
    for thread in readers + writers:
        thread.start()
    time.sleep(2)
    stop.set()
    for thread in writers:
        thread.join()
    time.sleep(0.05)  # the last deadlines
    quiet.wait()
    for thread in readers:
        thread.join()
    assert not errors


def test_clients_that_vanish_while_they_add_prefixes(server, r):
    for i in range(150):
        c = server.connect()
        for j in range(10):
            c.send_command("CLIENT", "TRACKING", "on", "BCAST", "PREFIX", f"{i}:{j}:")
        if i % 2 == 0:
            c.abort()
        else:
            c.close()
    wait_until(lambda: r.info("clients")["tracking_clients"] == "0")
    wait_until(lambda: r.info("stats")["tracking_total_prefixes"] == "0")


@only_dragonfly("redis-py caches what a Redis from 7.4 on says, not 7.0")
def test_the_cache_of_redis_py(server):
    client = redis.Redis(port=server.port, protocol=3, cache_config=redis.cache.CacheConfig())
    other = redis.Redis(port=server.port)
    other.set("k", "1")
    assert client.get("k") == b"1" and client.get("k") == b"1"
    assert client.get_cache().size == 1
    other.set("k", "2")
    wait_until(lambda: client.get("k") == b"2")
    other.flushall()
    wait_until(lambda: client.get("k") is None)
    client.close()
    other.close()
