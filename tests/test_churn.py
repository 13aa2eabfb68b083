# SPDX-License-Identifier: Apache-2.0
"""Keys of all types come, change, expire and go, while their memory moves: what is there is what
was written, what is accounted is what is used, and what is resident is little more.

DFLY_CHURN_MINUTES=20 makes it long, with some hundreds of MB."""

import os
import random
import time

import pytest

from harness.resp import OK, Error
from harness.seeds import new_seed
from harness.server import REFERENCE, SANITIZED, configuration_flags, only_dragonfly, wait_until

pytestmark = [only_dragonfly("DEBUG DEFRAG, DEBUG CHECK, and what is accounted")]

MINUTES = float(os.environ.get("DFLY_CHURN_MINUTES", "0"))
KEYS = 60_000 if MINUTES else (1_500 if SANITIZED else 10_000)  # of each client
CLIENTS = 4
ROUNDS = 12 if SANITIZED else 120
BATCH = 300
DRIFT = (30, 200, 60, 400, 90)  # bytes of a value, one phase after another
TEXT = bytes(range(33, 127)) * 12
MB = 1 << 20

pytestmark.append(pytest.mark.timeout(MINUTES * 60 + 600))


class Client:
    """Writes keys of its own, and knows what they have."""

    def __init__(self, server, number, seed):
        self.c = server.connect(timeout=120.0)
        self.number = number
        self.rng = random.Random(seed)
        self.model = {}  # name: [type, value, deadline in ms or None]

    def text(self, size):
        size = self.rng.randrange(size // 2, size * 3 // 2)
        at = self.rng.randrange(len(TEXT) - size)
        return TEXT[at : at + size]

    def time_ms(self):
        seconds, micros = self.c.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def name(self):
        return b"%d:a key of this client:%d" % (self.number, self.rng.randrange(KEYS))

    def churn(self, size):
        """A pipeline of changes, each on a key that exists for ever, or on a new one."""
        now_ms = self.time_ms()
        commands = []
        while len(commands) < BATCH:
            name = self.name()
            old = self.model.get(name)
            if old is None or old[2] is not None or self.rng.random() < 0.3:
                self.replace(name, old, size, now_ms, commands)
            else:
                self.change(name, old, size, commands)
        for command, reply in zip(commands, self.c.pipeline(commands)):
            assert not isinstance(reply, Error), (command[:2], reply)

    def replace(self, name, old, size, now_ms, commands):
        if old is not None:
            commands.append(("DEL", name))
            del self.model[name]
            if self.rng.random() < 0.5:
                return
        kind = self.rng.choice(("string", "string", "list", "hash", "set", "zset", "stream"))
        empty = {"string": b"", "list": [], "stream": [], "set": set()}
        new = self.model[name] = [kind, empty.get(kind, {}), None]
        for _ in range(1 if kind == "string" else self.rng.choice((1, 3, 10))):
            self.add(name, new, size, commands)
        if self.rng.random() < 0.4:
            new[2] = now_ms + self.rng.randrange(1, 20_000)
            commands.append(("PEXPIREAT", name, new[2]))

    def add(self, name, entry, size, commands):
        kind, value, _ = entry
        text = self.text(size)
        if kind == "string":
            entry[1] += text
            commands.append(("APPEND", name, text))
        elif kind == "list":
            value.append(text)
            commands.append(("RPUSH", name, text))
        elif kind == "hash":
            field = b"field %d" % self.rng.randrange(100)
            value[field] = text
            commands.append(("HSET", name, field, text))
        elif kind == "set":
            value.add(text)
            commands.append(("SADD", name, text))
        elif kind == "zset":
            value[text] = self.rng.randrange(1000)
            commands.append(("ZADD", name, value[text], text))
        else:
            number = value[-1][0] + 1 if value else 1
            value.append((number, text))
            commands.append(("XADD", name, f"1-{number}", "field", text))

    def change(self, name, entry, size, commands):
        kind, value, _ = entry
        if kind == "string":
            if len(value) > 2000:
                entry[1] = b""
                commands.append(("SET", name, b""))
            self.add(name, entry, size, commands)
        elif len(value) < 2 or (self.rng.random() < 0.6 and len(value) < 150):
            self.add(name, entry, size, commands)
        elif kind == "list":
            value.pop(0)
            commands.append(("LPOP", name))
        elif kind == "stream":
            value.pop(0)
            commands.append(("XTRIM", name, "MAXLEN", len(value)))
        else:
            member = next(iter(value))
            value.remove(member) if kind == "set" else value.pop(member)
            verb = {"hash": "HDEL", "set": "SREM", "zset": "ZREM"}[kind]
            commands.append((verb, name, member))

    def read(self, name, kind):
        return {
            "string": ("GET", name),
            "list": ("LRANGE", name, 0, -1),
            "hash": ("HGETALL", name),
            "set": ("SMEMBERS", name),
            "zset": ("ZRANGE", name, 0, -1, "WITHSCORES"),
            "stream": ("XRANGE", name, "-", "+"),
        }[kind]

    def check(self):
        """All keys have what the model has, or are gone if their time is over."""
        items = list(self.model.items())
        expired = 0
        for begin in range(0, len(items), BATCH):
            part = items[begin : begin + BATCH]
            reads = [self.read(name, entry[0]) for name, entry in part]
            # Not within the pipeline: there it may be answered before what other threads read.
            before_ms = self.time_ms()
            replies = self.c.pipeline(reads)
            after_ms = self.time_ms()
            for (name, (kind, value, deadline)), reply in zip(part, replies):
                assert not isinstance(reply, Error), (name, reply)
                is_there = reply not in (None, [])
                if deadline is not None and not is_there and deadline <= after_ms:
                    expired += 1
                    continue
                assert deadline is None or deadline >= before_ms, f"{name} is there after its time"
                assert self.plain(kind, reply) == self.plain_model(kind, value), (name, kind)
        return expired

    @staticmethod
    def plain(kind, reply):
        if kind in ("hash", "zset"):
            return dict(zip(reply[::2], reply[1::2]))
        if kind == "set":
            return set(reply)
        if kind == "stream":
            return [(i, fields[1]) for i, fields in reply]
        return reply

    @staticmethod
    def plain_model(kind, value):
        if kind == "zset":
            return {member: b"%d" % score for member, score in value.items()}
        if kind == "stream":
            return [(b"1-%d" % number, text) for number, text in value]
        return value

    def delete_most(self):
        names = list(self.model)
        gone = [name for name in names if self.rng.random() < 0.9]
        for begin in range(0, len(gone), BATCH):
            self.c.call("UNLINK", *gone[begin : begin + BATCH])
        for name in gone:
            del self.model[name]


@pytest.fixture(params=["4t", "1t"] if not REFERENCE else ["redis"])
def own(request, start_server):
    return start_server(active_defrag_ignore_bytes="4mb", **configuration_flags(request.param))


def defrag_all(c):
    """Everything moves; returns when it has."""
    hits = int(c.info("stats")["active_defrag_hits"])
    assert c.call("DEBUG", "DEFRAG") == OK
    wait_until(lambda: c.info("memory")["active_defrag_running"] == "0", 60, "the pass ends")
    assert int(c.info("stats")["active_defrag_hits"]) > hits


def spare(server):
    """What a server without much data may have besides: for each thread the pages that have begun
    to be filled, one for each size of blocks: 44 of 64 KB, and 12 of 512 KB for larger ones. And
    2 MB of receive buffers, which are used memory from the start, but resident only later."""
    return (4 + 12 * server.flags["proactor_threads"]) * MB


def excess(server, c):
    return server.rss_bytes() - int(c.info("memory")["used_memory"])


@pytest.mark.sanitized
def test_what_is_there_is_what_was_written_and_little_more_is_resident(own, capsys):
    seed = new_seed()
    clients = [Client(own, i, seed + i) for i in range(CLIENTS)]
    c = own.connect(timeout=120.0)
    at_first = excess(own, c)
    begin = time.monotonic()
    done = 0

    def goes_on():
        return time.monotonic() - begin < MINUTES * 60 if MINUTES else done < ROUNDS

    while goes_on():
        share = (time.monotonic() - begin) / (MINUTES * 60) if MINUTES else done / ROUNDS
        for client in clients:
            client.churn(DRIFT[min(int(share * len(DRIFT)), len(DRIFT) - 1)])
        done += 1
        if not MINUTES and done % (ROUNDS // 4) == 0:
            assert c.call("DEBUG", "DEFRAG") == OK  # and while it runs, they go on
    expired = sum(client.check() for client in clients)
    assert c.call("DEBUG", "CHECK") == OK
    if MINUTES:
        with capsys.disabled():
            report("churned", own, c, begin, done)
        used = int(c.info("memory")["used_memory"])
        wait_until(lambda: own.rss_bytes() < 1.2 * used, 60, "what is resident follows")
    assert expired > 0 or not MINUTES
    defrag_all(c)
    for client in clients:
        client.check()
        client.delete_most()
    if not SANITIZED:  # that has another allocator
        if MINUTES:
            with capsys.disabled():
                report("nine in ten are about to go", own, c, begin, done)
        used = int(c.info("memory")["used_memory"])
        wait_until(
            lambda: excess(own, c) - at_first < max(used / 5, spare(own)),
            60,
            "what is resident follows what is used",
        )
        if MINUTES:
            with capsys.disabled():
                report("nine in ten deleted", own, c, begin, done)
    for client in clients:
        client.check()
    assert c.call("DEBUG", "CHECK") == OK
    c.call("FLUSHALL")
    if not SANITIZED:
        wait_until(lambda: excess(own, c) - at_first < spare(own), 60, "nothing is left")


def report(what, server, c, begin, done):
    memory, stats = c.info("memory"), c.info("stats")
    used, rss = int(memory["used_memory"]), server.rss_bytes()
    print(
        f"\n{what}: {time.monotonic() - begin:.0f} s, {done * CLIENTS * BATCH:,} changes, "
        f"{c.call('DBSIZE'):,} keys, {stats['expired_keys']} expired, "
        f"RSS {rss / MB:.0f} / used {used / MB:.0f} MB = {rss / used:.2f}, "
        f"{stats['active_defrag_passes']} passes, {stats['active_defrag_hits']} blocks moved in "
        f"{stats['total_active_defrag_time']} ms, {stats['active_defrag_returns']} returns"
    )


@pytest.mark.sanitized
def test_a_snapshot_and_a_pass_take_turns(own):
    c = own.connect()
    for i in range(0, 2000, 100):
        c.pipeline(
            [("SET", f"a key on the heap, number {j}", "x" * 100) for j in range(i, i + 100)]
        )
    for _ in range(5):
        assert c.call("DEBUG", "DEFRAG") == OK
        c.call("BGSAVE")
        wait_until(lambda: c.info("persistence")["rdb_bgsave_in_progress"] == "0", 30, "saved")
        wait_until(lambda: c.info("memory")["active_defrag_running"] == "0", 30, "the pass ends")
    assert c.info("persistence")["rdb_last_bgsave_status"] == "ok"
    assert c.call("DEBUG", "RELOAD") == OK
    assert c.call("DBSIZE") == 2000
    assert c.call("GET", "a key on the heap, number 1234") == b"x" * 100
    assert c.call("DEBUG", "CHECK") == OK


def test_a_move_is_no_change(own):
    c, other = own.connect(), own.connect()
    c.call("SET", "a key that is watched, on the heap", "x" * 100)
    c.call("WATCH", "a key that is watched, on the heap")
    changes = c.info("persistence")["rdb_changes_since_last_save"]
    defrag_all(other)
    assert c.info("persistence")["rdb_changes_since_last_save"] == changes
    c.call("MULTI")
    c.call("GET", "a key that is watched, on the heap")
    assert c.call("EXEC") == [b"x" * 100]


def test_the_settings(own):
    c = own.connect()
    for name, value in (
        ("activedefrag", "yes"),
        ("active-defrag-ignore-bytes", str(4 * MB)),
        ("active-defrag-threshold-lower", "10"),
        ("active-defrag-cycle-max", "25"),
    ):
        assert c.call("CONFIG", "GET", name) == [name.encode(), value.encode()]
    assert c.call("CONFIG", "SET", "activedefrag", "no", "active-defrag-cycle-max", "99") == OK
    assert isinstance(c.call("CONFIG", "SET", "active-defrag-cycle-max", "100"), Error)
    # Asked for, it runs nevertheless.
    c.call("SET", "a key on the heap, not inline", "x" * 100)
    defrag_all(c)
    stats = c.info("stats")
    assert int(stats["active_defrag_passes"]) > 0
    assert int(stats["active_defrag_key_hits"]) > 0
    c.call("CONFIG", "RESETSTAT")
    assert c.info("stats")["active_defrag_hits"] == "0"
