# SPDX-License-Identifier: Apache-2.0
"""Clients of replicas: the keyspace events that they see, and what those that cache are told. A
redis-server and one of ours are replicas of the same primary, and both have to tell the same."""

import shutil

import pytest

import test_notifications
from harness.nodes import await_offset, follow
from harness.resp import OK
from harness.server import REFERENCE, Server, wait_until
from test_tracking import Player

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

END = test_notifications.END

# "a: ..." is sent to the replica, "p: ..." to the primary, which the replica then has carried out;
# "a<" are the pushes that a has got since; "over k": the replica hides k, whose time is over, and
# the primary has not deleted it. There is no SWAPDB, which ours tells of (docs/notifications.md).
TRACKING = {
    "a key that was read": """
        a: CLIENT TRACKING on
        a: GET {t}k
        p: SET {t}k 1
        p: SET {t}k 2
        a<
        a: GET {t}k
        p: DEL {t}k
        a<""",
    "changes of all kinds": """
        a: CLIENT TRACKING on
        p: RPUSH {t}l 1 2 3
        p: SADD {t}s 1 2 3
        p: HSET {t}h f 1
        p: ZADD {t}z 1 a 2 b
        p: XADD {t}x 1-1 f v
        p: SET {t}v 1
        a: LRANGE {t}l 0 -1
        a: SMEMBERS {t}s
        a: HGETALL {t}h
        a: ZRANGE {t}z 0 -1
        a: XRANGE {t}x - +
        a: GET {t}v
        p: LPOP {t}l
        a<
        p: SREM {t}s 1
        a<
        p: HINCRBY {t}h f 1
        a<
        p: ZPOPMIN {t}z
        a<
        p: XDEL {t}x 1-1
        a<
        p: APPEND {t}v 2
        a<""",
    "a transaction": """
        a: CLIENT TRACKING on
        a: MGET {t}a {t}b {t}c
        p: MULTI
        p: SET {t}a 1
        p: SET {t}b 1
        p: EXEC
        a<""",
    "a script": """
        a: CLIENT TRACKING on
        a: MGET {t}a {t}b
        p: EVAL redis.call('set',KEYS[1],1)redis.call('incr',KEYS[2]) 2 {t}a {t}b
        a<""",
    "keys that are renamed, moved and copied": """
        a: CLIENT TRACKING on
        p: MSET {t}a 1 {t}b 2 {t}c 3
        a: MGET {t}a {t}b {t}c {t}d
        p: RENAME {t}a {t}b
        a<
        a: MGET {t}a {t}b {t}c {t}d
        p: COPY {t}c {t}d
        a<
        p: MOVE {t}c 1
        a<""",
    "a deadline": """
        p: DEBUG SET-ACTIVE-EXPIRE 0
        a: CLIENT TRACKING on
        p: SET {t}k v
        a: GET {t}k
        p: PEXPIRE {t}k 1
        a<
        over {t}k
        a: GET {t}k
        p: EXISTS {t}k
        a<
        p: DEBUG SET-ACTIVE-EXPIRE 1""",
    "all keys": """
        a: CLIENT TRACKING on
        p: SET {t}k v
        a: GET {t}k
        p: FLUSHALL
        a<
        a: GET {t}k
        p: SET {t}k v
        a<
        p: FLUSHDB
        a<
        p: FLUSHALL
        a<""",
    "BCAST": """
        a: CLIENT TRACKING on BCAST
        p: SET {t}k v
        a<
        p: MSET {t}k 1 {t}n 2
        a<
        p: DEL {t}k {t}none
        a<
        p: INCR {t}n
        p: INCR {t}n
        a<""",
    "BCAST with prefixes": """
        a: CLIENT TRACKING on BCAST PREFIX {t}u PREFIX {t}v
        p: MSET {t}u1 1 {t}v1 2 {t}w1 3
        a<
        p: DEL {t}w1
        p: DEL {t}u1
        a<""",
    "OPTIN": """
        a: CLIENT TRACKING on OPTIN
        a: GET {t}k
        p: SET {t}k 1
        a<
        a: CLIENT CACHING yes
        a: GET {t}k
        p: SET {t}k 2
        a<""",
    "OPTOUT": """
        a: CLIENT TRACKING on OPTOUT
        a: CLIENT CACHING no
        a: GET {t}k
        p: SET {t}k 1
        a<
        a: GET {t}k
        p: SET {t}k 2
        a<""",
    "two clients, NOLOOP": """
        a: CLIENT TRACKING on NOLOOP
        c: CLIENT TRACKING on
        a: GET {t}k
        c: GET {t}k
        p: SET {t}k 1
        a<
        c<
        a: CLIENT TRACKING off
        a: GET {t}k
        c: GET {t}k
        p: SET {t}k 2
        a<
        c<""",
    "changes that change nothing": """
        a: CLIENT TRACKING on
        p: SADD {t}s 1
        a: SMEMBERS {t}s
        a: GET {t}none
        p: SADD {t}s 1
        p: DEL {t}none
        p: SREM {t}s 2
        a<""",
}


class Trio:
    """A primary with two replicas."""

    def __init__(self, kind):
        self.servers = []
        try:
            self.primary = self.start(kind == "redis")
            self.ours, self.theirs = self.start(False), self.start(True)
            for replica in (self.ours, self.theirs):
                with replica.connect() as c:
                    follow(c, self.primary)
        except BaseException:
            self.stop()
            raise

    def start(self, is_reference):
        flags = {"repl-diskless-sync-delay": 0}
        if not is_reference:
            flags = {"repl_diskless_sync_delay": 0, "proactor_threads": 4}
        self.servers.append(Server(reference=is_reference, **flags))
        return self.servers[-1]

    def settle(self):
        with self.primary.connect() as p, self.ours.connect() as o, self.theirs.connect() as t:
            await_offset(p, o, t)

    def clear(self):
        with self.primary.connect() as p:
            p.call("FLUSHALL")
        self.settle()

    def stop(self):
        for server in reversed(self.servers):
            server.stop()
            shutil.rmtree(server.dir, ignore_errors=True)


@pytest.fixture(scope="module", params=["redis", "ours"])
def trio(request):
    trio = Trio(request.param)
    yield trio
    trio.stop()


class Subscriber(test_notifications.Events):
    """The events of a replica. What ends them comes from its primary."""

    def __init__(self, server, resp3):
        self.c = server.connect()
        assert self.c.call("CONFIG", "SET", "notify-keyspace-events", "AKEn") == OK
        self.resp3 = resp3
        self.subscriber = server.connect(resp3=resp3)
        self.subscriber.send_command("PSUBSCRIBE", "__key*@*__:*")
        self.subscriber.read()


@pytest.mark.parametrize("name", test_notifications.SCRIPTS)
@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
def test_events_at_a_replica_are_those_of_redis(trio, name, resp3):
    trio.clear()
    subscribers = [Subscriber(server, resp3) for server in (trio.ours, trio.theirs)]
    with trio.primary.connect() as p:
        script = test_notifications.SCRIPTS[name]
        for line in filter(None, map(str.strip, script.split("\n"))):
            words = line.split(" ")
            p.call(*[b"" if w == "''" else test_notifications.unescape(w) for w in words])
        p.call("SET", END, "")
        p.call("DEL", END)
    ours, theirs = (subscriber.take_to_end() for subscriber in subscribers)
    for subscriber in subscribers:
        subscriber.close()
    assert ours == theirs
    trio.settle()


def play(trio, replica, script, expected=()):
    """[(line, reply or pushes)] of the clients of the replica."""
    trio.clear()
    player, got = Player(replica), []
    with trio.primary.connect() as p:
        for line in filter(None, map(str.strip, script.split("\n"))):
            if line.endswith("<"):
                pushes = expected[len(got)][1] if expected else None
                got.append((line, player.settled(line[:-1], pushes)))
            elif line.startswith("over "):
                with replica.connect() as r:
                    wait_until(lambda: r.call("EXISTS", line[5:]) == 0, what="its end")
            elif line.startswith("p: "):
                p.call(*line[3:].split(" "))
                trio.settle()
            else:
                name, command = line.split(": ", 1)
                got.append((line, player.do(name, *command.split(" "))))
    player.close()
    return got


@pytest.mark.parametrize("name", TRACKING)
def test_clients_of_a_replica_are_told_what_redis_tells(trio, name):
    expected = play(trio, trio.theirs, TRACKING[name])
    ours = play(trio, trio.ours, TRACKING[name], expected)
    for mine, theirs in zip(ours, expected, strict=True):
        assert mine == theirs


def test_a_full_copy_makes_one_message_and_no_events(start_server):
    first, other = (start_server(**{"repl_diskless_sync_delay": 0}) for _ in range(2))
    with first.connect() as p, other.connect() as q:
        p.call("MSET", "{t}a", 1, "{t}b", 1)
        q.call("MSET", "{t}a", 2, "{t}c", 2)
        told = []
        for is_reference in (True, False):
            replica = start_server(reference=is_reference)
            with replica.connect() as r:
                follow(r, first)
                subscriber = Subscriber(replica, False)
                player = Player(replica)
                player.do("a", "CLIENT", "TRACKING", "on")
                assert player.do("a", "MGET", "{t}a", "{t}b", "{t}c") == [b"1", b"1", None]
                follow(r, other)
                pushes = player.settled("a", told[0][0] if told else None)
                assert player.do("a", "MGET", "{t}a", "{t}b", "{t}c") == [b"2", None, b"2"]
                q.call("SET", END, "")
                q.call("DEL", END)
                told.append((pushes, subscriber.take_to_end()))
                subscriber.close()
                player.close()
                assert r.call("REPLICAOF", "NO", "ONE") == OK
        assert told[0] == told[1] and told[0][0] != []
