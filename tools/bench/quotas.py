#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What small reads of one tenant wait while another tenant floods the server, with and without a
quota (docs/quotas.md).

The probe (latency_probe.py) reads one of --keys small keys each half millisecond, for --seconds.
The flood is redis-benchmark: --clients connections with pipelines of --pipeline SETs, of a user of
their own. For each row: the 99th and the 99.9th percentile and the longest wait of the probe in
ms, its p99 as a multiple of what it is alone, and how many commands of the flood went through in a
second.
"""

import os
import statistics
import subprocess
import time

import side_by_side
from compare import Connection
from latency_probe import Probe
from snapshots import FreeServer

QUOTAS = {
    "nobody": None,
    "a flood without a quota": "",
    "`user flood commands 50000`": "user flood commands 50000",
    "`user flood commands 10000`": "user flood commands 10000",
    "`user flood bytes 1mb`": "user flood bytes 1mb",
}


def flood(server, options):
    line = ["redis-benchmark", "-p", str(server.port), "--user", "flood", "-a", "x"]
    line += ["-c", str(options.clients), "-P", str(options.pipeline), "-n", "1000000000"]
    line += ["-r", str(options.keys), "-d", "64", "-q", "-t", "set"]
    null = subprocess.DEVNULL
    return subprocess.Popen(line, stdout=null, stderr=null)


def take_precedence(pid):
    """Its threads come before all but the probe."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(tid), os.SCHED_RR, os.sched_param(5))


def calls_of_set(connection):
    rows = connection.call("INFO", "commandstats").decode().splitlines()
    row = next((row for row in rows if row.startswith("cmdstat_set:")), "calls=0,")
    return int(row.split("calls=")[1].split(",")[0])


def measure(quota, options):
    server = FreeServer("ours", options, threads=options.threads)
    process = None
    try:
        server.fill()
        admin = Connection(server.port, 60)
        if options.realtime:
            take_precedence(server.process.pid)
        admin.call("ACL", "SETUSER", "flood", "on", ">x", "~*", "+@all")
        if quota is not None:
            admin.call("CONFIG", "SET", "quota", quota)
            process = flood(server, options)
            if options.realtime:
                take_precedence(process.pid)
            time.sleep(2)  # what was saved is spent
        begin, calls = time.monotonic(), calls_of_set(admin)
        probe = Probe(server.port, options.seconds, options.keys).await_end()
        rate = (calls_of_set(admin) - calls) / (time.monotonic() - begin)
        return probe.p99_ms, probe.p99_9_ms, probe.max_ms, rate
    finally:
        if process is not None:
            process.kill()
            process.wait()
        server.stop()


def main():
    parser = side_by_side.parser_of(__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--pipeline", type=int, default=50)
    help_text = "server and flood have real-time priority: for a machine that others use"
    parser.add_argument("--realtime", action="store_true", help=help_text)
    options = parser.parse_args()
    options.dfly_bench = os.path.join(os.path.dirname(options.binary), "dfly_bench")
    if options.quick:
        options.rounds, options.seconds = 1, 1
    side_by_side.print_names("beside", "p99, p99.9, longest (ms)", "p99, of alone", "flood, SETs/s")
    rows = {name: [] for name in QUOTAS if options.only in name or name == "nobody"}
    for _ in range(options.rounds):  # in turn: the noise of the machine hits all
        for name, rounds in rows.items():
            rounds.append(measure(QUOTAS[name], options))
    alone = None
    for name, rounds in rows.items():
        *waits, rate = [statistics.median(of_one) for of_one in zip(*rounds, strict=True)]
        alone = alone or waits[0]
        cells = [name, ", ".join(f"{ms:.2f}" for ms in waits), f"{waits[0] / alone:.1f}"]
        print("| " + " | ".join([*cells, f"{rate:,.0f}"]) + " |", flush=True)


if __name__ == "__main__":
    side_by_side.run("quotas", main)
