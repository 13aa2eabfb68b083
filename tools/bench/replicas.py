#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replication of redis-server, Valkey and ours in turn, each with a replica of its own kind, on all
cores but where it says otherwise.

  primary    CPU of the primary for a SET with one replica, and its ratio to the same without. It
             has core 0 for itself; the load and the replica share core 1. The load has one rate
             for both (--set-rate at P1, four times that at P10), or the replica would slow it
             down, and the primary find fewer commands each time it looks
  replica    CPU of the replica for a SET that it carries out
  lag        how far a replica is behind, in MB of the stream, while 50 connections write with
             pipelines of 10 for --seconds: the median of the second half of the time; ours with
             two threads. Below: both halves, and until it had all
  copy       seconds of a full copy of --keys keys of 16+32 bytes; how much the primary grows
             (the others: with the child of their fork)
  latency during copies
             p99 of the probe (latency_probe.py) beside --rate GETs a second, while one copy follows
             the other, and its ratio to that without. The replica runs when no other process
             wants its core (SCHED_IDLE): it would be on another machine
  acks       SETs a second of 50 connections with min-replicas-to-ack 1, as a part of those without
             replicas; the others have no such setting, so their columns are 1. Below: the same part
             with a replica that nobody waits for, as it needs cores, too
  away       a replica is stopped for --away seconds of --rate SETs a second, with the log on: the
             seconds until it has all, and by how many full and partial copies. One round
"""

import contextlib
import os
import signal
import statistics
import subprocess
import threading
import time

import side_by_side
from compare import LOAD_CORE, SERVER_CORE, BenchError, Connection
from latency_probe import ReadLatency
from snapshots import CONNECTIONS, FreeServer

WRITERS = 50


class Node(FreeServer):
    def command_line(self):
        more = ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
        return [*super().command_line(), *more]

    def behind(self):
        """Bytes of the stream that its replica has not acknowledged."""
        info = self.info()
        fields = dict(field.split("=", 1) for field in info["slave0"].split(","))
        return int(info["master_repl_offset"]) - int(fields["offset"])

    def call(self, *words):
        c = Connection(self.port, 600)
        try:
            return c.call(*words)
        finally:
            c.close()

    def yield_to_others(self):
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))

    def follow(self, primary):
        """Seconds until it has a copy."""
        begin = time.monotonic()
        self.call("REPLICAOF", "127.0.0.1", str(primary.port))
        while self.info().get("master_link_status") != "up":
            if time.monotonic() > begin + 300:
                raise BenchError("no copy")
            time.sleep(0.01)
        return time.monotonic() - begin

    def await_replicas(self, count):
        if int(self.call("WAIT", str(count), "60000")) < count:
            raise BenchError("the replica does not catch up")

    def write(self, pipeline, count, rate=0):
        """SETs a second. `rate`: so many and no more, if they can be had."""
        each = ["-c", str(WRITERS), "-n", str(count // WRITERS)]
        pace = [f"--pipeline={pipeline}", f"--qps={rate // WRITERS}"]
        return self.load("--ratio=1:0", *each, *pace)["rps"]


@contextlib.contextmanager
def pair(kind, options, with_replica=True, threads=1):
    nodes = [Node(kind, options, threads=threads)]
    try:
        if with_replica:
            nodes.append(Node(kind, options, threads=threads))
            nodes[1].follow(nodes[0])
        yield nodes
    finally:
        for node in nodes:
            node.stop()


@contextlib.contextmanager
def apart(primary, others):
    """The primary has a core, and the load (children of this process) and the others have one."""
    before = os.sched_getaffinity(0)
    for process, core in [(primary, SERVER_CORE), *((other, LOAD_CORE) for other in others)]:
        pin = ["taskset", "-acp", str(core), str(process.process.pid)]
        subprocess.run(pin, check=True, capture_output=True)
    os.sched_setaffinity(0, {LOAD_CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_us(kind, options, pipeline, with_replica):
    """Of the primary and, if there is one, of the replica, for a SET."""
    rate = options.set_rate * (1 if pipeline == 1 else 4)
    with pair(kind, options, with_replica) as nodes, apart(nodes[0], nodes[1:]):
        nodes[0].write(pipeline, options.writes // 10, rate)
        before = [node.cpu_s() for node in nodes]
        nodes[0].write(pipeline, options.writes, rate)
        nodes[0].await_replicas(len(nodes) - 1)
        return [
            (node.cpu_s() - then) / options.writes * 1e6
            for node, then in zip(nodes, before, strict=True)
        ]


def lag_mb(kind, options, details):
    with pair(kind, options, threads=2) as (primary, replica):
        over = threading.Event()
        times = []

        def write():
            writes = ("--ratio=1:0", "-c", str(WRITERS), f"--test_time={options.seconds}")
            primary.load(*writes, "--pipeline=10")
            over.set()

        writer = threading.Thread(target=write)
        writer.start()
        while not over.wait(0.1):
            # It asks for an acknowledgement, which would come once a second.
            primary.call("WAIT", "1", "1")
            times.append(primary.behind() / 1e6)
        writer.join()
        begin = time.monotonic()
        primary.await_replicas(1)
        rest = time.monotonic() - begin
        if int(primary.info()["sync_full"]) != 1:
            raise BenchError("the replica was cut off")
        middle = len(times) // 2
        halves = [statistics.median(times[:middle]), statistics.median(times[middle:])]
        details.setdefault(kind, []).append(
            f"{halves[0]:.2f} -> {halves[1]:.2f} MB, at most {max(times):.1f}, {rest:.2f} s more"
        )
        return max(halves[1], 0.001)


def copy_seconds(kind, options, grown):
    primary, replica = Node(kind, options), Node(kind, options)
    try:
        primary.fill()
        before = primary.rss()
        most = [before]
        over = threading.Event()

        def watch():
            while not over.is_set():
                most[0] = max(most[0], primary.rss())
                time.sleep(0.01)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            seconds = replica.follow(primary)
        finally:
            over.set()
            watcher.join()
        more = most[0] - before
        if kind != "ours":
            more += int(primary.info().get("rdb_last_cow_size", 0))
        grown.setdefault(kind, []).append(round(more / 1e6))
        if int(replica.call("DBSIZE")) != int(primary.call("DBSIZE")):
            raise BenchError("the copy is not whole")
        return seconds
    finally:
        primary.stop()
        replica.stop()


def latency(kind, options, details):
    """Each copy is a full one: the replica has changed its data meanwhile."""
    primary, replica = Node(kind, options), Node(kind, options)
    over = threading.Event()
    copies = []

    def copy():
        while not over.is_set():
            replica.follow(primary)
            copies.append(1)
            replica.call("REPLICAOF", "NO", "ONE")
            replica.call("SET", "other", "1")

    try:
        primary.fill()
        replica.yield_to_others()
        without = ReadLatency(primary, options)
        copier = threading.Thread(target=copy)
        copier.start()
        try:
            during = ReadLatency(primary, options)
        finally:
            over.set()
            copier.join()
        if int(primary.info()["sync_full"]) < len(copies):
            raise BenchError("a copy was not a full one")
        details.setdefault(kind, []).append(
            f"p99 {without} -> {during} ms, {len(copies)} copies"
        )
        return during.probe / without.probe
    finally:
        primary.stop()
        replica.stop()


def away(kind, options, details):
    with pair(kind, options, threads=2) as (primary, replica):
        primary.call("CONFIG", "SET", "appendonly", "yes")
        before = primary.info()
        replica.process.send_signal(signal.SIGSTOP)
        try:
            rate = f"--qps={options.rate / CONNECTIONS}"
            primary.load("--ratio=1:0", rate, f"--test_time={options.away}")
        finally:
            replica.process.send_signal(signal.SIGCONT)
        begin = time.monotonic()
        end = int(primary.info()["master_repl_offset"])
        while (
            (info := replica.info()).get("master_link_status") != "up"
            or int(info["slave_repl_offset"]) < end
        ):
            if time.monotonic() > begin + 300:
                raise BenchError("the replica does not come back")
            time.sleep(0.02)
        seconds = time.monotonic() - begin
        after = primary.info()
        full, partial = (
            int(after[name]) - int(before[name]) for name in ("sync_full", "sync_partial_ok")
        )
        missed = end - int(before["master_repl_offset"])
        details.setdefault(kind, []).append(
            f"{missed / 1e6:.0f} MB of the stream, {full} full and {partial} partial copies"
        )
        return seconds


def acks(kind, options, pipeline, details):
    if kind != "ours":
        return 1
    with pair(kind, options, with_replica=False) as (primary,):
        without = primary.write(pipeline, options.writes)
    with pair(kind, options) as (primary, _):
        beside = primary.write(pipeline, options.writes) / without
        details.setdefault(kind, []).append(f"{beside:.2f} without waiting")
        primary.call("CONFIG", "SET", "min-replicas-to-ack", "1")
        return primary.write(pipeline, options.writes) / without


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--writes", type=int, default=1_000_000)
    parser.add_argument("--set-rate", type=int, default=40_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--away", type=int, default=600)
    options = parser.parse_args()
    options.dfly_bench = os.path.join(os.path.dirname(options.binary), "dfly_bench")
    if options.quick:
        options.keys, options.writes, options.seconds, options.away = 200_000, 100_000, 2, 5
    side_by_side.print_kinds(options, "replication")

    def row(name, measure, asked, rounds=options.rounds):
        if options.only in name:
            options.rounds = rounds
            details = {}
            side_by_side.print_row([name], lambda kind: measure(kind, details), asked, options, 2)
            for kind, lines in details.items():
                print(f"  {kind}: {'; '.join(map(str, lines))}")

    for pipeline in (1, 10):

        def primary(kind, details, pipeline=pipeline):
            without = cpu_us(kind, options, pipeline, False)[0]
            with_one, replica = cpu_us(kind, options, pipeline, True)
            details.setdefault(kind, []).append(
                f"{with_one / without:.2f} of without; replica {replica:.2f} us"
            )
            return with_one

        row(f"primary, us a SET, P{pipeline}", primary, 1)
        row(f"acks, part, P{pipeline}",
            lambda kind, details, pipeline=pipeline: acks(kind, options, pipeline, details), None)
    row("lag, MB", lambda kind, details: lag_mb(kind, options, details), None)
    row("copy, seconds, and MB more", lambda kind, details: copy_seconds(kind, options, details), 1)
    row("latency during copies, p99 with / without",
        lambda kind, details: latency(kind, options, details), None)
    row("away, seconds", lambda kind, details: away(kind, options, details), None, rounds=1)


if __name__ == "__main__":
    side_by_side.run("replicas", main)
