# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of redis-server and ours in turn share: options, rounds, rows of a table."""

import argparse
import os
import resource
import signal
import statistics
import sys

from compare import LOAD_CORE, ROOT, BenchError


def parser_of(description):
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="loads whose name contains this")
    parser.add_argument("--quick", action="store_true", help="one short round; a smoke test")
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/dragonfly"))
    return parser


def prepare():
    """This process is the load: it has its core, and room for the connections."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.sched_setaffinity(0, {LOAD_CORE})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))


def print_head(*names):
    columns = [*names, "ratio (rounds)", "asked"]
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")


def take_rounds(measure, options):
    """measure("redis" or "ours") -> a figure; returns lists of them by the kind of server. The
    rounds of the two alternate, so that the noise of the machine hits both."""
    figures = {"redis": [], "ours": []}
    for number in range(1 if options.quick else options.rounds):
        for kind in ("redis", "ours") if number % 2 == 0 else ("ours", "redis"):
            figures[kind].append(measure(kind))
    return figures


def print_columns(figures, columns, asked):
    """A row: the columns, the median of the rounds' ratios, and what was asked, if anything."""
    ratios = [ours / redis for ours, redis in zip(figures["ours"], figures["redis"])]
    ratio = statistics.median(ratios)
    verdict = "" if asked is None else f"{asked:.2f}{'' if ratio <= asked else ' missed'}"
    spread = f"**{ratio:.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
    print("| " + " | ".join([*columns, spread, verdict]) + " |", flush=True)


def print_row(names, measure, asked, options, digits=0):
    figures = take_rounds(measure, options)
    medians = [f"{statistics.median(figures[kind]):,.{digits}f}" for kind in ("redis", "ours")]
    print_columns(figures, [*names, *medians], asked)


def run(name, main):
    try:
        main()
    except BenchError as e:
        sys.exit(f"{name}: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
