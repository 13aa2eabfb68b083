# SPDX-License-Identifier: Apache-2.0
"""The tasks that the workers of tests/test_celery.py run. REDIS_URL: the broker and the backend."""

import os
import time

from celery import Celery

app = Celery("celery_app", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.update(
    broker_transport_options={
        "visibility_timeout": 3600,
        "priority_steps": [0, 3, 6, 9],
        "queue_order_strategy": "priority",
    },
    broker_connection_retry_on_startup=True,
    # A result that is forgotten after the server has gone must not try for ever to tell it.
    result_backend_transport_options={"retry_policy": {"max_retries": 3}},
    task_send_sent_event=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    worker_hijack_root_logger=False,
)


@app.task
def add(x, y):
    return x + y


@app.task
def multiply(x, y):
    return x * y


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail(text):
    raise ValueError(text)


@app.task(bind=True, max_retries=3)
def flaky(self, fails):
    """Succeeds after so many failures."""
    if self.request.retries < fails:
        raise self.retry(countdown=0.05, exc=RuntimeError("not yet"))
    return self.request.retries


@app.task
def when(_name):
    return time.time()


@app.task(bind=True)
def note(self, key, value):
    """Into the list `key`, by the backend's own client."""
    self.backend.client.rpush(key, value)


@app.task(bind=True, acks_late=True)
def hold(self, key):
    """Is busy until the key `released` exists."""
    client = self.backend.client
    client.rpush(key, os.getpid())
    while not client.exists("released"):
        time.sleep(0.02)
    return os.getpid()
