# SPDX-License-Identifier: Apache-2.0
"""What the other tests rely on."""

import os
import subprocess
import sys

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
