# SPDX-License-Identifier: Apache-2.0
"""Clients of other languages find the primary by Sentinel and write, with their own settings, while
it is killed and another one promoted. They go on there by themselves, and with synchronous replicas
nothing that was answered is lost. (test_failover.py: redis-py, test_jobs.py: ioredis and Sidekiq.)
Jedis needs a JDK and Maven, 400 MB of packages that no other test needs: DFLY_JEDIS=1 runs it."""

import os
import random
import re
import shutil
import subprocess

import pytest

from failover.failover import FAILOVER_S, NAME, Cluster, lose
from failover.marks import MARKS
from harness.seeds import new_seed
from harness.server import PATIENCE_S, ROOT, wait_until

pytestmark = MARKS

SOURCES = os.path.join(ROOT, "tests", "clients")
BUILD_S = 600  # the first time its packages are fetched, and compiled
KEY = "numbers"


def built(name):
    folder = os.path.join(ROOT, "build", "clients", name)
    os.makedirs(folder, exist_ok=True)
    return folder


def go_redis():
    go = shutil.which("go") or "/usr/local/go/bin/go"
    version = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, re.search(r"go(\d+)\.(\d+)", version).groups())) < (1, 21):
        pytest.skip("go-redis 9.17 needs Go 1.21; Debian 12 has 1.19")
    program = os.path.join(built("go-redis"), "sentinel")
    folder = os.path.join(SOURCES, "go-redis")
    build = [go, "build", "-o", program, "./sentinel"]
    p = subprocess.run(build, cwd=folder, capture_output=True, text=True, timeout=BUILD_S)
    if p.returncode != 0:
        pytest.skip(f"go cannot fetch or build go-redis: {p.stderr.strip()[-300:]}")
    return [program]


def jedis():
    folder = built("jedis")
    pom = os.path.join(SOURCES, "jedis", "pom.xml")
    paths = os.path.join(folder, "classpath")
    command = ["mvn", "-q", "-B", "-f", pom, f"-Dscenario.build={folder}", "compile"]
    command += ["dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
    subprocess.run(command, check=True, timeout=BUILD_S)
    with open(paths) as f:
        return ["java", "-cp", f"{folder}/classes:{f.read()}", "ThroughSentinel"]


def redis_rb():
    return ["ruby", os.path.join(SOURCES, "redis-rb", "through_sentinel.rb")]


without_java = pytest.mark.skipif(
    "DFLY_JEDIS" not in os.environ,
    reason="a JDK and Maven are 400 MB of packages for this test alone; DFLY_JEDIS=1 runs it",
)
CLIENTS = [
    pytest.param(go_redis, id="go-redis"),
    pytest.param(jedis, id="jedis", marks=without_java),
    pytest.param(redis_rb, id="redis-rb"),
]


class Writer:
    """A client's program, and what it was answered so far."""

    def __init__(self, cluster, command, folder):
        self.out, self.log = folder / "answered", folder / "log"
        ports = " ".join(map(str, cluster.sentinel_ports))
        with open(self.out, "wb") as out, open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "SENTINELS": ports, "MASTER": NAME, "KEY": KEY},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
            )

    def answered(self):
        whole, _, _ = self.out.read_text().rpartition("\n")
        return [int(line) for line in whole.split()]

    def await_answers(self, count):
        def has_more():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            return len(self.answered()) >= goal

        goal = len(self.answered()) + count
        wait_until(has_more, timeout_s=FAILOVER_S, what="answers")

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, self.log.read_text()[-2000:]


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path, min_replicas_to_ack=1) as cluster:
        yield cluster


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_goes_on_with_the_new_primary(client, cluster, tmp_path):
    command = client()
    writer = Writer(cluster, command, tmp_path)
    try:
        writer.await_answers(200)
        primary = cluster.primary()
        bring_back = lose(random.Random(new_seed()), "kill", primary)
        try:
            wait_until(
                lambda: (node := cluster.primary()) is not primary and node,
                timeout_s=FAILOVER_S,
                what="a failover",
            )
            writer.await_answers(200)
        finally:
            bring_back()
        cluster.await_whole()
        writer.await_answers(200)
        writer.end()
    finally:
        writer.process.kill()
        writer.process.wait()
    print(writer.log.read_text()[-1000:])
    answered = writer.answered()
    there = {int(number) for number in cluster.await_whole().ask("SMEMBERS", KEY)}
    assert len(answered) >= 600 and sorted(set(answered) - there) == []
    for node in cluster.nodes:
        wait_until(lambda: node.ask("SCARD", KEY) == len(there), what=f"all at {node.port}")
