# SPDX-License-Identifier: Apache-2.0
"""docs/compatibility.md: what of Redis' own tests passes, which commands and options are here."""

import os
import shutil
import subprocess
import sys

import pytest

from harness.server import ROOT, only_dragonfly


@only_dragonfly("it is about ours")
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")
def test_the_page_is_current_and_no_option_is_missing():
    tool = os.path.join(ROOT, "tools", "compat", "compatibility_page.py")
    made = subprocess.run([sys.executable, tool], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    with open(os.path.join(ROOT, "docs", "compatibility.md")) as page:
        assert made.stdout == page.read(), "compatibility_page.py > docs/compatibility.md"
    assert "~~" not in made.stdout.split("## ", 1)[1]
