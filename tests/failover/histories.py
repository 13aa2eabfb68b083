# SPDX-License-Identifier: Apache-2.0
"""Histories of clients that find the primary by Sentinel while it is lost. tests/linearizability
checks them.

    python -m failover.histories --runs 40 [--faults kill,stop,cut,split] [--seed N]
        [--min-replicas-to-ack N] [--fence]                     (in tests/)

The faults are those of failover.py. Six clients do commands of two kinds of histories: of one key
each (a string, a counter, a list), and of several keys (MSET, MGET, MULTI). A history is over after
some commands, or when too many have no outcome, as it has to be small for the checker. When all is
whole again every history gets a last read of each of its keys: so no lost write stays unseen.

Two keepers have a history of their own. They only read, and wait long for a reply, so they stay at
the old primary as long as it lets them. The others write these keys before the fault and after the
failover.

What an operation was:

    answered     the reply is in the history
    not sent     no connection, or READONLY: it is in no history
    unknown      the connection broke, the reply did not come in time, or it was UNREPLICATED. A
                 write may be carried out at any later time, or never. A read says nothing

A primary that was replaced and does not know it still answers reads of what replicas have: what it
tells is old. It is right all the same if it was so at some moment after the fault began. So in the
history that is checked such a read begins when the fault does. After kill -9 there is no such read,
and nothing is changed. How many histories are not linearizable without that is told, too: they have
reads that are stale."""

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import redis
from redis.exceptions import ReadOnlyError

from failover.failover import FAILOVER_S, FAULTS, NAME, Cluster, lose
from harness.porcupine import OUTPUT, build_checker
from harness.server import wait_until

# Writes that no replica acknowledges end as unknown before Sentinel looks for another primary.
DOWN_AFTER_MS = 3000
ACK_TIMEOUT_MS = 1000
FENCE_MS = 2500  # a Sentinel sends PING each second
CLIENTS = 6
OPERATIONS = 100  # of a history
UNKNOWN = 8  # a history with more of them is dear to check
FOREVER = (1 << 63) - 1
READS = ("GET", "MGET", "LRANGE", "LLEN")


class Operation:
    """`args`: a command; or ["EXEC"], and `body` has the commands of the transaction."""

    def __init__(self, client, args, body=()):
        self.client, self.args, self.body = client, args, body
        self.called = self.returned = 0  # monotonic nanoseconds
        self.reply = "?"
        self.port = None  # of the server that was asked

    def is_read(self):
        return all(args[0] in READS for args in self.body or [self.args])

    def is_known(self):
        return self.reply != "?"

    def as_json(self, called):
        return json.dumps(
            {
                "ClientId": self.client,
                "Input": {"Args": self.args, "Body": [{"Args": args} for args in self.body]},
                "Call": called,
                "Output": self.reply,
                "Return": self.returned if self.is_known() else FOREVER,
            }
        )


class History:
    """Keys are k0 ... here, and have a prefix on the servers. Thread: any, under the lock."""

    def __init__(self, kind, prefix):
        self.kind, self.prefix = kind, prefix
        self.operations = []
        self.begun = self.unknown = 0

    def is_over(self):
        return self.begun >= OPERATIONS or self.unknown >= UNKNOWN

    def write(self, path, old_port=None, lost_at=0):
        """`old_port`: reads that it answered may be as old as `lost_at`."""
        seen = set()
        with open(path, "w") as f:
            for operation in sorted(self.operations, key=lambda operation: operation.returned):
                called = operation.called
                if is_late_read(operation, old_port, lost_at):
                    # If the first of equal ones is right, so are those that end later. Many that
                    # overlap would be dear to check.
                    what = str((operation.args, operation.body, operation.reply))
                    if what in seen:
                        continue
                    seen.add(what)
                    called = lost_at
                f.write(operation.as_json(called) + "\n")


def is_late_read(operation, old_port, lost_at):
    return operation.port == old_port and operation.called > lost_at and operation.is_read()


class Values:
    """Of one client: each is written once, so a read tells which write it saw."""

    def __init__(self, client):
        self.client, self.count = client, 0

    def next(self):
        self.count += 1
        return f"{self.client}.{self.count}"


def draw_one_key(rng, values):
    """A command, and the body of a transaction."""
    return [
        lambda: ["GET", "k0"],
        lambda: ["GET", "k0"],
        lambda: ["SET", "k0", values.next()],
        lambda: ["APPEND", "k0", "+" + values.next()],
        lambda: ["DEL", "k0"],
        lambda: ["GET", "k1"],
        lambda: ["INCR", "k1"],
        lambda: ["INCRBY", "k1", str(rng.randrange(2, 50))],
        lambda: ["LRANGE", "k2", "0", "-1"],
        lambda: ["RPUSH", "k2", values.next()],
        lambda: ["LPUSH", "k2", values.next(), values.next()],
        lambda: ["LPOP", "k2"],
        lambda: ["RPOP", "k2"],
        lambda: ["LLEN", "k2"],
    ][rng.randrange(14)](), ()


def draw_many_keys(rng, values):
    def some(count):
        return [f"k{i}" for i in rng.sample(range(4), count)]

    def mset(count):
        return ["MSET", *(word for key in some(count) for word in (key, values.next()))]

    def simple():
        key = some(1)[0]
        draws = [["GET", key], ["SET", key, values.next()], ["MGET", *some(3)], mset(2)]
        return rng.choice([*draws, ["DEL", *some(2)]])

    choice = rng.randrange(5)
    if choice < 2:
        return ["EXEC"], [simple() for _ in range(rng.randrange(2, 4))]
    if choice == 2:
        return ["MGET", *some(4)], ()
    return simple(), ()


def draw_kept(rng, values):
    return ["SET", rng.choice(KEPT), values.next()], ()


KEPT = ("k0", "k1")
KINDS = {
    "kept": (draw_kept, [["GET", key] for key in KEPT]),
    "one-key": (draw_one_key, [["GET", "k0"], ["GET", "k1"], ["LRANGE", "k2", "0", "-1"]]),
    "many-keys": (draw_many_keys, [["MGET", "k0", "k1", "k2", "k3"]]),
}


def is_key(word):
    return re.fullmatch("k[0-5]", word) is not None


def reply_text(args, reply):
    """As the checker writes it."""
    if isinstance(reply, int):
        return f":{reply}"
    if reply is None:
        return "nil"
    if isinstance(reply, list):
        return "[" + " ".join(reply_text(["GET"], item) for item in reply) + "]"
    if args[0] in ("SET", "MSET"):
        return "+" + reply.decode()
    return "$" + reply.decode()


class Stage:
    """The histories of one run. Thread: any."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.rests = False  # nobody writes what the keepers read
        self.lock = threading.Lock()
        self.histories = []
        self.current = {}

    def join(self, kind):
        """The history to which the next operation of this kind belongs."""
        with self.lock:
            history = self.current.get(kind)
            if history is None or (kind != "kept" and history.is_over()):
                history = History(kind, f"{self.prefix}:{kind}:{len(self.histories)}:")
                self.histories.append(history)
                self.current[kind] = history
            history.begun += 1
            return history

    def add(self, history, operation):
        with self.lock:
            history.operations.append(operation)
            history.unknown += not operation.is_known()


class NotSent(Exception):
    pass


class Asker:
    """Does operations at whom Sentinel names, and records them."""

    def __init__(self, cluster, stage, number, **keywords):
        self.stage, self.number = stage, number
        # With RESP2 a client tells its name first, so the split spares its new connections, too.
        sentinel = cluster.client(protocol=2, **keywords)
        self.pool = sentinel.master_for(NAME).connection_pool
        self.errors = {}

    def do(self, history, args, body=()):
        """The operation; None: it was not sent, or is a read whose reply did not come."""
        operation = Operation(self.number, args, body)
        try:
            self._send(history, operation)
        except NotSent:
            return None
        if operation.is_read() and not operation.is_known():
            return None
        self.stage.add(history, operation)
        return operation

    def close(self):
        with contextlib.suppress(redis.RedisError, OSError):
            self.pool.disconnect()

    def _send(self, history, operation):
        try:
            connection = self.pool.get_connection()
        except (redis.RedisError, OSError) as error:
            self._fail("before it was sent", error)
            raise NotSent from error
        operation.port = connection.port
        commands = operation.body or [operation.args]
        words = [[history.prefix + w if is_key(w) else w for w in args] for args in commands]
        if operation.body:
            words = [["MULTI"], *words, ["EXEC"]]
        try:
            packed = connection.pack_commands(words)
            operation.called = time.monotonic_ns()
            connection.send_packed_command(packed, check_health=False)
            replies = [connection.read_response() for _ in words]
            operation.returned = time.monotonic_ns()
            self.pool.release(connection)
        except (redis.RedisError, OSError) as error:
            self._fail("sent", error)
            connection.disconnect()
            # redis-py makes a ConnectionError of it.
            if isinstance(error, ReadOnlyError) or isinstance(error.__context__, ReadOnlyError):
                raise NotSent from error
            return
        if operation.body:
            items = zip(operation.body, replies[-1], strict=True)
            operation.reply = "[" + " ".join(reply_text(args, reply) for args, reply in items) + "]"
        else:
            operation.reply = reply_text(operation.args, replies[0])

    def _fail(self, when, error):
        kind = f"{when}, {type(error).__name__}: {' '.join(str(error).split(' ')[:2])}"
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self.pool.reset()  # asks Sentinel anew


class Client(threading.Thread):
    def __init__(self, cluster, stage, number, seed):
        super().__init__(daemon=True)
        self.stage = stage
        self.rng = random.Random(seed)
        self.values = Values(number)
        self.asker = Asker(cluster, stage, number)
        self.ends = threading.Event()
        self.last_written = None  # the last write that was answered
        self.failure = None

    def draw_kind(self):
        if self.rng.randrange(20) == 0 and not self.stage.rests:
            return "kept"
        return self.rng.choice(["one-key", "many-keys"])

    def run(self):
        try:
            while not self.ends.is_set():
                kind = self.draw_kind()
                args, body = KINDS[kind][0](self.rng, self.values)
                operation = self.asker.do(self.stage.join(kind), args, body)
                answered = operation is not None and operation.is_known()
                if answered and not operation.is_read():
                    self.last_written = operation
                self.ends.wait(0.002 if answered else 0.05)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.asker.close()

    def has_written(self, since, old=None):
        """One that began after `since` was answered; `old`: not by this one."""
        assert self.failure is None, repr(self.failure)
        last = self.last_written
        return last is not None and last.called > since and not (old and last.port == old.port)


class Keeper(threading.Thread):
    def __init__(self, cluster, stage, key):
        super().__init__(daemon=True)
        self.stage, self.key = stage, key
        number = CLIENTS + KEPT.index(key)
        self.asker = Asker(cluster, stage, number, answer_s=FAILOVER_S)
        self.ends = threading.Event()
        self.last_read = None
        self.failure = None

    def run(self):
        try:
            while not self.ends.wait(0.03):
                read = self.asker.do(self.stage.join("kept"), ["GET", self.key])
                self.last_read = read or self.last_read
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.asker.close()

    def has_read(self, since, old):
        assert self.failure is None, repr(self.failure)
        last = self.last_read
        return last is not None and last.called > since and last.port != old.port


class Run:
    """What one failover has left: its histories, and what is to be known to judge them."""

    def __init__(self, fault, old_port, histories, lost_at):
        self.fault, self.old_port = fault, old_port
        self.histories, self.lost_at = histories, lost_at
        self.errors = {}
        self.failovers = 0

    def write(self, directory, name, is_strict=False):
        """`is_strict`: reads at an old primary have to be as new as all others."""
        paths = []
        for i, history in enumerate(self.histories):
            paths.append(os.path.join(directory, f"{name}-{self.fault}-{i}.jsonl"))
            if is_strict or self.fault == "kill":
                history.write(paths[-1])
            else:
                history.write(paths[-1], self.old_port, self.lost_at)
        return paths

    def keep_answers_of_the_old(self, count):
        """Keeps so many histories in which the old primary has answered a write after the fault."""

        def is_late_write(operation):
            late = operation.called > self.lost_at and operation.port == self.old_port
            return late and operation.is_known() and not operation.is_read()

        late = [h for h in self.histories if any(map(is_late_write, h.operations))]
        self.histories = late[:count]

    def counts(self):
        operations = [o for history in self.histories for o in history.operations]
        return {
            "histories": len(self.histories),
            "operations": len(operations),
            "unknown": sum(not o.is_known() for o in operations),
            "late reads": sum(is_late_read(o, self.old_port, self.lost_at) for o in operations),
        }


def synchronous_cluster(directory, replicas, is_fenced=False):
    """One replica more than have to acknowledge: writes go on while one is the new primary."""
    fence = {"fence_without_sentinels": 2, "fence_ms": FENCE_MS} if is_fenced else {}
    return Cluster(
        directory,
        replicas=replicas + 1,
        down_after_ms=DOWN_AFTER_MS,
        ack_timeout=ACK_TIMEOUT_MS,
        min_replicas_to_ack=replicas,
        **fence,
    )


def await_writes(crew, since, old=None):
    wait_until(
        lambda: all(client.has_written(since, old) for client in crew),
        timeout_s=FAILOVER_S,
        what="answered writes of all clients",
    )


def record(cluster, rng, fault, number, is_synchronous=True):
    """One failover, and all that its clients saw. On a busy machine there may be another one, as
    Sentinel takes a server for dead: such a run says nothing (`failovers`), since there is a second
    old primary."""
    primary = cluster.await_whole()
    failovers = cluster.count_failovers()
    stage = Stage(f"run{number}")
    crew = [Client(cluster, stage, i, rng.random()) for i in range(CLIENTS)]
    keepers = [Keeper(cluster, stage, key) for key in KEPT]
    for thread in crew + keepers:
        thread.start()
    try:
        await_writes(crew, 0)
        time.sleep(rng.uniform(0.2, 1.0))
        stage.rests = True
        await_writes(crew, time.monotonic_ns())  # what they have begun before is done
        lost_at = time.monotonic_ns()
        bring_back = lose(rng, fault, primary)
        try:
            wait_until(
                lambda: (node := cluster.primary()) and node is not primary,
                timeout_s=FAILOVER_S,
                what="a failover",
            )
            stage.rests = False
            # Answers of the new one need a replica. So this also waits until the other replica has
            # left the old primary, which may answer no write when it comes back.
            switched_at = time.monotonic_ns()
            if is_synchronous:
                await_writes(crew, switched_at, primary)
            if fault == "kill":
                # It comes back without data, and nobody may ask it then.
                wait_until(
                    lambda: all(keeper.has_read(switched_at, primary) for keeper in keepers),
                    timeout_s=FAILOVER_S,
                    what="reads of all keepers",
                )
        finally:
            bring_back()
        cluster.await_whole()
        await_writes(crew, time.monotonic_ns())
    finally:
        for thread in crew + keepers:
            thread.ends.set()
        for thread in crew + keepers:
            thread.join()
    assert [thread.failure for thread in crew + keepers if thread.failure] == []
    read_last(cluster, stage)
    run = Run(fault, primary.port, stage.histories, lost_at)
    run.failovers = cluster.count_failovers() - failovers
    for thread in crew + keepers:
        for kind, count in thread.asker.errors.items():
            run.errors[kind] = run.errors.get(kind, 0) + count
    return run


def read_last(cluster, stage):
    """What is left in all keys is a part of their histories."""
    asker = Asker(cluster, stage, CLIENTS + len(KEPT))
    for history in stage.histories:
        for args in KINDS[history.kind][1]:
            wait_until(
                lambda history=history, args=args: asker.do(history, args),
                timeout_s=FAILOVER_S,
                what="a last read",
            )
    asker.close()


def check(checker, paths, output=os.path.join(OUTPUT, "failover")):
    """How many are linearizable, are not, and are too dear to decide; and what the checker says
    of those that are not, which it draws in `output`."""
    found = {"linearizable": 0, "NOT LINEARIZABLE": 0, "not decided in time": 0}
    bad = []
    for i in range(0, len(paths), 500):
        command = [checker, f"--directory={output}", *paths[i : i + 500]]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        for line in done.stdout.splitlines():
            verdict = re.search(r": ([a-zA-Z ]+)", line).group(1)
            found[verdict] += 1
            if verdict == "NOT LINEARIZABLE":
                bad.append(line)
    assert sum(found.values()) == len(paths)
    return found, bad


class Judge:
    """Adds up what the runs of each fault were."""

    def __init__(self, checker, directory):
        self.checker, self.directory = checker, directory
        self.totals = {}
        self.bad = []
        self.count = 0

    def judge(self, run):
        """Returns what was found."""
        facts = {"runs": 1, **run.counts()}
        for is_strict in (True, False):
            name = f"{self.count}-{'strict' if is_strict else 'promised'}"
            paths = run.write(self.directory, name, is_strict)
            # That there are reads that are stale is no fault, so nobody needs a drawing.
            where = self.directory if is_strict and run.fault != "kill" else OUTPUT
            found, bad = check(self.checker, paths, os.path.join(where, "failover"))
            for path in paths:
                os.remove(path)
            if is_strict:
                facts["stale"] = found["NOT LINEARIZABLE"]
            else:
                facts.update(found)
                self.bad += bad
        self.count += 1
        total = self.totals.setdefault(run.fault, {})
        for name, value in facts.items():
            total[name] = total.get(name, 0) + value
        return facts

    def report(self):
        for fault, total in self.totals.items():
            print(f"{fault}: " + ", ".join(f"{value} {name}" for name, value in total.items()))
        for line in self.bad:
            print(line)


def clean_runs(cluster, rng, faults, count):
    """So many, with one failover each."""
    done = skipped = 0
    while done < count:
        run = record(cluster, rng, faults[done % len(faults)], done + skipped)
        if run.failovers == 1:
            done += 1
            yield run
            continue
        skipped += 1
        print(f"{run.fault}: {run.failovers} failovers, it is not looked at", flush=True)
        assert skipped < 10 + count, "the machine is too busy for Sentinel"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--min-replicas-to-ack", type=int, default=1)
    parser.add_argument("--fence", action="store_true", help="fence_without_sentinels=2")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    faults = options.faults.split(",")
    with tempfile.TemporaryDirectory(prefix="histories-") as directory:
        judge = Judge(build_checker(), directory)
        with synchronous_cluster(
            directory, options.min_replicas_to_ack, options.fence
        ) as cluster:
            for i, run in enumerate(clean_runs(cluster, rng, faults, options.runs)):
                print(f"{i}: {run.fault}, {judge.judge(run)}, {run.errors}", flush=True)
        judge.report()
    return 1 if judge.bad else 0


if __name__ == "__main__":
    sys.exit(main())
