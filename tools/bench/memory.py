#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What memory is used for.

  keys     bytes for each key of redis-server and ours, in turn, by used_memory and by resident
           memory: what --keys keys add to an empty server, and the ratio
  states   which parts have the resident memory in states of all kinds (tests/harness/
           memory_states.py), and what of it MEMORY STATS does not explain
"""

import argparse
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from harness import memory_states  # noqa: E402
from harness.server import Server  # noqa: E402

ROWS = {
    "16+32 bytes": {},
    "16-byte counters": {"value": None},
    "16+32 bytes with a TTL": {"options": ("EX", 1_000_000)},
}
STATES = [*memory_states.STATES, memory_states.many_keys]


def sizes(server):
    with server.connect() as c:
        used = int(c.info("memory")["used_memory"])
    return used, memory_states.resident(server)[0]


def bytes_for_a_key(reference, keys, threads, row):
    flags = {} if reference else {"proactor_threads": threads}
    server = Server(reference=reference, **flags)
    try:
        before = sizes(server)
        memory_states.fill(server, keys, **row)
        return [(b - a) / keys for a, b in zip(before, sizes(server), strict=True)]
    finally:
        server.stop()


def measure_keys(options):
    print("| bytes for each key | redis-server: used, RSS | ours: used, RSS | ratio of used, RSS |")
    print("| --- | --- | --- | --- |")
    for name, row in ROWS.items():
        theirs, ours = (
            [
                statistics.median(figure)
                for figure in zip(
                    *(
                        bytes_for_a_key(reference, options.keys, options.threads, row)
                        for _ in range(options.rounds)
                    ),
                    strict=True,
                )
            ]
            for reference in (True, False)
        )
        print(
            f"| {name} | {theirs[0]:.1f}, {theirs[1]:.1f} | {ours[0]:.1f}, {ours[1]:.1f} "
            f"| {ours[0] / theirs[0]:.2f}, {ours[1] / theirs[1]:.2f} |",
            flush=True,
        )


def measure_states(options):
    for state in STATES:
        server = Server(reference=False, proactor_threads=options.threads)
        try:
            with state(server), server.connect() as c:
                reply = c.call("MEMORY", "STATS")
                stats = dict(zip(reply[::2], reply[1::2], strict=True))
                unexplained = stats[b"rss.unexplained"]
                total = stats[b"rss.total"]
                print(
                    f"{state.__name__}: {total / 1e6:.1f} MB resident, {unexplained / 1e6:.2f} MB "
                    f"({100 * unexplained / total:.1f} %) unexplained"
                )
                for name in memory_states.HEAP_PARTS + memory_states.RSS_PARTS:
                    if abs(stats[name.encode()]) >= 100_000:
                        print(f"    {name} {stats[name.encode()] / 1e6:.1f}")
        finally:
            server.kill()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["keys", "states"])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    {"keys": measure_keys, "states": measure_states}[options.what](options)


if __name__ == "__main__":
    main()
