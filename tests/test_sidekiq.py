# SPDX-License-Identifier: Apache-2.0
"""Debian's Sidekiq 6.4: three of its processes, and a client that pushes jobs and looks at them
(tests/sidekiq/cases.rb)."""

import os
import shutil
import subprocess

import pytest

from harness.programs import run_cases
from harness.server import PATIENCE_S, ROOT

pytestmark = [pytest.mark.threads, pytest.mark.timeout(25 * PATIENCE_S)]

FOLDER = os.path.join(ROOT, "tests", "sidekiq")
CASES = {
    "push",
    "queue API",
    "10,000 jobs",
    "scheduled set",
    "retries and the dead set",
    "stats and processes",
    "a job of a process that ends",
    "NOSCRIPT",
    "reliable fetch by LMOVE",
}


@pytest.fixture(scope="session")
def sidekiq():
    """Its command, `sidekiq`, is found by cases.rb."""
    if shutil.which("ruby") is None or shutil.which("sidekiq") is None:
        pytest.skip("ruby-sidekiq is not installed")
    version = subprocess.run(
        ["sidekiq", "--version"], capture_output=True, text=True, timeout=60
    ).stdout.strip()
    if not version.startswith("Sidekiq 6.4."):
        pytest.skip(f"these cases are for Sidekiq 6.4, which this is not: {version}")


@pytest.mark.long
def test_sidekiq(sidekiq, server):
    log = os.path.join(server.dir, "sidekiq.log")
    try:
        cases = run_cases(
            ["ruby", "cases.rb"],
            FOLDER,
            timeout_s=20 * PATIENCE_S,
            REDIS_URL=f"redis://127.0.0.1:{server.port}/0",
            SIDEKIQ_LOG=log,
            SIDEKIQ_DEADLINE_S=str(PATIENCE_S),
        )
    except AssertionError as e:
        with open(log, errors="replace") as f:
            raise AssertionError(f"{e}\n{''.join(f.readlines()[-40:])}") from None
    assert set(cases) == CASES
