# SPDX-License-Identifier: Apache-2.0
"""A crowd of clients with bad manners, from one seed: they connect, pipeline, break off in the
middle, kill each other, subscribe, block, watch, run scripts, save, flush and change settings.

One loop drives all connections, so the order of what they do follows from the seed; what the
server makes of it does not. Each act ends with a PING of its own. A PING that stays without its
answer is what the crowd looks for: a server that hangs, or has lost a reply."""

import errno
import random
import selectors
import socket
import struct
import time

from harness.resp import RespSocket, encode

KEYS = 40
LISTS = [f"list{i}" for i in range(6)]
CHANNELS = [f"channel{i}" for i in range(8)]
LIBRARY = "#!lua name=chaos\nredis.register_function('f', function(k, a) return #k end)"

SCRIPTS = [
    ("return redis.call('INCRBY', KEYS[1], 1)", 1),
    ("redis.call('RPUSH', KEYS[1], 'x') return redis.call('LLEN', KEYS[1])", 1),
    ("for i = 1, #KEYS do redis.call('SET', KEYS[i], i) end return #KEYS", 3),
    ("local t = {} for i = 1, 2000 do t[i] = string.rep('x', i % 100) end return #t", 0),
    ("return redis.call('PUBLISH', 'channel1', 'from a script')", 0),
    ("return redis.error_reply('MY error')", 0),
    ("return redis.call('GET', 'key' .. 1 + 1)", 1),
]

SETTINGS = [
    ("maxmemory", ["0", "40mb"]),
    ("maxmemory-policy", ["noeviction", "allkeys-lru", "volatile-ttl", "allkeys-random"]),
    ("maxmemory-clients", ["0", "30mb"]),
    ("notify-keyspace-events", ["", "KEA", "Ex"]),
    ("client-output-buffer-limit", ["pubsub 32mb 8mb 60", "pubsub 1mb 1mb 1"]),
    ("save", ["3600 1", "", "1 1"]),
    ("hash-max-listpack-entries", ["512", "3"]),
    ("list-max-listpack-size", ["-2", "2"]),
    ("slowlog-log-slower-than", ["10000", "0"]),
    ("timeout", ["0", "1"]),
    ("maxclients", ["10000", "300"]),
]


class Crowd:
    """`address` of the server; `size`: connections at a time. run() raises Unanswered, with what
    the client had said, if an answer is owed and for `patience_s` nothing came for anybody. When
    one client alone has heard nothing for so long, the machine may just be slow: then nobody begins
    anything until all are answered."""

    class Unanswered(AssertionError):
        pass

    def __init__(self, address, seed, size=150, patience_s=20.0):
        self.address = address
        self.rng = random.Random(seed)
        self.size = size
        self.patience_s = patience_s
        self.selector = selectors.DefaultSelector()
        self.clients = set()
        self.acts = 0
        self.closed_by_server = 0
        self.pauses = 0
        self.heard_at = time.monotonic()  # by anybody

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self.clients) < self.size:
                self.connect()
            self.turn(0.005)
        self.settle()
        for client in list(self.clients):
            self.leave(client, self.rng.choice(("fin", "reset")))

    def settle(self):
        """Nobody begins anything; what was begun has to be answered."""
        self.heard_at = time.monotonic()
        while any(client.is_owed for client in self.clients):
            self.turn(0.005, begins=False)
            if time.monotonic() - self.heard_at > self.patience_s:
                owed = next(client for client in self.clients if client.is_owed)
                raise Crowd.Unanswered(f"{owed.describe()}\n{self.look_at(owed)}")

    def connect(self):
        sock = socket.socket()
        sock.setblocking(False)
        if self.rng.random() < 0.1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        code = sock.connect_ex(self.address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "connect")
        client = Client(self, sock)
        self.clients.add(client)
        self.selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, client)

    def turn(self, timeout_s, begins=True):
        for key, mask in self.selector.select(timeout_s):
            client = key.data
            if client not in self.clients:
                continue
            try:
                if mask & selectors.EVENT_READ:
                    client.on_readable()
                if mask & selectors.EVENT_WRITE:
                    client.on_writable()
            except (ConnectionError, BrokenPipeError):
                self.closed_by_server += 1
                self.drop(client)
        if not begins:
            return
        now = time.monotonic()
        for client in list(self.clients):
            if client.is_owed and now - client.since > self.patience_s:
                self.pauses += 1
                return self.settle()
            client.step()

    def look_at(self, client):
        """What the server says of it, as far as it says anything."""
        port = client.sock.getsockname()[1]
        try:
            with RespSocket(self.address, timeout=20.0) as r:
                rows = r.call("CLIENT", "LIST").decode().splitlines()
                facts = r.call("INFO", "everything").decode()
        except OSError as error:
            return f"the server does not say more: {error}"
        row = [each for each in rows if f"addr=127.0.0.1:{port} " in each]
        names = ("blocked_clients", "paused", "tx_", "maxmemory", "used_memory:", "held", "behind")
        facts = [line for line in facts.split("\r\n") if any(name in line for name in names)]
        return "\n".join([*(row or ["it is not in CLIENT LIST"]), *facts])

    def drop(self, client):
        if client in self.clients:
            self.clients.remove(client)
            self.selector.unregister(client.sock)
            client.sock.close()

    def leave(self, client, how):
        if how == "reset":
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.drop(client)


class Client:
    def __init__(self, crowd, sock):
        self.crowd = crowd
        self.rng = crowd.rng
        self.sock = sock
        self.out = memoryview(b"")
        self.tail = b""  # of what was received
        self.token = None
        self.said = ""
        self.since = 0.0
        self.may_wait = False  # its act has no end of its own
        self.reads_slowly = self.rng.random() < 0.05
        self.is_half_closed = False
        self.events = selectors.EVENT_READ | selectors.EVENT_WRITE

    @property
    def is_owed(self):
        return self.token is not None and not self.may_wait

    def describe(self):
        return (
            f"silence: {self.said[:2000]}; "
            f"{len(self.out)} bytes not sent, port {self.sock.getsockname()[1]}"
        )

    def on_readable(self):
        if self.reads_slowly and self.rng.random() < 0.7:
            return
        data = self.sock.recv(1 << self.rng.randrange(4, 18))
        if not data:
            raise ConnectionError("the end")
        self.since = self.crowd.heard_at = time.monotonic()  # it goes on; what counts is silence
        self.tail = (self.tail + data)[-64:] if self.token is None else self.tail + data
        if self.token is not None and self.token in self.tail:
            self.token = None
            if self.is_half_closed:
                self.crowd.drop(self)
        self.tail = self.tail[-64:]

    def on_writable(self):
        if self.out:
            try:
                self.out = self.out[self.sock.send(self.out[: 1 << self.rng.randrange(3, 20)]) :]
            except BlockingIOError:
                return
        self.watch_writes()

    def watch_writes(self):
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out else 0)
        if events != self.events:
            self.events = events
            self.crowd.selector.modify(self.sock, events, self)

    def step(self):
        """Begins an act, or breaks off the one that is under way."""
        dice = self.rng.random()
        if self.token is None:
            if dice < 0.2:
                self.begin()
        elif dice < 0.002 or (self.may_wait and dice < 0.02):
            how = self.rng.choice(("fin", "fin", "reset", "half"))
            if how == "half" and not self.out and not self.may_wait and not self.is_half_closed:
                self.is_half_closed = True
                try:
                    self.sock.shutdown(socket.SHUT_WR)
                except OSError:
                    self.crowd.drop(self)
            elif not self.is_half_closed:
                self.crowd.leave(self, how)

    def begin(self):
        names, weights = zip(*ACTS)
        act = self.rng.choices(names, weights)[0]
        self.may_wait = False
        commands = act(self)
        self.crowd.acts += 1
        self.token = b"token:%d;" % self.crowd.acts
        # Such a PING is allowed to subscribers, too. A MULTI must not keep it.
        commands += [("DISCARD",)] if any(c[0] == "MULTI" for c in commands) else []
        commands += [("PING", self.token)]
        self.said = " ".join(str(word)[:60] for command in commands for word in (*command, "|"))
        self.out = memoryview(b"".join(encode(*command) for command in commands))
        self.since = time.monotonic()
        self.tail = b""
        self.watch_writes()

    # --- What it may do. Each gives the commands; may_wait says that no answer need come. ---

    def key(self):
        return f"key{self.rng.randrange(KEYS)}"

    def value(self):
        return "v" * self.rng.choice((1, 10, 10, 100, 1000, 20_000))

    def plain(self):
        rng = self.rng
        forms = [
            lambda: ("SET", self.key(), self.value()),
            lambda: ("SET", self.key(), self.value(), "PX", rng.randrange(1, 300)),
            lambda: ("GET", self.key()),
            lambda: ("MGET", *(self.key() for _ in range(5))),
            lambda: ("MSET", self.key(), "1", self.key(), "2", self.key(), "3"),
            lambda: ("DEL", self.key(), self.key()),
            lambda: ("RENAME", self.key(), self.key()),
            lambda: ("INCR", self.key()),
            lambda: ("HSET", f"hash{rng.randrange(5)}", self.key(), self.value()),
            lambda: ("HGETALL", f"hash{rng.randrange(5)}"),
            lambda: ("ZADD", f"zset{rng.randrange(5)}", rng.random(), self.key()),
            lambda: ("SADD", f"set{rng.randrange(5)}", self.key()),
            lambda: ("SINTERSTORE", "set9", "set1", "set2"),
            lambda: ("XADD", f"stream{rng.randrange(3)}", "MAXLEN", "100", "*", "f", "v"),
            lambda: ("EXPIRE", self.key(), rng.randrange(0, 3)),
            lambda: ("COPY", self.key(), self.key(), "REPLACE"),
            lambda: ("SCAN", rng.randrange(1000)),
            lambda: ("RPUSH", rng.choice(LISTS), "e"),
            lambda: ("LPOP", rng.choice(LISTS)),
            lambda: ("NOSUCHCOMMAND", "a\nb"),
        ]
        return [rng.choice(forms)() for _ in range(rng.choice((1, 1, 3, 20, 200)))]

    def large(self):
        return [("SET", self.key(), "z" * self.rng.randrange(100_000, 3_000_000)), ("GET", "key1")]

    def execs(self):
        commands = self.plain()[:20]
        if self.rng.random() < 0.3:
            commands.insert(0, ("PUBLISH", self.rng.choice(CHANNELS), "in exec"))
        if self.rng.random() < 0.1:
            commands.append((self.rng.choice(("FLUSHALL", "BGSAVE", "DBSIZE", "SWAPDB")), "0", "1"))
            commands[-1] = commands[-1] if commands[-1][0] == "SWAPDB" else commands[-1][:1]
        if self.rng.random() < 0.05:
            commands += [("FLUSHALL",), ("BGSAVE",)]
        end = self.rng.choice((("EXEC",), ("EXEC",), ("EXEC",), ("DISCARD",), ("RESET",)))
        watch = [("WATCH", self.key(), self.key())] if self.rng.random() < 0.3 else []
        return [*watch, ("MULTI",), *commands, end]

    def script(self):
        source, count = self.rng.choice(SCRIPTS)
        keys = [self.key() for _ in range(count)]
        if self.rng.random() < 0.2:
            return [("FUNCTION", "LOAD", "REPLACE", LIBRARY), ("FCALL", "f", 1, self.key())]
        return [("EVAL", source, count, *keys)] * self.rng.choice((1, 1, 10))

    def block(self):
        rng = self.rng
        a, b = rng.sample(LISTS, 2)
        wait = rng.choice((0.01, 0.1, 0.5, 0))
        self.may_wait = wait == 0
        command = rng.choice(
            (
                ("BLPOP", a, b, wait),
                ("BRPOP", a, wait),
                ("BLMOVE", a, b, "LEFT", "RIGHT", wait),
                ("BLMPOP", wait, "2", a, b, "LEFT"),
                ("BZPOPMIN", "zset1", "zset2", wait),
                ("XREAD", "BLOCK", int(wait * 1000), "STREAMS", "stream1", "$"),
            )
        )
        behind = self.plain()[:3] if rng.random() < 0.5 else []
        if rng.random() < 0.1:  # more than is read ahead
            behind = [("SET", "behind", "v" * 1000)] * rng.randrange(1000, 3000)
        return [command, *behind]

    def subscribe(self):
        rng = self.rng
        commands = [("HELLO", "3")] if rng.random() < 0.5 else []
        commands += [("SUBSCRIBE", *rng.sample(CHANNELS, 2)), ("PSUBSCRIBE", "chan*")]
        commands += [("PING",)] * 3
        if rng.random() < 0.5:
            commands += [("UNSUBSCRIBE",), ("PUNSUBSCRIBE",)]
        return commands

    def publish(self):
        rng = self.rng
        text = "m" * rng.choice((1, 100, 10_000))
        return [("PUBLISH", rng.choice(CHANNELS), text)] * rng.choice((1, 10, 50))

    def track(self):
        mode = self.rng.choice(((), ("BCAST",), ("BCAST", "PREFIX", "key"), ("NOLOOP",)))
        return [("HELLO", "3"), ("CLIENT", "TRACKING", "ON", *mode), *self.plain()[:20]]

    def kill(self):
        rng = self.rng
        if rng.random() < 0.1:
            return [("CLIENT", "REPLY", "SKIP"), ("ECHO", "nothing")]
        return [
            rng.choice(
                (
                    ("CLIENT", "KILL", "ID", rng.randrange(1, self.crowd.acts + 2)),
                    ("CLIENT", "KILL", "TYPE", "pubsub"),
                    ("CLIENT", "UNBLOCK", rng.randrange(1, self.crowd.acts + 2), "ERROR"),
                    ("CLIENT", "PAUSE", rng.randrange(1, 50), rng.choice(("ALL", "WRITE"))),
                    ("CLIENT", "LIST"),
                    ("CLIENT", "NO-EVICT", "ON"),
                    ("QUIT",),
                )
            )
        ]

    def look(self):
        return [
            self.rng.choice(
                (
                    ("INFO", "everything"),
                    ("MEMORY", "STATS"),
                    ("CONFIG", "GET", "*"),
                    ("SLOWLOG", "GET"),
                    ("PUBSUB", "CHANNELS"),
                    ("KEYS", "*"),
                    ("DBSIZE",),
                    ("MEMORY", "PURGE"),
                    ("MONITOR",),
                    ("ACL", "LOG"),
                    ("SCRIPT", "FLUSH"),
                    ("FUNCTION", "LIST"),
                    ("LATENCY", "HISTOGRAM"),
                )
            )
        ]

    def save(self):
        return [
            self.rng.choice(
                (
                    ("BGSAVE",),
                    ("SAVE",),
                    ("FLUSHALL",),
                    ("FLUSHALL", "ASYNC"),
                    ("FLUSHDB",),
                    ("SWAPDB", "0", "1"),
                    ("SHUTDOWN", "ABORT"),
                )
            )
        ]

    def configure(self):
        name, values = self.rng.choice(SETTINGS)
        return [("CONFIG", "SET", name, self.rng.choice(values))]


ACTS = [
    (Client.plain, 40),
    (Client.large, 3),
    (Client.execs, 10),
    (Client.script, 10),
    (Client.block, 12),
    (Client.subscribe, 4),
    (Client.publish, 5),
    (Client.track, 4),
    (Client.kill, 4),
    (Client.look, 4),
    (Client.save, 2),
    (Client.configure, 2),
]


def calm(r):
    """Takes back what the crowd has set."""
    r.call("CLIENT", "UNPAUSE")
    for name, values in SETTINGS:
        r.call("CONFIG", "SET", name, values[0])
