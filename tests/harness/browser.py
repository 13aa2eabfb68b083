# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, Debian's."""

import shutil

# It is a browser of tests: nothing of its own goes over the network.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def launch(playwright):
    path = shutil.which("chromium")
    assert path is not None, "no chromium: tools/install_deps.sh test"
    return playwright.chromium.launch(executable_path=path, headless=True, args=list(ARGUMENTS))
