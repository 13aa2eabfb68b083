# SPDX-License-Identifier: Apache-2.0
"""Programs in other languages that run cases and print a line of JSON for each."""

import json
import os
import signal
import subprocess


def run_cases(command, folder, timeout_s, **environment):
    """Runs `command`, whose children end with it, and gives the names of its cases; a case that
    failed fails the test."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # as it should be
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    failures = [f"{line['case']}: {line['error']}" for line in lines if line.get("error")]
    assert not failures, "\n\n".join([*failures, err])
    assert process.returncode == 0, out + err
    return [line["case"] for line in lines]
