#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PUBLISH to 1, 100 and 1,000 subscribers: the server's CPU time for each message that a subscriber
received: redis-server, Valkey and ours in turn, and their ratios (the medians of the rounds').

The publisher sends a pipeline, reads its replies, and waits until every subscriber has got all of
it. And SUBSCRIBE and UNSUBSCRIBE in pipelines of 20, as a client of Celery sends them: CPU time for
each change. Servers, cores and the way CPU time is measured are those of compare.py.
"""

import os
import select
import time

import side_by_side
from compare import BenchError, Connection, Server, encode

PAYLOAD = b"x" * 64
# name, subscribers, pipeline, messages, threads of ours, asked
LOADS = [
    ("publish-1", 1, 1, 10_000, 1, 0.85),
    ("publish-1-p10", 1, 10, 100_000, 1, 0.80),
    ("publish-100", 100, 1, 1_500, 1, 0.80),
    ("publish-100-p10", 100, 10, 10_000, 1, 0.80),
    ("publish-1000", 1000, 1, 200, 1, 0.80),
    ("publish-1000-p10", 1000, 10, 1_000, 1, 0.80),
    ("4t-publish-100-p10", 100, 10, 10_000, 4, 0.80),
    ("4t-publish-1000", 1000, 1, 200, 4, 0.80),
]
# name, pipeline, changes, threads of ours
CHANGES = [
    ("subscribe-p20", 20, 100_000, 1),
    ("4t-subscribe-p20", 20, 100_000, 4),
]


class Subscribers:
    """Connections that read whatever comes; only the number of bytes is looked at."""

    def __init__(self, port, count):
        self.poll = select.epoll()
        self.socks = {}
        for _ in range(count):
            connection = Connection(port)
            connection.sock.sendall(encode("SUBSCRIBE", "bench"))
            confirmation = b"*3\r\n$9\r\nsubscribe\r\n$5\r\nbench\r\n:1\r\n"
            if connection.file.read(len(confirmation)) != confirmation:
                raise BenchError("SUBSCRIBE was not confirmed")
            self.poll.register(connection.sock.fileno(), select.EPOLLIN)
            self.socks[connection.sock.fileno()] = connection

    def drain(self, bytes_each):
        left = bytes_each * len(self.socks)
        deadline = time.monotonic() + 30
        while left > 0:
            for fd, _ in self.poll.poll(1):
                left -= len(os.read(fd, 1 << 16))
            if time.monotonic() > deadline:
                raise BenchError(f"{left} bytes of messages did not come")
        if left < 0:
            raise BenchError("more came than was published")

    def close(self):
        self.poll.close()
        for connection in self.socks.values():
            connection.close()


def measure(kind, load, options):
    """CPU nanoseconds of the server for each delivered message."""
    _, count, pipeline, messages, threads, _ = load
    server = Server(kind, threads, options)
    try:
        subscribers = Subscribers(server.port, count)
        publisher = Connection(server.port)
        request = encode("PUBLISH", "bench", PAYLOAD) * pipeline
        size = len(encode("message", "bench", PAYLOAD)) * pipeline

        def publish(rounds):
            for _ in range(rounds):
                publisher.sock.sendall(request)
                for _ in range(pipeline):
                    if publisher.reply() != b"%d" % count:
                        raise BenchError("a wrong number of receivers")
                subscribers.drain(size)

        rounds = max(1, messages // pipeline)
        publish(max(1, rounds // 10))
        begin = server.cpu_ns()
        publish(rounds)
        spent = server.cpu_ns() - begin
        publisher.close()
        subscribers.close()
        return spent / (rounds * pipeline * count)
    finally:
        server.stop()


def measure_changes(kind, load, options):
    """CPU nanoseconds of the server for each SUBSCRIBE or UNSUBSCRIBE."""
    _, pipeline, changes, threads = load
    server = Server(kind, threads, options)
    try:
        connection = Connection(server.port)

        def change(rounds):
            for n in range(rounds):
                for word in ("SUBSCRIBE", "UNSUBSCRIBE"):
                    names = [f"result-{n}-{i}" for i in range(pipeline)]
                    connection.sock.sendall(b"".join(encode(word, name) for name in names))
                    counts = range(1, pipeline + 1)
                    if word == "UNSUBSCRIBE":
                        counts = range(pipeline - 1, -1, -1)
                    confirmations = b"".join(
                        b"*3" + encode(word.lower(), name)[2:] + b":%d\r\n" % count
                        for name, count in zip(names, counts)
                    )
                    if connection.file.read(len(confirmations)) != confirmations:
                        raise BenchError(f"{word} was not confirmed")

        rounds = max(1, changes // pipeline // 2)
        change(max(1, rounds // 10))
        begin = server.cpu_ns()
        change(rounds)
        spent = server.cpu_ns() - begin
        connection.close()
        return spent / (rounds * pipeline * 2)
    finally:
        server.stop()


def main():
    parser = side_by_side.parser_of(__doc__, with_valkey=True)
    parser.add_argument("--server-flag", action="append", default=[])
    options = parser.parse_args()
    side_by_side.prepare()
    side_by_side.print_kinds(options, "load; ns for each message or change")
    for load in LOADS:
        if options.only not in load[0]:
            continue
        if options.quick:
            load = (*load[:3], max(load[2], load[3] // 20), *load[4:])
        side_by_side.print_row(
            [load[0]], lambda kind: measure(kind, load, options), load[5], options
        )
    for load in CHANGES:
        if options.only not in load[0]:
            continue
        if options.quick:
            load = (*load[:2], load[2] // 20, load[3])
        side_by_side.print_row(
            [load[0]], lambda kind: measure_changes(kind, load, options), None, options
        )


if __name__ == "__main__":
    side_by_side.run("pubsub", main)
