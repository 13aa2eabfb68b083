# SPDX-License-Identifier: Apache-2.0
"""The network in front of a server: everybody knows it by the proxy's port, so it can be cut off.

A cut drops nothing that was sent and resets nothing: no byte comes through, in either direction,
until it is mended, and who connects meanwhile hears nothing. That is what a cut cable looks like.
"""

import contextlib
import selectors
import socket
import threading

CHUNK = 1 << 16


class Proxy:
    """`upstream`: the server's port, once that is known. Thread: any but for the loop's own."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.upstream = None
        self.spares = None  # while it is cut: connections on which this was said are not
        self.is_cut = False
        self.ends = False
        self.selector = selectors.DefaultSelector()
        self.pairs = set()
        self.wake_in, self.wake_out = socket.socketpair()
        self.selector.register(self.wake_in, selectors.EVENT_READ, None)
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def cut(self, spares=None):
        """`spares`: bytes that are in what some say first; these are not cut."""
        self.spares, self.is_cut = spares, True
        self.wake_out.send(b"x")

    def mend(self):
        self.is_cut = False
        self.wake_out.send(b"x")

    def close(self):
        self.ends = True
        self.wake_out.send(b"x")
        self.thread.join()
        for pair in list(self.pairs):
            pair.close()
        self.listener.close()
        self.wake_in.close()
        self.wake_out.close()

    def _run(self):
        while not self.ends:
            for key, events in self.selector.select(1.0):
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self.wake_in:
                    self.wake_in.recv(CHUNK)
                    for pair in list(self.pairs):
                        pair.look()
                else:
                    key.data.on_event(key.fileobj, events)

    def _accept(self):
        with contextlib.suppress(OSError):
            client, _ = self.listener.accept()
            self.pairs.add(Pair(self, client))


class Pair:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.first = b""  # of what the client has said
        self.client, self.server = client, socket.socket()
        for end in (self.client, self.server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting = {self.client: b"", self.server: b""}  # to be sent there
        self.is_registered = set()
        with contextlib.suppress(BlockingIOError):
            self.server.connect_ex(("127.0.0.1", proxy.upstream))
        self.look()

    def other(self, end):
        return self.server if end is self.client else self.client

    def is_cut(self):
        spares = self.proxy.spares
        return self.proxy.is_cut and not (spares is not None and spares in self.first)

    def look(self):
        """What the selector is to tell."""
        if self.client.fileno() < 0:
            return
        for end in (self.client, self.server):
            events = 0
            # Of a client that is new something has to be seen, to know who it is.
            if not self.is_cut() or (end is self.client and len(self.first) < 64):
                if not self.waiting[self.other(end)]:
                    events |= selectors.EVENT_READ
            if not self.is_cut() and self.waiting[end]:
                events |= selectors.EVENT_WRITE
            self._register(end, events)

    def _register(self, end, events):
        selector = self.proxy.selector
        if events and end in self.is_registered:
            selector.modify(end, events, self)
        elif events:
            selector.register(end, events, self)
            self.is_registered.add(end)
        elif end in self.is_registered:
            selector.unregister(end)
            self.is_registered.discard(end)

    def on_event(self, end, events):
        try:
            if events & selectors.EVENT_READ:
                data = end.recv(CHUNK)
                if not data:
                    return self.close()
                if end is self.client and len(self.first) < 256:
                    self.first += data[:256]
                self.waiting[self.other(end)] += data
            for target in (self.client, self.server):
                if self.waiting[target] and not self.is_cut():
                    with contextlib.suppress(BlockingIOError):
                        sent = target.send(self.waiting[target])
                        self.waiting[target] = self.waiting[target][sent:]
            self.look()
        except BlockingIOError:
            self.look()
        except OSError:
            self.close()

    def close(self):
        if self.client.fileno() < 0:
            return
        for end in (self.client, self.server):
            self._register(end, 0)
            end.close()
        self.proxy.pairs.discard(self)
