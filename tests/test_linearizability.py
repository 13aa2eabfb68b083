# SPDX-License-Identifier: Apache-2.0
"""Histories of concurrent clients, checked by tests/linearizability (Go, Porcupine): its main.go
tells what it does. A bad history is left in build/linearizability."""

import os
import re
import shutil
import subprocess

import pytest

from harness.seeds import new_seed
from harness.server import ROOT

SOURCE = os.path.join(ROOT, "tests", "linearizability")
OUTPUT = os.path.join(ROOT, "build", "linearizability")

pytestmark = pytest.mark.timeout(600)  # the first build gets the module and compiles all of it


@pytest.fixture(scope="module")
def checker():
    go = shutil.which("go") or "/usr/local/go/bin/go"
    os.makedirs(OUTPUT, exist_ok=True)
    program = os.path.join(OUTPUT, "linearizability")
    subprocess.run([go, "build", "-o", program, "."], cwd=SOURCE, check=True, timeout=300)
    return program


def run(checker, server, *options):
    host, port = server.address
    command = [checker, f"--address={host}:{port}", f"--directory={OUTPUT}"]
    command += [f"--seed={new_seed()}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(done.stdout, done.stderr)  # pytest -s, and what a failure shows
    return done


def test_histories_are_linearizable(checker, server):
    done = run(checker, server)
    assert done.returncode == 0, done.stdout + done.stderr
    # What was left out is told, and only what the server cannot do yet.
    skipped = re.findall(r"^(\S+) +SKIPPED", done.stdout, re.MULTILINE)
    with server.connect() as r:
        reply = r.call("BLPOP")
    knows_blocking = "unknown command" not in reply.text
    assert skipped == ([] if knows_blocking else ["blocking", "blocking-pushes", "blocking-exec"])


def test_commands_that_are_not_atomic_are_found_out(checker, server):
    done = run(checker, server, "--break", f"--directory={OUTPUT}/broken")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"NOT LINEARIZABLE", done.stdout)) >= 10
