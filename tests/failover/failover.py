# SPDX-License-Identifier: Apache-2.0
"""Failovers under redis-sentinel: a primary, two replicas, three Sentinels, writers who ask these.

    python -m failover.failover --runs 200 [--faults kill,stop,cut,split] [--wait N]
        [--min-replicas-to-ack N] [--peer redis] [--seed N] [--logs DIR]    (in tests/)

Each run: the writers write, the primary is lost at a random moment, Sentinel promotes a replica,
the old primary comes back, and then all three have to have equal data. Told for each fault: writes
that were answered and are not there, and how long each client got no answer.

    kill    kill -9; it comes back without data
    stop    SIGSTOP, and SIGCONT after the failover
    cut     nobody reaches it for a while
    split   the same, but the writers do: who was connected goes on writing there

A writer adds 1, 2, 3, ... to a list of its own and sends no number twice, so that a list says what
is lost, and also whether something came twice or in another order. With `--wait N` a write counts
as answered if WAIT has said after it that N replicas have it. With `--logs DIR` the logs of the
servers and of the Sentinels are in DIR afterwards."""

import argparse
import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from failover.proxy import Proxy
from harness.ports import free_port
from harness.resp import OK, RespSocket
from harness.server import PATIENCE_S, Server, wait_until

NAME = "mymaster"
WRITER = "failover-writer"
FAULTS = ("kill", "stop", "cut", "split")
DOWN_AFTER_MS = 1000
ANSWER_S = 0.5  # then a writer believes that its primary is gone
FAILOVER_S = 3 * PATIENCE_S


class Node:
    """A server behind its proxy. `port`: where all know it."""

    def __init__(self, peer, flags):
        self.proxy = Proxy()
        self.port = self.proxy.port
        names = {"replica-announce-ip": "127.0.0.1", "replica-announce-port": self.port}
        names["repl-diskless-sync-delay"] = 0
        names["repl-backlog-size"] = "16mb"
        if peer == "redis":
            self.server = Server(reference=True, **names)
        else:
            names = {name.replace("-", "_"): value for name, value in names.items()}
            self.server = Server(proactor_threads=2, **names, **flags)
        self.proxy.upstream = self.server.port

    def ask(self, *command):
        """Not through the proxy. None: it does not answer, or Sentinel has killed the client."""
        try:
            with self.server.connect(timeout=PATIENCE_S) as c:
                return c.call(*command)
        except OSError:
            return None

    def replication(self):
        reply = self.ask("INFO", "replication")
        if not isinstance(reply, bytes):
            return {}
        lines = (line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
        return dict(lines)

    def end(self):
        self.proxy.close()
        self.server.stop()


class Cluster:
    """Node 0 is the first primary."""

    def __init__(self, directory, peer="ours", replicas=2, down_after_ms=DOWN_AFTER_MS, **flags):
        self.directory, self.replicas, self.down_after_ms = directory, replicas, down_after_ms
        self.nodes, self.sentinels, self.sentinel_ports = [], [], []
        try:
            self.nodes = [Node(peer, flags) for _ in range(1 + replicas)]
            for node in self.nodes[1:]:
                assert node.ask("REPLICAOF", "127.0.0.1", self.nodes[0].port) == OK
            wait_until(lambda: self.is_whole(self.nodes[0]), what="the links")
            for _ in range(3):
                self._start_sentinel()
            wait_until(lambda: all(map(self.knows_all, self.sentinel_ports)), what="the sentinels")
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.end() if kind is None else self.kill()

    def _start_sentinel(self):
        port = free_port()
        path = os.path.join(self.directory, f"sentinel-{port}.conf")
        with open(path, "w") as f:
            f.write(
                f"port {port}\nbind 127.0.0.1\ndir {self.directory}\n"
                f"logfile {self.directory}/sentinel-{port}.log\n"
                f"sentinel monitor {NAME} 127.0.0.1 {self.nodes[0].port} 2\n"
                f"sentinel down-after-milliseconds {NAME} {self.down_after_ms}\n"
                f"sentinel failover-timeout {NAME} 5000\nsentinel parallel-syncs {NAME} 2\n"
            )
        self.sentinel_ports.append(port)
        self.sentinels.append(subprocess.Popen(["redis-server", path, "--sentinel"]))

    def knows_all(self, port):
        """This Sentinel does, and has no failover under way."""
        try:
            with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
                reply = c.call("SENTINEL", "MASTER", NAME)
        except OSError:
            return False
        facts = dict(zip(reply[::2], reply[1::2]))
        return (
            facts[b"num-slaves"] == b"%d" % self.replicas
            and facts[b"num-other-sentinels"] == b"2"
            and facts[b"flags"] == b"master"
        )

    def primary_of(self, port):
        """The port that this Sentinel names."""
        try:
            with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
                return int(c.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])
        except OSError:
            return None

    def primary(self):
        """The node that all Sentinels name."""
        ports = {self.primary_of(port) for port in self.sentinel_ports}
        found = [node for node in self.nodes if ports == {node.port}]
        return found[0] if found else None

    def count_failovers(self):
        """So many have been, as far as the Sentinel that has seen most of them knows."""
        counts = []
        for port in self.sentinel_ports:
            with open(os.path.join(self.directory, f"sentinel-{port}.log"), "rb") as f:
                counts.append(f.read().count(b"+switch-master"))
        return max(counts)

    def is_whole(self, primary):
        """All others follow it, and have all that it has."""
        here = primary.replication()
        if here.get("role") != "master":
            return False
        for node in self.nodes:
            if node is primary:
                continue
            there = node.replication()
            follows = there.get("role") == "slave" and there["master_link_status"] == "up"
            if not follows or there["master_port"] != str(primary.port):
                return False
        return True

    def await_whole(self):
        """The primary that all Sentinels name and all others follow. After a failover it need not
        be the one that was promoted first: after one kill in some dozens all Sentinels take the new
        primary for down before they have asked it once (docs/high-availability.md)."""
        return wait_until(
            lambda: (node := self.primary()) and self.is_whole(node) and node,
            timeout_s=FAILOVER_S,
            what="a primary and two replicas",
        )

    def client(self, answer_s=ANSWER_S, **keywords):
        return Sentinel(
            [("127.0.0.1", port) for port in self.sentinel_ports],
            sentinel_kwargs={"socket_timeout": ANSWER_S},
            socket_timeout=answer_s,
            client_name=WRITER,
            retry=Retry(NoBackoff(), 0),
            **keywords,
        )

    def keep_logs(self, directory):
        os.makedirs(directory, exist_ok=True)
        for port in self.sentinel_ports:
            shutil.copy(os.path.join(self.directory, f"sentinel-{port}.log"), directory)
        for node in self.nodes:
            shutil.copy(node.server.log_path, os.path.join(directory, f"server-{node.port}.log"))

    def kill(self):
        for process in self.sentinels:
            process.kill()
            process.wait()
        for node in self.nodes:
            with contextlib.suppress(OSError):
                node.server.process.send_signal(signal.SIGCONT)
            node.server.kill()
            node.proxy.close()

    def end(self):
        for process in self.sentinels:
            process.kill()
            process.wait()
        for node in self.nodes:
            node.end()


class Writer(threading.Thread):
    def __init__(self, cluster, key, wait_for):
        super().__init__(daemon=True)
        self.cluster, self.key, self.wait_for = cluster, key, wait_for
        self.answered = {}  # number -> when, monotonic
        self.errors = {}
        self.ends = threading.Event()

    def run(self):
        number = 0
        master = self.cluster.client().master_for(NAME)
        while not self.ends.is_set():
            number += 1
            try:
                if self.write(master, number):
                    self.answered[number] = time.monotonic()
            except redis.RedisError as error:
                kind = f"{type(error).__name__}: {str(error).split(' ')[0]}"
                self.errors[kind] = self.errors.get(kind, 0) + 1
                master.connection_pool.reset()  # asks Sentinel anew
                self.ends.wait(0.02)
        master.connection_pool.reset()

    def write(self, master, number):
        if self.wait_for == 0:
            return master.rpush(self.key, number) > 0
        pipeline = master.pipeline(transaction=False)
        pipeline.rpush(self.key, number)
        pipeline.wait(self.wait_for, 1000)
        return pipeline.execute()[1] >= self.wait_for

    def outage_s(self, since):
        """The longest time without an answer, from shortly before `since` on."""
        times = [when for when in self.answered.values() if when > since - 1.0]
        return max((b - a for a, b in zip(times, times[1:])), default=float("inf"))


class Outcome:
    """Of one run."""

    def __init__(self, fault):
        self.fault = fault
        self.answered = 0
        self.lost = []  # (key, number)
        self.outages_s = []
        self.failovers = 0  # more than one: see Cluster.await_whole
        self.errors = {}


def lose(rng, fault, primary):
    """Returns what brings it back."""
    if fault == "kill":
        primary.server.kill()
        return lambda: primary.server.start_again(keeps_port=True)
    if fault == "stop":
        process = primary.server.process
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)
    primary.proxy.cut(spares=WRITER.encode() if fault == "split" else None)
    return primary.proxy.mend


def run_one(cluster, rng, fault, number, writers=6, wait_for=0):
    outcome = Outcome(fault)
    primary = cluster.await_whole()
    failovers = cluster.count_failovers()
    crew = [Writer(cluster, f"run{number}:{i}", wait_for) for i in range(writers)]
    for writer in crew:
        writer.start()
    try:
        wait_until(lambda: all(writer.answered for writer in crew), what="the first answers")
        time.sleep(rng.uniform(0.2, 1.0))
        lost_at = time.monotonic()
        bring_back = lose(rng, fault, primary)
        try:
            wait_until(
                lambda: (node := cluster.primary()) is not primary and node,
                timeout_s=FAILOVER_S,
                what="a failover",
            )
            switched_at = time.monotonic()
            if fault != "split":
                # There nobody sees that the old primary is none until it is demoted.
                await_answers(crew, switched_at)
        finally:
            bring_back()
        cluster.await_whole()
        await_answers(crew, time.monotonic())
    finally:
        for writer in crew:
            writer.ends.set()
        for writer in crew:
            writer.join()
    judge(cluster, cluster.await_whole(), crew, outcome)
    outcome.failovers = cluster.count_failovers() - failovers
    outcome.outages_s = [writer.outage_s(lost_at) for writer in crew]
    return outcome


def await_answers(crew, since):
    wait_until(
        lambda: all(max(writer.answered.values()) > since for writer in crew),
        timeout_s=FAILOVER_S,
        what="answers",
    )


def judge(cluster, primary, crew, outcome):
    for writer in crew:
        for kind, count in writer.errors.items():
            outcome.errors[kind] = outcome.errors.get(kind, 0) + count
        numbers = [int(n) for n in primary.ask("LRANGE", writer.key, 0, -1)]
        assert numbers == sorted(set(numbers)), f"{writer.key}: twice, or in another order"
        there = set(numbers)
        outcome.answered += len(writer.answered)
        outcome.lost += [(writer.key, n) for n in writer.answered if n not in there]
        expected = [b"%d" % n for n in numbers]
        for node in cluster.nodes:
            wait_until(
                lambda: node.ask("LRANGE", writer.key, 0, -1) == expected,
                what=f"equal data of {writer.key} at {node.port}",
            )
    sizes = {node.ask("DBSIZE") for node in cluster.nodes}
    assert len(sizes) == 1, sizes


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def report(outcomes):
    heads = f"{'fault':8}{'runs':>6}{'answered':>10}{'lost':>7}{'in runs':>9}"
    print(heads + "   outage p50, p99, max (s)")
    for fault in [*FAULTS, "all"]:
        some = [o for o in outcomes if fault in ("all", o.fault)]
        if not some:
            continue
        outages = [s for o in some for s in o.outages_s]
        print(
            f"{fault:8}{len(some):6}{sum(o.answered for o in some):10}"
            f"{sum(len(o.lost) for o in some):7}{sum(bool(o.lost) for o in some):9}   "
            f"{statistics.median(outages):.2f}, {quantile(outages, 0.99):.2f}, {max(outages):.2f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--wait", type=int, default=0)
    parser.add_argument("--min-replicas-to-ack", type=int, default=0)
    parser.add_argument("--peer", choices=("ours", "redis"), default="ours")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", default="")
    options = parser.parse_args()
    flags = {}
    if options.min_replicas_to_ack > 0:
        flags["min_replicas_to_ack"] = options.min_replicas_to_ack
    rng = random.Random(options.seed)
    faults = options.faults.split(",")
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="failover-") as directory:
        cluster = Cluster(directory, options.peer, **flags)
        try:
            for i in range(options.runs):
                fault = faults[i % len(faults)]
                outcome = run_one(cluster, rng, fault, i, wait_for=options.wait)
                outcomes.append(outcome)
                print(
                    f"{i}: {fault}, {outcome.answered} answered, {len(outcome.lost)} lost, outage "
                    f"{max(outcome.outages_s):.2f} s, {outcome.failovers} failovers, "
                    f"{outcome.errors}",
                    flush=True,
                )
        except BaseException:
            cluster.kill()
            report(outcomes)
            raise
        finally:
            if options.logs:
                cluster.keep_logs(options.logs)
        cluster.end()
    report(outcomes)
    is_synchronous = options.min_replicas_to_ack > 0
    return 1 if is_synchronous and any(outcome.lost for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
