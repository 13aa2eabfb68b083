# SPDX-License-Identifier: Apache-2.0
"""Requests, valid and broken, as bytes: ours and redis-server answer the same and end alike."""

import pytest

from harness.resp import encode
from harness.seeds import new_rng
from harness.server import SANITIZED

from .compare import is_compared_loosely
from .grammar import Grammar
from .pair import as_request

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

INLINE = [
    b"GET k0",
    b"SET k0 v",
    b"  SET   k1  'a b'  ",
    b'SET k2 "\\x41\\n\\t\\"q\\""',
    b"",
    b" ",
    b"'GET' k2",
    b'"" x',
    b"ECHO ''",
    b"PING",
    b"ECHO a\\b",
    b"SET k3 'it\\'s'",
    b"NOSUCH a b",
    b"\t PING \t",
    b'SET k4 "a\\x4"',
    b'ECHO "\\z"',
    b"ECHO 'a\\n'",
]


def test_inline_commands_are_read_as_redis_server_reads_them(pair):
    rng = new_rng()
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for _ in range(200):
            lines = [rng.choice(INLINE) for _ in range(rng.randint(1, 8))] + [b"ECHO end"]
            data = b"".join(line + rng.choice([b"\r\n", b"\n"]) for line in lines)
            for c in (ours, reference):
                c.send(data)
            while True:
                got, expected = ours.read_raw(), reference.read_raw()
                assert got == expected, data
                if got == b"$3\r\nend\r\n":
                    break


def broken_request(rng):
    base = bytearray(
        rng.choice(
            [
                encode("SET", "k", "value"),
                encode("GET", "k"),
                b"*1\r\n$4\r\nPING\r\n",
                b"PING\r\n",
                b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n",
                b"SET k 'v'\r\n",
            ]
        )
    )
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(base))
        kind = rng.randrange(3)
        if kind == 0:
            # No NUL: in an inline command redis-server takes it for the end of what it has received
            # and waits for ever; for us it is a byte like others (docs/differences.md).
            base[at] = rng.choice(b"*$:+-\r\n0123456789aA'\" \xff")
        elif kind == 1:
            del base[at]
        else:
            base.insert(at, rng.choice(b"*$:\r\n09'\" "))
        if not base:
            return b"\r\n"
    return bytes(base)


def answers_to_all(server, data):
    """All bytes that come back, on an empty data set."""
    with server.connect() as c:
        c.call("FLUSHALL")
        c.send(data)
        c.sock.shutdown(1)
        return c.read_until_closed()


def test_broken_requests_get_the_same_bytes_and_the_same_end(pair):
    rng = new_rng()
    for _ in range(100 if SANITIZED else 400):
        data = b"".join(broken_request(rng) for _ in range(rng.randint(1, 4)))
        ours, expected = (answers_to_all(server, data) for server in pair)
        assert ours == expected, data


FRAGMENTS = [
    *[b"GET", b"set", b"Echo", b"PING", b"k0", b"k1", b"a", b"1", b"-1", b"x" * 40, b"NX", b"EX"],
    *[b" ", b" ", b" ", b" ", b"  ", b"\t", b"\x0b", b"\x0c", b"\r"],
    *[b'"', b"'", b'""', b"''", b'"a b"', b"'a b'", b'"\\x41"', b'"\\n\\r\\t\\b\\a"', b'"\\"'],
    *[b"\\", b"\\'", b'\\"', b"'\\''", b"\\x00", b'"\\x00"', b"\xff", b"\xe2\x82\xac", b"*", b"$"],
]


def stray_line(rng):
    """An inline command made of anything but NUL and line ends."""
    line = b"".join(rng.choices(FRAGMENTS, k=rng.randint(0, 8)))
    if line.lstrip(b"*$-+").isdigit():
        line = b""  # the head of an array or of an argument: what follows would be taken for it
    return line.lstrip(b"*") + rng.choice([b"\r\n", b"\n"])


def ending(rng):
    return rng.choice(
        [
            *[encode("QUIT"), encode("quit", "now"), b"QUIT\r\n", b"quit \n", b'"qu\\x69t"\r\n'],
            *[b"", b"", b"*2\r\n$3\r\nGET\r\n", b"GET k0", b"*0\r\n*-1\r\n", b"*1\r\n$0\r\n\r\n"],
        ]
    )


def test_streams_of_any_commands_get_the_same_bytes_up_to_the_end(pair):
    """Arrays, inline commands and stray lines in one send; what follows QUIT is not answered."""
    rng = new_rng()
    grammar = Grammar(rng)
    for _ in range(50 if SANITIZED else 300):
        commands = [grammar.command() for _ in range(rng.randint(0, 12))]
        commands = [c for command in commands for c in grammar.with_before(command)]
        # No replies about the process itself: here all bytes are compared.
        commands = [c for c in commands if not is_compared_loosely(c)]
        # Who shuts its side down while it is blocked is gone, and its last replies come by chance.
        commands = [c for c in commands if not c[0].upper().startswith(b"B")]
        data = b""
        for command in commands:
            data += rng.choice([as_request(rng, command), as_request(rng, command), b""])
            data += stray_line(rng) if rng.random() < 0.15 else b""
        data += ending(rng) + rng.choice([b"", b"PING\r\n", encode("SET", "k0", "late")])
        # One read takes it all: a server that closes with input unread resets the connection, and
        # what it has answered may be lost.
        data = data[:10_000]
        results = []
        for server in pair:
            replies = answers_to_all(server, data)
            with server.connect() as c:
                results.append((replies, c.call("GET", "k0")))
        assert results[0] == results[1], data
