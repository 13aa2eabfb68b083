# SPDX-License-Identifier: Apache-2.0
"""What the other tests rely on."""

import os
import re
import subprocess
import sys

from harness.ports import COUNT, first_of_clients, free_port
from harness.server import only_dragonfly

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
MEETING = """acl admin bank blocking chaos churn client_limits ends exec failover_command gathered
hangs key_moves keys long_collections long_ranges long_reads long_strings long_writes memory
migration monitor multi notifications pipelines promotion pubsub quotas replica_chain
replica_tls scripts snapshots soak stream_blocking swapdb take_over take_over_moments threads
tls tls_reload tracking watch"""


@only_dragonfly("it is about the tests")
def test_the_thread_sanitizer_has_tests_of_each_file_in_which_threads_meet():
    here = os.path.dirname(__file__)
    command = [sys.executable, "-m", "pytest", "-c", f"{here}/pytest.ini", "--rootdir", here]
    command += ["-q", "--collect-only", "-p", "no:cacheprovider", "-m", "sanitized and not alone"]
    # Nothing is started: any program does for the server.
    changes = {"DFLY_MATRIX": "small", "DFLY_BINARY": sys.executable, "REFERENCE": ""}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    listed = subprocess.run(
        [*command, here], env={**environment, **changes}, capture_output=True, text=True
    )
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr
    found = {line.split("::")[0] for line in listed.stdout.splitlines() if "::" in line}
    files = {re.sub(r"^.*test_|\.py$", "", name) for name in found}
    assert set(MEETING.split()) <= files, set(MEETING.split()) - files
