# SPDX-License-Identifier: Apache-2.0
"""Ports for servers under test that nobody else takes before they do."""

import fcntl
import os
import socket
import tempfile

FIRST = 10_000
COUNT = 64  # of a block


def first_of_clients():
    """From here on the kernel takes ports for those who connect: a server that is about to listen
    there may find its port taken, even by the test that looks whether it listens already."""
    usual = 32_768
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            first = int(file.read().split()[0])
    except OSError:
        return usual
    # A machine may leave clients nearly all ports; then none is safe.
    return first if first >= FIRST + 16 * COUNT else usual


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Ports:
    """Blocks of ports that this process alone gives out: other test processes of this user look at
    the same locks."""

    def __init__(self):
        self._locks = []  # open for as long as the process lives
        self._ports = []  # in the order in which they were given out

    def next(self):
        """The one that was not given out for longest."""
        for i, port in enumerate(self._ports):
            if is_free(port):
                self._ports.append(self._ports.pop(i))
                return port
        self._take_block()
        return self.next()

    def _take_block(self):
        folder = os.path.join(tempfile.gettempdir(), f"dfly-test-ports-{os.getuid()}")
        os.makedirs(folder, exist_ok=True)
        blocks = (first_of_clients() - FIRST) // COUNT
        for i in range(blocks):
            block = (os.getpid() + i) % blocks
            lock = open(os.path.join(folder, str(block)), "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            self._locks.append(lock)
            first = FIRST + block * COUNT
            self._ports = [*range(first, first + COUNT), *self._ports]
            return
        raise AssertionError(f"all ports from {FIRST} to {first_of_clients()} are taken")


PORTS = Ports()


def free_port():
    return PORTS.next()
