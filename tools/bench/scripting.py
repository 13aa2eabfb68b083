#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scripts and queues: the server's CPU for each job of BullMQ, each pop of Sidekiq and each call of
a script over lists: redis-server, Valkey and ours in turn, and their ratios.

BullMQ's rows are a ladder: each step has the flags of the steps before and its own. dfly_bench
replays what the libraries send (see its --scenario). Servers, cores and the way CPU time is
measured are those of compare.py; "jobs" are jobs, pops or calls.
"""

import os
import statistics
import subprocess

import side_by_side
from compare import ROOT, BenchError, Connection, Server, run_dfly_bench

# Flags of our server. All steps but the last of the ladder switch off what later steps switch on.
UNDECLARED = "--default_lua_flags=allow-undeclared-keys"
STEPS_OFF = [
    "--singlehop_commands=false", "--singlehop_scripts=false", "--migrate_connections=false",
]
QUEUES = 8
BULLMQ = ["--scenario=bullmq", f"--queues={QUEUES}", "-c", "40", "-d", "64"]  # 5 clients a queue
BRACES = [*BULLMQ, "--braces"]
# name, arguments of dfly_bench, flags of our server, asked by threads of ours
LADDER = [
    ("global lock", BULLMQ, [UNDECLARED, "--undeclared_keys=global", *STEPS_OFF], {1: 4, 4: 4}),
    ("+ hashtag locks", BRACES, ["--lock_on_hashtags", *STEPS_OFF], {}),
    ("+ single-hop commands", BRACES, ["--lock_on_hashtags", *STEPS_OFF[1:]], {}),
    ("+ single-hop scripts", BRACES, ["--lock_on_hashtags", *STEPS_OFF[2:]], {}),
    ("+ migration", BRACES, ["--lock_on_hashtags"], {}),
    ("+ round robin", BRACES, ["--lock_on_hashtags", "--shard_round_robin_prefix=q"],
     {1: 0.70, 4: 0.80}),
    ("no flags, no braces", BULLMQ, [], {4: 0.80}),
]

BRPOP = ["--scenario=brpop", f"--queues={QUEUES}", "-c", "40", "-d", "200", "--pipeline=20"]
LISTS = ["--scenario=lua_lists", "-c", "1", "--pipeline=5"]
LISTS_OF_KEYS = ["--scenario=lua_lists", "-c", "50", f"--list_keys={' '.join(['__key__'] * 5)}"]
ASYNC = ["--lua_auto_async"]

# name, threads of ours, jobs, arguments of dfly_bench, flags of our server, asked
LOADS = [
    *((f"{threads}t-bullmq: {name}", threads, 100_000, arguments, flags, asked.get(threads))
      for threads in (1, 4) for name, arguments, flags, asked in LADDER),
    ("1t-sidekiq-brpop", 1, 200_000, BRPOP, [], 0.85),
    ("4t-sidekiq-brpop", 4, 200_000, BRPOP, [], 1.10),
    ("1t-lists-c1-p5", 1, 40_000, LISTS, [], 0.60),
    ("4t-lists-c1-p5", 4, 40_000, LISTS, [], None),
    ("4t-lists-c1-p5-async", 4, 40_000, LISTS, ASYNC, 1.20),
    ("1t-lists-c50", 1, 40_000, LISTS_OF_KEYS, [], 0.60),
    ("4t-lists-c50", 4, 40_000, LISTS_OF_KEYS, [], None),
    ("4t-lists-c50-async", 4, 40_000, LISTS_OF_KEYS, ASYNC, 1.20),
]


def capture(options):
    """The call with which the installed BullMQ adds a job, in a file."""
    here = os.path.join(ROOT, "tools", "bench", "bullmq")
    try:
        folder = subprocess.run(
            [os.path.join(here, "install.sh")], stdout=subprocess.PIPE, text=True, check=True,
            timeout=300,
        ).stdout.strip()
        path = os.path.join(folder, "add_job.call")
        subprocess.run(
            ["node", os.path.join(here, "capture.js"), path], check=True, timeout=60,
            env={**os.environ, "NODE_PATH": os.path.join(folder, "node_modules")},
        )
        return path
    except subprocess.SubprocessError as e:
        raise BenchError(f"BullMQ's script cannot be captured: {e}")


def hops(info):
    """(hops, runs) of scripts so far, from INFO transaction; None if the server does not count."""
    fields = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    if "script_hops" not in fields:
        return None
    return int(fields["script_hops"]), int(fields["script_runs"])


def check_outcome(connection, arguments, jobs):
    """That the server did what it was sent, so that it is not fast by leaving something out."""
    if "--scenario=bullmq" in arguments:
        name = "bull:{q%d}:wait" if "--braces" in arguments else "bull:q%d:wait"
        waiting = sum(int(connection.call("LLEN", name % i)) for i in range(QUEUES))
        if waiting != jobs:
            raise BenchError(f"{waiting} jobs wait, {jobs} were added")
    elif "--scenario=brpop" in arguments:
        left = sum(int(connection.call("LLEN", f"queue:{i}")) for i in range(QUEUES))
        if left != 0:
            raise BenchError(f"{left} jobs were not popped")
    else:
        name = "l1" if arguments == LISTS else connection.call("RANDOMKEY")
        length = int(connection.call("LLEN", name))
        if length == 0 or length > 50 or (arguments == LISTS and length != 50):
            raise BenchError(f"a list of {length} elements")


def measure(kind, load, options):
    """{CPU of the server for each job in us, jobs/s, hops for each job or None}"""
    _, threads, jobs, arguments, flags, _ = load
    options.server_flag = [*flags, *options.extra_flag]
    connections = int(arguments[arguments.index("-c") + 1])
    if "--scenario=bullmq" in arguments:
        arguments = [*arguments, f"--script_file={options.script_file}"]
    server = Server(kind, threads, options)
    try:
        control = Connection(server.port)
        each = jobs // connections
        warm = run_dfly_bench(server, [*arguments, "-n", str(max(1, each // 10))], options)
        hops_before, before = hops(control.call("INFO", "transaction")), server.cpu_ns()
        report = run_dfly_bench(server, [*arguments, "-n", str(each)], options)
        spent, hops_after = server.cpu_ns() - before, hops(control.call("INFO", "transaction"))
        if report["jobs"] != each * connections or report["misses"] > 0:
            raise BenchError(f"{report['jobs']} of {each * connections} jobs were done")
        check_outcome(control, load[3], warm["jobs"] + report["jobs"])
        control.close()
    finally:
        server.stop()
    figures = {"cpu_us": spent / 1000 / report["jobs"], "rate": report["jobs_per_second"]}
    figures["hops"] = None
    if hops_before is not None and hops_after[1] > hops_before[1]:
        figures["hops"] = (hops_after[0] - hops_before[0]) / (hops_after[1] - hops_before[1])
    return figures


def print_load(load, options):
    figures = side_by_side.take_rounds(lambda kind: measure(kind, load, options), options)
    columns = [load[0]]
    for key, digits in (("rate", 0), ("cpu_us", 1)):
        for kind in figures:
            columns.append(f"{statistics.median(row[key] for row in figures[kind]):,.{digits}f}")
    counted = [row["hops"] for row in figures["ours"] if row["hops"] is not None]
    columns.append(f"{statistics.median(counted):.2f}" if counted else "-")
    cpu = {kind: [row["cpu_us"] for row in rows] for kind, rows in figures.items()}
    side_by_side.print_columns(cpu, columns, load[5])


def print_redis(load, options):
    rows = [measure("redis", load, options) for _ in range(1 if options.quick else options.rounds)]
    cpu = [row["cpu_us"] for row in rows]
    print(
        f"| {load[0]} | {statistics.median(row['rate'] for row in rows):,.0f}"
        f" | {statistics.median(cpu):,.1f} ({min(cpu):.1f}-{max(cpu):.1f}) |",
        flush=True,
    )


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--extra-flag", action="append", default=[], help="for our server")
    parser.add_argument("--redis-only", action="store_true", help="redis-server's figures alone")
    load = os.path.join(ROOT, "build/release/dfly_bench")
    parser.add_argument("--dfly-bench", type=os.path.abspath, default=load)
    parser.add_argument("--deadline", type=int, default=180, help="seconds for one load (180)")
    options = parser.parse_args()
    loads = [load for load in LOADS if options.only in load[0]]
    if not loads:
        raise BenchError(f"no load's name contains '{options.only}': {[load[0] for load in LOADS]}")
    side_by_side.prepare()
    if any("bullmq" in load[0] for load in loads):
        options.script_file = capture(options)
    if options.quick:
        loads = [(*load[:2], load[2] // 20, *load[3:]) for load in loads]
    if options.redis_only:
        print("| load | jobs/s | CPU us/job (rounds) |\n| --- | --- | --- |")
        for load in loads:
            print_redis(load, options)
        return
    names = [side_by_side.NAMES[kind] for kind in side_by_side.kinds_of(options)]
    side_by_side.print_head(
        "load", *(f"{name}, jobs/s" for name in names), *(f"{name}, CPU us/job" for name in names),
        "hops/job", *(f"ratio to {name} (rounds)" for name in names[1:-1]),
    )
    for load in loads:
        print_load(load, options)


if __name__ == "__main__":
    side_by_side.run("scripting", main)
