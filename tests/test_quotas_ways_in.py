# SPDX-License-Identifier: Apache-2.0
"""Quotas of users that come by HTTP or with a certificate."""

import contextlib

import pytest

from harness.certificates import Certificates
from harness.http import ask, basic
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket
from harness.server import only_dragonfly, wait_until

from test_http_commands import post
from test_quotas import counted, is_refused, set_quota

pytestmark = [pytest.mark.sanitized, only_dragonfly("no quotas")]

FULL = "QUOTA user 'alice' has as many connections as it may have, 1"


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def server(start_server, tmp_path, port):
    certificates = Certificates(tmp_path)
    certificates.make("alice")
    server = start_server(
        tls_port=port,
        tls_auth_clients_user="CN",
        tls_auth_clients="optional",
        user="alice on >secret +@all ~*",
        **certificates.flags(),
    )
    server.certificates = certificates
    return server


@pytest.fixture
def admin(server):
    with server.connect() as c:
        yield c


@pytest.fixture
def by_certificate(server, port):
    with contextlib.ExitStack() as opened:

        def connect():
            context = server.certificates.client("alice")
            return opened.enter_context(RespSocket(("127.0.0.1", port), tls=context))

        yield connect


def by_http(server, *commands):
    return post(server, list(commands), basic("alice", "secret"))


def metric(server, name):
    _, _, text = ask(server, "/metrics")
    (value,) = [
        line.split(" ")[1]
        for line in text.splitlines()
        if line.startswith(f'dragonfly_quota_{name}{{owner="user",name="alice"}}')
    ]
    return int(value)


# --- Certificates ---


def test_a_place_for_a_certificate(server, admin, by_certificate):
    set_quota(admin, "user alice connections 1")
    first = by_certificate()
    assert first.call("ACL", "WHOAMI") == b"alice"
    assert metric(server, "connections") == 1
    second = by_certificate()
    assert second.call("GET", "k") == Error(FULL)
    assert second.read_until_closed() == b""
    assert metric(server, "refused_connections_total") == counted(admin, "user alice")[
        "refused_connections"
    ]
    assert metric(server, "refused_connections_total") >= 1
    assert first.call("GET", "k") is None
    first.close()
    wait_until(lambda: metric(server, "connections") == 0, what="its place")
    assert by_certificate().call("GET", "k") is None


def test_commands_and_bytes_of_a_certificate(server, admin, by_certificate):
    c = by_certificate()
    assert c.call("SET", "k", b"x" * 1_000_000) == OK
    set_quota(admin, "user alice commands 5 action error")
    replies = c.pipeline([("PING",)] * 100)
    assert any(is_refused(reply) for reply in replies)
    assert metric(server, "refused_commands_total") == sum(map(is_refused, replies))
    set_quota(admin, "user alice bytes 1kb action error")
    # Before encryption: what the client asked for, and was answered.
    assert c.call("GET", "k") == b"x" * 1_000_000
    assert is_refused(c.call("GET", "k"))


def test_a_certificate_past_the_place_may_become_another_user(admin, by_certificate):
    assert admin.call("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "~*") == OK
    set_quota(admin, "user alice connections 1")
    first = by_certificate()
    assert first.call("GET", "k") is None
    second = by_certificate()
    assert second.call("AUTH", "bob", "x") == OK
    assert second.call("GET", "k") is None
    assert counted(admin, "user alice")["used_connections"] == 1


# --- HTTP ---


def test_a_place_for_a_request(server, admin, by_certificate):
    set_quota(admin, "user alice connections 1")
    assert by_http(server, "SET k v", "GET k") == (200, {"replies": ["OK", "v"]})
    wait_until(lambda: metric(server, "connections") == 0, what="its place")
    with contextlib.closing(by_certificate()) as c:
        assert c.call("PING").text == "PONG"
        status, body = by_http(server, "GET k")
        assert FULL in str(body), (status, body)
        assert metric(server, "connections") == 1
        assert metric(server, "refused_connections_total") >= 1
    wait_until(lambda: metric(server, "connections") == 0, what="its place")
    assert by_http(server, "GET k") == (200, {"replies": ["v"]})


def test_commands_of_a_request_count(server, admin):
    set_quota(admin, "user alice commands 5 action error")
    status, body = by_http(server, *["PING"] * 100)
    assert status == 200, body
    refused = [reply for reply in body["replies"] if reply != "PONG"]
    assert refused
    assert set(reply["error"] for reply in refused) == {
        "QUOTA user 'alice' may run 5 commands in a second"
    }
    assert metric(server, "refused_commands_total") == len(refused)


def test_commands_of_a_request_wait(server, admin):
    set_quota(admin, "user alice commands 50")
    assert by_http(server, *["INCR n"] * 80) == (200, {"replies": list(range(1, 81))})
    assert counted(admin, "user alice")["delayed"] > 0


def test_bytes_of_a_request_are_owed(server, admin):
    assert admin.call("SET", "k", b"x" * 1_000_000) == OK
    set_quota(admin, "user alice bytes 1kb action error")
    status, body = by_http(server, "GET k")
    assert (status, len(body["replies"][0])) == (200, 1_000_000)
    wait_until(lambda: metric(server, "connections") == 0, what="its end")
    status, body = by_http(server, "GET k")
    assert "may send and receive 1024 bytes in a second" in str(body), status
