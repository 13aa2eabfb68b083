#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What TLS costs the server for each request, ours and redis-server's, in the same run.

CPU time of the server process, as in compare.py, whose servers this uses: the server on core 0,
dfly_bench on core 1, with TLS and without. Also what an idle connection takes. TLS 1.3, a P-256
certificate of our own making, AES-256-GCM.

    tools/bench/tls.py [--rounds=3] [--requests=300000]
"""

import argparse
import os
import socket
import ssl
import statistics
import subprocess
import tempfile

import compare

# name, command, connections, pipeline, bytes of a value, share of --requests
LOADS = [
    ("get-c50", "get", 50, 1, 64, 0.3),
    ("get-c50-p10", "get", 50, 10, 64, 1.0),
    ("set-c50-p10", "set", 50, 10, 64, 1.0),
    ("get-c1-p30", "get", 1, 30, 64, 1.0),
    ("get-16k-c10", "get", 10, 1, 16384, 0.2),
    ("set-16k-c10", "set", 10, 1, 16384, 0.2),
]
KEYS = 10_000


def make_certificate(folder):
    line = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2"
    line += " -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(line.split(), cwd=folder, check=True, capture_output=True)
    return os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")


def cpu_us(server, port, load, options):
    """Of one request."""
    name, command, connections, pipeline, value_bytes, share = load
    each = max(pipeline, int(options.requests * share) // connections)
    line = [options.dfly_bench, "-h", "127.0.0.1", "-p", str(port), "--proactor_threads=1"]
    line += ["-c", str(connections), f"--pipeline={pipeline}", "-d", str(value_bytes)]
    line += [f"--ratio={'0:1' if command == 'get' else '1:0'}", "--key_prefix=key:"]
    line += ["--key_minimum=0", f"--key_maximum={KEYS - 1}"]
    if port != server.port:
        line += ["--tls", f"--tls_ca_cert_file={options.cert}"]
    compare.run_load([*line, "-n", str(max(pipeline, each // 10))], 100)  # warm
    before = server.cpu_ns()
    compare.run_load([*line, "-n", str(each)], 100)
    return (server.cpu_ns() - before) / 1000 / (each * connections)


def idle_bytes(server, options):
    """Of a connection of TLS that has done one PING."""
    context = ssl.create_default_context(cafile=options.cert)
    context.check_hostname = False

    def connect():
        s = context.wrap_socket(socket.create_connection(("127.0.0.1", options.tls_port)))
        s.sendall(b"PING\r\n")
        assert s.recv(100) == b"+PONG\r\n"
        return s

    held = [connect() for _ in range(100)]  # what is there once
    before = server.rss()
    held += [connect() for _ in range(options.connections)]
    grown = server.rss() - before
    for s in held:
        s.close()
    return grown / options.connections


def measure_round(kind, options):
    options.tls_port = compare.free_port()
    options.server_flag = [
        f"--tls_port={options.tls_port}",
        f"--tls_cert_file={options.cert}",
        f"--tls_key_file={options.key}",
        "--tls_auth_clients=no",
    ]
    redis = f"--tls-port {options.tls_port} --tls-cert-file {options.cert}"
    redis += f" --tls-key-file {options.key} --tls-auth-clients no"
    options.redis_flag = redis.split()
    figures = {}
    with compare.running(kind, 1, options) as server:
        for load in LOADS:
            c = compare.Connection(server.port)
            c.fill(KEYS, "key:%d", load[4])
            c.close()
            figures[load[0], "plain"] = cpu_us(server, server.port, load, options)
            figures[load[0], "tls"] = cpu_us(server, options.tls_port, load, options)
    with compare.running(kind, 1, options) as server:
        figures["idle"] = idle_bytes(server, options)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    build = os.path.join(compare.ROOT, "build", "release")
    parser.add_argument("--binary", default=os.path.join(build, "dragonfly"))
    parser.add_argument("--dfly_bench", default=os.path.join(build, "dfly_bench"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=300_000)
    parser.add_argument("--connections", type=int, default=1000, help="idle ones")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dfly-tls-") as folder:
        options.cert, options.key = make_certificate(folder)
        rounds = []
        for number in range(options.rounds):
            kinds = ("redis", "ours") if number % 2 == 0 else ("ours", "redis")
            rounds.append({kind: measure_round(kind, options) for kind in kinds})

    def row(name, figure, digits):
        redis = [r["redis"][figure] for r in rounds]
        ours = [r["ours"][figure] for r in rounds]
        ratios = [o / r for o, r in zip(ours, redis)]
        low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
        print(
            f"| {name} | {statistics.median(redis):,.{digits}f} | "
            f"{statistics.median(ours):,.{digits}f} | {middle:.2f} ({low:.2f} - {high:.2f}) |"
        )

    print("| microseconds of server CPU per request | redis-server | ours | ratio (rounds) |")
    print("| --- | --- | --- | --- |")
    for load in LOADS:
        for way in ("plain", "tls"):
            row(f"{load[0]}, {way}", (load[0], way), 2)
    row("bytes of an idle connection of TLS", "idle", 0)


if __name__ == "__main__":
    main()
