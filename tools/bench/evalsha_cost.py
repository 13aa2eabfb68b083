#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU that two builds of the server take for each EVALSHA of scripts as users write them, and the
ratio of the second to the first.

    tools/bench/evalsha_cost.py [--only 'queue*'] [--rounds 7] OLD NEW

OLD and NEW are two dragonfly binaries. Both run all the time, with one thread each, on one core;
runs of the two take turns. The medians of the rounds count. What the interpreter alone takes:
lua_cost.py.
"""

import argparse
import fnmatch
import os
import statistics

from compare import Connection, Server, encode

# name, keys, arguments, script
CASES = [
    ("set", ["key"], ["value"], "return redis.call('set', KEYS[1], ARGV[1])"),
    ("counter with expiry", ["counter"], ["10"],
     "local n = redis.call('incr', KEYS[1]) if n == 1 then redis.call('expire', KEYS[1], ARGV[1]) "
     "end return n"),
    ("rate limiter", ["limit"], ["1700000000000", "60000", "100"],
     "local now, window, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]) "
     "redis.call('zremrangebyscore', KEYS[1], 0, now - window) "
     "local n = redis.call('zcard', KEYS[1]) "
     "if n < most then redis.call('zadd', KEYS[1], now, now .. '-' .. n) return most - n - 1 end "
     "return -1"),
    ("token bucket", ["bucket"], ["100", "10", "1700000000.5", "1"],
     "local size, rate, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), "
     "tonumber(ARGV[4]) local had = redis.call('hmget', KEYS[1], 'n', 'at') "
     "local n = tonumber(had[1]) or size local at = tonumber(had[2]) or now "
     "n = math.min(size, n + math.max(0, now - at) * rate) "
     "if n >= cost then n = n - cost end "
     "redis.call('hset', KEYS[1], 'n', n, 'at', now) return math.floor(n)"),
    ("50 pairs with for", ["hash"], [str(i) for i in range(100)],
     "for i = 1, #ARGV, 2 do redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1]) end"),
    ("50 pairs with while", ["hash"], [str(i) for i in range(100)],
     "local i = 1 while i <= #ARGV do redis.call('hset', KEYS[1], ARGV[i], ARGV[i + 1]) "
     "i = i + 2 end"),
    ("sum of 100 values", ["list"], [str(i) for i in range(100)],
     "if redis.call('exists', KEYS[1]) == 0 then redis.call('rpush', KEYS[1], unpack(ARGV)) end "
     "local sum = 0 for i, v in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do "
     "sum = sum + tonumber(v) end return sum"),
    ("scores of 50 members", ["scores"], [str(i) for i in range(50)],
     "for i = 1, #ARGV do redis.call('zadd', KEYS[1], i, ARGV[i]) end"),
    ("json", ["json"], ['{"id": 17, "tags": ["a", "b"], "at": 1700000000, "price": 1.5}'],
     "local job = cjson.decode(ARGV[1]) job.at = job.at + 1 "
     "redis.call('set', KEYS[1], cjson.encode(job)) return job.id"),
    ("shuffle of 100", ["list"], ["1000003"],
     "local t, x = {}, tonumber(ARGV[1]) for i = 1, 100 do t[i] = i end "
     "for i = #t, 2, -1 do x = x * 31 % 1000003 local j = x % i + 1 t[i], t[j] = t[j], t[i] end "
     "return t[1]"),
]


def measure(server, request, count):
    """CPU of one EVALSHA, in nanoseconds."""
    pipeline = 50
    batch = encode(*request) * pipeline
    connection = Connection(server.port)
    begin = server.cpu_ns()
    for _ in range(count // pipeline):
        connection.sock.sendall(batch)
        for _ in range(pipeline):
            connection.reply()
    took = server.cpu_ns() - begin
    connection.close()
    return took / (count // pipeline * pipeline)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=4_000, help="in each round")
    parser.add_argument("old")
    parser.add_argument("new")
    options = parser.parse_args()
    options.server_flag = []
    servers = []
    try:
        for options.binary in map(os.path.abspath, (options.old, options.new)):
            servers.append(Server("ours", 1, options))
        print(f"| {'script':24} | {'old ns':>8} | {'new ns':>8} | new / old (rounds) |")
        print("| --- | ---: | ---: | ---: |")
        for name, keys, arguments, script in CASES:
            if not fnmatch.fnmatch(name, options.only):
                continue
            took = [[], []]
            for round_ in range(options.rounds + 1):
                for server, times in zip(servers, took):
                    connection = Connection(server.port)
                    sha = connection.call("SCRIPT", "LOAD", script).decode()
                    connection.call("FLUSHALL")
                    connection.close()
                    request = ("EVALSHA", sha, len(keys), *keys, *arguments)
                    cost = measure(server, request, options.requests)
                    if round_ > 0:  # the first one warms up
                        times.append(cost)
            old, new = (statistics.median(times) for times in took)
            ratios = sorted(b / a for a, b in zip(*took))
            print(f"| {name:24} | {old:8,.0f} | {new:8,.0f} | **{statistics.median(ratios):.2f}** "
                  f"({ratios[0]:.2f}-{ratios[-1]:.2f}) |", flush=True)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
