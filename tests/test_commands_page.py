# SPDX-License-Identifier: Apache-2.0
"""docs/commands.md: which commands and options of redis-server are here."""

import os
import shutil
import subprocess
import sys

import pytest

from harness.server import ROOT, only_dragonfly


@only_dragonfly("it is about ours")
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")
def test_the_page_is_current_and_no_option_is_missing():
    tool = os.path.join(ROOT, "tools", "compat", "commands_page.py")
    made = subprocess.run([sys.executable, tool], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    with open(os.path.join(ROOT, "docs", "commands.md")) as page:
        assert made.stdout == page.read(), "tools/compat/commands_page.py > docs/commands.md"
    assert "~~" not in made.stdout.split("## ", 1)[1]
