# SPDX-License-Identifier: Apache-2.0
"""CONFIG SET port, bind and tls-port: clients come in by another door, those who are in stay."""

import socket
import ssl

import pytest

from harness.certificates import Certificates
from harness.resp import OK, Error, RespSocket
from harness.server import free_port

pytestmark = [pytest.mark.threads, pytest.mark.sanitized, pytest.mark.flags()]


def answers(port, host="127.0.0.1"):
    try:
        with RespSocket((host, port)) as r:
            return r.do("PING").text == "PONG"
    except ConnectionError:
        return False


def failed(setting, why):
    return Error(
        f"ERR CONFIG SET failed (possibly related to argument '{setting}') - {why}"
    )


def test_another_port(server):
    port = free_port()
    with server.connect() as r:
        assert r.call("CONFIG", "SET", "port", port) == OK
        assert r.do("CONFIG GET port") == [b"port", str(port).encode()]
        assert r.info("server")["tcp_port"] == str(port)
        assert r.do("PING").text == "PONG", "who is in stays in"
        assert answers(port)
        assert not answers(server.port)
        assert r.call("CONFIG", "SET", "port", port) == OK, "the same once more"
        assert answers(port)
        assert r.call("CONFIG", "SET", "port", server.port) == OK
    assert answers(server.port)
    assert not answers(port)


def test_a_port_that_somebody_else_has_changes_nothing(server):
    with socket.create_server(("127.0.0.1", 0)) as other, server.connect() as r:
        taken = other.getsockname()[1]
        assert r.call("CONFIG", "SET", "timeout", 7, "port", taken) == failed(
            "port", "Unable to listen on this port. Check server logs."
        )
        assert r.do("CONFIG GET port") == [b"port", str(server.port).encode()]
        assert r.do("CONFIG GET timeout") == [b"timeout", b"0"]
    assert answers(server.port)


def test_ports_that_are_none(server):
    with server.connect() as r:
        for wrong in (-1, 65536):
            assert r.call("CONFIG", "SET", "port", wrong) == failed(
                "port", "argument must be between 0 and 65535 inclusive"
            )
        assert r.call("CONFIG", "SET", "port", 0) == OK
        assert not answers(server.port)
        assert r.call("CONFIG", "SET", "port", server.port) == OK
    assert answers(server.port)


def test_other_addresses(server):
    with server.connect() as r:
        assert r.call("CONFIG", "SET", "bind", "127.0.0.2 127.0.0.3") == OK
        assert r.do("CONFIG GET bind") == [b"bind", b"127.0.0.2 127.0.0.3"]
        assert answers(server.port, "127.0.0.2")
        assert answers(server.port, "127.0.0.3")
        assert not answers(server.port)
        # One that stays, and one that may be missing.
        assert r.call("CONFIG", "SET", "bind", "127.0.0.3 127.0.0.1 -192.0.2.1") == OK
        assert answers(server.port, "127.0.0.3")
        assert not answers(server.port, "127.0.0.2")
    assert answers(server.port)


def test_an_address_that_is_none_changes_nothing(server):
    with server.connect() as r:
        for wrong in ("127.0.0.1 999.999.999.999", "127.0.0.2 192.0.2.1"):
            assert r.call("CONFIG", "SET", "bind", wrong) == failed(
                "bind", "Failed to bind to specified addresses."
            )
            assert answers(server.port)
            assert not answers(server.port, "127.0.0.2")
        assert r.call("CONFIG", "SET", "bind", " ".join(["127.0.0.1"] * 17)) == failed(
            "bind", "Too many bind addresses specified."
        )
    assert answers(server.port)


def test_a_door_with_tls_is_opened_and_closed(server, tmp_path):
    certificates = Certificates(tmp_path)
    port = free_port()
    flags = {name.replace("_", "-"): path for name, path in certificates.flags().items()}
    pairs = [word for pair in flags.items() for word in pair]
    cannot = "Unable to update TLS configuration. Check server logs."

    def speaks_tls():
        try:
            with RespSocket(("127.0.0.1", port), tls=certificates.client()) as r:
                return r.do("PING").text == "PONG"
        except (ConnectionError, ssl.SSLError):
            return False

    with server.connect() as r:
        assert r.call("CONFIG", "SET", "tls-port", port) == failed("tls-port", cannot)
        assert not speaks_tls()
        assert r.call("CONFIG", "SET", "tls-port", port, *pairs) == OK
        assert speaks_tls()
        # What opened before the other one failed is as it was.
        other = free_port()
        refused = r.call("CONFIG", "SET", "port", other, "tls-cert-file", "/nonexistent")
        assert refused == failed("tls-cert-file", cannot)
        assert answers(server.port)
        assert not answers(other)
        assert speaks_tls()
        assert r.call("CONFIG", "SET", "tls-port", 0) == OK
        assert not speaks_tls()
    assert answers(server.port)
