# SPDX-License-Identifier: Apache-2.0
"""kill -9 while clients write to a log with `always`: what they were answered is there afterwards,
and nothing half. DFLY_LOG_KILLS=200 kills more often."""

import os
import random
import shutil
import threading

import pytest

from harness.resp import OK, Error
from harness.server import REFERENCE, Server, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="redis-server ends when `always` fails")

KILLS = int(os.environ.get("DFLY_LOG_KILLS", "5"))
CLIENTS = 5
FAR_MS = 4_000_000_000_000
GONE = (OSError, ConnectionError, EOFError)

RUN = """
local at = 1
while at <= #ARGV do
  local words = {}
  for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end
  redis.call(unpack(words))
  at = at + #words + 1
end
return 'done'
"""


@pytest.fixture
def make_server():
    made = []

    def make(**flags):
        made.append(Server(appendonly="yes", appendfsync="always", **flags))
        return made[-1]

    yield make
    for server in made:
        server.stop()
        shutil.rmtree(server.dir, ignore_errors=True)


class Model:
    """What the keys of one client have."""

    def __init__(self):
        self.values = {}
        self.next = 0  # of the stream's entries, the first that the group has not delivered
        self.pending = []

    def apply(self, command, key, *args):
        v = self.values
        match command:
            case "SET" | "PXAT":
                v[key] = args[0]
            case "MSET":
                v[key], v[args[1]] = args[0], args[2]
            case "APPEND":
                v[key] = v.get(key, "") + args[0]
            case "INCRBY":
                v[key] = str(int(v.get(key, "0")) + int(args[0]))
            case "RPUSH":
                v.setdefault(key, []).append(args[0])
            case "LPOP":
                if v.get(key):
                    v[key].pop(0)
            case "SADD":
                v.setdefault(key, set()).add(args[0])
            case "SREM":
                v.get(key, set()).discard(args[0])
            case "HSET":
                v.setdefault(key, {})[args[0]] = args[1]
            case "HINCRBY":
                h = v.setdefault(key, {})
                h[args[0]] = str(int(h.get(args[0], "0")) + int(args[1]))
            case "ZADD":
                v.setdefault(key, {})[args[1]] = float(args[0])
            case "ZINCRBY":
                z = v.setdefault(key, {})
                z[args[1]] = z.get(args[1], 0.0) + float(args[0])
            case "XADD":
                v.setdefault(key, []).append(args[0])
            case "DEL":
                v.pop(key, None)

    def read_group(self, stream):
        entries = self.values.get(stream, [])
        if self.next < len(entries):
            self.pending.append(entries[self.next])
            self.next += 1

    def state(self):
        return {k: v for k, v in self.values.items() if v}, self.pending


def words(command, key, *args):
    if command == "PXAT":
        return ["SET", key, args[0], "PXAT", str(FAR_MS)]
    if command == "XADD":
        return ["XADD", key, args[0], "field", "value"]
    return [command, key, *args]


class Client:
    """Sends one unit after another. At most one, the last, is not answered."""

    def __init__(self, number):
        self.rng = random.Random(number)
        self.prefix = f"c{number}:"
        self.answered = Model()
        self.units = 0
        self.unanswered = None  # a unit: what changes the model, in one piece
        self.error = None

    def key(self, name):
        return self.prefix + name

    def effect(self):
        number = str(self.units)
        field = f"f{self.rng.randrange(5)}"
        key = self.key
        return self.rng.choice(
            [
                ("SET", key("set"), number),
                ("PXAT", key("due"), number),
                ("MSET", key("m0"), number, key("m1"), number),
                ("APPEND", key("text"), number + ","),
                ("INCRBY", key("int"), number),
                ("RPUSH", key("list"), number),
                ("LPOP", key("list")),
                ("SADD", key("members"), field),
                ("SREM", key("members"), field),
                ("HSET", key("hash"), field, number),
                ("HINCRBY", key("hash"), "total", number),
                ("ZADD", key("zset"), number, field),
                ("ZINCRBY", key("zset"), "0.5", field),
                ("XADD", key("stream"), f"{self.units}-1"),
                ("DEL", key("text")),
            ]
        )

    def run(self, server):
        try:
            with server.connect() as r:
                while True:
                    self.run_unit(r)
        except GONE:
            pass
        except AssertionError as error:
            self.error = error

    def run_unit(self, r):
        self.units += 1
        way = self.rng.randrange(8)
        stream = self.key("stream")
        if way == 0:
            self.unanswered = [("read",)]
            reply = r.call(
                *["XREADGROUP", "GROUP", "group", "me", "COUNT", "1", "STREAMS", stream, ">"]
            )
        elif way == 1 and self.answered.pending:
            entry = self.answered.pending[0]
            self.unanswered = [("ack",)]
            reply = r.call("XACK", stream, "group", entry)
        elif way < 4:
            self.unanswered = [self.effect()]
            reply = r.call(*words(*self.unanswered[0]))
        else:
            effects = [self.effect() for _ in range(self.rng.randrange(2, 6))]
            if sum(effect[0] == "XADD" for effect in effects) > 1:
                effects = [effect for effect in effects if effect[0] != "XADD"]
            self.unanswered = effects
            reply = self.run_script(r, effects) if way < 6 else self.run_multi(r, effects)
        assert not isinstance(reply, Error), (self.unanswered, reply)
        self.take(self.answered, self.unanswered)
        self.unanswered = None

    def run_script(self, r, effects):
        keys = [effect[1] for effect in effects]
        keys += [effect[3] for effect in effects if effect[0] == "MSET"]
        args = []
        for effect in effects:
            line = words(*effect)
            args += [str(len(line)), *line]
        return r.call("EVAL", RUN, str(len(keys)), *keys, *args)

    def run_multi(self, r, effects):
        lines = [["MULTI"], *[words(*effect) for effect in effects], ["EXEC"]]
        for line in lines:
            r.send_command(*line)
        replies = [r.read() for _ in lines]
        assert not any(isinstance(reply, Error) for reply in replies), replies
        return replies[-1]

    def take(self, model, unit):
        for effect in unit:
            if effect[0] == "read":
                model.read_group(self.key("stream"))
            elif effect[0] == "ack":
                model.pending.pop(0)
            else:
                model.apply(*effect)

    def look(self, r):
        """What the server has, in the form of Model.state()."""
        found = {}
        for key in r.call("KEYS", self.prefix + "*"):
            kind = r.call("TYPE", key).text
            name = key.decode()
            if kind == "string":
                found[name] = r.call("GET", key).decode()
            elif kind == "list":
                found[name] = [item.decode() for item in r.call("LRANGE", key, "0", "-1")]
            elif kind == "set":
                found[name] = {item.decode() for item in r.call("SMEMBERS", key)}
            elif kind == "stream":
                found[name] = [entry[0].decode() for entry in r.call("XRANGE", key, "-", "+")]
            else:
                scores = ["ZRANGE", key, "0", "-1", "WITHSCORES"]
                get = ["HGETALL", key] if kind == "hash" else scores
                flat = [item.decode() for item in r.call(*get)]
                found[name] = dict(zip(flat[::2], flat[1::2], strict=True))
                if kind == "zset":
                    found[name] = {member: float(score) for member, score in found[name].items()}
        if self.key("due") in found:
            assert r.call("PEXPIRETIME", self.key("due")) == FAR_MS
        pending = r.call("XPENDING", self.key("stream"), "group", "-", "+", "1000000")
        return {k: v for k, v in found.items() if v}, [entry[0].decode() for entry in pending]

    def check(self, r):
        assert self.error is None, self.error
        found = self.look(r)
        if self.unanswered is None or found == self.answered.state():
            assert found == self.answered.state()
        else:
            self.take(self.answered, self.unanswered)
            assert found == self.answered.state(), self.unanswered
        self.unanswered = None


class Queue:
    """Numbers are pushed, and popped by one who waits for them."""

    def __init__(self):
        self.pushed = self.popped = 0
        self.error = None

    def push(self, server):
        try:
            with server.connect() as r:
                while True:
                    assert not isinstance(r.call("RPUSH", "queue", str(self.pushed + 1)), Error)
                    self.pushed += 1
                    # So that there is often nothing, and the other one waits.
                    wait_until(lambda: self.popped + 5 > self.pushed or not server.is_alive())
        except GONE:
            pass
        except AssertionError as error:
            self.error = error

    def pop(self, server):
        try:
            with server.connect() as r:
                while True:
                    reply = r.call("BLPOP", "queue", "0")
                    assert reply == [b"queue", str(self.popped + 1).encode()], reply
                    self.popped += 1
        except GONE:
            pass
        except AssertionError as error:
            self.error = error

    def check(self, r):
        assert self.error is None, self.error
        left = [int(item) for item in r.call("LRANGE", "queue", "0", "-1")]
        if left:
            assert left == list(range(left[0], left[-1] + 1))
            assert left[0] in (self.popped + 1, self.popped + 2)
            assert left[-1] in (self.pushed, self.pushed + 1)
            self.popped, self.pushed = left[0] - 1, left[-1]
        else:
            # Each may have done one more that was not answered.
            assert self.pushed <= self.popped + 1
            r.call("DEL", "queue")
            self.popped = self.pushed = max(self.pushed, self.popped)


@pytest.mark.timeout(300 + 10 * KILLS)
@pytest.mark.parametrize("threads", [1, 3])
def test_what_was_answered_is_there_after_a_kill(make_server, threads):
    server = make_server(proactor_threads=threads)
    clients = [Client(number) for number in range(CLIENTS)]
    queue = Queue()
    rng = random.Random(threads)
    with server.connect() as r:
        for client in clients:
            created = r.call("XGROUP", "CREATE", client.key("stream"), "group", "0", "MKSTREAM")
            assert created == OK
    for _ in range(KILLS):
        runs = [client.run for client in clients] + [queue.push, queue.pop]
        running = [threading.Thread(target=run, args=(server,)) for run in runs]
        for thread in running:
            thread.start()
        goal = sum(client.units for client in clients) + rng.randrange(50, 500)
        wait_until(lambda goal=goal: sum(client.units for client in clients) > goal)
        if rng.randrange(3) == 0:
            with server.connect() as r:
                r.call("BGREWRITEAOF")
        server.kill()
        for thread in running:
            thread.join()
        server.start_again()
        with server.connect() as r:
            wait_until(lambda r=r: r.info("persistence")["loading"] == "0")
            for client in clients:
                client.check(r)
            queue.check(r)
