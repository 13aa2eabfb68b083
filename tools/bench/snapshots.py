#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of redis-server and ours in turn: what saving and loading --keys keys of 16+32 bytes
costs, and what others notice of it. Both servers may use all cores; redis-server's fork counts.

  save       CPU seconds of BGSAVE, and how long it takes; files as each server writes them
             (redis-server: RDB, strings compressed; ours: DFS with LZ4), and RDB from both
  load       seconds from the start of the process until it serves, ours with two threads
  latency    p99 of GETs and of SETs at --rate requests a second, in all, without a save and with
             one after another; their ratio
  memory     the most that the process grows by while it saves and --rate keys a second are written
             (redis-server: what copy-on-write cost, as it tells)
"""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time

import side_by_side
from compare import BenchError, Connection, Server, free_port

VALUE_BYTES = 32
CONNECTIONS = 20


class FreeServer(Server):
    """On all cores, and it may be killed and started again on its files."""

    folder = None  # where its files are; None: where temporary files are

    def __init__(self, kind, options, threads=2, flags=()):
        self.kind = kind
        self.flags = list(flags)
        self.threads = threads
        self.binary = options.binary
        self.options = options
        self.dir = None
        self.loads = itertools.count()
        self.start()

    def start(self):
        self.dir = self.dir or tempfile.mkdtemp(prefix="dfly-bench-", dir=self.folder)
        self.port = free_port()
        self.log = open(os.path.join(self.dir, "log"), "ab")
        self.process = subprocess.Popen(self.command_line(), stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 300
        while True:
            with contextlib.suppress(OSError, BenchError):
                c = Connection(self.port, 60)
                c.call("PING")  # an error while it loads
                c.close()
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{self.kind} did not start; see {self.log.name}")
            time.sleep(0.01)

    def command_line(self):
        if self.kind != "ours":
            binary = "redis-server" if self.kind == "redis" else self.options.valkey
            line = [binary, "--port", str(self.port), "--save", "", "--dir", self.dir]
            return [*line, *self.flags]
        line = [self.binary, f"--port={self.port}", "--save=", "--logtostderr"]
        return [*line, f"--proactor_threads={self.threads}", f"--dir={self.dir}", *self.flags]

    def start_again(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        begin = time.monotonic()
        self.start()
        return time.monotonic() - begin

    def info(self):
        c = Connection(self.port)
        text = c.call("INFO", "everything").decode()
        c.close()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def cpu_s(self):
        """Of the process, and of its children that have ended."""
        info = self.info()
        names = ("used_cpu_user", "used_cpu_sys", "used_cpu_user_children", "used_cpu_sys_children")
        return sum(float(info[name]) for name in names)

    def save(self, *words):
        """Seconds."""
        c = Connection(self.port, 600)
        begin = time.monotonic()
        c.call("BGSAVE", *words)
        while b"rdb_bgsave_in_progress:1" in c.call("INFO", "persistence"):
            time.sleep(0.02)
        if b"rdb_last_bgsave_status:ok" not in c.call("INFO", "persistence"):
            raise BenchError("the save failed")
        c.close()
        return time.monotonic() - begin

    def load(self, *arguments):
        line = [self.options.dfly_bench, "-h", "127.0.0.1", "-p", str(self.port)]
        line += ["--proactor_threads=1", "-c", str(CONNECTIONS), "-d", str(VALUE_BYTES)]
        line += ["--key_prefix=key:12345:", "--key_minimum=1000000"]
        line += [f"--key_maximum={1_000_000 + self.options.keys - 1}"]
        # Of this load: others may run beside it.
        out = os.path.join(self.dir, f"bench-{next(self.loads)}.json")
        p = subprocess.run(
            [*line, *arguments, f"--json_out_file={out}"], capture_output=True, text=True
        )
        if p.returncode != 0:
            raise BenchError(p.stdout[-500:] + p.stderr[-500:])
        with open(out) as f:
            return json.load(f)

    def fill(self):
        each = self.options.keys // CONNECTIONS
        self.load("--ratio=1:0", "--key_dist=S", "-n", str(each), "--pipeline=50")
        c = Connection(self.port)
        if int(c.call("DBSIZE")) != each * CONNECTIONS:
            raise BenchError("not every key is there")
        c.close()


@contextlib.contextmanager
def filled(kind, options, **more):
    server = FreeServer(kind, options, **more)
    try:
        server.fill()
        yield server
    finally:
        server.stop()


def save_cpu(kind, words, options, took):
    with filled(kind, options) as server:
        before = server.cpu_s()
        took.setdefault(kind, []).append(server.save(*(words if kind == "ours" else ())))
        return server.cpu_s() - before


def load_seconds(kind, words, options):
    with filled(kind, options) as server:
        server.save(*(words if kind == "ours" else ()))
        return server.start_again()


@contextlib.contextmanager
def saving_all_the_time(server, saves):
    over = threading.Event()

    def save():
        while not over.is_set():
            server.save()
            saves.append(1)

    thread = threading.Thread(target=save)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def p99_ms(server, ratio, options):
    report = server.load(
        f"--ratio={ratio}", f"--qps={options.rate / CONNECTIONS}", f"--test_time={options.seconds}"
    )
    return report["latency_us"]["p99"] / 1000


def latency(kind, ratio, options, details):
    with filled(kind, options) as server:
        without = p99_ms(server, ratio, options)
        saves = []
        with saving_all_the_time(server, saves):
            with_saves = p99_ms(server, ratio, options)
        details.setdefault(kind, []).append((without, with_saves))
        return with_saves / without


def memory_mb(kind, options):
    with filled(kind, options) as server:
        before = server.rss()
        most = [before]
        over = threading.Event()

        def watch():
            while not over.is_set():
                most[0] = max(most[0], server.rss())
                time.sleep(0.01)

        watcher = threading.Thread(target=watch)
        rate = f"--qps={options.rate / CONNECTIONS}"
        arguments = ("--ratio=1:0", rate, f"--test_time={options.seconds}")
        writer = threading.Thread(target=server.load, args=arguments)
        writer.start()
        time.sleep(0.5)
        watcher.start()
        server.save()
        over.set()
        watcher.join()
        writer.join()
        if kind != "ours":
            return int(server.info()["rdb_last_cow_size"]) / 2**20, before / 2**20
        return (most[0] - before) / 2**20, before / 2**20


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=8)
    options = parser.parse_args()
    options.dfly_bench = os.path.join(os.path.dirname(options.binary), "dfly_bench")
    if options.quick:
        options.keys, options.seconds = 200_000, 1
    side_by_side.print_kinds(options, "load")
    for name, words in (("save, CPU seconds", ()), ("save as RDB, CPU seconds", ("RDB",))):
        if options.only in name:
            took = {}
            side_by_side.print_row(
                [name], lambda kind: save_cpu(kind, words, options, took), 0.8, options, 2
            )
            seconds = {kind: round(statistics.median(times), 2) for kind, times in took.items()}
            print(f"  seconds: {seconds}")
    loads = (("load, seconds", (), 0.5), ("load of RDB, seconds", ("RDB",), None))
    for name, words, asked in loads:
        if options.only in name:
            side_by_side.print_row(
                [name], lambda kind: load_seconds(kind, words, options), asked, options, 2
            )
    for name, ratio in (("latency of GET: p99 with saves / without", "0:1"),
                        ("latency of SET: p99 with saves / without", "1:0")):
        if options.only in name:
            details = {}
            side_by_side.print_row(
                [name], lambda kind: latency(kind, ratio, options, details), None, options, 2
            )
            for kind, pairs in details.items():
                texts = [f"{a:.2f} -> {b:.2f}" for a, b in pairs]
                print(f"  p99 in ms, {kind}: {', '.join(texts)}")
    if options.only in "memory, MB":
        sizes = {}

        def memory(kind):
            grown, before = memory_mb(kind, options)
            sizes.setdefault(kind, []).append(before)
            return max(grown, 0.01)

        side_by_side.print_row(["memory, MB"], memory, None, options, 1)
        for kind, before in sizes.items():
            print(f"  before, MB, {kind}: {statistics.median(before):.0f}")


if __name__ == "__main__":
    side_by_side.run("snapshots", main)
