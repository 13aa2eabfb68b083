# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of redis-server, some with Valkey, and ours in turn share: options, rounds,
rows of a table."""

import argparse
import os
import resource
import signal
import statistics
import sys

from compare import LOAD_CORE, ROOT, BenchError, installed_valkey

NAMES = {"redis": "redis-server", "valkey": "Valkey", "ours": "ours"}


def parser_of(description, with_valkey=False):
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="loads whose name contains this")
    parser.add_argument("--quick", action="store_true", help="one short round; a smoke test")
    binary = os.path.join(ROOT, "build/release/dragonfly")
    parser.add_argument("--binary", type=os.path.abspath, default=binary)
    if with_valkey:
        found = installed_valkey()
        parser.add_argument("--valkey", default=found, help="its server; empty: without")
    return parser


def kinds_of(options):
    """Ours is the last one."""
    return ["redis", *(["valkey"] if getattr(options, "valkey", "") else []), "ours"]


def prepare():
    """This process is the load: it has its core, and room for the connections."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.sched_setaffinity(0, {LOAD_CORE})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))


def print_names(*columns):
    """The head of a table."""
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")


def print_head(*names):
    print_names(*names, "ratio (rounds)", "asked")


def print_kinds(options, *names):
    """The head of a table with a column for each server, and one for the ratio to each peer."""
    kinds = kinds_of(options)
    ratios = [f"ratio to {NAMES[kind]} (rounds)" for kind in kinds[1:-1]]
    print_head(*names, *(NAMES[kind] for kind in kinds), *ratios)


def take_rounds(measure, options):
    """measure(kind) -> a figure; returns lists of them by the kind of server. The rounds of all
    alternate, so that the noise of the machine hits all."""
    kinds = kinds_of(options)
    figures = {kind: [] for kind in kinds}
    for number in range(1 if options.quick else options.rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            figures[kind].append(measure(kind))
    return figures


def ratio_to(figures, peer):
    """The median of the rounds' ratios, and a cell that shows it."""
    ratios = [ours / other for ours, other in zip(figures["ours"], figures[peer])]
    ratio = statistics.median(ratios)
    return ratio, f"**{ratio:.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"


def print_columns(figures, columns, asked):
    """A row: the columns, the ratios to the others, and what was asked of that to redis-server."""
    ratio, cell = ratio_to(figures, "redis")
    others = [ratio_to(figures, kind)[1] for kind in figures if kind not in ("redis", "ours")]
    verdict = "" if asked is None else f"{asked:.2f}{'' if ratio <= asked else ' missed'}"
    print("| " + " | ".join([*columns, *others, cell, verdict]) + " |", flush=True)


def print_row(names, measure, asked, options, digits=0):
    figures = take_rounds(measure, options)
    medians = [f"{statistics.median(of_one):,.{digits}f}" for of_one in figures.values()]
    print_columns(figures, [*names, *medians], asked)


def run(name, main):
    try:
        main()
    except BenchError as e:
        sys.exit(f"{name}: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
