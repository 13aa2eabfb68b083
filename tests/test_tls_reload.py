# SPDX-License-Identifier: Apache-2.0
"""Certificates that change while the server runs, and users that certificates name."""

import os
import shutil
import socket
import ssl
import subprocess

import pytest

from harness.certificates import Certificates
from harness.http import ask
from harness.resp import OK, Error, RespSocket, Status
from harness.server import free_port, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized, only_dragonfly("of Valkey 9.1, Redis 8.6")]

NOPERM_GET = Error("NOPERM User {} has no permissions to run the 'get' command")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make("next")
    made.make("third")
    made.make("expired", days=-1)
    made.make("alice")
    made.make("nobody")
    made.make_ca("other-ca")
    made.make("of-other-ca", ca="other-ca")
    return made


def put(source, target):
    """As tools that renew certificates do: another file takes the place."""
    shutil.copy(source, target + ".new")
    os.replace(target + ".new", target)


class Site:
    """A server whose files are copies that a test may change."""

    def __init__(self, start_server, certificates, folder, **flags):
        self.certificates = certificates
        self.files = {
            name: os.path.join(folder, name) for name in ("server.crt", "server.key", "ca.crt")
        }
        self.use("server")
        put(certificates.crt("ca"), self.files["ca.crt"])
        self.port = free_port()
        self.server = start_server(
            tls_port=self.port,
            tls_cert_file=self.files["server.crt"],
            tls_key_file=self.files["server.key"],
            tls_ca_cert_file=self.files["ca.crt"],
            **{"tls_auto_reload_interval": 1, **flags},
        )

    def use(self, name):
        put(self.certificates.crt(name), self.files["server.crt"])
        put(self.certificates.key(name), self.files["server.key"])

    def connect(self, name="client"):
        return RespSocket(("127.0.0.1", self.port), tls=self.certificates.client(name))

    def shown(self):
        """The certificate that new clients get to see."""
        with self.connect() as c:
            return c.sock.getpeercert(binary_form=True)

    def is_used(self, name):
        with open(self.certificates.crt(name)) as f:
            return self.shown() == ssl.PEM_cert_to_DER_cert(f.read())

    def info(self, section="tls"):
        with self.server.connect() as c:
            return c.info(section)


@pytest.fixture
def site(start_server, certificates, tmp_path):
    return Site(start_server, certificates, str(tmp_path))


def serial_of(certificates, name):
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-serial", "-in", certificates.crt(name)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return shown.strip().removeprefix("serial=")


def test_new_files_are_used_and_old_connections_go_on(site, certificates):
    with site.connect() as old:
        assert old.call("SET", "k", "v") == OK
        assert site.is_used("server")
        assert site.info()["tls_server_cert_serial"] == serial_of(certificates, "server")
        site.use("next")
        wait_until(lambda: site.is_used("next"), what="the new certificate")
        assert site.info()["tls_server_cert_serial"] == serial_of(certificates, "next")
        assert int(site.info()["tls_auto_reloads"]) >= 1
        assert old.call("GET", "k") == b"v"
        with site.connect() as new:
            assert new.call("GET", "k") == b"v"
        site.use("third")
        wait_until(lambda: site.is_used("third"), what="the third one")
        assert old.call("GET", "k") == b"v"


def test_half_of_a_pair_is_not_taken(site, certificates):
    put(certificates.crt("next"), site.files["server.crt"])
    wait_until(lambda: site.info()["tls_auto_reload_failures"] != "0", what="the failure")
    assert site.is_used("server")
    assert site.info()["tls_server_cert_serial"] == serial_of(certificates, "server")
    assert "cannot be used, what was read before stays: TLS: " in site.server.log()
    put(certificates.key("next"), site.files["server.key"])
    wait_until(lambda: site.is_used("next"), what="the whole pair")


@pytest.mark.parametrize("content", ["", "-----BEGIN CERTIFICATE-----\nMIIB", "no certificate\n"])
def test_what_is_no_certificate_is_not_taken(site, content):
    with open(site.files["server.crt"], "w") as f:
        f.write(content)
    wait_until(lambda: site.info()["tls_auto_reload_failures"] != "0", what="the failure")
    assert site.is_used("server")
    os.unlink(site.files["server.key"])
    wait_until(lambda: int(site.info()["tls_auto_reload_failures"]) >= 2, what="the second one")
    assert site.is_used("server")
    site.use("next")
    wait_until(lambda: site.is_used("next"), what="good files")


def test_an_expired_certificate_is_not_taken(site):
    site.use("expired")
    wait_until(lambda: site.info()["tls_auto_reload_failures"] != "0", what="the failure")
    wait_until(lambda: "has expired" in site.server.log(), what="its line")
    assert site.is_used("server")


def test_who_may_sign_changes_too(site, certificates):
    def is_let_in():
        context = certificates.client("of-other-ca")
        try:
            with RespSocket(("127.0.0.1", site.port), tls=context) as c:
                return c.call("PING") == Status("PONG")
        except OSError:
            return False

    assert not is_let_in()
    put(certificates.crt("other-ca"), site.files["ca.crt"])
    wait_until(is_let_in, what="the new CA")


def test_without_an_interval_only_config_set_reads_them(site):
    with site.server.connect() as c:
        assert c.call("CONFIG", "GET", "tls-auto-reload-interval") == [
            b"tls-auto-reload-interval",
            b"1",
        ]
        assert c.call("CONFIG", "SET", "tls-auto-reload-interval", 0) == OK
        site.use("next")
        assert c.call("CONFIG", "SET", "tls-cert-file", site.files["server.crt"]) == OK
        assert site.is_used("next")
        assert site.info()["tls_auto_reloads"] == "0"
        site.use("third")
        assert c.call("CONFIG", "SET", "tls-auto-reload-interval", 1) == OK
    wait_until(lambda: site.is_used("third"), what="the interval of CONFIG SET")


def test_seconds_to_the_end_of_each_certificate(site, certificates):
    day_s = 24 * 3600
    info = site.info()
    for name in ("server", "ca"):
        left = int(info[f"tls_{name}_cert_expires_in_seconds"])
        assert 9 * day_s < left <= 10 * day_s
    assert info["tls_ca_cert_serial"] == serial_of(certificates, "ca")
    assert info["tls_client_cert_serial"] == "none"
    assert info["tls_client_cert_expires_in_seconds"] == "0"
    text = ask(site.server, "/metrics")[2]
    now_s = int(subprocess.check_output(["date", "+%s"]))
    for name in ("server", "ca"):
        sample = f'dragonfly_tls_certificate_expire_time_seconds{{certificate="{name}"}} '
        when = float(text.split(sample)[1].split("\n")[0])
        assert 9 * day_s < when - now_s <= 10 * day_s


def test_a_server_without_tls_has_no_certificate(server):
    with server.connect() as c:
        info = c.info("tls")
        assert info["tls_server_cert_serial"] == "none"
        assert info["tls_server_cert_expires_in_seconds"] == "0"


# --- Users by certificates ---


def make_with_uris(certificates, name, uris, common_name="somebody"):
    certificates.make(name, common_name=common_name)
    extensions = os.path.join(certificates.folder, name + ".ext")
    with open(extensions, "w") as f:
        f.write("subjectAltName=" + ",".join("URI:" + uri for uri in uris) + "\n")
    signed_by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "10"]
    subprocess.run(
        ["openssl", "x509", "-req", "-in", name + ".csr", "-out", name + ".crt"]
        + ["-extfile", extensions, *signed_by],
        cwd=certificates.folder,
        check=True,
        capture_output=True,
    )


def who(site, name):
    with site.connect(name) as c:
        return c.call("ACL", "WHOAMI")


def test_the_common_name_is_the_user(site):
    with site.server.connect() as c:
        assert c.call("ACL", "SETUSER", "alice", "on", "+acl|whoami", "+ping", "~*") == OK
        assert who(site, "alice") == b"default"  # off is the default
        assert c.call("CONFIG", "SET", "tls-auth-clients-user", "cn") == OK
        assert c.call("CONFIG", "GET", "tls-auth-clients-user") == [b"tls-auth-clients-user", b"CN"]
        assert who(site, "alice") == b"alice"
        with site.connect("alice") as alice:
            assert alice.call("PING") == Status("PONG")
            assert alice.call("GET", "k").text == NOPERM_GET.text.format("alice")
            # The user is changed while it is there.
            assert c.call("ACL", "SETUSER", "alice", "+get") == OK
            assert alice.call("GET", "k") is None
        # Nobody can log in as alice by a password, as she has none.
        assert c.call("AUTH", "alice", "").text.startswith("WRONGPASS")
        assert c.call("ACL", "SETUSER", "alice", "off") == OK
        assert who(site, "alice") == b"default"


def test_a_certificate_without_a_user_is_logged_and_counted(site):
    with site.server.connect() as c:
        assert c.call("CONFIG", "SET", "tls-auth-clients-user", "CN") == OK
        assert who(site, "nobody") == b"default"
        assert c.info("stats")["acl_access_denied_tls_cert"] == "1"
        entry = c.call("ACL", "LOG", 1)[0]
        fields = dict(zip(entry[::2], entry[1::2]))
        assert fields[b"reason"] == b"tls-cert"
        assert fields[b"username"] == b"nobody"


def test_a_certificate_lets_in_where_a_password_is_needed(start_server, certificates, tmp_path):
    site = Site(
        start_server,
        certificates,
        str(tmp_path),
        requirepass="secret",
        tls_auth_clients_user="CN",
        user="alice on +@all ~*",
    )
    assert who(site, "alice") == b"alice"
    with site.connect("nobody") as c:
        assert c.call("GET", "k").text.startswith("NOAUTH")


def test_without_a_certificate_it_is_the_default_user(start_server, certificates, tmp_path):
    site = Site(
        start_server,
        certificates,
        str(tmp_path),
        tls_auth_clients="optional",
        tls_auth_clients_user="CN",
        user="alice on +@all ~*",
    )
    assert who(site, None) == b"default"
    assert who(site, "alice") == b"alice"
    assert site.info("stats")["acl_access_denied_tls_cert"] == "0"


def test_certificates_that_nobody_checks_name_nobody(start_server, certificates, tmp_path):
    site = Site(
        start_server,
        certificates,
        str(tmp_path),
        tls_auth_clients="no",
        tls_auth_clients_user="CN",
        user="alice on +@all ~*",
    )
    assert who(site, "alice") == b"default"


def test_the_first_uri_that_is_a_user(site, certificates):
    uris = ["urn:app:first", "urn:app:second"]
    make_with_uris(certificates, "uris", uris, common_name="alice")
    with site.server.connect() as c:
        assert c.call("CONFIG", "SET", "tls-auth-clients-user", "URI") == OK
        assert c.call("ACL", "SETUSER", "alice", "on", "+@all") == OK
        assert who(site, "uris") == b"default"
        assert c.call("ACL", "SETUSER", "urn:app:second", "on", "+@all") == OK
        assert who(site, "uris") == b"urn:app:second"
        assert c.call("ACL", "SETUSER", "urn:app:first", "off", "+@all") == OK
        assert who(site, "uris") == b"urn:app:second"
        assert c.call("ACL", "SETUSER", "urn:app:first", "on", "+@all") == OK
        assert who(site, "uris") == b"urn:app:first"


def test_a_session_that_is_resumed_is_the_same_user(site, certificates):
    with site.server.connect() as c:
        assert c.call("ACL", "SETUSER", "alice", "on", "+@all") == OK
        assert c.call("CONFIG", "SET", "tls-auth-clients-user", "CN") == OK
    context = certificates.client("alice")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with RespSocket(("127.0.0.1", site.port), tls=context) as first:
        assert first.call("ACL", "WHOAMI") == b"alice"
        session = first.sock.session
    raw = socket.create_connection(("127.0.0.1", site.port))
    with context.wrap_socket(raw, server_hostname="localhost", session=session) as again:
        assert again.session_reused
        again.sendall(b"ACL WHOAMI\r\n")
        assert again.recv(100) == b"$5\r\nalice\r\n"


def test_a_bad_value(start_server):
    with start_server().connect() as c:
        reply = c.call("CONFIG", "SET", "tls-auth-clients-user", "serial")
        assert reply.text.endswith("argument(s) must be one of the following: off, CN, URI")
