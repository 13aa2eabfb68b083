# SPDX-License-Identifier: Apache-2.0
"""The functions that the workers of tests/test_rq.py run."""

import time

from rq import get_current_job


def add(x, y):
    return x + y


def add_to_result_of_dependency(y):
    return get_current_job().dependency.return_value() + y


def fail(text):
    raise ValueError(text)


def flaky(fails):
    """Succeeds after so many failures."""
    job = get_current_job()
    tries = job.connection.incr(f"tries:{job.id}")
    if tries <= fails:
        raise RuntimeError("not yet")
    return tries


def note(key, value):
    get_current_job().connection.rpush(key, value)
    return time.time()


def hold():
    """Is busy until the key `released` exists."""
    job = get_current_job()
    job.meta["started"] = True
    job.save_meta()
    while not job.connection.exists("released"):
        time.sleep(0.02)
