# SPDX-License-Identifier: Apache-2.0
"""Protected mode, the admin port, and limits for clients that do not say who they are."""

import subprocess
import time

import pytest

from harness.certificates import Certificates
from harness.resp import OK, Error, RespSocket, Status, encode
from harness.server import BINARY, REFERENCE, ServerFailed, free_port, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized]

ELSEWHERE = "127.0.0.2"  # which is not 127.0.0.1, so it counts as another machine

DENIED = "DENIED Redis is running in protected mode because protected mode is enabled and no"
NOPERM = Error("NOPERM this command is for clients of the admin port only (--restricted_commands)")


# --- Protected mode ---


def test_without_a_password_others_are_denied(start_server):
    server = start_server()
    with server.connect() as r:
        assert r.call("CONFIG", "GET", "protected-mode") == [b"protected-mode", b"yes"]
        with server.connect(source=ELSEWHERE) as other:
            answer = other.read_line().decode()
            assert answer.startswith("-" + DENIED)
            assert answer.endswith("from the outside.")
            assert other.sock.recv(100) == b""
        assert r.info("stats")["rejected_connections"] == "1"
        assert r.call("PING") == Status("PONG")


def test_protected_mode_can_be_switched(start_server):
    server = start_server(protected_mode="no")
    with server.connect(source=ELSEWHERE) as other:
        assert other.call("CONFIG", "SET", "protected-mode", "yes") == OK
        # Who is in may stay.
        assert other.call("PING") == Status("PONG")
        with server.connect(source=ELSEWHERE) as denied:
            assert denied.read_line().startswith(b"-DENIED")
        assert other.call("CONFIG", "SET", "protected-mode", "no") == OK
        with server.connect(source=ELSEWHERE) as again:
            assert again.call("PING") == Status("PONG")


def test_with_a_password_others_may_come(start_server):
    server = start_server(requirepass="secret")
    with server.connect(source=ELSEWHERE, auth=False) as other:
        assert other.call("PING") == Error("NOAUTH Authentication required.")
        assert other.call("AUTH", "secret") == OK
        assert other.call("PING") == Status("PONG")
        # From here on there is none.
        assert other.call("CONFIG", "SET", "requirepass", "") == OK
        with server.connect(source=ELSEWHERE, auth=False) as denied:
            assert denied.read_line().startswith(b"-DENIED")


def test_what_counts_is_whether_the_user_default_needs_a_password(start_server):
    server = start_server()
    with server.connect() as r:
        assert r.call("ACL", "SETUSER", "default", "resetpass", ">secret") == OK
        with server.connect(source=ELSEWHERE) as other:
            assert other.call("PING") == Error("NOAUTH Authentication required.")
        assert r.call("ACL", "SETUSER", "default", "nopass") == OK
        with server.connect(source=ELSEWHERE) as denied:
            assert denied.read_line().startswith(b"-DENIED")


def test_a_unix_socket_is_this_machine(start_server, tmp_path):
    start_server(unixsocket=str(tmp_path / "s"))
    with RespSocket(str(tmp_path / "s")) as r:
        assert r.call("PING") == Status("PONG")


def test_a_denied_client_of_tls_is_told_so_too(start_server, tmp_path):
    certificates = Certificates(tmp_path)
    port = free_port()
    start_server(tls_port=port, **certificates.flags())
    with RespSocket(("127.0.0.1", port), source=ELSEWHERE, tls=certificates.client()) as r:
        assert r.read_line().decode().startswith("-" + DENIED)
        assert r.sock.recv(100) == b""


# --- The admin port ---


@pytest.fixture
def admin(start_server):
    """A function that starts a server, and returns it and a function that connects as admin."""

    def start(**flags):
        port = free_port()
        server = start_server(admin_port=port, **flags)
        return server, lambda **options: RespSocket(("127.0.0.1", port), **options)

    return start


@only_dragonfly("it has no admin port")
def test_the_admin_port_is_not_full(admin):
    server, connect = admin(maxclients=1)
    with connect() as r:
        # The harness' own client is gone by then.
        wait_until(lambda: r.info("clients")["connected_clients"] == "1")
        with server.connect() as first:
            assert first.call("PING") == Status("PONG")
            with server.connect() as second:
                assert second.read_line() == b"-ERR max number of clients reached"
            with connect() as another:
                assert another.call("PING") == Status("PONG")
                assert another.info("clients")["connected_clients"] == "3"
        wait_until(lambda: r.info("clients")["connected_clients"] == "1")
        with server.connect() as third:
            assert third.call("PING") == Status("PONG")


@only_dragonfly("it has no admin port")
@pytest.mark.parametrize("nopass", [False, True])
def test_the_admin_port_may_need_no_password(admin, nopass):
    server, connect = admin(requirepass="secret", admin_nopass=nopass)
    expected = Status("PONG") if nopass else Error("NOAUTH Authentication required.")
    with connect() as r:
        assert r.call("PING") == expected
        assert r.call("RESET") == Status("RESET")
        assert r.call("PING") == expected
        assert r.call("AUTH", "wrong").text.startswith("WRONGPASS")
        assert r.call("AUTH", "secret") == OK
        assert r.call("PING") == Status("PONG")
    with server.connect(auth=False) as r:
        assert r.call("PING") == Error("NOAUTH Authentication required.")


@only_dragonfly("it has no admin port")
def test_an_admin_without_a_password_is_the_user_default(admin):
    server, connect = admin(requirepass="secret", admin_nopass=True)
    with connect() as r:
        assert r.call("ACL", "WHOAMI") == b"default"
        assert r.call("ACL", "SETUSER", "default", "-flushall") == OK
        assert r.call("FLUSHALL").text.startswith("NOPERM")
        assert r.call("ACL", "SETUSER", "boss", "on", ">s", "+@all") == OK
        assert r.call("ACL", "SETUSER", "default", "off") == OK
    with connect() as r:
        assert r.call("PING") == Error("NOAUTH Authentication required.")
        assert r.call("AUTH", "boss", "s") == OK
        assert r.call("PING") == Status("PONG")
        # The harness looks whether the server is well.
        assert r.call("ACL", "SETUSER", "default", "on") == OK
    assert server.is_alive()


@only_dragonfly("it has no admin port")
def test_protected_mode_is_for_the_admin_port_too(admin):
    _, connect = admin()
    with connect(source=ELSEWHERE) as r:
        assert r.read_line().startswith(b"-DENIED")
    _, connect = admin(admin_nopass=True)  # somebody has decided that
    with connect(source=ELSEWHERE) as r:
        assert r.call("PING") == Status("PONG")


@only_dragonfly("it has no admin port")
def test_restricted_commands_run_on_the_admin_port_only(admin):
    server, connect = admin(restricted_commands="FLUSHALL,config|set,debug,eval")
    with server.connect() as r, connect() as a:
        assert r.call("SET", "k", "v") == OK
        for command in (
            ["FLUSHALL"],
            ["CONFIG", "SET", "timeout", "0"],
            ["DEBUG", "OBJECT", "k"],
            ["EVAL", "return 1", 0],
        ):
            assert r.call(*command) == NOPERM, command
        assert r.call("CONFIG", "GET", "timeout") == [b"timeout", b"0"]
        assert r.call("FLUSHALL", "a", "b", "c").text.startswith("NOPERM")
        assert r.call("GET", "k") == b"v"
        # Also not between MULTI and EXEC, which does nothing then.
        assert r.call("MULTI") == OK
        assert r.call("SET", "k", "w") == Status("QUEUED")
        assert r.call("FLUSHALL") == NOPERM
        assert r.call("EXEC").text.startswith("EXECABORT")
        assert r.call("GET", "k") == b"v"
        # In a pipeline it is one error among replies.
        assert r.pipeline([("GET", "k"), ("FLUSHALL",), ("GET", "k")]) == [b"v", NOPERM, b"v"]
        assert "errorstat_NOPERM" in r.info("errorstats")

        assert a.call("CONFIG", "SET", "timeout", "0") == OK
        # Scripts have no port: they may not, whoever calls them.
        error = a.call("EVAL", "return redis.call('FLUSHALL')", 0)
        assert "This Redis command is not allowed from script" in error.text
        assert a.call("GET", "k") == b"v"
        assert a.call("FLUSHALL") == OK
        assert r.call("GET", "k") is None


@only_dragonfly("it has no admin port")
def test_an_unknown_restricted_command_is_told(admin):
    for name in ("nosuch", "config|nosuch"):
        with pytest.raises(ServerFailed, match="--restricted_commands: there is no command"):
            admin(restricted_commands=name)


@only_dragonfly("it has no admin port")
@pytest.mark.parametrize("plain", [True, False])
def test_the_admin_port_has_no_tls_unless_told_so(start_server, tmp_path, plain):
    certificates = Certificates(tmp_path)
    port = free_port()
    start_server(
        admin_port=port,
        tls=True,
        client_tls=certificates.client(),
        no_tls_on_admin_port=plain,
        **certificates.flags(),
    )
    context = None if plain else certificates.client()
    with RespSocket(("127.0.0.1", port), tls=context) as r:
        assert r.call("PING") == Status("PONG")


@only_dragonfly("it has no admin port")
def test_an_admin_stays_one_on_another_thread(admin):
    _, connect = admin(proactor_threads=4, restricted_commands="flushall")
    with connect() as r:
        for i in range(20):
            for _ in range(100):
                r.call("INCR", f"key{i}")
        assert int(r.info("dispatch")["migrations"]) > 0
        assert r.call("FLUSHALL") == OK


# --- Clients that do not authenticate ---


def is_closed(connection):
    try:
        return connection.sock.recv(100) == b""
    except ConnectionResetError:
        return True


@only_dragonfly("it has no limit")
def test_a_client_has_a_limited_time_for_auth(start_server):
    server = start_server(requirepass="secret", auth_timeout=1)
    with server.connect() as r:
        begin = time.monotonic()
        with server.connect(auth=False) as silent, server.connect(auth=False) as busy:

            def is_ended():  # asking does not help
                try:
                    assert busy.call("PING") == Error("NOAUTH Authentication required.")
                except ConnectionError:
                    return True

            wait_until(is_ended)
            assert is_closed(silent)
            assert time.monotonic() - begin > 0.9
            assert r.info("stats")["auth_timeouts"] == "2"
            # Who is in has all the time there is, and after RESET as much as at first.
            time.sleep(1)
            assert r.call("RESET") == Status("RESET")
            assert r.call("AUTH", "secret") == OK
            assert r.call("CONFIG", "SET", "auth_timeout", 0) == OK
            with server.connect(auth=False) as later:
                time.sleep(1.5)
                assert later.call("AUTH", "secret") == OK


@only_dragonfly("it has no limit")
def test_without_a_password_there_is_no_such_limit(start_server):
    server = start_server(auth_timeout=1)
    with server.connect() as r:
        time.sleep(1.5)
        assert r.call("PING") == Status("PONG")


@only_dragonfly("it has no HTTP")
def test_http_is_ended_only_when_it_is_silent(start_server):
    server = start_server(requirepass="secret", auth_timeout=3)
    with server.connect(auth=False) as r:
        for _ in range(12):
            r.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in r.sock.recv(1000)
            time.sleep(0.3)
        assert is_closed(r)


# --- Clients that send slowly ---


def trickle(server, prefix, byte, seconds, count=50):
    """So many clients that send a beginning and then a byte at a time. Their connections."""
    clients = [server.connect(auth=False) for _ in range(count)]
    for c in clients:
        c.send(prefix)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for c in clients:
            try:
                c.send(byte)
            except OSError:
                pass
        time.sleep(0.01)
    return clients


@only_dragonfly("other limits")
@pytest.mark.parametrize(
    ("prefix", "byte"),
    [
        (b"GET / HTTP/1.1\r\nX: ", b"x"),  # --http_head_max
        (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000000\r\n", b"x"),  # more than they may
        (b"*1\r\n$", b"0"),  # a header that never ends
        (b"PING ", b"x"),
    ],
    ids=["http", "bulk", "header", "inline"],
)
def test_slow_clients_without_a_password_cost_little_and_are_ended(start_server, prefix, byte):
    server = start_server(requirepass="secret", auth_timeout=2)
    with server.connect() as r:
        before = server.rss_bytes()
        clients = trickle(server, prefix, byte, 1)
        assert server.rss_bytes() - before < 20 << 20
        for c in clients:
            c.read_until_closed()
            c.close()
        assert r.call("PING") == Status("PONG")


def test_slow_clients_that_are_in_do_not_hinder_others(start_server):
    server = start_server()
    request = encode("SET", "key", "value")
    with server.connect() as r:
        slow = [server.connect() for _ in range(50)]
        for byte in request:
            for c in slow:
                c.send(bytes([byte]))
            assert r.call("PING") == Status("PONG")
        for c in slow:
            assert c.read() == OK
            c.close()



# --- Settings that lead to files ---

PROTECTED = "ERR CONFIG SET failed (possibly related to argument '{}') - can't set protected config"


@pytest.mark.flags(enable_protected_configs="no")
def test_dir_and_dbfilename_are_protected(server, r):
    """Whoever gets in without a password could have any file of the server's user written over."""
    for name, value in (("dir", "/tmp"), ("dbfilename", "authorized_keys")):
        assert r.call("CONFIG", "SET", name, value) == Error(PROTECTED.format(name))
        assert r.call("CONFIG", "SET", "maxclients", "5000", name, value) == Error(
            PROTECTED.format(name)
        )
        assert r.call("CONFIG", "GET", name)[1] != value.encode()
    assert r.call("CONFIG", "GET", "maxclients")[1] == b"10000"
    assert r.call("CONFIG", "GET", "enable-protected-configs")[1] == b"no"
    # Only at the start.
    assert "immutable" in r.call("CONFIG", "SET", "enable-protected-configs", "yes").text


def test_only_local_clients_may_set_them(start_server):
    server = start_server(enable_protected_configs="local", protected_mode="no")
    with server.connect() as r:
        assert r.call("CONFIG", "SET", "dbfilename", "x.rdb") == OK
        assert r.call("CONFIG", "SET", "dir", server.dir) == OK
    with server.connect(source=ELSEWHERE) as other:
        assert other.call("CONFIG", "SET", "dbfilename", "y.rdb") == Error(
            PROTECTED.format("dbfilename")
        )
        assert other.call("CONFIG", "SET", "maxclients", "5000") == OK


# --- DEBUG, MODULE ---

NOT_ALLOWED = (
    'ERR {0} command not allowed. If the enable-{1}-command option is set to "local", you can run '
    "it from a local connection, otherwise you need to set this option in the configuration file, "
    "and then restart the server."
)
LOAD_FAILED = Error("ERR Error loading the extension. Please check the server logs.")
NO_MODULE = Error("ERR Error unloading module: no such module with that name")


def call_module(r, refused=None):
    assert r.call("MODULE", "LIST") == []
    assert r.call("MODULE", "LOAD", "/no/such.so") == (refused or LOAD_FAILED)
    assert r.call("MODULE", "LOADEX", "/no/such.so", "ARGS", "x") == (refused or LOAD_FAILED)
    assert r.call("MODULE", "UNLOAD", "x") == (refused or NO_MODULE)


@pytest.mark.sanitized
def test_debug_and_module_are_closed_by_default(tmp_path):
    """With no flag that the harness gives: as somebody starts it."""
    port = free_port()
    name = ["redis-server"] if REFERENCE else [BINARY, "--logtostderr"]
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen([*name, "--port", str(port), "--save", ""], cwd=tmp_path,
                                   stdout=log, stderr=log)
    try:
        def connection():
            try:
                return RespSocket(("127.0.0.1", port))
            except OSError:
                assert process.poll() is None
                return None

        with wait_until(connection) as r:
            closed = Error(NOT_ALLOWED.format("DEBUG", "debug"))
            for arguments in (["SLEEP", "0"], ["SEGFAULT"], ["RELOAD"], ["HELP"], ["nosuch"]):
                assert r.call("DEBUG", *arguments) == closed
            assert r.call("DEBUG") == Error("ERR wrong number of arguments for 'debug' command")
            call_module(r, Error(NOT_ALLOWED.format("MODULE", "module")))
            assert r.call("CONFIG", "GET", "enable-debug-command")[1] == b"no"
            assert r.call("CONFIG", "GET", "enable-module-command")[1] == b"no"
            assert "immutable" in r.call("CONFIG", "SET", "enable-debug-command", "yes").text
            assert r.call("MULTI") == OK
            assert r.call("DEBUG", "SLEEP", "0") == closed
            assert r.call("EXEC").text.startswith("EXECABORT")
            r.call("CONFIG", "SET", "requirepass", "secret")
            with RespSocket(("127.0.0.1", port)) as other:  # told before anything else
                assert other.call("DEBUG", "SLEEP", "0") == closed
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_local_clients_may_call_them(start_server):
    server = start_server(
        enable_debug_command="local", enable_module_command="local", protected_mode="no"
    )
    with server.connect() as r:
        assert r.call("DEBUG", "SLEEP", "0") == OK
        call_module(r)
    with server.connect(source=ELSEWHERE) as other:
        assert other.call("DEBUG", "SLEEP", "0") == Error(NOT_ALLOWED.format("DEBUG", "debug"))
        call_module(other, Error(NOT_ALLOWED.format("MODULE", "module")))
        assert other.call("PING") == Status("PONG")


@only_dragonfly("no HTTP")
def test_over_http_the_client_counts(start_server):
    """Not the server's own connection inside of it."""
    server = start_server(enable_protected_configs="local", protected_mode="no")
    body = b'{"commands":["CONFIG SET dbfilename y.rdb"]}'
    request = (
        b"POST /api/commands HTTP/1.0\r\nContent-Type: application/json\r\nX-Requested-With: x\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    ) + body
    for source, answer in ((None, b'["OK"]'), (ELSEWHERE, b"protected config")):
        with server.connect(source=source) as c:
            c.send(request)
            assert answer in c.sock.makefile("rb").read()


@only_dragonfly("redis-server writes them as they are")
def test_a_clients_text_is_one_line_of_the_log(start_server):
    server = start_server(dbfilename="file\nforged")  # CONFIG SET refuses it
    with server.connect() as r:
        forged = "begin\nE1125 forged\x1b[2J größe end"
        for level in ("LOG_WARNING", "LOG_NOTICE"):
            r.call("EVAL", f"redis.log(redis.{level}, ARGV[1])", 0, forged)
        r.call("EVAL", "redis.log(redis.LOG_WARNING, 'a', 'zero\\0byte')", 0)
        r.call("SAVE")
        wait_until(lambda: "bytes, " in server.log() and "zero" in server.log())
        lines = server.log().splitlines()
        shown = [line for line in lines if "begin" in line]
        assert len(shown) == 2
        as_shown = "script: begin\\nE1125 forged\\x1b[2J größe end"
        assert all(line.endswith(as_shown) for line in shown)
        assert any(line.endswith("script: a zero\\x00byte") for line in lines)
        assert any("saved " in line and "file\\nforged" in line for line in lines)
        assert not any(line.startswith(("forged", "E1125")) for line in lines)
