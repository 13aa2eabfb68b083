# SPDX-License-Identifier: Apache-2.0
"""/livez and /readyz over HTTP, on the port of all clients."""

import http.client
import os
import re
import socket

import pytest

from harness.resp import OK, Error
from harness.server import look_while_it_loads, only_dragonfly, wait_until

pytestmark = [
    only_dragonfly("no HTTP"),
    pytest.mark.threads,
    pytest.mark.sanitized,
]


def ask(server, target, method="GET"):
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    try:
        connection.request(method, target)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def exchange(server, request):
    """What a client gets that sends this, and then reads until the end."""
    with socket.create_connection(server.address, timeout=60) as c:
        c.sendall(request)
        c.shutdown(socket.SHUT_WR)
        received = b""
        while piece := c.recv(65536):
            received += piece
        return received


def test_a_server_that_serves_lives_and_is_ready(server):
    assert ask(server, "/livez") == (200, "ok\n")
    assert ask(server, "/readyz") == (200, "ok\n")
    assert ask(server, "/readyz?verbose") == (200, "ok\n")
    assert ask(server, "/readyz", "HEAD") == (200, "")
    status, text = ask(server, "/none")
    assert status == 404 and "/readyz" in text
    assert ask(server, "/livez", "DELETE")[0] == 405
    assert ask(server, "/livez", "OPTIONS")[0] == 405


def test_a_connection_serves_many_requests(server):
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    connection.connect()
    sock = connection.sock
    for target, status in (("/livez", 200), ("/none", 404), ("/readyz", 200)):
        connection.request("GET", target)
        response = connection.getresponse()
        assert response.status == status
        response.read()
        assert connection.sock is sock
    sock.sendall(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
    response = sock.makefile("rb").read()  # until the end
    assert b"\r\nConnection: close\r\n" in response and response.endswith(b"\r\n\r\nok\n")


def test_requests_come_in_pipelines_and_in_bytes(server):
    requests = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" * 20 + b"GET /none HTTP/1.0\r\n\r\n"
    statuses = [b"200"] * 20 + [b"404"]
    received = exchange(server, requests + b"GET /never HTTP/1.1\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == statuses
    with socket.create_connection(server.address, timeout=60) as c:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /livez HTTP/1.1\r\n\r\nGET /livez HTTP/1.0\r\nA: b\r\n\r\n":
            c.sendall(bytes([byte]))
        assert c.makefile("rb").read().count(b"\r\n\r\nok\n") == 2


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"GET / HTTP/3.0\r\n\r\n", 505),
        (b"GET /livez HTTP/1.1\r\nno field\r\n\r\n", 400),
        (b"POST /livez HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET /livez HTTP/1.1\r\nA: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    ],
)
def test_bad_requests_are_told_so_and_closed(server, request_bytes, status):
    received = exchange(server, request_bytes + b"GET /livez HTTP/1.1\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert received.count(b"HTTP/1.1") == 1
    assert ask(server, "/livez")[0] == 200


@pytest.mark.flags(http_head_max="1kb")
def test_the_head_of_a_request_is_limited(server):
    head = b"GET /livez HTTP/1.0\r\nA: %s\r\n\r\n"
    assert exchange(server, head % (b"a" * 900)).startswith(b"HTTP/1.1 200 ")
    assert exchange(server, head % (b"a" * 1100)).startswith(b"HTTP/1.1 431 ")


def test_commands_stay_commands(server, r):
    commands = b"SET / HTTP/1.1\r\nGET /\r\n"
    assert exchange(server, commands) == b"+OK\r\n$8\r\nHTTP/1.1\r\n"
    assert b"wrong number" in exchange(server, b"PING\r\nGET / HTTP/1.1\r\n")
    assert r.call("SET", "/livez", "HTTP/1.1") == OK
    assert r.call("GET", "/livez") == b"HTTP/1.1"


def test_what_browsers_are_tricked_into_is_cut_off(server, r):
    assert exchange(server, b"POST / HTTP/1.1\r\nHost: a\r\n\r\nSET k v\r\n").startswith(
        b"HTTP/1.1 405 "
    )
    for first in (b"PING\r\nPOST / HTTP/1.1\r\n", b"PING\r\nHost: a\r\n", b"host: a\r\n"):
        try:
            assert exchange(server, first + b"SET k v\r\n") in (b"+PONG\r\n", b"")
        except ConnectionResetError:
            pass
    wait_until(lambda: server.log().count("security attack") >= 3, what="the log")
    assert r.call("EXISTS", "k") == 0


@pytest.mark.flags(requirepass="s3cret")
def test_no_password_is_needed_and_nothing_is_told(server):
    assert ask(server, "/readyz") == (200, "ok\n")
    with server.connect(auth=False) as c:
        assert c.call("GET", "k") == Error("NOAUTH Authentication required.")


@pytest.mark.flags(maxclients=100)
def test_connections_count_and_go(server, r):
    before = int(r.info("clients")["connected_clients"])
    connections = [http.client.HTTPConnection(*server.address, timeout=60) for _ in range(20)]
    for connection in connections:
        connection.request("GET", "/livez")
        connection.getresponse().read()
    assert int(r.info("clients")["connected_clients"]) == before + 20
    half = socket.create_connection(server.address, timeout=60)
    half.sendall(b"GET /livez HTTP/1.1\r\n")
    for connection in connections:
        connection.close()
    half.close()
    wait_until(
        lambda: int(r.info("clients")["connected_clients"]) == before, what="connections to go"
    )


def test_a_failed_save_is_told(start_server):
    server = start_server(save="1000000 1000000", dbfilename="dump")
    with server.connect() as r:
        r.call("SET", "k", "v")
        data = os.path.join(server.dir, "data")
        os.mkdir(data)
        assert r.call("CONFIG", "SET", "dir", data) == OK
        os.rename(data, data + "-away")
        r.call("BGSAVE")
        wait_until(lambda: ask(server, "/readyz")[0] == 503, what="a failure")
        status, text = ask(server, "/readyz")
        assert status == 503 and "writes are refused" in text and "No such file" in text
        assert r.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no") == OK
        status, text = ask(server, "/readyz")
        assert status == 200 and text.startswith("ok\nno snapshot: ") and "No such file" in text
        assert ask(server, "/livez") == (200, "ok\n")
        os.rename(data + "-away", data)
        assert r.call("SAVE") == OK
        assert ask(server, "/readyz") == (200, "ok\n")


def test_a_server_that_loads_is_not_ready(start_server):
    server = start_server(dbfilename="dump", proactor_threads=2)
    seen = set()

    def look():
        while True:
            assert ask(server, "/livez") == (200, "ok\n")
            status, text = ask(server, "/readyz")
            seen.add(status)
            if status == 200:
                return
            assert status == 503 and re.fullmatch(r"loading: \d+ %\n", text)

    look_while_it_loads(server, look, lambda: len(seen) == 2)
    assert seen == {200, 503}
