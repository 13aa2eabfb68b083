#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an idle server costs: wake-ups and CPU of all its threads, with idle connections and with
keys that have deadlines, from /proc. For redis-server as well, if it is installed.

  tools/bench/idle.py [--connections 1000] [--keys 10000] [--threads 4] [--seconds 20]
"""

import argparse
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def connect(port):
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def wakeups(pid):
    """Voluntary context switches: a thread that sleeps, and wakes up."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(name, command, port, args):
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            clients = [connect(port) for _ in range(args.connections)]
            with connect(port) as c:
                reader = c.makefile("rb")
                for i in range(args.keys):
                    c.sendall(b"SET key:%d value EX %d\r\n" % (i, 3600 + i))
                    assert reader.readline() == b"+OK\r\n"
            time.sleep(2)
            wakeups_before, cpu_before = wakeups(process.pid), cpu_seconds(process.pid)
            time.sleep(args.seconds)
            per_second = (wakeups(process.pid) - wakeups_before) / args.seconds
            cpu = (cpu_seconds(process.pid) - cpu_before) / args.seconds
            print(f"| {name} | {per_second:.1f} | {cpu * 100:.2f} % |", flush=True)
            for client in clients:
                client.close()
        finally:
            process.terminate()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=ROOT / "build/release/dragonfly")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    print(f"{args.connections} idle connections, {args.keys} keys that expire in an hour or later")
    print("\n| server | wake-ups a second | CPU of one core |\n| --- | ---: | ---: |")
    for loop in ("io_uring", "epoll"):
        port = free_port()
        measure(f"dragonfly, {args.threads} threads, {loop}",
                [str(pathlib.Path(args.binary).resolve()), "--bind=127.0.0.1", f"--port={port}",
                 f"--proactor_threads={args.threads}", "--dbfilename=", "--save=",
                 f"--force_epoll={str(loop == 'epoll').lower()}"], port, args)  # fmt: skip
    if redis := shutil.which("redis-server"):
        port = free_port()
        command = [redis, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        measure("redis-server", command, port, args)


if __name__ == "__main__":
    main()
