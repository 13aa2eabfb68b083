# SPDX-License-Identifier: Apache-2.0
"""What stands between a replica and its primary, and lets through so many bytes."""

import contextlib
import socket
import threading

from .server import PATIENCE_S

CHUNK = 1 << 14


class Valve:
    """The replica follows `port`. Thread: any."""

    def __init__(self, upstream):
        self.upstream = upstream
        self.changed = threading.Condition()
        self.hold_at = None  # so many bytes of the primary come through in each link; None: all
        self.passed = 0  # of the newest link
        self.links = 0  # that there have been
        self.is_cut = False
        self.ends = False
        self.sockets = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = []
        self._start(self._accept)

    def cut(self):
        """Ends the link that there is; until mend() no other one comes through."""
        with self.changed:
            self.is_cut = True
            for each in self.sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self.changed.notify_all()

    def mend(self, hold_at=None):
        with self.changed:
            self.is_cut, self.hold_at = False, hold_at
            self.changed.notify_all()

    def open(self):
        """All of the link that there is comes through."""
        with self.changed:
            self.hold_at = None
            self.changed.notify_all()

    def await_held(self):
        """Until it has let through what it may."""
        with self.changed:
            is_held = self.changed.wait_for(lambda: self.passed == self.hold_at, PATIENCE_S)
            assert is_held, f"{self.passed} of {self.hold_at} bytes, {self.links} links"

    def close(self):
        self.cut()
        with self.changed:
            self.ends = True
            self.changed.notify_all()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()

    def _start(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                replica, _ = self.listener.accept()
            except OSError:
                return
            with self.changed:
                if self.is_cut:
                    replica.close()
                    continue
                try:
                    primary = socket.create_connection(("127.0.0.1", self.upstream))
                except OSError:
                    replica.close()
                    continue
                self.passed = 0
                self.links += 1
                self.sockets = {replica, primary}
            self._start(self._pump, replica, primary, False)
            self._start(self._pump, primary, replica, True)

    def _pump(self, source, to, is_held):
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                while data:
                    part = self._admit(len(data)) if is_held else len(data)
                    if part == 0:
                        break
                    to.sendall(data[:part])
                    data = data[part:]
                if data:
                    break
        for each in (source, to):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if is_held:
            source.close()

    def _admit(self, size):
        """How many of so many bytes may go on; waits for that. 0: none any more."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.is_cut or self.hold_at is None or self.passed < self.hold_at
            )
            if self.is_cut:
                return 0
            part = size if self.hold_at is None else min(size, self.hold_at - self.passed)
            self.passed += part
            self.changed.notify_all()
            return part
