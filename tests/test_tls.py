# SPDX-License-Identifier: Apache-2.0
"""TLS: on a port of its own (--tls_port, as redis-server) and on the main one (--tls)."""

import os
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from functools import partial

import pytest
import redis

from harness.certificates import Certificates
from harness.resp import OK, Error, RespSocket, Status, encode
from harness.server import (
    REFERENCE,
    SANITIZED,
    SLOWNESS,
    ServerFailed,
    free_port,
    only_dragonfly,
    wait_until,
)
from harness.threads import run_all

pytestmark = [pytest.mark.sanitized]

CANNOT_UPDATE = Error(
    "ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - "
    "Unable to update TLS configuration. Check server logs."
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make_ca("stranger-ca")
    made.make("stranger", ca="stranger-ca")
    made.make("expired", days=-1)
    made.make("other-server")
    return made


@pytest.fixture
def start_tls(start_server, certificates):
    """A server with a TLS port besides the plain one: (server, its TLS address)."""

    def start(**flags):
        port = free_port()
        server = start_server(**{"tls_port": port, **certificates.flags(), **flags})
        return server, ("127.0.0.1", port)

    return start


ENGINES = [False] if REFERENCE else [False, True]


@pytest.fixture(params=ENGINES, ids=["epoll" if each else "io_uring" for each in ENGINES])
def tls(request, start_tls, certificates):
    """A function that connects, on both engines, with 4 threads."""
    server, address = start_tls(force_epoll=request.param, proactor_threads=4)

    def connect(name="client", **options):
        return RespSocket(address, tls=certificates.client(name), **options)

    connect.server = server
    connect.address = address
    return connect


def refuses(call):
    """The server ends it: in the handshake, or, with TLS 1.3, with the first bytes."""
    with pytest.raises(OSError):
        with call() as r:
            r.call("PING")


# --- Traffic ---


def test_commands_and_values_of_all_sizes(tls):
    with tls() as r:
        assert r.call("PING") == Status("PONG")
        for size in (0, 1, 16383, 16384, 16385, 100_000, 1 << 20, 5_000_000):
            value = os.urandom(size)
            assert r.call("SET", "k", value) == OK
            assert r.call("GET", "k") == value


def test_long_pipelines(tls):
    with tls() as r:
        count = 20_000 // SLOWNESS
        commands = [("SET", f"k{i}", f"v{i}") for i in range(count)]
        assert r.pipeline(commands) == [OK] * count
        assert r.pipeline([("GET", f"k{i}") for i in range(count)]) == [
            b"v%d" % i for i in range(count)
        ]


def test_replies_larger_than_what_the_client_reads_at_once(tls):
    """More than the kernel's buffers hold, for a client that reads late."""
    value = os.urandom(1 << 20)
    count = 64 // (1 if SLOWNESS == 1 else 4)
    with tls(rcvbuf=4096) as r, tls() as other:
        assert r.call("SET", "k", value) == OK
        r.send(encode("GET", "k") * count)
        for _ in range(10):  # others are served meanwhile
            assert other.call("PING") == Status("PONG")
        for _ in range(count):
            assert r.read() == value


@pytest.mark.alone
def test_bytes_one_by_one_in_records_of_one_byte(tls):
    with tls() as r:
        for byte in encode("SET", "k", "v") + encode("GET", "k"):
            r.send(bytes([byte]))
        assert (r.read(), r.read()) == (OK, b"v")


def test_many_clients_at_once(tls):
    def work(i):
        with tls() as r:
            for j in range(200 // SLOWNESS):
                r.call("SET", f"key{i}:{j}", str(j) * 100)
                assert r.call("GET", f"key{i}:{j}") == (str(j) * 100).encode()

    run_all([partial(work, i) for i in range(8)])


def test_blocking_commands_and_messages(tls):
    with tls() as waiting, tls() as r, tls() as subscriber:
        waiting.send_command("BLPOP", "list", 0)
        assert subscriber.call("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
        assert wait_until(lambda: b"cmd=blpop" in r.call("CLIENT", "LIST"))
        r.call("RPUSH", "list", "item")
        assert waiting.read() == [b"list", b"item"]
        assert r.call("PUBLISH", "news", "x" * 100_000) == 1
        assert subscriber.read() == [b"message", b"news", b"x" * 100_000]


def test_a_transaction_and_a_script(tls):
    with tls() as r:
        r.call("MULTI")
        r.call("SET", "a", 1)
        r.call("INCR", "a")
        assert r.call("EXEC") == [OK, 2]
        assert r.call("EVAL", "return redis.call('GET', KEYS[1])", 1, "a") == b"2"


def test_the_plain_port_is_still_there(tls):
    with tls.server.connect() as plain, tls() as r:
        plain.call("SET", "k", "v")
        assert r.call("GET", "k") == b"v"


@pytest.mark.alone
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions(start_tls, certificates, version):
    _, address = start_tls()
    with RespSocket(address, tls=certificates.client(version=version)) as r:
        assert r.sock.version() == version.name.replace("_", ".")
        assert r.call("ECHO", "x" * 50_000) == b"x" * 50_000


@only_dragonfly("it has no threads to move between")
@pytest.mark.parametrize("force_epoll", [False, True], ids=["io_uring", "epoll"])
def test_a_connection_moves_between_threads(start_tls, certificates, force_epoll):
    _, address = start_tls(proactor_threads=4, force_epoll=force_epoll)
    with RespSocket(address, tls=certificates.client()) as r:
        for round_ in range(20):
            # One key's shard after another; with commands that arrive in the middle of a move.
            key = f"key{round_}"
            value = os.urandom(3000)
            assert r.call("SET", key, value) == OK
            for _ in range(30):
                assert r.pipeline([("GET", key)] * 10) == [value] * 10
        migrations = int(r.info("dispatch")["migrations"])
        assert migrations >= 3


@only_dragonfly("it has no threads to move between")
def test_all_move_while_they_stream(start_tls, certificates):
    server, address = start_tls(proactor_threads=4)

    def work(i):
        with RespSocket(address, tls=certificates.client()) as r:
            for j in range(10):
                key = f"key{i}:{j}"
                got = r.pipeline([("INCRBY", key, 1)] * (2000 // SLOWNESS))
                assert got == list(range(1, 2000 // SLOWNESS + 1))

    run_all([partial(work, i) for i in range(4)])
    with server.connect() as r:
        assert int(r.info("dispatch")["migrations"]) > 4


@only_dragonfly("it counts less")
def test_what_tls_takes_is_counted(tls):
    with tls.server.connect() as r:
        used = lambda: int(r.info("memory")["used_memory"])
        before, resident_before = used(), tls.server.rss_bytes()
        clients = [tls() for _ in range(200)]
        for c in clients:
            c.call("PING")
        grown, resident = used() - before, tls.server.rss_bytes() - resident_before
        assert grown > 200 * 8000
        if SLOWNESS == 1:  # a sanitizer's own memory is not counted
            assert resident < 1.3 * grown + (4 << 20)
        for c in clients:
            c.close()
        wait_until(lambda: used() - before < grown / 10)


# --- Clients that people use ---


@pytest.mark.alone
def test_redis_cli(start_tls, certificates):
    _, (host, port) = start_tls()
    files = ["--cacert", certificates.crt("ca"), "--cert", certificates.crt("client")]
    files += ["--key", certificates.key("client")]
    command = ["redis-cli", "-h", host, "-p", str(port), "--tls", *files]
    done = subprocess.run([*command, "PING"], capture_output=True, text=True, timeout=30)
    assert done.stdout == "PONG\n"


def test_redis_py(start_tls, certificates):
    _, (host, port) = start_tls()
    client = redis.Redis(
        host=host,
        port=port,
        ssl=True,
        ssl_ca_certs=certificates.crt("ca"),
        ssl_certfile=certificates.crt("client"),
        ssl_keyfile=certificates.key("client"),
    )
    with client.pipeline() as pipeline:
        for i in range(100):
            pipeline.set(f"k{i}", i)
        assert pipeline.execute() == [True] * 100
    assert client.get("k7") == b"7"
    client.close()


@pytest.mark.alone
@only_dragonfly("it has no HTTP")
def test_https(start_tls, certificates):
    _, (_, port) = start_tls()
    context = certificates.client()
    with urllib.request.urlopen(f"https://localhost:{port}/livez", context=context) as page:
        assert page.read() == b"ok\n"


# --- Who may come in ---


@pytest.mark.alone
def test_a_client_without_a_certificate_is_refused(tls):
    refuses(lambda: tls(None))


@pytest.mark.alone
def test_a_certificate_of_another_ca_is_refused(tls):
    refuses(lambda: tls("stranger"))


@pytest.mark.alone
def test_an_expired_certificate_is_refused(tls):
    refuses(lambda: tls("expired"))
    with tls.server.connect() as r:
        assert r.call("PING") == Status("PONG")
    if not REFERENCE:
        assert "certificate has expired" in tls.server.log()


@pytest.mark.alone
def test_the_server_of_another_ca_is_refused_by_the_client(tls, certificates):
    with pytest.raises(ssl.SSLCertVerificationError):
        RespSocket(tls.address, tls=certificates.client(ca="stranger-ca"))


@pytest.mark.alone
def test_certificates_may_be_optional(start_tls, certificates):
    _, address = start_tls(tls_auth_clients="optional")
    for name in (None, "client"):
        with RespSocket(address, tls=certificates.client(name)) as r:
            assert r.call("PING") == Status("PONG")
    refuses(lambda: RespSocket(address, tls=certificates.client("stranger")))


@pytest.mark.alone
def test_certificates_may_be_ignored(start_tls, certificates):
    _, address = start_tls(tls_auth_clients="no")
    for name in (None, "client", "stranger"):
        with RespSocket(address, tls=certificates.client(name)) as r:
            assert r.call("PING") == Status("PONG")


@pytest.mark.alone
def test_a_version_that_is_off_is_refused(start_tls, certificates):
    _, address = start_tls(tls_protocols="TLSv1.3")
    refuses(lambda: RespSocket(address, tls=certificates.client(version=ssl.TLSVersion.TLSv1_2)))
    with RespSocket(address, tls=certificates.client()) as r:
        assert r.sock.version() == "TLSv1.3"


@pytest.mark.alone
def test_ciphers_are_those_that_are_allowed(start_tls, certificates):
    cipher, suite = "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_CHACHA20_POLY1305_SHA256"
    _, address = start_tls(tls_ciphers=cipher, tls_ciphersuites=suite)
    for version, expected in ((ssl.TLSVersion.TLSv1_2, cipher), (ssl.TLSVersion.TLSv1_3, suite)):
        with RespSocket(address, tls=certificates.client(version=version)) as r:
            assert r.sock.cipher()[0] == expected


@pytest.mark.alone
def test_a_key_with_a_passphrase(start_tls, certificates):
    certificates.make("locked")
    certificates.encrypt_key("locked", "sesame")
    _, address = start_tls(**certificates.flags("locked", tls_key_file_pass="sesame"))
    with RespSocket(address, tls=certificates.client()) as r:
        assert r.call("PING") == Status("PONG")


@pytest.mark.parametrize(
    "caching", ["yes", pytest.param("no", marks=only_dragonfly("it breaks off who tries"))]
)
def test_sessions_are_resumed_if_they_may_be(start_tls, certificates, caching):
    _, address = start_tls(tls_session_caching=caching)
    context = certificates.client(version=ssl.TLSVersion.TLSv1_2)
    sessions = []
    for _ in range(2):
        raw = socket.create_connection(address)
        last = sessions[-1] if sessions else None
        with context.wrap_socket(raw, server_hostname="localhost", session=last) as s:
            s.sendall(b"PING\r\n")
            assert s.recv(100) == b"+PONG\r\n"
            sessions.append(s.session)
            resumed = s.session_reused
    assert resumed == (caching == "yes")


# --- Starts that fail ---


@pytest.mark.alone
@only_dragonfly("other words, and other defaults")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tls_cert_file": ""}, "TLS needs a certificate: --tls_cert_file"),
        ({"tls_key_file": ""}, "TLS needs a private key: --tls_key_file"),
        ({"tls_cert_file": "/nowhere"}, "cannot load the certificate /nowhere: No such file"),
        ({"tls_key_file": "stranger"}, "key values mismatch"),
        ({"tls_ca_cert_file": "/nowhere"}, "cannot load the CA certificates /nowhere"),
        ({"tls_ca_cert_file": "", "tls_auth_clients": "yes"}, "--tls_ca_cert_file or"),
        ({"tls_auth_clients": "maybe"}, "--tls_auth_clients: must be yes, no or optional"),
        ({"tls_protocols": "SSLv3"}, "unknown protocol 'sslv3'"),
        ({"tls_ciphers": "nonsense"}, "cannot use the ciphers 'nonsense'"),
        ({"tls_port": 65536}, "--tls_port: must be between 0 and 65535"),
    ],
)
def test_a_start_that_fails_tells_why(start_tls, certificates, changes, why):
    if changes.get("tls_key_file") == "stranger":
        changes = {"tls_key_file": certificates.key("stranger")}
    with pytest.raises(ServerFailed, match=why):
        start_tls(**changes)


# --- CONFIG ---


def serial_of(address, certificates):
    with RespSocket(address, tls=certificates.client()) as r:
        return r.sock.getpeercert()["serialNumber"]


def test_certificates_are_read_again(start_tls, certificates):
    server, address = start_tls()
    first = serial_of(address, certificates)
    with server.connect() as r, RespSocket(address, tls=certificates.client()) as old:
        crt, key = certificates.crt("other-server"), certificates.key("other-server")
        # One alone does not fit the other.
        assert r.call("CONFIG", "SET", "tls-cert-file", crt) == CANNOT_UPDATE
        assert r.call("CONFIG", "GET", "tls-cert-file")[1] == certificates.crt("server").encode()
        assert serial_of(address, certificates) == first
        assert r.call("CONFIG", "SET", "tls-cert-file", crt, "tls-key-file", key) == OK
        second = serial_of(address, certificates)
        assert second != first
        assert r.call("CONFIG", "SET", "tls-cert-file", "/nowhere") == CANNOT_UPDATE
        assert serial_of(address, certificates) == second
        assert old.call("PING") == Status("PONG")


def test_the_same_files_with_another_content(start_tls, certificates):
    certificates.make("renewed")
    server, address = start_tls(**certificates.flags("renewed"))
    first = serial_of(address, certificates)
    certificates.make("renewed")
    with server.connect() as r:
        assert serial_of(address, certificates) == first
        # Redis reads them again only if both are set at once, as one is checked against the other.
        crt, key = certificates.crt("renewed"), certificates.key("renewed")
        r.call("CONFIG", "SET", "tls-cert-file", crt, "tls-key-file", key)
        assert serial_of(address, certificates) != first


def test_clients_need_a_certificate_from_now_on(start_tls, certificates):
    server, address = start_tls(tls_auth_clients="no")
    with server.connect() as r:
        with RespSocket(address, tls=certificates.client(None)) as old:
            assert r.call("CONFIG", "SET", "tls-auth-clients", "yes") == OK
            assert old.call("PING") == Status("PONG")
            refuses(lambda: RespSocket(address, tls=certificates.client(None)))
        assert r.call("CONFIG", "SET", "tls-auth-clients", "maybe") == Error(
            "ERR CONFIG SET failed (possibly related to argument 'tls-auth-clients') - "
            "argument(s) must be one of the following: no, yes, optional"
        )


def test_certificates_change_under_load(start_tls, certificates):
    server, address = start_tls()
    stop = threading.Event()
    failures = []

    def work():
        try:
            while not stop.is_set():
                with RespSocket(address, tls=certificates.client()) as r:
                    for i in range(20):
                        assert r.call("ECHO", str(i)) == str(i).encode()
        except Exception as e:  # told by the test's own thread
            failures.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    with server.connect() as r:
        for i in range(20):
            name = ("server", "other-server")[i % 2]
            crt, key = certificates.crt(name), certificates.key(name)
            assert r.call("CONFIG", "SET", "tls-cert-file", crt, "tls-key-file", key) == OK
            time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


# --- --tls: the main port ---


@pytest.mark.alone
@only_dragonfly("its TLS port is another one")
def test_the_main_port_may_have_tls(start_server, certificates):
    server = start_server(tls=True, client_tls=certificates.client(), **certificates.flags())
    with server.connect() as r:
        assert r.call("PING") == Status("PONG")
        assert r.info("server")["tcp_port"] == str(server.port)
    with server.connect(tls=None) as plain:
        plain.send(b"PING\r\n")
        assert plain.sock.recv(100) == b""
    wait_until(lambda: "this port expects TLS" in server.log())


@pytest.mark.alone
@only_dragonfly("its TLS port is another one")
def test_without_a_port_there_is_only_tls(start_server, certificates):
    server = start_server(client_tls=certificates.client(), only_tls=True, **certificates.flags())
    with server.connect() as r:
        assert r.info("server")["tcp_port"] == str(server.port)
        assert r.call("CONFIG", "GET", "port") == [b"port", b"0"]


# --- Peers that mean harm ---


def failures_of(server):
    with server.connect() as r:
        return int(r.info("stats")["tls_handshake_failures"])


@only_dragonfly("it does not count them")
def test_plain_text_is_refused_counted_and_logged_once(tls):
    for i in range(20):
        with RespSocket(tls.address) as plain:
            plain.send(b"PING\r\n" if i % 2 else b"GET / HTTP/1.1\r\n\r\n")
            assert plain.sock.recv(100) == b""
    wait_until(lambda: failures_of(tls.server) == 20)
    assert 1 <= tls.server.log().count("this port expects TLS") <= 5


@only_dragonfly("it does not count them")
def test_random_bytes(tls):
    for i in range(30):
        with RespSocket(tls.address) as r:
            prefix = b"\x16\x03\x01\x02\x00" if i % 2 else b""
            r.send(prefix + os.urandom(1000))
            try:
                while r.sock.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    wait_until(lambda: failures_of(tls.server) == 30)
    with tls() as r:
        assert r.call("PING") == Status("PONG")


@pytest.mark.alone
@only_dragonfly("it has no limit")
def test_a_handshake_that_does_not_end(start_tls, certificates):
    server, address = start_tls(tls_handshake_timeout=1)
    begin = time.monotonic()
    with RespSocket(address) as silent, RespSocket(address) as slow, server.connect() as r:
        slow.send(b"\x16\x03\x01\x02\x00\x01\x00")
        assert silent.sock.recv(100) == b""
        # An alert, or nothing, and then the end.
        while slow.sock.recv(100):
            pass
        assert time.monotonic() - begin > 0.9
        assert r.info("stats")["tls_handshake_timeouts"] == "2"
        assert r.call("CONFIG", "SET", "tls_handshake_timeout", 60) == OK
    assert "it takes too long" in server.log()
    # Who is done in time may stay.
    with RespSocket(address, tls=certificates.client()) as r:
        time.sleep(1.5)
        assert r.call("PING") == Status("PONG")


@pytest.mark.alone
@only_dragonfly("it has no limit")
def test_a_handshake_byte_by_byte_is_no_faster_than_its_limit(start_tls):
    """Many at once, which trickle: memory stays where it was, and all are ended."""
    server, address = start_tls(tls_handshake_timeout=2)
    outgoing = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    first_flight = outgoing.read()
    before = server.rss_bytes()
    clients = [RespSocket(address) for _ in range(100)]
    for byte in first_flight[:100]:
        for c in clients:
            try:
                c.sock.send(bytes([byte]))
            except OSError:  # its limit came first
                pass
    if not SANITIZED:  # a sanitizer's own memory, some hundreds of KB for a connection, is in it
        assert server.rss_bytes() - before < 40 << 20
    for c in clients:
        try:
            while c.sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
        c.close()
    with server.connect() as r:
        assert r.info("stats")["tls_handshake_timeouts"] == "100"


def test_clients_that_vanish_in_any_state(tls, certificates):
    for i in range(60):
        raw = socket.create_connection(tls.address)
        if i % 3 == 0:
            raw.close()
            continue
        s = certificates.client().wrap_socket(raw, server_hostname="localhost")
        s.sendall(encode("SET", "k", "x" * 100_000)[: 1000 * i])
        if i % 3 == 1:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
    with tls() as r:
        wait_until(lambda: r.info("clients")["connected_clients"] == "1")


def test_after_the_clients_close_notify_its_replies_come(tls):
    with tls() as r:
        r.call("SET", "k", "v" * 1000)
        r.send(encode("GET", "k"))
        r.send(encode("QUIT"))
        assert r.read() == b"v" * 1000
        assert r.read() == OK
        # The server ends with close_notify: this is the end of the stream for Python, no error.
        assert r.sock.recv(100) == b""


@only_dragonfly("it answers in plain text")
def test_one_client_too_many(start_tls, certificates):
    server, address = start_tls(maxclients=2)
    with server.connect() as r:
        wait_until(lambda: r.info("clients")["connected_clients"] == "1")
        with RespSocket(address, tls=certificates.client()) as first:
            assert first.call("PING") == Status("PONG")
            refuses(lambda: RespSocket(address, tls=certificates.client()))
