# SPDX-License-Identifier: Apache-2.0
"""A client's end, in each state in which its connection does not go on: the server notices it by
what the kernel tells, and gives nothing to who has left."""

import json
import random
import socket
import urllib.request

import pytest

from harness.certificates import Certificates
from harness.resp import OK, RespSocket, Status, encode
from harness.server import (
    REFERENCE,
    configuration_flags,
    free_port,
    only_dragonfly,
    wait_blocked,
    wait_until,
)

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

BEHIND = encode("SET", "behind", "v" * 1000)
# What the kernels of both sides keep is a few MB: the end is behind more than that, or less.
FEW, MANY = 10, 12_000


def close(c):
    c.close()


def abort(c):
    c.abort()


def half_close(c):
    c.sock.shutdown(socket.SHUT_WR)


ENDS = pytest.mark.parametrize("end", [close, abort, half_close])
# Both sockets of the client are closed, or may be: no reply can reach it.
HARD_ENDS = pytest.mark.parametrize("end", [close, abort])


def wait_gone(r, number):
    wait_until(
        lambda: b"id=%d " % number not in r.call("CLIENT", "LIST"),
        what="the server lets go of the client",
    )


def assert_kernel_told(r):
    """The sweep is a net below what the kernel tells: it had nothing to do."""
    if not REFERENCE:
        assert r.info("stats")["client_ends_swept"] == "0"


def sockets_at_rest(server, r):
    """How many there are when `r` is the only client."""
    wait_until(lambda: r.call("CLIENT", "LIST").count(b"\n") == 1)
    return server.count_sockets()


def send_what_fits(c, data):
    """Until the server has taken no more for a while, or has all."""
    c.sock.settimeout(0.5)
    try:
        c.sock.sendall(data)
    except TimeoutError:
        pass


# --- Who waits for others ---


def assert_nobody_takes(r):
    """What is pushed stays, and what was sent behind a wait was not executed."""
    assert r.call("RPUSH", "q", "job") == 1
    assert r.call("LLEN", "q") == 1
    assert r.call("EXISTS", "behind") == 0
    assert_kernel_told(r)


def assert_no_element_is_lost(r, c, end, behind):
    """`c` waits in BLPOP, has sent so many commands behind it, and ends."""
    with c:
        number = c.call("CLIENT", "ID")
        c.send_command("BLPOP", "q", 0)
        wait_blocked(r, 1)
        send_what_fits(c, BEHIND * behind)
        end(c)
        wait_gone(r, number)
    assert_nobody_takes(r)


@ENDS
@pytest.mark.parametrize("behind", [0, FEW, MANY])
def test_a_client_that_waits_for_an_element(server, r, end, behind):
    assert_no_element_is_lost(r, server.connect(), end, behind)


@ENDS
@pytest.mark.parametrize(
    "command",
    [
        ["BLMOVE", "q", "to", "LEFT", "LEFT", 0],
        ["BZPOPMIN", "z", 0],
        ["BLMPOP", 0, 2, "q", "q2", "LEFT"],
        ["XREAD", "BLOCK", 0, "STREAMS", "s", "$"],
        ["XREADGROUP", "GROUP", "g", "me", "BLOCK", 0, "STREAMS", "events", ">"],
        ["WAIT", 1, 0],
    ],
    ids=lambda command: command[0],
)
def test_each_command_that_waits(server, r, end, command):
    r.call("XGROUP", "CREATE", "events", "g", "$", "MKSTREAM")
    with server.connect() as c:
        number = c.call("CLIENT", "ID")
        c.send_command(*command)
        wait_until(lambda: b"flags=b" in r.call("CLIENT", "LIST"))
        end(c)
        wait_gone(r, number)
    r.call("RPUSH", "q", "job")
    r.call("ZADD", "z", 1, "job")
    r.call("XADD", "events", "*", "f", "v")
    assert r.call("LLEN", "q") == r.call("ZCARD", "z") == 1
    assert r.call("EXISTS", "to") == 0
    assert r.call("XPENDING", "events", "g")[0] == 0
    assert_kernel_told(r)


@pytest.mark.parametrize("waiters", [1, 5])
def test_what_is_pushed_behind_a_kill_stays(server, r, waiters):
    clients = [server.connect() for _ in range(waiters)]
    for c in clients:
        c.send_command("BLPOP", "q", 0)
    wait_blocked(r, waiters)
    # In one piece, so that the server may carry out all of it before it has closed a socket.
    kill = ("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    replies = r.pipeline([kill, ("RPUSH", "q", "job"), ("LLEN", "q")])
    assert replies == [waiters, 1, 1]
    for c in clients:
        c.close()


@pytest.mark.parametrize(
    "subscribe, publish",
    [
        (["SUBSCRIBE", "a", "b"], "PUBLISH"),
        (["PSUBSCRIBE", "a*", "*"], "PUBLISH"),
        (["SSUBSCRIBE", "a"], "SPUBLISH"),
    ],
    ids=lambda word: word[0] if isinstance(word, list) else "",
)
def test_what_is_published_behind_a_kill_has_no_receivers(r, server, subscribe, publish):
    clients = [server.connect() for _ in range(5)]
    stays = server.connect()
    numbers = [c.call("CLIENT", "ID") for c in clients]
    for c in [*clients, stays]:
        c.send_command(*subscribe)
        c.read()
    wait_until(lambda: r.call(publish, "a", "m") >= 6, what="all are subscribed")
    kills = [("CLIENT", "KILL", "ID", number) for number in numbers]
    replies = r.pipeline([(publish, "a", "m"), *kills, (publish, "a", "m")])
    assert replies == [replies[0], *[1] * 5, replies[0] // 6]
    for c in [*clients, stays]:
        c.close()


@ENDS
@pytest.mark.parametrize("behind", [FEW, MANY])
def test_a_client_that_a_pause_holds(server, r, end, behind):
    with server.connect() as c:
        number = c.call("CLIENT", "ID")
        assert r.call("CLIENT", "PAUSE", 600_000, "WRITE") == OK
        c.send(BEHIND)
        wait_blocked(r, 1)
        send_what_fits(c, BEHIND * behind)
        end(c)
        wait_gone(r, number)
    assert r.call("CLIENT", "UNPAUSE") == OK
    assert r.call("EXISTS", "behind") == 0
    assert_kernel_told(r)


@only_dragonfly("nobody can look while all is paused")
@ENDS
def test_a_client_that_a_pause_of_all_holds(start_server, configuration, end):
    server = start_server(**configuration_flags(configuration))

    def clients():
        url = f"http://127.0.0.1:{server.port}/metrics"
        page = urllib.request.urlopen(url, timeout=60).read().decode()
        return int(page.split("\ndragonfly_connected_clients ")[1].split("\n")[0])

    with server.connect() as r, server.connect() as c:
        assert c.call("PING") == Status("PONG")
        wait_until(lambda: clients() == 3)
        assert r.call("CLIENT", "PAUSE", 3_600_000) == OK
        c.send(BEHIND * FEW)
        end(c)
        wait_until(lambda: clients() == 2)


# --- Who is not read from because it does not read ---


@HARD_ENDS
@pytest.mark.parametrize("behind", [0, MANY])
def test_a_client_that_does_not_read(server, r, end, behind):
    r.call("SET", "large", "v" * 1_000_000)
    with server.connect(rcvbuf=4096) as c:
        number = c.call("CLIENT", "ID")
        send_what_fits(c, encode("GET", "large") * 300 + BEHIND * behind)
        end(c)
        wait_gone(r, number)
    assert_kernel_told(r)


@only_dragonfly("it drops what is unsent when the client's side ends")
def test_a_half_close_leaves_nobody_without_replies(server, r):
    """As with `nc`: all that was sent is answered, however slowly it is read."""
    r.call("SET", "large", "v" * 100_000)
    with server.connect(rcvbuf=4096) as c:
        c.send(encode("GET", "large") * 300 + encode("ECHO", "last"))
        half_close(c)
        for _ in range(300):
            assert len(c.read()) == 100_000
        assert c.read() == b"last"
        assert c.sock.recv(1) == b""
    assert_kernel_told(r)


# --- A command of which the rest never comes ---


@ENDS
@pytest.mark.parametrize("size", [100, 2_500_000])
def test_a_client_in_the_middle_of_a_command(server, r, end, size):
    with server.connect() as c:
        number = c.call("CLIENT", "ID")
        send_what_fits(c, encode("SET", "part", "v" * 3_000_000)[:size])
        end(c)
        wait_gone(r, number)
    assert r.call("EXISTS", "part") == 0
    assert_kernel_told(r)


# --- Resets behind data: io_uring lost some of them ---


@pytest.mark.parametrize("command", [("BLPOP", "q", 0), ("PING",)], ids=["blocked", "not"])
def test_a_reset_behind_data_is_not_lost(server, r, command):
    rand = random.Random(1)
    data = memoryview(encode(*command) + BEHIND * 4000 + encode("SET", "part", "v" * 3_000_000))
    for _ in range(150):
        c = RespSocket(server.address)
        c.sock.setblocking(False)
        left = data[: rand.randint(1_000_000, len(data) - 1)]
        misses = 0
        while left and misses < 50:
            try:
                left = left[c.sock.send(left[: 1 << 20]) :]
            except BlockingIOError:
                misses += 1
        c.abort()
    wait_until(lambda: r.call("CLIENT", "LIST").count(b"\n") == 1)
    assert_kernel_told(r)


# --- On the way to another thread ---


@only_dragonfly("it has one thread")
@ENDS
def test_a_client_that_moves(server, r, end):
    threads = int(server.flags["proactor_threads"])
    rand = random.Random(2)
    for _ in range(30):
        with server.connect() as c:
            number = c.call("CLIENT", "ID")
            moves = b"".join(
                encode("DEBUG", "MIGRATE", rand.randrange(threads))
                for _ in range(rand.randint(1, 6))
            )
            c.send(moves + encode("BLPOP", "q", 0) + BEHIND * rand.choice([0, FEW, 2000]))
            end(c)
            wait_gone(r, number)
    assert_nobody_takes(r)


# --- Other protocols ---


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def with_tls(start_server, configuration, certificates):
    port = free_port()
    flags = {**configuration_flags(configuration), **certificates.flags(), "tls_port": port}
    return start_server(**flags), ("127.0.0.1", port)


@ENDS
@pytest.mark.parametrize("behind", [0, MANY])
def test_a_client_of_tls_that_waits(with_tls, certificates, end, behind):
    server, address = with_tls
    with server.connect() as r:
        c = RespSocket(address, tls=certificates.client("client"))
        assert_no_element_is_lost(r, c, end, behind)


@ENDS
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["nothing", "part"])
def test_a_client_in_the_middle_of_a_handshake(with_tls, end, sent):
    server, address = with_tls
    with server.connect() as r:
        sockets = sockets_at_rest(server, r)
        with RespSocket(address) as c:
            c.send(sent)
            wait_until(lambda: server.count_sockets() == sockets + 1)
            end(c)
            wait_until(lambda: server.count_sockets() == sockets)
        assert_kernel_told(r)


@only_dragonfly("no HTTP")
@ENDS
def test_a_client_that_waits_over_http(start_server, configuration, end):
    body = json.dumps({"commands": [["BLPOP", "hq", "0"]]}).encode()
    server = start_server(**configuration_flags(configuration), http_timeout_ms=3_600_000)
    with server.connect() as r:
        with RespSocket(server.address) as c:
            c.send(
                b"POST /api/commands HTTP/1.1\r\nHost: localhost\r\nX-Requested-With: x\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            wait_blocked(r, 1)
            end(c)
            wait_blocked(r, 0)
        assert r.call("RPUSH", "hq", "job") == 1
        assert r.call("LLEN", "hq") == 1
        assert_kernel_told(r)


@only_dragonfly("it does not speak memcached's protocol")
@HARD_ENDS
def test_a_client_of_memcached_that_does_not_read(start_server, configuration, end):
    port = free_port()
    server = start_server(**configuration_flags(configuration), memcached_port=port)
    with server.connect() as r:
        r.call("SET", "large", "v" * 1_000_000)
        sockets = sockets_at_rest(server, r)
        with RespSocket(("127.0.0.1", port), rcvbuf=4096) as c:
            send_what_fits(c, b"get large\r\n" * 300 + b"get none\r\n" * 100_000)
            wait_until(lambda: server.count_sockets() == sockets + 1)
            end(c)
            wait_until(lambda: server.count_sockets() == sockets)
        assert_kernel_told(r)
