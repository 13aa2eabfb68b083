#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replication of redis-server and ours in turn, each with a replica of its own kind, on all cores.

  primary    CPU of the primary for a SET with one replica, and its ratio to the same without
  replica    CPU of the replica for a SET that it carries out
  copy       seconds of a full copy of --keys keys of 16+32 bytes; how much the primary grows
             (redis-server: with the child of its fork)
  acks       SETs a second of 50 connections with min-replicas-to-ack 1, as a part of those without
             replicas; redis-server has no such setting, so its column is 1
"""

import contextlib
import os
import statistics
import threading
import time

import side_by_side
from compare import BenchError, Connection
from snapshots import FreeServer

WRITERS = 50


class Node(FreeServer):
    def command_line(self):
        more = ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
        return [*super().command_line(), *more]

    def call(self, *words):
        c = Connection(self.port, 600)
        try:
            return c.call(*words)
        finally:
            c.close()

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

    def write(self, pipeline, count):
        """SETs a second."""
        each = str(count // WRITERS)
        found = self.load("--ratio=1:0", "-c", str(WRITERS), "-n", each, f"--pipeline={pipeline}")
        return found["rps"]


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


def cpu_us(kind, options, pipeline, with_replica):
    """Of the primary and, if there is one, of the replica, for a SET."""
    with pair(kind, options, with_replica) as nodes:
        nodes[0].write(pipeline, options.writes // 10)
        before = [node.cpu_s() for node in nodes]
        nodes[0].write(pipeline, options.writes)
        nodes[0].await_replicas(len(nodes) - 1)
        return [
            (node.cpu_s() - then) / options.writes * 1e6
            for node, then in zip(nodes, before, strict=True)
        ]


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
        if kind == "redis":
            more += int(primary.info().get("rdb_last_cow_size", 0))
        grown.setdefault(kind, []).append(more / 1e6)
        if int(replica.call("DBSIZE")) != int(primary.call("DBSIZE")):
            raise BenchError("the copy is not whole")
        return seconds
    finally:
        primary.stop()
        replica.stop()


def acks(kind, options, pipeline):
    if kind == "redis":
        return 1
    with pair(kind, options, with_replica=False) as (primary,):
        without = primary.write(pipeline, options.writes)
    with pair(kind, options) as (primary, _):
        primary.call("CONFIG", "SET", "min-replicas-to-ack", "1")
        return primary.write(pipeline, options.writes) / without


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--writes", type=int, default=1_000_000)
    options = parser.parse_args()
    options.dfly_bench = os.path.join(os.path.dirname(options.binary), "dfly_bench")
    if options.quick:
        options.keys, options.writes = 200_000, 100_000
    side_by_side.print_head("replication", "redis-server", "ours")
    row = side_by_side.print_row
    for pipeline in (1, 10):
        shares, replicas = {}, {}

        def primary(kind, pipeline=pipeline, shares=shares, replicas=replicas):
            without = cpu_us(kind, options, pipeline, False)[0]
            with_one, replica = cpu_us(kind, options, pipeline, True)
            shares.setdefault(kind, []).append(with_one / without)
            replicas.setdefault(kind, []).append(replica)
            return with_one

        if options.only in "primary":
            row([f"primary, us a SET, P{pipeline}"], primary, 1, options, 2)
            for kind, all_shares in shares.items():
                share, replica = statistics.median(all_shares), statistics.median(replicas[kind])
                print(f"  {kind}: {share:.2f} of without a replica; replica {replica:.2f} us")
        if options.only in "acks":
            row([f"acks, part, P{pipeline}"], lambda kind: acks(kind, options, pipeline), None,
                options, 2)
    if options.only in "copy":
        grown = {}
        row(["copy, seconds"], lambda kind: copy_seconds(kind, options, grown), 1, options, 2)
        sizes = {kind: statistics.median(all_mb) for kind, all_mb in grown.items()}
        print(f"  MB more: redis-server {sizes['redis']:.0f}, ours {sizes['ours']:.0f}")


if __name__ == "__main__":
    side_by_side.run("replicas", main)
