#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What long scripts do to others: how long a PING waits while one or several run for --seconds, on
a server with one thread; and how much sooner two of them end on two threads than one after the
other.

Waiting times are of the wall clock: on a machine that others use, the worst ones are theirs.
"""

import os
import statistics
import sys
import threading
import time

import side_by_side
from compare import LOAD_CORE, SERVER_CORE, Connection, running

SCRIPT = "for i = 1, tonumber(ARGV[1]) do redis.call('incr', KEYS[1]) end"
ASKED_MS = 5


def evaluate(port, key, rounds, options):
    """Seconds that the script took."""
    c = Connection(port, 20 * options.seconds)
    begin = time.monotonic()
    c.call("EVAL", SCRIPT, "1", key, str(rounds))
    c.close()
    return time.monotonic() - begin


def rounds_for(port, seconds, options):
    """So many take that long on a thread of their own."""
    for _ in range(4):  # the first runs are watched
        evaluate(port, "warm", 1000, options)
    rounds = 200_000
    return int(rounds * seconds / evaluate(port, "warm", rounds, options))


def run_all(port, keys, rounds, options):
    """Scripts at once; seconds until the last has ended."""
    threads = [threading.Thread(target=evaluate, args=(port, key, rounds, options)) for key in keys]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.monotonic() - begin


def ping_waits(scripts, options):
    """Waits of PINGs in ms while that many scripts run, and for how long they do."""
    with running("ours", 1, options) as server:
        rounds = rounds_for(server.port, options.seconds / scripts, options)
        keys = [f"k{i}" for i in range(scripts)]
        took = []
        scripts_run = threading.Thread(
            target=lambda: took.append(run_all(server.port, keys, rounds, options))
        )
        pings = Connection(server.port, 20)
        scripts_run.start()
        time.sleep(0.05)
        waits = []
        while scripts_run.is_alive():
            begin = time.monotonic()
            pings.call("PING")
            waits.append((time.monotonic() - begin) * 1000)
        scripts_run.join()
        pings.close()
        return waits, took[0]


def print_pings(scripts, options):
    runs = [ping_waits(scripts, options) for _ in range(options.rounds)]
    p99 = [statistics.quantiles(waits, n=100)[98] for waits, _ in runs]
    columns = [
        str(scripts), f"{statistics.median(took for _, took in runs):.1f}",
        f"{statistics.median(len(waits) for waits, _ in runs):,.0f}",
        f"{statistics.median(statistics.median(waits) for waits, _ in runs):.2f}",
        f"**{statistics.median(p99):.2f}** ({min(p99):.2f}-{max(p99):.2f})",
        f"{max(max(waits) for waits, _ in runs):.1f}", str(ASKED_MS) if scripts == 1 else "",
    ]
    print(f"| {' | '.join(columns)} |", flush=True)


def on_two_cores(options):
    """Time of two scripts one after the other by that of two at once, on two shards' threads."""
    with running("ours", 2, options) as server:
        for tid in os.listdir(f"/proc/{server.process.pid}/task"):
            os.sched_setaffinity(int(tid), {SERVER_CORE, LOAD_CORE})
        c = Connection(server.port, 20)
        shards = {}
        for i in range(100):
            shards.setdefault(c.call("DEBUG", "SHARD", f"k{i}"), f"k{i}")
        c.close()
        keys = list(shards.values())[:2]
        rounds = rounds_for(server.port, options.seconds / 4, options)
        alone = sum(run_all(server.port, [key], rounds, options) for key in keys)
        return alone / run_all(server.port, keys, rounds, options)


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="that the scripts run (5)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    options.server_flag = ["--enable_debug_command=yes"]  # DEBUG SHARD
    side_by_side.prepare()
    sys.setswitchinterval(0.0005)
    print("| scripts at once | seconds | PINGs | p50 ms | p99 ms (rounds) | max ms | p99 asked |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for scripts in (1, 3):
        print_pings(scripts, options)
    ratios = [on_two_cores(options) for _ in range(options.rounds)]
    print(
        "\nTwo scripts on two threads, one after the other by both at once:"
        f" **{statistics.median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
    )


if __name__ == "__main__":
    side_by_side.run("long_script", main)
