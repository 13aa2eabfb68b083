# SPDX-License-Identifier: Apache-2.0
"""Node's packages for tests: installed under build/, so that the tree stays clean."""

import os
import shutil
import subprocess

import pytest

from .server import ROOT


def node_folder(name):
    """A copy of tests/<name> in build/ with its node_modules, made on the first use; skips the
    test where that is not possible."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    source = os.path.join(ROOT, "tests", name)
    folder = os.path.join(ROOT, "build", name)
    installed = os.path.join(folder, "node_modules", "installed.json")
    shutil.copytree(source, folder, dirs_exist_ok=True)
    with open(os.path.join(source, "package.json")) as f:
        wanted = f.read()
    if os.path.exists(installed):
        with open(installed) as f:
            if f.read() == wanted:
                return folder
    p = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
    )
    if p.returncode != 0:
        pytest.skip(f"npm cannot install what tests/{name} needs: {p.stderr.strip()[-200:]}")
    with open(installed, "w") as f:
        f.write(wanted)
    return folder
