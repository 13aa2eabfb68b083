#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The append-only log beside other work: redis-server, Valkey and ours in turn, on all cores.

  load       seconds from the start of the process until it serves: a base of --keys keys of 16+32
             bytes, and as many SETs of random keys behind it; ours with two threads
  rewrite    seconds of BGREWRITEAOF of --keys keys while --rate SETs a second come in, and the most
             that the process grows by (redis-server: what copy-on-write cost, as it tells)
  reads      p99 of the probe (latency_probe.py) beside --rate GETs a second, while 50 connections
             write as fast as they can with appendfsync always; ratio to the same without a log
  reads while a rewrite runs
             the same with --rate SETs a second and one rewrite after another; ratio to without
"""

import contextlib
import os
import statistics
import threading
import time

import side_by_side
from compare import BenchError, Connection
from latency_probe import ReadLatency
from snapshots import CONNECTIONS, FreeServer

WRITERS = 50


class LogServer(FreeServer):
    folder = "."  # on a disk, where temporary files may not be

    def __init__(self, kind, options, policy="everysec"):
        log = ["--appendonly", "yes", "--appendfsync", policy] if policy else []
        self.log_flags = [*log, "--auto-aof-rewrite-percentage", "0"]
        super().__init__(kind, options)

    def command_line(self):
        return [*super().command_line(), "--bind", "127.0.0.1", *self.log_flags]

    def rewrite(self):
        """Seconds."""
        begin = time.monotonic()
        c = Connection(self.port, 600)
        c.call("BGREWRITEAOF")
        while b"aof_rewrite_in_progress:1" in c.call("INFO", "persistence"):
            time.sleep(0.02)
        if b"aof_last_bgrewrite_status:ok" not in c.call("INFO", "persistence"):
            raise BenchError("the rewrite failed")
        c.close()
        return time.monotonic() - begin

    def write_all_the_time(self, seconds):
        self.load("--ratio=1:0", "-c", str(WRITERS), f"--test_time={seconds}")


@contextlib.contextmanager
def filled(kind, options, **more):
    server = LogServer(kind, options, **more)
    try:
        server.fill()
        yield server
    finally:
        server.stop()


def load_seconds(kind, options):
    with filled(kind, options) as server:
        server.rewrite()
        each = str(options.keys // CONNECTIONS)
        server.load("--ratio=1:0", "-n", each, "--pipeline=50")
        time.sleep(1.5)  # everysec: until it is all in the file
        return server.start_again()


def rewrite(kind, options, grown):
    with filled(kind, options) as server:
        before = server.rss()
        most = [before]
        over = threading.Event()

        def watch():
            while not over.wait(0.01):
                most[0] = max(most[0], server.rss())

        rate = f"--qps={options.rate / CONNECTIONS}"
        arguments = ("--ratio=1:0", rate, f"--test_time={options.seconds}")
        threads = [
            threading.Thread(target=server.load, args=arguments),
            threading.Thread(target=watch),
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        seconds = server.rewrite()
        over.set()
        for thread in threads:
            thread.join()
        bytes_grown = most[0] - before
        if kind != "ours":
            bytes_grown = int(server.info()["aof_last_cow_size"])
        grown.setdefault(kind, []).append(bytes_grown / 2**20)
        return seconds


def latency_beside_writers(kind, options, policy):
    with filled(kind, options, policy=policy) as server:
        # Longer than the reads take: they are what is measured.
        writer = threading.Thread(target=server.write_all_the_time, args=(options.seconds + 2,))
        writer.start()
        time.sleep(1)
        latency = ReadLatency(server, options)
        writer.join()
        return latency


def reads(kind, options, details):
    pair = [latency_beside_writers(kind, options, policy) for policy in ("", "always")]
    details.setdefault(kind, []).append(pair)
    return pair[1].probe / pair[0].probe


def reads_while_rewriting(kind, options, details):
    with filled(kind, options) as server:
        over = threading.Event()

        def write():
            rate = f"--qps={options.write_rate / CONNECTIONS}"
            while options.write_rate and not over.is_set():
                server.load("--ratio=1:0", rate, "--test_time=1")

        def rewrite_again():
            while not over.is_set():
                server.rewrite()

        writer = threading.Thread(target=write)
        writer.start()
        without = ReadLatency(server, options)
        rewriter = threading.Thread(target=rewrite_again)
        rewriter.start()
        during = ReadLatency(server, options)
        over.set()
        writer.join()
        rewriter.join()
        details.setdefault(kind, []).append([without, during])
        return during.probe / without.probe


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--write_rate", type=int, help="beside a rewrite; --rate if not given")
    parser.add_argument("--seconds", type=int, default=8)
    options = parser.parse_args()
    if options.write_rate is None:
        options.write_rate = options.rate
    options.dfly_bench = os.path.join(os.path.dirname(options.binary), "dfly_bench")
    if options.quick:
        options.keys, options.seconds = 200_000, 2
    side_by_side.print_kinds(options, "log")
    row = side_by_side.print_row
    if options.only in "load":
        row(["load, seconds"], lambda kind: load_seconds(kind, options), 0.33, options, 2)
    if options.only in "rewrite":
        grown = {}
        row(["rewrite, seconds"], lambda kind: rewrite(kind, options, grown), None, options, 2)
        print("  MB more:", {kind: round(statistics.median(mb)) for kind, mb in grown.items()})
    for name, measure in (("reads", reads), ("reads while a rewrite runs", reads_while_rewriting)):
        if options.only in name:
            details = {}
            row([f"{name}: p99 with / without"], lambda kind: measure(kind, options, details), None,
                options, 2)
            for kind, pairs in details.items():
                texts = [f"{a} -> {b}" for a, b in pairs]
                print(f"  p99 in ms, {kind}: {', '.join(texts)}")


if __name__ == "__main__":
    side_by_side.run("log_work", main)
