# SPDX-License-Identifier: Apache-2.0
"""Links with TLS (tls-replication): ours beside ours and beside redis-server, as primary, replica,
and in the middle; and what is told if a link cannot be."""

import contextlib
import re

import pytest

from test_config_file import run  # noqa: F401

from harness.certificates import Certificates
from harness.nodes import (
    assert_same,
    await_link,
    await_offset,
    continuations,
    copies,
    role,
    writing,
)
from harness.resp import OK, Error
from harness.seeds import new_rng
from harness.server import (
    PATIENCE_S,
    REFERENCE,
    SLOWNESS,
    ServerFailed,
    free_port,
    stopped,
    wait_until,
)

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself"),
]

PAIRS = pytest.mark.parametrize(
    "kinds", [("ours", "ours"), ("ours", "redis"), ("redis", "ours")], ids="-".join
)
__all__ = ["run"]  # a fixture
CANNOT_UPDATE = "Unable to update TLS configuration. Check server logs."


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make_ca("stranger-ca")
    made.make("stranger", ca="stranger-ca")
    made.make("replica")
    made.make("locked")
    made.encrypt_key("locked", "open sesame")
    return made


@pytest.fixture
def node(start_server, certificates):
    """A factory: a client of a server that has no other port than one with TLS, whose clients need
    a certificate, and whose link has TLS."""
    with contextlib.ExitStack() as stack:

        def start(kind="ours", **flags):
            all_flags = {
                "repl_diskless_sync_delay": 0,
                "repl_ping_replica_period": 3600,
                # All that a test writes: a slow replica is behind by megabytes.
                "repl_backlog_size": "100mb",
                "tls_replication": "yes",
                "client_tls": certificates.client(),
                "only_tls": True,
                **certificates.flags(),
                **flags,
            }
            if kind == "redis":
                own = ("client_tls", "only_tls")
                all_flags = {
                    name if name in own else name.replace("_", "-"): value
                    for name, value in all_flags.items()
                }
            server = start_server(reference=kind == "redis", **all_flags)
            c = stack.enter_context(server.connect())
            c.port, c.server = server.port, server
            return c

        yield start


def connect(c):
    return c.server.connect()


def begin_to_follow(replica, primary, port=None):
    assert replica.call("REPLICAOF", "127.0.0.1", port or primary.port) == OK


def follow(replica, primary, port=None):
    begin_to_follow(replica, primary, port)
    await_link(replica)


def await_replica(primary, port):
    line = re.compile(f"ip=127.0.0.1,port={port},state=online,.*")
    wait_until(lambda: line.fullmatch(role(primary).get("slave0", "")), what="the replica")


def set_all(c, **settings):
    words = [word for name, value in settings.items() for word in (name.replace("_", "-"), value)]
    assert c.call("CONFIG", "SET", *words) == OK


def await_refusal(replica, text):
    """It says why it has no link, and goes on to serve."""
    wait_until(lambda: text in replica.server.log(), what=text)
    info = role(replica)
    assert (info["role"], info["master_link_status"]) == ("slave", "down")
    assert replica.call("PING").text == "PONG"


# --- What a link does ---


@PAIRS
def test_a_copy_and_the_stream_under_writes(node, kinds):
    primary, replica = [node(kind) for kind in kinds]
    with writing(lambda: connect(primary), new_rng()) as writers:
        writers.await_more()
        follow(replica, primary)
        writers.await_more(300)
    assert_same(primary, replica)
    assert copies(primary) == 1
    await_replica(primary, replica.port)
    host, port, _ = primary.call("ROLE")[2][0]
    assert (host, port) == (b"127.0.0.1", str(replica.port).encode())
    # Of the last acknowledgement, which comes each second.
    wait_until(lambda: int(primary.call("ROLE")[2][0][2]) > 0, what="an acknowledgement")
    name, host, port, state, offset = replica.call("ROLE")
    assert (name, host, port) == (b"slave", b"127.0.0.1", primary.port)
    assert state == b"connected" and offset > 0
    info = role(replica)
    assert (info["master_host"], info["master_port"]) == ("127.0.0.1", str(primary.port))


@PAIRS
def test_acknowledgements(node, kinds):
    primary, replica = [node(kind) for kind in kinds]
    follow(replica, primary)
    for i in range(20):
        assert primary.call("SET", f"k{i}", "v") == OK
        assert primary.call("WAIT", 1, PATIENCE_S * 1000) == 1
        assert replica.call("GET", f"k{i}") == b"v"


@PAIRS
def test_a_link_that_breaks_goes_on_without_a_copy(node, kinds):
    primary, replica = [node(kind) for kind in kinds]
    follow(replica, primary)
    with writing(lambda: connect(primary), new_rng()) as writers:
        for count in range(1, 4):
            writers.await_more()
            with connect(primary) as c:
                assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
            wait_until(lambda: continuations(primary) == count, what="it to go on")
            await_link(replica)
    assert_same(primary, replica)
    assert copies(primary) == 1


@pytest.mark.parametrize("replica_epoll", [False, True], ids=["to-io_uring", "to-epoll"])
@pytest.mark.parametrize("primary_epoll", [False, True], ids=["io_uring", "epoll"])
def test_a_large_copy(node, primary_epoll, replica_epoll):
    """Much more than all buffers hold, under writes, to a replica that takes nothing at times."""
    primary = node(force_epoll=primary_epoll, proactor_threads=3)
    replica = node(force_epoll=replica_epoll, proactor_threads=2)
    assert primary.call("DEBUG", "POPULATE", 300 // SLOWNESS, "key", 200_000) == OK
    assert primary.call("SET", "large", "x" * 20_000_000) == OK
    with writing(lambda: connect(primary), new_rng(), expires=False) as writers:
        begin_to_follow(replica, primary)
        for count in range(1, 4):
            wait_until(
                lambda: int(role(replica).get("master_sync_read_bytes", 0)) > count << 20
                or role(replica)["master_link_status"] == "up",
                what="bytes of the copy",
            )
            with stopped(replica.server.process):
                writers.await_more(20)
        await_link(replica)
        writers.await_more(200)
    assert_same(primary, replica)
    assert copies(primary) == 1
    assert replica.call("STRLEN", "large") == 20_000_000


def test_values_larger_than_what_is_sent_at_once(node):
    primary, replica = node(), node()
    follow(replica, primary)
    for size in (1, 16_383, 16_384, 16_385, 65_535, 65_536, 1 << 20, 30 << 20):
        assert primary.call("SET", f"k{size}", "x" * size) == OK
    await_offset(primary, replica)
    for size in (1, 16_383, 16_384, 16_385, 65_535, 65_536, 1 << 20, 30 << 20):
        assert replica.call("GET", f"k{size}") == b"x" * size


def test_a_chain(node):
    """redis-server, two of ours, and a redis-server at the end."""
    top, first, second, bottom = node("redis"), node(proactor_threads=3), node(), node("redis")
    with writing(lambda: connect(top), new_rng()) as writers:
        writers.await_more()
        follow(first, top)
        writers.await_more()
        follow(second, first)
        follow(bottom, second)
        writers.await_more(300)
    assert_same(top, first, second, bottom)
    await_replica(second, bottom.port)
    ids = {role(c)["master_replid"] for c in (top, first, second, bottom)}
    assert len(ids) == 1


@PAIRS
def test_failover(node, kinds):
    old, new = [node(kind) for kind in kinds]
    follow(new, old)
    await_replica(old, new.port)  # redis-server has it online with its first acknowledgement
    rng = new_rng()
    at_old = writing(lambda: connect(old), rng, expires=False)
    at_new = writing(lambda: connect(new), rng, expires=False)
    with at_old as writers, at_new:
        writers.await_more()
        target = ["TO", "127.0.0.1", new.port, "TIMEOUT", 600_000]
        with connect(old) as c:
            assert c.call("FAILOVER", *target) == OK
        with connect(old) as c:
            wait_until(lambda: role(c)["role"] == "slave", what="the other role")
            wait_until(lambda: role(c)["master_failover_state"] == "no-failover", what="its end")
            await_link(c)
    assert_same(new, old)
    assert role(new)["role"] == "master"
    assert copies(new) == 0
    await_replica(new, old.port)


# --- Ports ---


def test_the_port_that_is_announced(start_server, certificates):
    """With a link that has TLS the TLS port, else the plain one; redis-server does so, too."""
    ports = {}
    for kind in ("ours", "redis"):
        port = free_port()
        flags = {"tls_port": port, **certificates.flags()}
        delay = "repl_diskless_sync_delay" if kind == "ours" else "repl-diskless-sync-delay"
        server = start_server(reference=kind == "redis", **{delay: 0}, **flags)
        ports[kind] = server, port
    for primary, primary_tls in ports.values():
        for replica, replica_tls in ports.values():
            if replica is primary:
                continue
            with primary.connect() as p, replica.connect() as r:
                p.port = primary.port
                follow(r, p)
                await_replica(p, replica.port)
                set_all(r, tls_replication="yes")
                # The link that is there stays as it is.
                assert role(r)["master_link_status"] == "up"
                begin_to_follow(r, p, primary_tls)
                await_replica(p, replica_tls)
                set_all(r, tls_replication="no")
                assert r.call("REPLICAOF", "NO", "ONE") == OK


def test_the_main_port_may_be_the_one_with_tls(start_server, certificates):
    flags = {
        "tls": True,
        "tls_replication": True,
        "client_tls": certificates.client(),
        "repl_diskless_sync_delay": 0,
        **certificates.flags(),
    }
    primary, replica = start_server(**flags), start_server(**flags)
    with primary.connect() as p, replica.connect() as r:
        p.port = primary.port
        follow(r, p)
        await_replica(p, replica.port)
        assert p.call("SET", "k", "v") == OK
        assert_same(p, r)


def test_from_the_start_and_after_a_restart(node):
    primary = node()
    replica = node(replicaof=f"127.0.0.1 {primary.port}", proactor_threads=2)
    await_link(replica)
    assert primary.call("SET", "k", "v") == OK
    assert_same(primary, replica)
    replica.server.stop()
    replica.server.start_again()
    with connect(replica) as again:
        await_link(again)
        assert_same(primary, again)


# --- Who may come, and to whom ---


@pytest.fixture
def plain(start_server, certificates):
    """A factory: a client of a server whose port has no TLS, and whose link has."""
    with contextlib.ExitStack() as stack:

        def start(**flags):
            flags = {"tls_replication": True, "tls_ca_cert_file": certificates.crt("ca"), **flags}
            server = start_server(repl_diskless_sync_delay=0, **flags)
            c = stack.enter_context(server.connect())
            c.port, c.server = server.port, server
            return c

        yield start


@pytest.mark.parametrize("kind", ["ours", "redis"])
def test_a_certificate_of_its_own_for_the_link(node, plain, certificates, kind):
    primary = node(kind)
    # The primary does not know who has signed the other one.
    files = {
        "tls_cert_file": certificates.crt("stranger"),
        "tls_key_file": certificates.key("stranger"),
        "tls_client_cert_file": certificates.crt("locked"),
        "tls_client_key_file": certificates.key("locked"),
        "tls_client_key_file_pass": "open sesame",
    }
    replica = plain(**files)
    follow(replica, primary)
    assert primary.call("SET", "k", "v") == OK
    assert_same(primary, replica)


@pytest.mark.parametrize("kind", ["ours", "redis"])
def test_a_replica_without_a_certificate(node, plain, certificates, kind):
    primary, replica = node(kind), plain()
    begin_to_follow(replica, primary)
    # The alert of TLS 1.3 comes when the replica takes the handshake for done.
    await_refusal(replica, "certificate required")
    assert role(primary)["connected_slaves"] == "0"
    files = {
        "tls_client_cert_file": certificates.crt("replica"),
        "tls_client_key_file": certificates.key("replica"),
    }
    for name, value in files.items():  # one after the other is fine, as in Redis
        set_all(replica, **{name: value})
    await_link(replica)
    # Or none, if the primary says so.
    set_all(replica, tls_client_cert_file="", tls_client_key_file="")
    set_all(primary, tls_auth_clients="no")
    begin_to_follow(replica, primary, 1)
    follow(replica, primary)


@pytest.mark.parametrize("kind", ["ours", "redis"])
def test_a_primary_of_another_ca(node, plain, certificates, kind):
    primary = node(kind)
    replica = plain(tls_ca_cert_file=certificates.crt("stranger-ca"))
    begin_to_follow(replica, primary)
    await_refusal(replica, "certificate verify failed")
    log = replica.server.log()
    assert f"no link with the primary 127.0.0.1:{primary.port}: " in log
    # It tries again and again, and says it once.
    if kind == "redis":
        tries = lambda: primary.server.log().count("Error accepting a client connection")
    else:
        tries = lambda: int(primary.info("stats")["tls_handshake_failures"])
    before = tries()
    wait_until(lambda: tries() > before + 1, what="more tries")
    assert replica.server.log().count("certificate verify failed") == 1
    assert role(replica)["master_link_down_since_seconds"] == "-1"
    files = {
        "tls_client_cert_file": certificates.crt("replica"),
        "tls_client_key_file": certificates.key("replica"),
    }
    set_all(replica, tls_ca_cert_file=certificates.crt("ca"), **files)
    await_link(replica)


def test_a_primary_that_is_expired(node, plain, certificates):
    certificates.make("expired", days=-1)
    primary = node(**certificates.flags("expired"), client_tls=unchecked(certificates))
    replica = plain()
    begin_to_follow(replica, primary)
    await_refusal(replica, "certificate has expired")


def unchecked(certificates):
    context = certificates.client()
    context.check_hostname = False
    context.verify_mode = 0
    return context


@pytest.mark.parametrize("kind", ["ours", "redis"])
def test_a_replica_without_tls_at_a_port_with_tls(node, plain, certificates, kind):
    primary, replica = node(kind), plain(tls_replication=False, **own_files(certificates))
    begin_to_follow(replica, primary)
    await_refusal(replica, "tls-replication is off")
    set_all(replica, tls_replication="yes")
    await_link(replica)


@pytest.mark.parametrize("kind", ["ours", "redis"])
def test_a_replica_with_tls_at_a_plain_port(start_server, plain, certificates, kind):
    primary = start_server(reference=kind == "redis")
    replica = plain(repl_timeout=1, **own_files(certificates))
    with primary.connect() as p:
        p.port = primary.port
        begin_to_follow(replica, p)
        await_refusal(replica, "TLS: ")
        set_all(replica, tls_replication="no", repl_timeout=60)
        await_link(replica)


def own_files(certificates):
    return {
        "tls_cert_file": certificates.crt("replica"),
        "tls_key_file": certificates.key("replica"),
    }


# --- Changes at run time ---


def test_certificates_change_under_writes(node, certificates):
    """Links go on, and new ones use the new files."""
    certificates.make_ca("new-ca")
    certificates.make("new-server", ca="new-ca")
    primary, replica = node(), node()
    follow(replica, primary)
    new = {
        "tls_cert_file": certificates.crt("new-server"),
        "tls_key_file": certificates.key("new-server"),
    }
    with writing(lambda: connect(primary), new_rng()) as writers:
        writers.await_more()
        set_all(primary, **new)
        # The clients of the test do not know the new CA.
        with connect_unchecked(primary, certificates) as c:
            link = role(replica)
            writers.await_more()
            assert role(replica)["master_link_status"] == link["master_link_status"] == "up"
            assert continuations(primary) == 0
            assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
        await_refusal(replica, "certificate verify failed")
        writers.await_more()
        set_all(replica, tls_ca_cert_file=certificates.crt("new-ca"))
        await_link(replica)
        writers.await_more()
    assert_same(primary, replica)
    assert (copies(primary), continuations(primary)) == (1, 1)


def connect_unchecked(c, certificates):
    return c.server.connect(tls=unchecked(certificates))


def test_settings_that_cannot_be(start_server, certificates):
    server = start_server(**own_files(certificates))
    crt, key = certificates.crt("replica"), certificates.key("locked")
    tries = [
        (["tls-replication", "yes"], "who may sign the certificate of the primary"),
        (
            ["tls-replication", "yes", "tls-ca-cert-file", "/nowhere"],
            "cannot load the CA certificates /nowhere",
        ),
    ]
    with server.connect() as c:
        for words, why in tries:
            reply = c.call("CONFIG", "SET", *words)
            assert isinstance(reply, Error) and reply.text.endswith(CANNOT_UPDATE)
            assert why in server.log()
            assert c.call("CONFIG", "GET", "tls-replication") == [b"tls-replication", b"no"]
        ca = certificates.crt("ca")
        assert c.call("CONFIG", "SET", "tls-replication", "yes", "tls-ca-cert-file", ca) == OK
        files = ["tls-client-cert-file", crt, "tls-client-key-file", key]
        assert isinstance(c.call("CONFIG", "SET", *files), Error)
        assert "cannot load the private key" in server.log()
        assert c.call("CONFIG", "GET", "tls-client*")[1::2] == [b"", b"", b""]
        assert c.call("CONFIG", "SET", "tls-replication", "no", *files) == OK  # nobody uses them
    with pytest.raises(ServerFailed, match="who may sign the certificate of the primary"):
        start_server(tls_replication=True)


def test_the_lines_of_a_file(run, node, tmp_path, certificates):  # noqa: F811
    """As a redis.conf has them, and CONFIG REWRITE."""
    primary = node("redis")
    files = {
        "tls-ca-cert-file": certificates.crt("ca"),
        "tls-client-cert-file": certificates.crt("locked"),
        "tls-client-key-file": certificates.key("locked"),
        "tls-client-key-file-pass": "open sesame",
    }
    lines = [f'{name} "{value}"\n' for name, value in files.items()]
    path = tmp_path / "redis.conf"
    path.write_text("".join(lines) + "tls-replication yes\n")
    replica = run("redis.conf", "--port", "PORT")
    with replica.connect() as c:
        follow(c, primary)
        assert c.call("CONFIG", "SET", "tls-replication", "no") == OK
        assert c.call("CONFIG", "REWRITE") == OK
    written = path.read_text()
    assert "tls-replication no\n" in written and f"replicaof 127.0.0.1 {primary.port}" in written
    assert 'tls-client-key-file-pass "open sesame"\n' in written
