# SPDX-License-Identifier: Apache-2.0
"""Connections that move to the thread where their commands land (--migrate_connections)."""

import random
import threading
from functools import partial

import pytest

from harness.resp import OK, Error, Status, encode
from harness.server import REFERENCE, SANITIZED, wait_until
from harness.threads import run_all

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="redis-server has no threads to move between"),
]

THREADS = 4


@pytest.fixture(params=[False, True], ids=["io_uring", "epoll"])
def moving(start_server, request):
    return start_server(proactor_threads=THREADS, force_epoll=request.param)


def migrations(r):
    return int(r.info("dispatch")["migrations"])


def thread_of(r):
    return r.call("DEBUG", "THREAD")


def key_elsewhere(r):
    """A key whose shard is not on the connection's thread, and that thread."""
    mine = thread_of(r)
    for i in range(1000):
        shard = r.call("DEBUG", "SHARD", f"key{i}")
        if shard % THREADS != mine:
            return f"key{i}", shard % THREADS
    raise AssertionError("all keys are on one thread")


def use_until_moved(r, target, command):
    """Sends it until the connection is on that thread."""
    for _ in range(20):
        for _ in range(100):
            command()
        if thread_of(r) == target:
            return
    raise AssertionError("it has not moved")


def exec_of(r, key):
    r.call("MULTI")
    r.call("INCR", key)
    r.call("EXPIRE", key, 1000)
    return r.call("EXEC")


WAYS = {
    "plain": lambda r, key: r.call("INCR", key),
    "pipelined": lambda r, key: r.pipeline([("INCR", key)] * 10),
    "exec": exec_of,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_connection_moves_to_the_shard_that_it_uses(moving, way):
    with moving.connect() as r:
        key, target = key_elsewhere(r)
        before = migrations(r)
        name = r.call("CLIENT", "SETNAME", "traveller"), r.call("CLIENT", "ID")
        r.call("SELECT", 3)
        use_until_moved(r, target, partial(WAYS[way], r, key))
        assert migrations(r) == before + 1
        # It is who it was.
        assert (r.call("CLIENT", "SETNAME", "traveller"), r.call("CLIENT", "ID")) == name
        line = r.call("CLIENT", "LIST").decode()
        assert line.count("\n") == 1 and "name=traveller" in line and "db=3" in line
        local = int(r.info("dispatch")["local_commands"])
        for _ in range(100):
            r.call("GET", key)
        assert int(r.info("dispatch")["local_commands"]) >= local + 100
        # There is no reason to go back.
        assert thread_of(r) == target


def test_blocking_commands_move_it_too(moving):
    with moving.connect() as r, moving.connect() as pusher:
        key, target = key_elsewhere(r)
        pusher.call("RPUSH", key, *range(3000))
        use_until_moved(r, target, lambda: r.call("BLPOP", key, 0))


def test_scripts_move_it_too(moving):
    with moving.connect() as r:
        key, target = key_elsewhere(r)
        sha = r.call("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])")
        use_until_moved(r, target, lambda: r.call("EVALSHA", sha, 1, key))


def test_it_does_not_move_while_it_has_a_reason_to_stay(moving):
    def busy(r, key, commands):
        for command in commands:
            r.call(*command)
        for _ in range(300):
            r.call("GET", key)

    for commands in ([("WATCH", "w")], [("SUBSCRIBE", "c")]):
        with moving.connect(resp3=True) as r:
            key, _ = key_elsewhere(r)
            home = thread_of(r)
            before = migrations(r)
            busy(r, key, commands)
            assert thread_of(r) == home
            assert migrations(r) == before
    with moving.connect() as r:
        key, _ = key_elsewhere(r)
        before = migrations(r)
        assert r.call("MULTI") == OK
        for _ in range(300):
            assert r.call("INCR", key) == Status("QUEUED")
        assert r.call("EXEC") == list(range(1, 301))
        assert migrations(r) == before


def test_a_uniform_load_and_the_flag_keep_connections_where_they_are(moving, start_server):
    still = start_server(proactor_threads=THREADS, migrate_connections=False)
    with moving.connect() as r, still.connect() as other:
        before = migrations(r)
        rng = random.Random(7)
        for _ in range(5000 // 50):
            r.pipeline([("INCR", f"k{rng.randrange(1000)}") for _ in range(50)])
        assert migrations(r) == before
        key, target = key_elsewhere(other)
        for _ in range(500):
            other.call("INCR", key)
        assert thread_of(other) != target
        assert migrations(other) == 0
        # But when it is told to.
        assert other.call("DEBUG", "MIGRATE", target) == OK
        assert thread_of(other) == target
        assert isinstance(other.call("DEBUG", "MIGRATE", THREADS), Error)


def travel(server, seed, rounds):
    """Commands in random pieces, among them some that move the connection; checks all replies."""
    rng = random.Random(seed)
    with server.connect() as r:
        r.call("SET", f"n{seed}", 0)
        number = 0
        for _ in range(rounds):
            data, expected = b"", []
            for _ in range(rng.randrange(1, 40)):
                kind = rng.randrange(10)
                if kind == 0:
                    data += encode("DEBUG", "MIGRATE", rng.randrange(THREADS))
                    expected.append(OK)
                elif kind == 1:
                    value = b"x" * rng.choice([10, 1000, 70_000])
                    data += encode("ECHO", value)
                    expected.append(value)
                elif kind == 2:
                    data += encode("EVAL", "return {KEYS[1], ARGV[1]}", 1, f"n{seed}", "a")
                    expected.append([b"n%d" % seed, b"a"])
                elif kind == 3:
                    data += encode("MULTI") + encode("INCR", f"n{seed}") + encode("EXEC")
                    number += 1
                    expected += [OK, Status("QUEUED"), [number]]
                elif kind == 4:
                    data += encode("RPUSH", f"l{seed}", "e")
                    data += encode("BLPOP", f"l{seed}", f"m{seed}", 0)
                    expected += [1, [b"l%d" % seed, b"e"]]
                else:
                    data += encode("INCR", f"n{seed}")
                    number += 1
                    expected.append(number)
            sender = threading.Thread(target=send_in_pieces, args=(r, data, rng.randrange(1 << 30)))
            sender.start()
            for reply in expected:
                assert r.read() == reply
            sender.join()
        assert r.call("GET", f"n{seed}") == b"%d" % number


def send_in_pieces(r, data, seed):
    rng = random.Random(seed)
    while data:
        size = rng.choice([1, 7, 100, 3000, len(data)])
        r.send(data[:size])
        data = data[size:]


def test_no_byte_is_lost_however_often_it_moves(moving):
    run_all([partial(travel, moving, seed, 5 if SANITIZED else 30) for seed in range(8)])
    with moving.connect() as r:
        assert migrations(r) > 50
        assert r.info("clients")["connected_clients"] == "1"


def test_a_kill_finds_a_client_that_moves(moving):
    """Clients that move all the time are killed one by one; each kill hits."""
    stop = threading.Event()

    def roam(client):
        i = 0
        try:
            while not stop.is_set():
                i += 1
                client.call("DEBUG", "MIGRATE", i % THREADS)
        except (ConnectionError, OSError, EOFError):
            return

    clients = [moving.connect() for _ in range(12)]
    ids = [client.call("CLIENT", "ID") for client in clients]
    threads = [threading.Thread(target=roam, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        with moving.connect() as r:
            for _ in range(20):
                listed = r.call("CLIENT", "LIST").decode().splitlines()
                assert len(listed) == len(clients) + 1
            for number in ids:
                assert r.call("CLIENT", "KILL", "ID", number) == 1
            wait_until(lambda: r.info("clients")["connected_clients"] == "1")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()


def test_clients_that_leave_while_they_move_are_forgotten(moving):
    with moving.connect() as r:
        for i in range(100):
            client = moving.connect()
            client.send(encode("DEBUG", "MIGRATE", i % THREADS) + encode("SET", f"k{i}", i))
            if i % 2:
                client.abort()
            else:
                client.close()
        wait_until(lambda: r.info("clients")["connected_clients"] == "1")


def test_the_server_stops_while_connections_move(start_server):
    server = start_server(proactor_threads=THREADS)
    clients = [server.connect() for _ in range(20)]
    for i, client in enumerate(clients):
        client.send(b"".join(encode("DEBUG", "MIGRATE", (i + n) % THREADS) for n in range(100)))
    server.stop()
    for client in clients:
        client.close()
