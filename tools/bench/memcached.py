#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of the server for each request of memcached's protocol: ours beside memcached.

    tools/bench/memcached.py [--binary build/release/dragonfly] [--rounds 3] [--seconds 2]

Both have one thread and are pinned to core 0, the load to core 1. They take turns; the ratio is the
median over the rounds. The load sends to all connections, then reads from all.
"""

import argparse
import os
import random
import socket
import statistics
import subprocess
import tempfile
import time

KEYS = 100_000
VALUE = b"v" * 64
LOADS = [  # name, connections, pipeline, kind
    ("get-c50", 50, 1, "get"),
    ("get-c50-p10", 50, 10, "get"),
    ("set-c50", 50, 1, "set"),
    ("set-c50-p10", 50, 10, "set"),
    ("get-c10-10keys", 10, 1, "multiget"),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, port):
    process = subprocess.Popen(
        ["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit(f"does not start: {command}")


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def set_of(i):
    return b"set key:%010d 0 0 %d\r\n%s\r\n" % (i, len(VALUE), VALUE)


def request(kind, draw):
    i = draw.randrange(KEYS)
    if kind == "set":
        return set_of(i), len(b"STORED\r\n")
    count = 10 if kind == "multiget" else 1
    item = len(b"VALUE key:0000000000 0 64\r\n") + len(VALUE) + 2
    keys = b" ".join(b"key:%010d" % draw.randrange(KEYS) for _ in range(count))
    return b"get " + keys + b"\r\n", count * item + len(b"END\r\n")


def read(sock, size):
    while size > 0:
        got = len(sock.recv(min(size, 1 << 20)))
        assert got > 0, "the server has closed the connection"
        size -= got


def fill(port):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for begin in range(0, KEYS, 100):
            sock.sendall(b"".join(set_of(i) for i in range(begin, begin + 100)))
            read(sock, 100 * len(b"STORED\r\n"))


def measure(process, port, connections, pipeline, kind, seconds):
    """Microseconds of CPU for each request."""
    draw = random.Random(1)
    ready = []
    for _ in range(2000):
        parts = [request(kind, draw) for _ in range(pipeline)]
        ready.append((b"".join(p[0] for p in parts), sum(p[1] for p in parts)))
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    requests, at = 0, 0
    before, end = cpu_seconds(process.pid), time.monotonic() + seconds
    while time.monotonic() < end:
        sizes = []
        for sock in socks:
            data, size = ready[at]
            at = (at + 1) % len(ready)
            sock.sendall(data)
            sizes.append(size)
        for sock, size in zip(socks, sizes):
            read(sock, size)
        requests += connections * pipeline
    used = cpu_seconds(process.pid) - before
    for sock in socks:
        sock.close()
    return used / requests * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="build/release/dragonfly")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    ports = {"memcached": free_port(), "ours": free_port()}
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    address = ["-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "1024"]
    servers = {
        "memcached": ["memcached", *user, *address, "-p", str(ports["memcached"])],
        "ours": [
            options.binary,
            f"--port={free_port()}",
            f"--memcached_port={ports['ours']}",
            "--proactor_threads=1",
            "--dbfilename=",
            f"--dir={tempfile.mkdtemp()}",
        ],
    }
    running = {name: start(command, ports[name]) for name, command in servers.items()}
    try:
        for port in ports.values():
            fill(port)
        print("| load | memcached, us/request | ours, us/request | ratio (rounds) |")
        print("| --- | --- | --- | --- |")
        for name, connections, pipeline, kind in LOADS:
            used = {"memcached": [], "ours": []}
            for r in range(options.rounds):
                order = list(used) if r % 2 == 0 else list(used)[::-1]
                for who in order:
                    used[who].append(
                        measure(
                            running[who], ports[who], connections, pipeline, kind, options.seconds
                        )
                    )
            ratios = [o / m for o, m in zip(used["ours"], used["memcached"])]
            print(
                f"| {name} | {statistics.median(used['memcached']):.2f} "
                f"| {statistics.median(used['ours']):.2f} | **{statistics.median(ratios):.2f}** "
                f"({min(ratios):.2f}-{max(ratios):.2f}) |"
            )
    finally:
        for process in running.values():
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
