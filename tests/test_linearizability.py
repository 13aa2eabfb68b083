# SPDX-License-Identifier: Apache-2.0
"""Histories of concurrent clients, checked by tests/linearizability (Go, Porcupine): its main.go
tells what it does. A bad history is left in build/linearizability."""

import contextlib
import re
import shutil
import subprocess

import pytest

from harness.porcupine import OUTPUT, build_checker
from harness.seeds import new_seed
from harness.server import PATIENCE_S, REFERENCE, Server, wait_until_loaded

pytestmark = pytest.mark.timeout(600)  # the first build gets the module and compiles all of it


@pytest.fixture(scope="module")
def checker():
    return build_checker()


def run(checker, server, *options):
    host, port = server.address
    command = [checker, f"--address={host}:{port}", f"--directory={OUTPUT}"]
    command += [f"--seed={new_seed()}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(done.stdout, done.stderr)  # pytest -s, and what a failure shows
    return done


@pytest.mark.long
def test_histories_are_linearizable(checker, server):
    done = run(checker, server)
    assert done.returncode == 0, done.stdout + done.stderr
    # What was left out is told, and only what the server cannot do yet.
    skipped = re.findall(r"^(\S+) +SKIPPED", done.stdout, re.MULTILINE)
    with server.connect() as r:
        reply = r.call("BLPOP")
    knows_blocking = "unknown command" not in reply.text
    assert skipped == ([] if knows_blocking else ["blocking", "blocking-pushes", "blocking-exec"])


def run_with_crashes(checker, server, *options):
    """Kills and restarts the server whenever the checker says so."""
    host, port = server.address
    command = [checker, f"--address={host}:{port}", "--crashes", "--seconds=0"]
    command += ["--clients=6", "--operations=8", f"--seed={new_seed()}", *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            lines = []
            for line in process.stdout:
                if line != "crash\n":
                    lines.append(line)
                    continue
                server.kill()
                server.start_again()
                wait_until_loaded(server)
                process.stdin.write("{}:{}\n".format(*server.address))
        except BaseException:
            process.kill()
            raise
    said = "".join(lines)
    print(said)
    return process.wait(timeout=PATIENCE_S), said


@contextlib.contextmanager
def started(**flags):
    server = Server(**flags)
    try:
        yield server
        server.stop()
    finally:
        server.kill()
        shutil.rmtree(server.dir, ignore_errors=True)


@pytest.mark.skipif(REFERENCE, reason="redis-server answers before its log is on the disk")
@pytest.mark.parametrize("threads", [1, 3])
def test_histories_with_crashes_are_linearizable(checker, threads):
    with started(appendonly="yes", appendfsync="always", proactor_threads=threads) as server:
        status, said = run_with_crashes(checker, server, f"--directory={OUTPUT}/crashes")
        assert status == 0, said


@pytest.mark.skipif(REFERENCE, reason="the test is of the checker")
def test_a_server_that_forgets_is_found_out(checker):
    with started(proactor_threads=3) as server:
        status, said = run_with_crashes(checker, server, f"--directory={OUTPUT}/broken")
        assert status == 1, said
        assert len(re.findall(r"NOT LINEARIZABLE", said)) >= 3


def test_commands_that_are_not_atomic_are_found_out(checker, server):
    done = run(checker, server, "--break", f"--directory={OUTPUT}/broken")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"NOT LINEARIZABLE", done.stdout)) >= 10
