#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the number of threads costs: CPU of the server for each GET, on one core, with 1 to 32
threads, as a ratio to one thread; and how long a server with 64 takes until it answers, and what it
does when nobody asks.

All threads share a core, so each that is more is only a cost: of messages, and of switches.
Servers, loads and the way CPU time is measured are those of compare.py; the rounds of all
alternate.
"""

import argparse
import os
import statistics
import time

import compare as bench
import idle
import side_by_side

LOADS = {
    "GET, 50 connections": ("get", 50, 1, 0.25),
    "pipelines of 10": ("get", 50, 10, 1.0),
    "pipelines of 100": ("get", 50, 100, 2.0),
}
ASKED = {"GET, 50 connections": 1.25, "pipelines of 100": 1.5}
MANY = 64


def measure_loads(options):
    counts = [int(word) for word in options.threads.split(",")]
    shapes = list(LOADS.values())
    rounds = [
        {count: bench.measure_round("ours", count, shapes, options) for count in counts}
        for _ in range(options.rounds)
    ]
    side_by_side.print_names("threads", *(f"{name}: us, ratio (rounds)" for name in LOADS))
    for count in counts:
        cells = []
        for name, shape in LOADS.items():
            figures = [figure[count][shape]["cpu_us"] for figure in rounds]
            ratios = [f / figure[counts[0]][shape]["cpu_us"] for f, figure in zip(figures, rounds)]
            ratio = statistics.median(ratios)
            missed = " missed" if ratio > ASKED.get(name, ratio) else ""
            spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
            cells.append(f"{statistics.median(figures):.2f}, **{ratio:.2f}** {spread}{missed}")
        print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


def measure_start(options):
    begin = time.monotonic()
    server = bench.Server("ours", MANY, options)
    try:
        print(f"\n{MANY} threads answer after {time.monotonic() - begin:.2f} s; ", end="")
        time.sleep(20)  # until what the start has used is given back
        woken, cpu = idle.wakeups(server.process.pid), idle.cpu_seconds(server.process.pid)
        time.sleep(10)
        woken = (idle.wakeups(server.process.pid) - woken) / 10
        cpu = (idle.cpu_seconds(server.process.pid) - cpu) / 10
        print(f"when nobody asks they wake {woken:.1f} times a second and take {cpu:.2%} of a core")
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    binary = os.path.join(bench.ROOT, "build/release/dragonfly")
    parser.add_argument("--binary", type=os.path.abspath, default=binary)
    parser.add_argument("--threads", default="1,2,4,8,16,32", help="the first is compared with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=500_000, help="of each load, about")
    options = parser.parse_args()
    options.keys, options.load = 1_000_000, "redis-benchmark"
    options.deadline, options.server_flag = 180, []
    measure_loads(options)
    measure_start(options)


if __name__ == "__main__":
    side_by_side.run("threads", main)
