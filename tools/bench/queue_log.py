#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What appendfsync always costs job queues: jobs a second of BullMQ (added and worked) and of
Sidekiq (worked), without a log and with it. The clients take most of the CPU, and the server shares
the cores with them.

Needs Node.js, and Debian's ruby-sidekiq; BullMQ is installed under build/.
"""

import os
import re
import statistics
import subprocess

import side_by_side
from compare import ROOT, BenchError
from log_work import LogServer

BENCH = os.path.join(ROOT, "tools", "bench")


def jobs_per_second(command, pattern, **environment):
    p = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )
    found = re.findall(pattern, p.stdout)
    if p.returncode != 0 or not found:
        raise BenchError(f"{command}: {p.stdout[-500:]}{p.stderr[-500:]}")
    return float(found[-1])


def bullmq(server, options):
    line = [f"{BENCH}/bullmq/run.sh", "-p", str(server.port), "-d", str(options.seconds)]
    line += ["--prefix", "bull"]  # BullMQ's own
    return jobs_per_second([*line, "-r", "0", "-w", "8", "-q", "8"], r"processed .* (\d+)/s")


def sidekiq(server, options):
    return jobs_per_second(
        [f"{BENCH}/sidekiq/multi_queue_bench"],
        r"processed .* (\d+) jobs/s",
        PORT=str(server.port),
        JOBS=str(options.jobs),
    )


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--seconds", type=int, default=8, help="of BullMQ (8)")
    parser.add_argument("--jobs", type=int, default=50_000, help="of Sidekiq (50000)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.jobs = 1, 2, 5_000
    print("| jobs a second | server | no log | always | ratio (rounds) |")
    print("| --- | --- | --- | --- | --- |")
    for load in (bullmq, sidekiq):
        if options.only not in load.__name__:
            continue
        for kind in ("redis", "ours"):
            rounds = []
            for _ in range(options.rounds):
                figures = []
                for policy in ("", "always"):
                    server = LogServer(kind, options, policy=policy)
                    try:
                        figures.append(load(server, options))
                    finally:
                        server.stop()
                rounds.append(figures)
            without, always = (statistics.median(column) for column in zip(*rounds))
            ratios = [b / a for a, b in rounds]
            print(
                f"| {load.__name__} | {side_by_side.NAMES[kind]} | {without:,.0f} | {always:,.0f} "
                f"| **{statistics.median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    side_by_side.run("queue_log", main)
