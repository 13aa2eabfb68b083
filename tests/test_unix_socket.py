# SPDX-License-Identifier: Apache-2.0
"""--unixsocket: the same server over a socket file."""

import os
import tempfile

import pytest

from harness.resp import OK, RespSocket


@pytest.fixture
def socket_path():
    with tempfile.TemporaryDirectory(prefix="dfly-") as folder:
        yield os.path.join(folder, "s")


def test_a_unix_socket_serves_and_goes_away(start_server, socket_path):
    server = start_server(unixsocket=socket_path)
    with RespSocket(socket_path) as c:
        assert c.call("SET", "k", "v") == OK
        assert b"addr=" + socket_path.encode() in c.call("CLIENT", "INFO")
    with server.connect() as r:
        assert r.do("GET k") == b"v"
    server.stop()
    assert not os.path.exists(socket_path)


def test_a_stale_socket_file_is_replaced(start_server, socket_path):
    first = start_server(unixsocket=socket_path)
    os.rename(socket_path, socket_path + ".away")
    first.stop()
    os.rename(socket_path + ".away", socket_path)
    start_server(unixsocket=socket_path)
    with RespSocket(socket_path) as c:
        assert c.call("SET", "k", "v") == OK
