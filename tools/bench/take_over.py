#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long clients wait when a new process takes over from an old one (docs/upgrading.md).

tools/bench/take_over.py [--keys N] [--runs N] [--clients N] [--binary PATH]

Clients write without a pause, one command at a time, and connect again when they have to. The wait
of a run is the longest time between two answers of one client. Prints a table in Markdown.
"""

import argparse
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = {
    "no log": [],
    "appendfsync everysec": ["--appendonly=yes", "--appendfsync=everysec"],
    "appendfsync always": ["--appendonly=yes", "--appendfsync=always"],
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Client(threading.Thread):
    """The longest wait since the last look."""

    def __init__(self, port, number):
        super().__init__(daemon=True)
        self.port, self.ends, self.longest = port, False, 0.0
        key = b"client:%d" % number
        self.command = b"*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n" % (len(key), key)

    def run(self):
        last = time.monotonic()
        while not self.ends:
            try:
                with socket.create_connection(("127.0.0.1", self.port)) as s:
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    while not self.ends:
                        s.sendall(self.command)
                        reply = s.recv(100)
                        if not reply.startswith(b":"):
                            break
                        now = time.monotonic()
                        self.longest = max(self.longest, now - last)
                        last = now
            except ConnectionError:
                pass


def ask(port, *words):
    text = b"*%d\r\n" % len(words)
    for word in words:
        text += b"$%d\r\n%s\r\n" % (len(word), word.encode())
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(text)
        return s.recv(1000)


def measure(args, flags):
    waits, totals = [], []
    with tempfile.TemporaryDirectory() as folder:
        port, pid = free_port(), os.path.join(folder, "pid")
        line = [args.binary, f"--port={port}", f"--dir={folder}", f"--pidfile={pid}", "--save="]
        line += ["--logfile=log", "--enable_debug_command=yes", "--maxmemory=0", *flags]
        process = subprocess.Popen(line)
        while True:
            try:
                if ask(port, "PING").startswith(b"+PONG"):
                    break
            except OSError:
                time.sleep(0.01)
        assert ask(port, "DEBUG", "POPULATE", str(args.keys), "key", "64").startswith(b"+OK")
        clients = [Client(port, i) for i in range(args.clients)]
        for client in clients:
            client.start()
        time.sleep(1)
        for _ in range(args.runs):
            for client in clients:
                client.longest = 0.0
            begin = time.monotonic()
            new = subprocess.Popen([*line, f"--take_over={pid}"])
            assert process.wait() == 0
            totals.append(time.monotonic() - begin)
            process = new
            time.sleep(1)
            waits.append(max(client.longest for client in clients))
        for client in clients:
            client.ends = True
        for client in clients:
            client.join()
        process.terminate()
        process.wait()
    return waits, totals


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "release", "dragonfly"))
    args = parser.parse_args()
    print("| log | longest wait of a client, median ms | most ms | all of it, median s |")
    print("| --- | --- | --- | --- |")
    for name, flags in LOGS.items():
        waits, totals = measure(args, flags)
        print(
            f"| {name} | {statistics.median(waits) * 1000:.0f} | {max(waits) * 1000:.0f} | "
            f"{statistics.median(totals):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
