# SPDX-License-Identifier: Apache-2.0
"""Node's packages for tests: installed under build/, so that the tree stays clean."""

import os
import shutil
import subprocess

import pytest

from .server import ROOT


def node_path(name):
    """NODE_PATH with what tests/<name>/package.json names, installed on the first use and when that
    file has changed; skips the test where that is not possible."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = os.path.join(ROOT, "build", name)
    modules = os.path.join(folder, "node_modules")
    stamp = os.path.join(modules, "installed.json")
    with open(os.path.join(ROOT, "tests", name, "package.json")) as f:
        wanted = f.read()
    if os.path.exists(stamp):
        with open(stamp) as f:
            if f.read() == wanted:
                return modules
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "package.json"), "w") as f:
        f.write(wanted)
    p = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
    )
    if p.returncode != 0:
        pytest.skip(f"npm cannot install what tests/{name} needs: {p.stderr.strip()[-200:]}")
    with open(stamp, "w") as f:
        f.write(wanted)
    return modules
