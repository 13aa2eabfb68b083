# SPDX-License-Identifier: Apache-2.0
"""Sends the same commands to two servers; reduces a sequence after which they differ."""

import time

from harness.resp import Status, encode

from .compare import agree, agree_all, comparable, parse


def as_request(rng, command):
    """Mostly an array; now and then an inline command with the same arguments."""
    if rng.random() < 0.9 or sum(map(len, command)) > 10_000:
        return encode(*command)
    words = []
    for word in command:
        plain = word and all(33 <= c < 127 and c not in b"'\"\\*" for c in word)
        if plain and rng.random() < 0.7:
            words.append(word)
        else:
            letters = (b"%c" % c if c in b"abcABC123 " else b"\\x%02x" % c for c in word)
            words.append(b'"' + b"".join(letters) + b'"')
    return rng.choice([b" ", b"\t", b"  "]).join(words) + rng.choice([b"\r\n", b"\n"])


class Pair:
    """One connection to each of two servers, whose data sets are empty."""

    def __init__(self, servers, resp3):
        self.servers, self.resp3 = servers, resp3
        self.connections = [server.connect(resp3=resp3) for server in servers]
        for connection in self.connections:
            connection.call("FLUSHALL")
        self.queued = None  # commands since MULTI

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()

    def first_difference(self, commands, encoded=None):
        """(index of the command, our reply, the reference's), or None."""
        data = b"".join(encoded or (encode(*command) for command in commands))
        for connection in self.connections:
            connection.send(data)
        found = None
        for i, command in enumerate(commands):
            # All are read: what is still being executed would get into the next sequence.
            ours, reference = (connection.read_raw() for connection in self.connections)
            if not self._agree(command, ours, reference) and not found:
                found = i, ours, reference
        return found

    def _agree(self, command, ours, reference):
        name = command[0].upper()
        if reference == b"+QUEUED\r\n":
            self.queued.append(command)
        elif name == b"MULTI" and reference == b"+OK\r\n":
            self.queued = []
        elif self.queued is not None and name in (b"EXEC", b"DISCARD", b"RESET"):
            queued, self.queued = self.queued, None
            return agree_all(queued, ours, reference)
        return agree(command, ours, reference)


def differs(servers, resp3, commands, depth, make=Pair):
    """The shortest beginning of `commands` after which the servers differ, or None."""
    with make(servers, resp3) as pair:
        for at in range(0, len(commands), depth):
            found = pair.first_difference(commands[at : at + depth])
            if found:
                return commands[: at + found[0] + 1]
    return None


def shortest(
    servers, resp3, commands, allows=lambda command: True, depth=50, budget_s=40, make=Pair
):
    """A sequence, as short as the time allows, whose last command is answered differently: the last
    one of `commands`, or a shorter form of it that the grammar `allows`.

    First without all commands that have no argument in common with the last one; then by removing
    ever smaller pieces (Zeller's ddmin), and argument by argument, until neither helps: without any
    one of its commands, or arguments, it no longer differs.
    """
    deadline = time.monotonic() + budget_s
    name = commands[-1][0].upper()

    def attempt(candidate):
        if time.monotonic() > deadline:
            return None
        found = differs(servers, resp3, candidate, depth, make)
        # Less may differ in another way, even in one that is meant.
        is_same = found and found[-1][0].upper() == name and allows(found[-1])
        return found if is_same else None

    commands = attempt(commands) or commands
    related = {word for word in commands[-1][1:]}
    commands = attempt([c for c in commands if related.intersection(c[1:])]) or commands
    while True:
        fewer = without_pieces(commands, attempt)
        shorter = without_arguments(fewer, attempt)
        if shorter == fewer:
            return shorter
        commands = shorter


def without_pieces(commands, attempt):
    pieces = 2
    while len(commands) > 1:
        size = max(1, len(commands) // pieces)
        starts = range(0, len(commands) - 1, size)
        shorter = None
        for start in starts:
            shorter = attempt(commands[:start] + commands[start + size :])
            if shorter:
                break
        if shorter:
            commands, pieces = shorter, max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces = min(len(commands), pieces * 2)
    return commands


def without_arguments(commands, attempt):
    for i in range(len(commands) - 1, -1, -1):
        size = max(1, len(commands[i]) // 2)
        while size:
            for at in range(len(commands[i]) - size, 0, -size):
                word = commands[i][:at] + commands[i][at + size :]
                shorter = [*commands[:i], word, *commands[i + 1 :]]
                found = attempt(shorter)
                if found and len(found) == len(shorter):
                    commands = found
            size //= 2
    return commands


def report(servers, resp3, commands, allows=lambda command: True, make=Pair):
    """For a failure: the shortest sequence and what each server answered last."""
    commands = shortest(servers, resp3, commands, allows, make=make)
    found = None
    with make(servers, resp3) as pair:
        for command in commands:
            found = pair.first_difference([command]) or found
    lines = [f"RESP{3 if resp3 else 2}, the shortest sequence that differs:"]
    lines += [f"  {b' '.join(map(quoted, command)).decode()[:2000]}" for command in commands[-50:]]
    if found is None:
        lines.append("  (it does not differ when its commands are sent one by one)")
    else:
        lines += [f"  ours:  {found[1][:2000]!r}", f"  redis: {found[2][:2000]!r}"]
    return "\n".join(lines)


def quoted(word):
    """As redis-cli takes it."""
    if word and all(33 <= c < 127 and c not in b"'\"\\" for c in word):
        return word
    return b'"' + b"".join(
        b"%c" % c if 32 <= c < 127 and c not in b'"\\' else b"\\x%02x" % c for c in word
    ) + b'"'


def value_of(connection, key):
    kind = connection.call("TYPE", key)
    if kind == Status("hash"):
        fields = sorted(connection.call("HKEYS", key))
        return list(zip(fields, connection.call("HMGET", key, *fields)))
    if kind == Status("set"):
        return sorted(connection.call("SMEMBERS", key))
    if kind == Status("zset"):
        members = connection.call("ZRANGE", key, 0, -1)
        scores = connection.call("ZMSCORE", key, *members)
        return [(m, float(s)) for m, s in zip(members, scores)]
    if kind == Status("stream"):
        all_of_it = (b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0")
        return comparable(all_of_it, parse(connection.raw(*all_of_it))[0])
    if kind == Status("list"):
        return connection.call("LRANGE", key, 0, -1)
    return connection.call("GET", key)


def data_set(connection, db):
    """Everything that one can know of a data base: {key: value}."""
    connection.call("SELECT", db)
    return {key: value_of(connection, key) for key in sorted(connection.call("KEYS", "*"))}
