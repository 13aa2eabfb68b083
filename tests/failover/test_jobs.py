# SPDX-License-Identifier: Apache-2.0
"""BullMQ and Sidekiq work jobs while their primary is lost and Sentinel promotes another one. Once
they have it, all jobs that are there are carried out. Without synchronous replicas those that were
answered last may be lost with the primary, so their number is only told."""

import json
import os
import random
import shutil
import subprocess

import pytest

from failover.failover import FAILOVER_S, NAME, Cluster, lose
from failover.marks import MARKS
from harness.npm import node_path
from harness.seeds import new_seed
from harness.server import PATIENCE_S, wait_until

pytestmark = [
    *MARKS,
    pytest.mark.skipif(
        "DFLY_FAILOVERS" not in os.environ,
        reason="clients of a busy machine give up before Sentinel; DFLY_FAILOVERS=1 runs it",
    ),
]

FOLDER = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path, min_replicas_to_ack=1) as cluster:
        yield cluster


def fail_over(cluster, fault, count_added):
    """While jobs are added. Returns when some more have been added after it."""
    wait_until(lambda: count_added() > 200, timeout_s=FAILOVER_S, what="jobs")
    primary = cluster.primary()
    bring_back = lose(random.Random(new_seed()), fault, primary)
    try:
        wait_until(
            lambda: (node := cluster.primary()) is not primary and node,
            timeout_s=FAILOVER_S,
            what="a failover",
        )
        before = count_added()
        wait_until(lambda: count_added() > before + 200, timeout_s=FAILOVER_S, what="more jobs")
    finally:
        bring_back()
    cluster.await_whole()


def count_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_bullmq(cluster, tmp_path, fault):
    environment = {**os.environ, "NODE_PATH": node_path("bullmq")}
    options = json.dumps({"sentinels": cluster.sentinel_ports, "name": NAME})
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen(
            ["node", "bullmq_jobs.js", options],
            cwd=FOLDER,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
        )
    try:
        fail_over(cluster, fault, lambda: count_lines(tmp_path / "out"))
        process.stdin.write(b"stop\n")
        process.stdin.close()
        assert process.wait(FAILOVER_S) == 0
    finally:
        process.kill()
        process.wait()
    result = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    print(result)
    assert result["answered"] > 400 and result["done"] > 400
    assert result["lost"] == []


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_sidekiq(cluster, tmp_path, fault):
    if shutil.which("ruby") is None or shutil.which("sidekiq") is None:
        pytest.skip("ruby-sidekiq is not installed")
    added, done = tmp_path / "added", tmp_path / "done"
    threads = 4
    environment = {
        **os.environ,
        "SENTINELS": " ".join(map(str, cluster.sentinel_ports)),
        "ADDED": str(added),
        "DONE": str(done),
    }

    def start(*command):
        with open(tmp_path / f"{command[0]}.log", "wb") as log:
            return subprocess.Popen(
                command, cwd=FOLDER, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    worker = start("sidekiq", "-r", "./sidekiq_jobs.rb", "-c", str(threads))
    producer = start("ruby", "sidekiq_jobs.rb")
    try:
        fail_over(cluster, fault, lambda: count_lines(added))
        producer.stdin.close()
        assert producer.wait(PATIENCE_S) == 0
        last = added.read_text().split()[-1]
        wait_until(lambda: last in done.read_text().split(), timeout_s=FAILOVER_S, what="the last")
        wait_until(
            lambda: cluster.primary().ask("LLEN", "queue:default") == 0, what="an empty queue"
        )
        worker.terminate()
        worker.wait(PATIENCE_S)
    finally:
        for process in (worker, producer):
            process.kill()
            process.wait()
    lost = set(added.read_text().split()) - set(done.read_text().split())
    print({"added": count_lines(added), "lost": len(lost)})
    # A job that Sidekiq has taken by BRPOP is nowhere else until it is done: whose reply is lost
    # with the primary is lost, too. Each thread may have one.
    assert len(lost) <= threads
