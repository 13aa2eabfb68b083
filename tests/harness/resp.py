# SPDX-License-Identifier: Apache-2.0
"""A raw RESP2/RESP3 client: sends any bytes, reads one reply at a time, as bytes or as a tree.

It is not redis-py on purpose: a test of a server has to see the exact bytes, and to send what no
well-behaved client would send.
"""

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    text: str


@dataclass(frozen=True)
class Error:
    text: str


@dataclass(frozen=True)
class Verbatim:
    format: str
    text: str


@dataclass(frozen=True)
class Map:
    pairs: tuple

    def dict(self):
        return dict(self.pairs)


@dataclass(frozen=True)
class Push:
    items: tuple


OK = Status("OK")
WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
NOT_INT = Error("ERR value is not an integer or out of range")
NOT_FLOAT = Error("ERR value is not a valid float")
SYNTAX = Error("ERR syntax error")


def arity(name):
    return Error(f"ERR wrong number of arguments for '{name}' command")


def to_bytes(arg):
    if isinstance(arg, bytes):
        return arg
    return str(arg).encode()


def encode(*args):
    """One command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in map(to_bytes, args):
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


class RespSocket:
    """One connection. `timeout` bounds every wait: a lost reply fails the test, it never hangs."""

    def __init__(self, address, timeout=60.0, rcvbuf=None, source=None, tls=None):
        """`address`: (host, port), or the path of a unix socket. `source`: the client's address.
        `tls`: an ssl.SSLContext."""
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX)
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self.sock = socket.socket(family)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(timeout)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect(address)
        if self.sock.family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self._buf = bytearray()
        self._pos = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()

    def abort(self):
        """Closes with a TCP reset instead of an orderly end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    # Sending.

    def send(self, data):
        self.sock.sendall(data)

    def send_command(self, *args):
        self.sock.sendall(encode(*args))

    # Reading. Raises ConnectionError at the end of the stream and TimeoutError when nothing comes.

    def _fill(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionError("end of stream")
        self._buf += data

    def _line(self):
        while True:
            end = self._buf.find(b"\r\n", self._pos)
            if end >= 0:
                line = bytes(self._buf[self._pos : end])
                self._pos = end + 2
                return line
            self._fill()

    def _exactly(self, size):
        while len(self._buf) - self._pos < size:
            self._fill()
        data = bytes(self._buf[self._pos : self._pos + size])
        self._pos += size
        return data

    def _bulk(self, size):
        data = self._exactly(size + 2)
        assert data.endswith(b"\r\n"), f"bulk without CRLF: {data[-20:]!r}"
        return data[:-2]

    def _parse(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return Status(rest.decode("utf-8", "surrogateescape"))
        if kind == b"-":
            return Error(rest.decode("utf-8", "surrogateescape"))
        if kind == b":":
            return int(rest)
        if kind == b"(":
            return int(rest)
        if kind == b",":
            return float(rest)
        if kind == b"#":
            assert rest in (b"t", b"f"), line
            return rest == b"t"
        if kind == b"_":
            assert rest == b"", line
            return None
        if kind == b"$":
            return None if rest == b"-1" else self._bulk(int(rest))
        if kind == b"=":
            data = self._bulk(int(rest)).decode("utf-8", "surrogateescape")
            return Verbatim(data[:3], data[4:])
        if kind in (b"*", b"~", b">"):
            if rest == b"-1":
                return None
            items = [self._parse() for _ in range(int(rest))]
            if kind == b">":
                return Push(tuple(items))
            return items if kind == b"*" else set(items)
        if kind == b"%":
            return Map(tuple((self._parse(), self._parse()) for _ in range(int(rest))))
        raise AssertionError(f"not a reply: {line!r}")

    def _compact(self):
        del self._buf[: self._pos]
        self._pos = 0

    def read(self):
        """The next reply as a tree."""
        value = self._parse()
        self._compact()
        return value

    def read_line(self):
        """A reply's first line; what is in an aggregate can be read piece by piece then."""
        line = self._line()
        self._compact()
        return line

    def read_bytes(self, size):
        """So many of what comes next."""
        data = self._exactly(size)
        self._compact()
        return data

    def read_raw(self):
        """The next reply as its exact bytes."""
        self._parse()
        raw = bytes(self._buf[: self._pos])
        self._compact()
        return raw

    def read_until_closed(self):
        """Everything up to the end of the stream, which the server must cause."""
        while True:
            try:
                self._fill()
            except (ConnectionResetError, ConnectionError):
                break
        data = bytes(self._buf)
        self._buf.clear()
        self._pos = 0
        return data

    # Both.

    def call(self, *args):
        self.send_command(*args)
        return self.read()

    def raw(self, *args):
        self.send_command(*args)
        return self.read_raw()

    def do(self, line):
        """`call` for a command written as one line of plain words; '' is an empty argument."""
        return self.call(*["" if word == "''" else word for word in line.split(" ")])

    def pipeline(self, commands):
        self.send(b"".join(encode(*c) for c in commands))
        return [self.read() for _ in commands]

    def info(self, section=None):
        """INFO as a dict of strings."""
        text = self.call("INFO", *([section] if section else []))
        text = text.text if isinstance(text, Verbatim) else text.decode()
        pairs = (
            line.split(":", 1) for line in text.split("\r\n") if ":" in line and line[0] != "#"
        )
        return dict(pairs)
