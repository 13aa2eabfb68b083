# SPDX-License-Identifier: Apache-2.0
"""A primary that a test plays, word by word."""

import contextlib
import socket

from .server import PATIENCE_S


class FakePrimary:
    """Answers the handshake and then sends what it is told."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.listener.settimeout(PATIENCE_S)

    def accept_silently(self):
        """The next link, which has got no answer yet."""
        self.socket, _ = self.listener.accept()
        self.socket.settimeout(PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def accept(self, psync_reply):
        self.accept_silently()
        while True:
            command = self.read_command()
            if command == [b"END"]:  # it was a try that has been given up
                self.close()
                self.accept_silently()
                continue
            if command[0].upper() == b"PSYNC":
                self.socket.sendall(psync_reply)
                return command
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.socket.sendall(b"+PONG\r\n" if command[0].upper() == b"PING" else b"+OK\r\n")

    def read_command(self):
        try:
            line = self.file.readline()
            while line == b"\n":
                line = self.file.readline()
        except ConnectionResetError:
            line = b""
        if not line:
            return [b"END"]
        words = []
        for _ in range(int(line[1:])):
            size = int(self.file.readline()[1:])
            words.append(self.file.read(size + 2)[:-2])
        return words

    def close(self):
        with contextlib.suppress(OSError):  # the other side may have been faster
            self.socket.shutdown(socket.SHUT_RDWR)
        self.file.close()
        self.socket.close()


EMPTY_RDB = b"REDIS0010\xff" + b"\0" * 8
ID = "a" * 40


def full_copy(rdb=EMPTY_RDB, offset=1000):
    return f"+FULLRESYNC {ID} {offset}\r\n\n\n${len(rdb)}\r\n".encode() + rdb
