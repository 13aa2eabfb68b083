# SPDX-License-Identifier: Apache-2.0
"""What the other tests rely on."""

import os
import re
import subprocess
import sys

import pytest

from harness.ports import COUNT, first_of_clients, free_port

PRINT_PORTS = "from harness.ports import free_port; print(*(free_port() for _ in range(100)))"


def test_ports_of_servers_are_none_that_clients_get():
    assert max(free_port() for _ in range(2 * COUNT)) < first_of_clients()


def test_processes_that_run_at_once_give_out_different_ports():
    free_port()
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", PRINT_PORTS + "; input()"]
    pipe = subprocess.PIPE
    others = [subprocess.Popen(command, cwd=here, stdin=pipe, stdout=pipe) for _ in range(3)]
    try:
        ports = [set(map(int, other.stdout.readline().split())) for other in others]
    finally:
        for other in others:
            other.communicate(b"\n")
    ports.append({free_port() for _ in range(100)})
    assert all(ports)
    assert len(set.union(*ports)) == sum(map(len, ports))


# Files in which threads of the server meet, so that tier tsan has tests of each of them.
MEETING = """acl admin bank blocking churn client_limits ends exec failover_command gathered hangs
key_moves keys long_collections long_ranges long_reads long_strings long_writes memory migration
monitor multi notifications pipelines promotion pubsub quotas replica_chain replica_tls scripts
snapshots soak stream_blocking swapdb take_over take_over_moments threads tls tls_reload tracking
watch"""


@pytest.mark.parametrize("name", [*MEETING.split(), "chaos"])
def test_the_thread_sanitizer_has_tests_of_each_file_in_which_threads_meet(name):
    folder = os.path.join(os.path.dirname(__file__), "chaos" if name == "chaos" else "")
    with open(os.path.join(folder, f"test_{name}.py")) as f:
        text = f.read()
    of_file = "".join(re.findall(r"^pytestmark = (\[.*?\]$|[^\n]*)", text, re.S | re.M))
    assert "mark.alone" not in of_file
    marked = len(re.findall(r"^@(?:pytest\.mark\.)?sanitized$", text, re.M))
    if "mark.sanitized" in of_file:
        marked = len(re.findall(r"^def test_", text, re.M))
    assert marked > len(re.findall(r"^@pytest\.mark\.alone$", text, re.M))
