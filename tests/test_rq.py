# SPDX-License-Identifier: Apache-2.0
"""rq: two workers, one of them with the scheduler, and jobs that depend on each other, fail, are
tried again, come later, and are stopped."""

import time
from datetime import datetime, timedelta

import pytest
import redis
from rq import Queue, Retry
from rq.command import send_stop_job_command
from rq.exceptions import DuplicateJobError
from rq.job import JobStatus
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.worker import Worker as RqWorker

from harness.programs import Worker
from harness.server import wait_until

pytestmark = [pytest.mark.threads]



class Bench:
    def __init__(self, server):
        self.redis = redis.Redis(port=server.port)
        self.queue = Queue("jobs", connection=self.redis)
        url = f"redis://127.0.0.1:{server.port}/0"
        self.workers = [
            Worker(server, name, "rq", "worker", "-u", url, "-n", name, *options, "jobs", "low")
            for name, options in (("plain", []), ("scheduler", ["--with-scheduler"]))
        ]

    def wait_for(self, job, status):
        what = f"{job.func_name} is {status}"
        wait_until(lambda: job.get_status() == status, what=what)

    def result(self, job):
        self.wait_for(job, JobStatus.FINISHED)
        return job.return_value()

    def wait_for_workers(self):
        def all_there():
            for worker in self.workers:
                assert worker.process.poll() is None, worker.log()
            return RqWorker.count(connection=self.redis) == len(self.workers)

        wait_until(all_there, what="all workers are registered")

    def stop(self):
        for worker in self.workers:
            worker.stop()
        self.redis.close()


@pytest.fixture
def bench(server):
    bench = Bench(server)
    try:
        bench.wait_for_workers()
        yield bench
    finally:
        bench.stop()


def results(bench):
    job = bench.queue.enqueue("rq_jobs.add", 2, 3, result_ttl=100)
    assert bench.result(job) == 5
    assert job.id in FinishedJobRegistry(queue=bench.queue)
    assert 0 < bench.redis.ttl(job.key) <= 100
    jobs = bench.queue.enqueue_many(
        [Queue.prepare_data("rq_jobs.add", (i, i), result_ttl=500) for i in range(20)]
    )
    assert [bench.result(job) for job in jobs] == [2 * i for i in range(20)]
    assert bench.queue.count == 0


def dependencies(bench):
    first = bench.queue.enqueue("rq_jobs.add", 1, 2)
    second = bench.queue.enqueue("rq_jobs.add_to_result_of_dependency", 10, depends_on=first)
    third = bench.queue.enqueue("rq_jobs.add_to_result_of_dependency", 100, depends_on=second)
    assert bench.result(third) == 113
    held = bench.queue.enqueue("rq_jobs.fail", "on purpose")
    after = bench.queue.enqueue("rq_jobs.add", 1, 1, depends_on=held)
    bench.wait_for(held, JobStatus.FAILED)
    assert after.get_status() == JobStatus.DEFERRED
    assert after.id in bench.queue.deferred_job_registry


def failures(bench):
    job = bench.queue.enqueue("rq_jobs.fail", "no such thing")
    bench.wait_for(job, JobStatus.FAILED)
    assert "ValueError: no such thing" in job.latest_result().exc_string
    assert job.id in FailedJobRegistry(queue=bench.queue)
    tried = bench.queue.enqueue("rq_jobs.flaky", 2, retry=Retry(max=3))
    assert bench.result(tried) == 3
    hopeless = bench.queue.enqueue("rq_jobs.flaky", 9, retry=Retry(max=1))
    bench.wait_for(hopeless, JobStatus.FAILED)
    assert bench.redis.get(f"tries:{hopeless.id}") == b"2"
    bench.redis.set(f"tries:{hopeless.id}", 100)
    bench.queue.failed_job_registry.requeue(hopeless)
    assert bench.result(hopeless) == 101


def scheduled(bench):
    asked_at = time.time()
    job = bench.queue.enqueue_in(timedelta(seconds=1), "rq_jobs.note", "notes", "later")
    far = bench.queue.enqueue_in(timedelta(hours=1), "rq_jobs.note", "notes", "far")
    registry = ScheduledJobRegistry(queue=bench.queue)
    assert far.id in registry
    # Whole seconds are kept, so it may come up to one earlier.
    assert bench.result(job) >= asked_at
    assert bench.redis.lrange("notes", 0, -1) == [b"later"]
    assert registry.get_job_ids() == [far.id]
    far.cancel()
    assert registry.get_job_ids() == []


def unique(bench):
    """These enqueue by a script."""
    parked = Queue("parked", connection=bench.redis)  # nobody works on it
    parked.enqueue("rq_jobs.add", 1, 1, job_id="one", unique=True)
    with pytest.raises(DuplicateJobError):
        parked.enqueue("rq_jobs.add", 1, 1, job_id="one", unique=True)
    later = parked.create_job("rq_jobs.add", (1, 1), job_id="one")
    with pytest.raises(DuplicateJobError):
        parked.schedule_job(later, datetime.now() + timedelta(hours=1), unique=True)
    assert parked.job_ids == ["one"]
    for i in range(10):
        parked.enqueue("rq_jobs.add", i, 1)
    assert parked.empty() == 11  # by a script, too, which finds the keys of jobs in the list
    assert list(bench.redis.scan_iter("rq:job:one")) == []
    assert parked.count == 0


def stopped(bench):
    """A command comes to the worker by publish and subscribe."""
    job = bench.queue.enqueue("rq_jobs.hold")
    wait_until(lambda: job.get_meta().get("started"), what="the job runs")
    send_stop_job_command(bench.redis, job.id)
    bench.wait_for(job, JobStatus.STOPPED)
    assert {w.name for w in RqWorker.all(connection=bench.redis)} == {"plain", "scheduler"}


CASES = [results, dependencies, failures, scheduled, unique, stopped]


def test_rq(bench, subtests):
    for case in CASES:
        with subtests.test(case.__name__):
            case(bench)
