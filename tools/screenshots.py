#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the web console, of a server under load: docs/images/console-*.png.

  build/venv/bin/python tools/screenshots.py [--build build/release] [--seconds 20]

Needs chromium (tools/install_deps.sh test) and the packages of tests/requirements.txt.
"""

import argparse
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from harness.browser import launch  # noqa: E402
from harness.resp import RespSocket  # noqa: E402

PICTURES = (
    # name, tab, width, height, colours
    ("overview", "overview", 1280, 860, "light"),
    ("threads", "threads", 1280, 620, "dark"),
    ("clients", "clients", 1280, 620, "light"),
)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def load(build, port):
    """Several kinds of clients."""
    kinds = (
        ["--ratio=1:4", "-c", "10", "--qps=300", "--key_dist=Z"],
        ["--command", "ZADD board __score__ __data__", "-c", "2", "--qps=100"],
        ["--command", "LPUSH queue:mail __data__", "-c", "1", "--qps=50"],
        ["--command", "HSET user:__key__ name __data__", "-c", "2", "--qps=100"],
    )
    common = [f"{build}/dfly_bench", "-p", str(port), "--test_time=600", "--proactor_threads=1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return [subprocess.Popen(common + kind, **quiet) for kind in kinds]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--seconds", type=int, default=20, help="of load before the pictures")
    parser.add_argument("--out", default=str(ROOT / "docs/images"))
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    port = free_port()
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        server = [f"{options.build}/dragonfly", "--port", str(port), "--proactor_threads=4"]
        server += ["--maxmemory=256mb", "--dir", folder, "--slowlog_log_slower_than=300"]
        log = subprocess.DEVNULL
        processes.append(subprocess.Popen(server, stdout=log, stderr=log, cwd=folder))
        try:
            time.sleep(1)
            processes += load(options.build, port)
            waiters = [RespSocket(("127.0.0.1", port)) for _ in range(3)]
            for i, waiter in enumerate(waiters):
                waiter.call("CLIENT", "SETNAME", f"worker-{i}")
                waiter.send_command("BLPOP", f"queue:{i}", "queue:urgent", 0)
            with sync_playwright() as playwright, launch(playwright) as browser:
                shoot(browser, port, out, options.seconds)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(20)


def shoot(browser, port, out, seconds):
    pages = []
    for name, tab, width, height, colours in PICTURES:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
        page.goto(f"http://127.0.0.1:{port}/")
        page.click(f"nav button[data-tab={tab}]")
        pages.append((name, page))
    time.sleep(seconds)
    for name, page in pages:
        page.bring_to_front()
        page.wait_for_timeout(2000)
        path = out / f"console-{name}.png"
        page.screenshot(path=path)
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
