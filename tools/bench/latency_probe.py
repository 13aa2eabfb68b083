# SPDX-License-Identifier: Apache-2.0
"""How long a client waits that has a core whenever it wants one: one GET each half millisecond,
with real-time priority.

The p99 of dfly_bench holds also how long dfly_bench waited for a core. Where server, load and the
server's own work in the background share two of them, that is most of it, and no client on a
machine of its own would see it. Both are worth knowing; a server is judged by the probe."""

import json
import os
import subprocess
import sys
import time

from compare import BenchError, Connection
from snapshots import CONNECTIONS

INTERVAL_S = 0.0005


def probe(port, seconds, first_key, keys):
    """Latencies in seconds."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    os.sched_setaffinity(0, range(os.cpu_count()))
    connection = Connection(port)
    latencies = []
    end = time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        key = first_key + (len(latencies) * 7919) % keys
        connection.call("GET", f"key:12345:{key}")
        latencies.append(time.monotonic() - begin)
        time.sleep(max(0, INTERVAL_S - latencies[-1]))
    return latencies


def percentile_ms(latencies, percent):
    return sorted(latencies)[min(len(latencies) - 1, int(len(latencies) * percent / 100))] * 1000


class Probe:
    """The probe, which runs from now on. `await_end` gives it `p99_ms`, `p99_9_ms` and `max_ms`."""

    def __init__(self, port, seconds, keys, first_key=1_000_000):
        self.seconds = seconds
        arguments = (port, seconds, first_key, keys)
        line = [sys.executable, __file__, *(str(argument) for argument in arguments)]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)

    def await_end(self):
        out, _ = self.process.communicate(timeout=self.seconds + 120)
        if self.process.returncode != 0:
            raise BenchError("the probe failed; it needs the right to real-time priority")
        vars(self).update(json.loads(out))
        return self


class ReadLatency:
    """p99 in ms of the probe, and of the --rate GETs a second that it runs beside."""

    def __init__(self, server, options):
        probe = Probe(server.port, options.seconds, options.keys)
        rate = f"--qps={options.rate / CONNECTIONS}"
        report = server.load("--ratio=0:1", rate, f"--test_time={options.seconds}")
        self.probe = probe.await_end().p99_ms
        self.load = report["latency_us"]["p99"] / 1000

    def __str__(self):
        return f"{self.probe:.2f} (load {self.load:.2f})"


def main():
    latencies = probe(*(int(word) for word in sys.argv[1:]))
    report = {
        "p99_ms": percentile_ms(latencies, 99),
        "p99_9_ms": percentile_ms(latencies, 99.9),
        "max_ms": max(latencies) * 1000,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
