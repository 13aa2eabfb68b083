#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What TLS costs the server for each request and handshake, ours and redis-server's, in the same
run. Valkey's package has no TLS.

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
    ("get-1m-c10", "get", 10, 1, 1 << 20, 0.01),
    ("set-1m-c10", "set", 10, 1, 1 << 20, 0.01),
]
KEYS = 10_000


def make_certificate(folder):
    line = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2"
    line += " -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(line.split(), cwd=folder, check=True, capture_output=True)
    return os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")


def keys_of(load):
    return 100 if load[4] > 100_000 else KEYS


def cpu_us(server, port, load, options):
    """Of one request."""
    name, command, connections, pipeline, value_bytes, share = load
    each = max(pipeline, int(options.requests * share) // connections)
    line = [options.dfly_bench, "-h", "127.0.0.1", "-p", str(port), "--proactor_threads=1"]
    line += ["-c", str(connections), f"--pipeline={pipeline}", "-d", str(value_bytes)]
    line += [f"--ratio={'0:1' if command == 'get' else '1:0'}", "--key_prefix=key:"]
    line += ["--key_minimum=0", f"--key_maximum={keys_of(load) - 1}"]
    if port != server.port:
        line += ["--tls", f"--tls_ca_cert_file={options.cert}"]
    compare.run_load([*line, "-n", str(max(pipeline, each // 10))], 100)  # warm
    before = server.cpu_ns()
    compare.run_load([*line, "-n", str(each)], 100)
    return (server.cpu_ns() - before) / 1000 / (each * connections)


def flags_of(kind, port, cert, key):
    """With which a server listens with TLS, too, on `port`."""
    if kind == "ours":
        line = f"--tls_port={port} --tls_cert_file={cert} --tls_key_file={key}"
        line += " --tls_auth_clients=no"
    else:
        line = f"--tls-port {port} --tls-cert-file {cert} --tls-key-file {key}"
        line += " --tls-auth-clients no"
    return line.split()


class Client:
    """Connects with TLS 1.3, and asks one PING."""

    def __init__(self, port, cert):
        self.context = ssl.create_default_context(cafile=cert)
        self.context.check_hostname = False
        self.port = port

    def connect(self, session=None):
        plain = socket.create_connection(("127.0.0.1", self.port))
        s = self.context.wrap_socket(plain, session=session)
        s.sendall(b"PING\r\n")
        if s.recv(100) != b"+PONG\r\n":
            raise compare.BenchError("no PONG")
        return s


def handshake_us(server, options, resumed):
    """CPU of the server for one connection that does a handshake and a PING, and ends."""
    client = Client(options.tls_port, options.cert)

    def run(count):
        session = None
        for _ in range(count):
            with client.connect(session) as s:
                if s.session_reused != (session is not None):
                    raise compare.BenchError(f"resumed: {s.session_reused}, wanted {resumed}")
                session = s.session if resumed else None

    run(options.handshakes // 10)
    before = server.cpu_ns()
    run(options.handshakes)
    return (server.cpu_ns() - before) / 1000 / options.handshakes


def idle_bytes(server, options):
    """Of a connection of TLS that has done one PING."""
    client = Client(options.tls_port, options.cert)
    held = [client.connect() for _ in range(100)]  # what is there once
    before = server.rss()
    held += [client.connect() for _ in range(options.connections)]
    grown = server.rss() - before
    for s in held:
        s.close()
    return grown / options.connections


def measure_round(kind, options):
    options.tls_port = compare.free_port()
    options.server_flag = flags_of("ours", options.tls_port, options.cert, options.key)
    options.redis_flag = flags_of("redis", options.tls_port, options.cert, options.key)
    figures = {}
    with compare.running(kind, 1, options) as server:
        for load in LOADS:
            c = compare.Connection(server.port)
            c.fill(keys_of(load), "key:%d", load[4])
            c.close()
            figures[load[0], "plain"] = cpu_us(server, server.port, load, options)
            figures[load[0], "tls"] = cpu_us(server, options.tls_port, load, options)
    with compare.running(kind, 1, options) as server:
        figures["new"] = handshake_us(server, options, resumed=False)
        figures["resumed"] = handshake_us(server, options, resumed=True)
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
    parser.add_argument("--handshakes", type=int, default=2000)
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
    row("connect, new session, and PING", "new", 0)
    row("connect, resumed session, and PING", "resumed", 0)
    row("bytes of an idle connection of TLS", "idle", 0)


if __name__ == "__main__":
    main()
