# SPDX-License-Identifier: Apache-2.0
"""Celery with the server as its broker and its result backend: a worker with two processes, and
one of a single process, which takes one task after the other."""

import contextlib
import gc
import importlib
import subprocess
import sys
import time

import pytest
from celery import chain, chord, group
from celery.exceptions import TimeoutError as ResultTimeoutError

from harness.programs import TASKS, Worker, python_program
from harness.server import PATIENCE_S, wait_until

pytestmark = [pytest.mark.threads]


class Bench:
    """The tasks, connected to this server, and its workers."""

    def __init__(self, server):
        self.server = server
        self.environment = {"REDIS_URL": f"redis://127.0.0.1:{server.port}/0"}
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(TASKS)
            patch.setenv("REDIS_URL", self.environment["REDIS_URL"])
            sys.modules.pop("celery_app", None)  # of the server before
            self.tasks = importlib.import_module("celery_app")
        self.app = self.tasks.app
        self.workers = {}

    def start(self, name, *options):
        arguments = ["-A", "celery_app", "worker", "-l", "INFO", "-n", f"{name}@test", *options]
        self.workers[name] = Worker(self.server, name, "celery", *arguments, **self.environment)

    def wait_for_workers(self):
        names = {f"{name}@test" for name in self.workers}

        def all_answer():
            for worker in self.workers.values():
                assert worker.process.poll() is None, worker.log()
            replies = self.app.control.ping(sorted(names), timeout=2)  # or as soon as all are there
            return {name for reply in replies for name in reply} == names

        wait_until(all_answer, what="all workers answer a ping")

    def stop(self):
        for worker in self.workers.values():
            worker.stop()
        gc.collect()  # results unsubscribe when they go; the server is still there
        self.app.close()

    def get(self, result):
        # On a machine that has no CPU for the subscriber's thread while a task runs, the message
        # comes before the subscription; who asks again is told (docs/integrations/celery.md). What
        # must not get lost is in test_pubsub.py.
        with contextlib.suppress(ResultTimeoutError):
            return result.get(timeout=PATIENCE_S / 4)
        return result.get(timeout=PATIENCE_S)


@pytest.fixture
def bench(server):
    bench = Bench(server)
    try:
        bench.start("two", "-c", "2", "-Q", "celery")
        bench.start("one", "-P", "solo", "-Q", "single")
        bench.wait_for_workers()
        yield bench
    finally:
        bench.stop()


def results(bench, r):
    t = bench.tasks
    assert bench.get(t.add.delay(2, 3)) == 5
    with pytest.raises(ValueError, match="no such thing"):
        bench.get(t.fail.delay("no such thing"))
    assert bench.get(t.flaky.delay(3)) == 3
    failed = t.flaky.delay(4)
    with pytest.raises(RuntimeError, match="not yet"):
        bench.get(failed)
    assert failed.state == "FAILURE"
    asked_at = time.time()
    assert bench.get(t.when.apply_async(["later"], countdown=0.5)) >= asked_at + 0.5
    many = [t.add.delay(i, i) for i in range(100)]
    assert [bench.get(result) for result in many] == [2 * i for i in range(100)]
    result = t.add.delay(1, 1)
    bench.get(result)
    key = f"celery-task-meta-{result.id}"
    assert 0 < r.call("TTL", key) <= 86400
    result.forget()
    assert r.call("EXISTS", key) == 0


def canvas(bench, _r):
    """Tasks made of tasks. A chord's end is counted in the backend."""
    t = bench.tasks
    assert bench.get(chain(t.add.s(2, 3), t.multiply.s(4), t.add.s(1))()) == 21
    assert bench.get(group(t.add.s(i, 1) for i in range(20))()) == list(range(1, 21))
    assert bench.get(chord((t.add.s(i, i) for i in range(20)), t.total.s())()) == 380
    inner = group(t.add.s(i) for i in range(5))
    assert bench.get(chain(t.add.s(1, 1), inner, t.total.s(), t.multiply.s(2))()) == 40
    with pytest.raises(ValueError, match="one of them"):
        bench.get(chain(t.add.s(1, 1), t.fail.si("one of them"), t.add.s(1))())


def priorities(bench, r):
    """Each step of priority is a list; BRPOP names them all."""
    t = bench.tasks
    for i, priority in enumerate([9, 3, 0, 6, 0, 9]):
        arguments = ["order", f"{priority}-{i}"]
        t.note.apply_async(arguments, queue="ordered", priority=priority)
    assert r.call("LLEN", "ordered") == 2
    bench.app.control.add_consumer("ordered", destination=["one@test"], reply=True)
    wait_until(lambda: r.call("LLEN", "order") == 6, what="6 tasks")
    order = [value.decode() for value in r.call("LRANGE", "order", 0, -1)]
    assert order == ["0-2", "0-4", "3-1", "6-3", "9-0", "9-5"]


def inspection(bench, r):
    """By remote control, which is publish and subscribe, and by the command line."""
    t = bench.tasks
    inspect = bench.app.control.inspect(["one@test", "two@test"], timeout=PATIENCE_S)
    assert set(inspect.ping()) == {"one@test", "two@test"}
    assert "celery_app.add" in inspect.registered()["two@test"]
    queues = {queue["name"] for queue in inspect.active_queues()["two@test"]}
    assert queues == {"celery"}
    ping = subprocess.run(
        python_program("celery", "-A", "celery_app", "inspect", "ping", "-t", "1"),
        cwd=TASKS,
        env={**bench.environment, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ping.returncode == 0, ping.stdout + ping.stderr
    assert "two@test: OK" in ping.stdout and "2 nodes online" in ping.stdout

    held = t.hold.apply_async(["held"], queue="celery")
    wait_until(lambda: r.call("LLEN", "held") == 1, what="the task runs")
    active = inspect.active()["two@test"]
    assert [task["id"] for task in active] == [held.id]
    revoked = t.when.apply_async(["revoked"], countdown=1000)
    wait_until(lambda: inspect.scheduled()["two@test"], what="the task waits")
    revoked.revoke()
    wait_until(lambda: revoked.id in inspect.revoked()["two@test"], what="it is revoked")
    r.call("SET", "released", 1)
    bench.get(held)
    r.call("DEL", "released", "held")


def events(bench, _r):
    """What workers tell of their tasks, as flower shows it."""
    seen = []
    sent = []

    def on_event(event):
        if not sent:  # a heartbeat: the subscription is there
            sent.append(bench.tasks.add.delay(1, 2).id)
        if event.get("uuid") in sent:
            seen.append(event["type"])
        receiver.should_stop = "task-succeeded" in seen

    with bench.app.connection_for_read() as connection:
        receiver = bench.app.events.Receiver(connection, handlers={"*": on_event})
        receiver.capture(limit=None, timeout=PATIENCE_S, wakeup=True)
    # By the worker, which may be quicker than the event that the client sends.
    seen = [event for event in seen if event != "task-sent"]
    assert seen == ["task-received", "task-started", "task-succeeded"]


def lost_worker(bench, r):
    """A worker dies with a task that it has not acknowledged; another one gets it."""
    t = bench.tasks
    result = t.hold.apply_async(["lost"], queue="single")
    wait_until(lambda: r.call("LLEN", "lost") == 1, what="the task runs")
    assert r.call("HLEN", "unacked") >= 1
    bench.workers["one"].kill()
    bench.start("one", "-P", "solo", "-Q", "single")
    bench.wait_for_workers()
    r.call("SET", "released", 1)
    # Each worker looks for lost tasks now and then; here it is done by hand, all at once.
    with bench.app.connection_for_write() as connection:
        channel = connection.default_channel
        channel.visibility_timeout = 0
        channel.qos.restore_visible(num=100, interval=1)
    assert bench.get(result) == int(r.call("LRANGE", "lost", 1, 1)[0])
    wait_until(lambda: r.call("HLEN", "unacked") == 0, what="all is acknowledged")


CASES = [results, canvas, priorities, inspection, events, lost_worker]


@pytest.mark.long
@pytest.mark.flags()  # Celery's pools keep connections, which the next tests would see
@pytest.mark.filterwarnings("ignore:Call to deprecated setex")  # by Celery's backend
def test_celery(bench, r, subtests):
    for case in CASES:
        with subtests.test(case.__name__):
            case(bench, r)
