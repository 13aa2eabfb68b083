#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resident memory for each used byte, after most of the data is gone: redis-server and ours, each
with activedefrag and without.

  strings  --keys keys of 16 + 32 to 200 bytes; nine in ten are deleted at random
  types    a fifth as many hashes, lists, sets and sorted sets of 5 to 60 members; nine in ten are
           deleted at random
  churn    strings for --churn seconds, two thirds of them with TTLs, whose sizes drift: 30 bytes,
           200, 60, 400, 90

Printed is RSS / used_memory before, right after, and when it has settled (no change for some
seconds), with the CPU seconds of the server from the one to the other.
"""

import argparse
import os
import random
import sys
import time

import side_by_side
from compare import ROOT, BenchError, Connection, Server, encode

BATCH = 500
SIZES = range(32, 201)
DRIFT = (30, 200, 60, 400, 90)
MARGIN = bytes(range(33, 127)) * 8


def key(i):
    return b"key:%012d" % i


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


def pipe(client, requests):
    """Sends requests in batches; each has one reply of one line."""
    batch = []
    for request in requests:
        batch.append(request)
        if len(batch) == BATCH:
            send(client, batch)
            batch.clear()
    send(client, batch)


def send(client, batch):
    client.sock.sendall(b"".join(batch))
    for _ in batch:
        line = client.file.readline()
        if line[:1] not in b"+:":
            raise BenchError(line.decode())


def some(rng, bytes_):
    at = rng.randrange(len(MARGIN) - bytes_)
    return MARGIN[at : at + bytes_]


def strings(rng, keys):
    for i in range(keys):
        yield b"*3\r\n$3\r\nSET\r\n" + bulk(key(i)) + bulk(some(rng, rng.choice(SIZES)))


def containers(rng, keys):
    for i in range(keys // 5):
        members = [some(rng, rng.randrange(8, 60)) + b"%d" % j for j in range(rng.randrange(5, 60))]
        kind = i % 4
        if kind == 0:
            words = ["HSET", key(i)]
            for member in members:
                words += [member[-20:], member]
        elif kind == 1:
            words = ["RPUSH", key(i), *members]
        elif kind == 2:
            words = ["SADD", key(i), *members]
        else:
            words = ["ZADD", key(i)]
            for j, member in enumerate(members):
                words += [j, member]
        yield encode(*words)


def deletions(rng, keys):
    for i in range(keys):
        if rng.random() < 0.9:
            yield b"*2\r\n$6\r\nUNLINK\r\n" + bulk(key(i))


def churn(rng, keys, seconds):
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < seconds:
        size = DRIFT[int(now / seconds * len(DRIFT))]
        for _ in range(BATCH):
            name = bulk(key(rng.randrange(keys)))
            value = bulk(some(rng, rng.randrange(size * 3 // 4, size * 5 // 4)))
            if rng.random() < 1 / 3:
                yield b"*3\r\n$3\r\nSET\r\n" + name + value
            else:
                ttl = bulk(b"%d" % rng.randrange(500, int(seconds * 400)))
                yield b"*5\r\n$3\r\nSET\r\n" + name + value + b"$2\r\nPX\r\n" + ttl


def info(client):
    text = client.call("INFO", "everything").decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def settle(server, client, quiet=4, limit=180):
    """Waits until RSS and used memory stay as they are."""
    last, since = (0, 0), time.monotonic()
    deadline = since + limit
    while time.monotonic() < deadline:
        now = (server.rss() >> 20, int(info(client)["used_memory"]) >> 20)
        if abs(now[0] - last[0]) > 1 or abs(now[1] - last[1]) > 1:
            last, since = now, time.monotonic()
        if time.monotonic() - since > quiet:
            return
        time.sleep(0.2)


def state(server, client):
    return server.rss(), int(info(client)["used_memory"])


def show(pair):
    rss, used = pair
    return f"{rss >> 20:,} / {used >> 20:,} MB = {rss / used:.2f}"


def measure(kind, threads, load, defrag, options):
    server = Server(kind, threads, options)
    client = Connection(server.port, 600)
    try:
        if defrag is not None:
            client.call("CONFIG", "SET", "activedefrag", "yes" if defrag else "no")
        rng = random.Random(options.seed)
        if load == "churn":
            pipe(client, churn(rng, options.keys, options.churn))
            before = ""
        else:
            pipe(client, {"strings": strings, "types": containers}[load](rng, options.keys))
            before = show(state(server, client))
            pipe(client, deletions(rng, options.keys if load == "strings" else options.keys // 5))
        after = show(state(server, client))
        cpu = server.cpu_ns()
        begin = time.monotonic()
        settle(server, client)
        cpu = (server.cpu_ns() - cpu) / 1e9
        seconds = time.monotonic() - begin
        settled = show(state(server, client))
        purged = ""
        if options.purge:
            client.call("MEMORY", "PURGE")
            purged = show(state(server, client))
        row = [load, kind, str(threads), {None: "", True: "yes", False: "no"}[defrag]]
        row += [before, after, settled, f"{cpu:.2f} / {seconds:.0f}", purged]
        print("| " + " | ".join(row) + " |", flush=True)
    finally:
        client.close()
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    binary = os.path.join(ROOT, "build/release/dragonfly")
    parser.add_argument("--binary", type=os.path.abspath, default=binary)
    parser.add_argument("--server_flag", action="append", default=[])
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--churn", type=float, default=60, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", default="strings,types,churn")
    parser.add_argument("--threads", default="1,2,4", help="of ours")
    parser.add_argument("--kinds", default="ours,redis")
    parser.add_argument("--defrag", default="no,yes")
    parser.add_argument("--purge", action="store_true", help="MEMORY PURGE at the end")
    options = parser.parse_args()
    columns = ["load", "server", "threads", "activedefrag", "before", "after", "settled"]
    columns += ["CPU s / s", "purged"]
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    choices = {"no": False, "yes": True, "": None}
    for load in options.loads.split(","):
        for kind in options.kinds.split(","):
            for threads in options.threads.split(",") if kind == "ours" else "1":
                for defrag in options.defrag.split(","):
                    try:
                        measure(kind, int(threads), load, choices[defrag], options)
                    except BenchError as e:  # redis-server has it with its own allocator only
                        print(f"{load}, {kind}, activedefrag {defrag}: {e}", file=sys.stderr)


if __name__ == "__main__":
    side_by_side.run("fragmentation", main)
