# SPDX-License-Identifier: Apache-2.0
"""Builds the checker of histories, tests/linearizability (Go, Porcupine)."""

import os
import shutil
import subprocess

from .server import ROOT

SOURCE = os.path.join(ROOT, "tests", "linearizability")
OUTPUT = os.path.join(ROOT, "build", "linearizability")


def build_checker():
    """Its path. Processes that run tests at the same time may build it at the same time."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    os.makedirs(OUTPUT, exist_ok=True)
    program = os.path.join(OUTPUT, "linearizability")
    own = f"{program}.{os.getpid()}"
    subprocess.run([go, "build", "-o", own, "."], cwd=SOURCE, check=True, timeout=300)
    os.replace(own, program)
    return program
