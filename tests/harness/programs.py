# SPDX-License-Identifier: Apache-2.0
"""Others' programs: those that run cases and print a line of JSON for each, and workers."""

import json
import os
import signal
import subprocess
import sys

from .server import ROOT, PATIENCE_S

TASKS = os.path.join(ROOT, "tests", "tasks")  # the modules with the tasks of Python's workers


def kill_group(process):
    """It and its children, if there are any left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


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
        kill_group(process)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    failures = [f"{line['case']}: {line['error']}" for line in lines if line.get("error")]
    assert not failures, "\n\n".join([*failures, err])
    assert process.returncode == 0, out + err
    return [line["case"] for line in lines]


class Worker:
    """A program of Python's packages in the background, and what it printed."""

    def __init__(self, server, name, *arguments, **environment):
        self.log_path = os.path.join(server.dir, f"{name}.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                python_program(*arguments),
                cwd=TASKS,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self):
        """Asks it to leave, which it has to do. pytest shows the log of a test that failed."""
        print(f"end of {self.log_path}:\n{self.log()[-5000:]}")
        try:
            if self.process.poll() is None:
                self.process.terminate()
            self.process.wait(timeout=PATIENCE_S)
        finally:
            kill_group(self.process)

    def kill(self):
        kill_group(self.process)
        self.process.wait()

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()


def python_program(name, *arguments):
    """The command of a program that stands beside the interpreter of these tests."""
    return [os.path.join(os.path.dirname(sys.executable), name), *arguments]
