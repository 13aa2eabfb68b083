#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --huge_pages costs and saves: CPU of the server for each request without it, with it while
the pages are made, and with it when they are.

Servers, loads and the way CPU time is measured are those of compare.py. The server has one core
with all its threads, so the thread that makes the pages counts, too. "made" is when huge_page_bytes
of INFO has not grown for half a minute.
"""

import argparse
import os
import statistics
import time

import compare as bench
import side_by_side

LOADS = {
    "GET": ("get", 50, 1, 0.2),
    "P10": ("get", 50, 10, 1.0),
    "P100": ("get", 50, 100, 2.0),
    "SET P10": ("set", 50, 10, 1.0),
    "1 connection P30": ("get", 1, 30, 1.0),
}
STATES = ("without", "while they are made", "made")


def huge_bytes(connection):
    rows = connection.call("INFO", "memory").decode().split()
    return int(next(row for row in rows if row.startswith("huge_page_bytes:")).split(":")[1])


def wait_until_made(connection):
    size, unchanged = huge_bytes(connection), 0
    while unchanged < 30:
        time.sleep(1)
        now = huge_bytes(connection)
        size, unchanged = now, unchanged + 1 if now <= size else 0


def measure_loads(server, options):
    return [bench.measure(server, shape, options)["cpu_us"] for shape in LOADS.values()]


def measure_round(is_wanted, options):
    """{state: (figures of LOADS, MB in huge pages at the end, MB of the process)}"""
    options.server_flag = ["--huge_pages" if is_wanted else "--nohuge_pages"]
    with bench.running("ours", 1, options) as server:
        c = bench.Connection(server.port)
        c.fill(options.keys, bench.key_format(options), bench.VALUE_BYTES)

        def of_state():
            figures = measure_loads(server, options)
            return figures, huge_bytes(c) >> 20, server.rss() >> 20

        if not is_wanted:
            return {STATES[0]: of_state()}
        during = of_state()
        wait_until_made(c)
        return {STATES[1]: during, STATES[2]: of_state()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    release = os.path.join(bench.ROOT, "build/release")
    parser.add_argument("--binary", type=os.path.abspath, default=f"{release}/dragonfly")
    parser.add_argument("--dfly-bench", type=os.path.abspath, default=f"{release}/dfly_bench")
    parser.add_argument("--keys", type=int, default=8_000_000, help="of 64 bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1_000_000, help="of each load, about")
    options = parser.parse_args()
    options.load, options.deadline = "dfly_bench", 180
    rounds = []
    for number in range(options.rounds):
        turns = (False, True) if number % 2 == 0 else (True, False)
        rounds.append({k: v for turn in turns for k, v in measure_round(turn, options).items()})
    side_by_side.print_names("state", *LOADS, "MB in huge pages", "MB of the process")
    for state in STATES:
        cells = []
        for column in range(len(LOADS)):
            figures = [figure[state][0][column] for figure in rounds]
            ratios = [f / figure[STATES[0]][0][column] for f, figure in zip(figures, rounds)]
            spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
            cell = f"{statistics.median(figures):.3f}, **{statistics.median(ratios):.2f}** {spread}"
            cells.append(cell)
        sizes = [statistics.median(figure[state][i] for figure in rounds) for i in (1, 2)]
        print(f"| {state} | {' | '.join(cells)} | {sizes[0]:,} | {sizes[1]:,} |", flush=True)


if __name__ == "__main__":
    side_by_side.run("huge_pages", main)
