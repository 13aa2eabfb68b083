# SPDX-License-Identifier: Apache-2.0
"""Connections: PING to QUIT, HELLO, AUTH, CLIENT, inline commands, protocol errors verbatim."""

import ctypes
import errno
import os
import socket

import pytest

from harness.resp import NOT_INT, OK, SYNTAX, Error, Map, RespSocket, Status, arity, encode
from harness.server import REFERENCE, only_dragonfly, wait_until

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

NOAUTH = Error("NOAUTH Authentication required.")


def closes_with(server, data):
    """The bytes that come back, up to the end of the stream, after `data` was sent."""
    with RespSocket(server.address) as c:
        c.send(data)
        return c.read_until_closed()


def test_ping_and_echo(r):
    assert r.raw("PING") == b"+PONG\r\n"
    assert r.raw("PING", "hello") == b"$5\r\nhello\r\n"
    assert r.raw("PING", "") == b"$0\r\n\r\n"
    assert r.do("PING a b") == arity("ping")
    assert r.call("ECHO", b"\0\r\n\xff") == b"\0\r\n\xff"
    assert r.do("ECHO") == arity("echo")


def test_select(r):
    assert r.do("SELECT 15") == OK
    assert r.do("SELECT 16") == Error("ERR DB index is out of range")
    assert r.do("SELECT -1") == Error("ERR DB index is out of range")
    assert r.do("SELECT x") == NOT_INT
    assert r.do("SELECT 99999999999999") == Error(
        "ERR value is out of range, value must between -2147483648 and 2147483647"
    )
    assert r.do("SELECT") == arity("select")
    assert b" db=15 " in r.do("CLIENT INFO")


@pytest.mark.flags(dbnum=3)
def test_dbnum_limits_select(r):
    assert r.do("SELECT 2") == OK
    assert r.do("SELECT 3") == Error("ERR DB index is out of range")
    assert r.do("CONFIG GET databases") == [b"databases", b"3"]


def test_quit_answers_and_closes(server):
    assert closes_with(server, encode("QUIT")) == b"+OK\r\n"
    assert closes_with(server, b"quit\r\n") == b"+OK\r\n"


def test_what_follows_quit_is_not_executed(server, r):
    data = encode("SET", "a", "1") + encode("QUIT") + encode("SET", "b", "1")
    assert closes_with(server, data) == b"+OK\r\n+OK\r\n"
    assert r.do("EXISTS a b") == 1


def test_reset_restores_the_defaults(r):
    r.do("SELECT 3")
    r.do("HELLO 3")
    r.do("CLIENT SETNAME me")
    assert r.raw("RESET") == b"+RESET\r\n"
    assert r.do("CLIENT GETNAME") in (None, b"")
    assert b" db=0 " in r.do("CLIENT INFO")
    assert r.raw("GET", "missing") == b"$-1\r\n"


def test_reset_takes_part_in_a_pipeline(r):
    assert r.pipeline([("SELECT", "2"), ("SET", "k", "v"), ("RESET",), ("EXISTS", "k")]) == [
        OK,
        OK,
        Status("RESET"),
        0,
    ]


def test_hello_describes_the_server_in_both_protocols(r):
    reply = r.call("HELLO")
    fields = dict(zip(reply[::2], reply[1::2]))
    assert fields[b"server"] == b"redis"
    assert fields[b"proto"] == 2
    assert fields[b"mode"] == b"standalone"
    assert fields[b"role"] == b"master"
    assert fields[b"modules"] == []
    assert isinstance(fields[b"id"], int)
    assert fields[b"version"].split(b".")[0] == b"7"
    reply = r.call("HELLO", "3")
    assert isinstance(reply, Map)
    assert list(reply.dict()) == list(fields)
    assert reply.dict()[b"proto"] == 3
    assert r.raw("GET", "missing") == b"_\r\n"
    assert isinstance(r.call("HELLO", "2"), list)
    assert r.raw("GET", "missing") == b"$-1\r\n"


def test_hello_sets_the_name(r):
    assert isinstance(r.do("HELLO 3 SETNAME me"), Map)
    assert r.do("CLIENT GETNAME") == b"me"


@pytest.mark.parametrize(
    "line,error",
    [
        ("HELLO 1", "NOPROTO unsupported protocol version"),
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO -3", "NOPROTO unsupported protocol version"),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 WHAT", "ERR Syntax error in HELLO option 'WHAT'"),
        ("HELLO 3 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 AUTH default", "ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 3 AUTH nobody x", "WRONGPASS invalid username-password pair or user is disabled."),
    ],
)
def test_a_refused_hello_changes_nothing(r, line, error):
    assert r.do(line) == Error(error)
    assert r.raw("GET", "missing") == b"$-1\r\n"


def test_hello_refuses_a_name_with_blanks(r):
    error = Error("ERR Client names cannot contain spaces, newlines or special characters.")
    assert r.call("HELLO", "3", "SETNAME", "a b") == error
    assert r.call("CLIENT", "SETNAME", "a\nb") == error
    assert r.do("CLIENT GETNAME") in (None, b"")


def test_auth_without_a_password_set(r):
    assert r.do("AUTH secret") == Error(
        "ERR AUTH <password> called without any password configured for the default user. Are you"
        " sure your configuration is correct?"
    )
    assert r.do("AUTH default anything") == OK
    assert r.do("AUTH nobody x") == Error(
        "WRONGPASS invalid username-password pair or user is disabled."
    )
    assert r.do("AUTH") == arity("auth")
    assert r.do("AUTH a b c") == SYNTAX


@pytest.mark.flags(requirepass="s3cret")
def test_requirepass_guards_everything_but_the_way_in(server):
    with server.connect(auth=False) as r:
        for line in (
            "GET k",
            "PING",
            "SELECT 0",
            "CLIENT ID",
            "COMMAND COUNT",
            "SHUTDOWN",
            "FLUSHALL",
            "INFO",
            "CONFIG GET *",
        ):
            assert r.do(line) == NOAUTH, line
        hello = r.do("HELLO 3").text.replace("HELLO <proto> AUTH", "HELLO AUTH")  # 7.2, 7.0
        assert hello == (
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO"
            " AUTH <user> <pass> option can be used to authenticate the client and select the RESP"
            " protocol version at the same time"
        )
        # Redis looks the command up and counts its arguments before it asks for a password.
        assert r.do("NOSUCH").text.startswith("ERR unknown command 'NOSUCH'")
        assert r.do("GET") == arity("get")
        wrong = Error("WRONGPASS invalid username-password pair or user is disabled.")
        assert r.do("AUTH wrong") == wrong
        assert r.do("AUTH default wrong") == wrong
        assert r.do("AUTH other s3cret") == wrong
        assert r.do("PING") == NOAUTH
        assert r.do("AUTH s3cret") == OK
        assert r.do("PING") == Status("PONG")
        assert r.do("RESET") == Status("RESET")
        assert r.do("PING") == NOAUTH
        assert r.do("AUTH default s3cret") == OK
    with server.connect(auth=False) as r:
        assert isinstance(r.do("HELLO 3 AUTH default s3cret SETNAME x"), Map)
        assert r.do("CLIENT GETNAME") == b"x"
    with server.connect(auth=False) as r:
        assert r.do("QUIT") == OK


@pytest.mark.flags(requirepass="s3cret")
def test_a_stranger_may_not_send_large_requests(server):
    assert closes_with(server, b"*11\r\n") == (
        b"-ERR Protocol error: unauthenticated multibulk length\r\n"
    )
    assert closes_with(server, b"*2\r\n$4\r\nAUTH\r\n$16385\r\n") == (
        b"-ERR Protocol error: unauthenticated bulk length\r\n"
    )


@pytest.mark.parametrize(
    "data,error",
    [
        (b"*x\r\n", b"invalid multibulk length"),
        (b"*3000000000\r\n", b"invalid multibulk length"),
        (b"*99999999999999999999\r\n", b"invalid multibulk length"),
        (b"*1 \r\n", b"invalid multibulk length"),
        (b"*+1\r\n", b"invalid multibulk length"),
        (b"*1\r\nPING\r\n", b"expected '$', got 'P'"),
        (b"*1\r\n:4\r\n", b"expected '$', got ':'"),
        (b"*1\r\n\r\n", b"expected '$', got ' '"),
        (b"*1\r\n\x01\r\n", None),
        (b"*1\r\n$x\r\n", b"invalid bulk length"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*1\r\n$\r\n", b"invalid bulk length"),
        (b"*1\r\n$999999999999\r\n", b"invalid bulk length"),
        (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
        (b'"unbalanced\r\n', b"unbalanced quotes in request"),
        (b"'a'b\r\n", b"unbalanced quotes in request"),
        (b"*" + b"1" * 70000, b"too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 70000, b"too big bulk count string"),
        (b"a" * 70000, b"too big inline request"),
    ],
)
def test_a_protocol_error_is_told_and_ends_the_connection(server, r, data, error):
    before = encode("SET", "k", "v")
    reply = closes_with(server, before + data)
    assert reply.startswith(b"+OK\r\n-ERR Protocol error: ")
    if error is not None:
        assert reply == b"+OK\r\n-ERR Protocol error: " + error + b"\r\n"
    assert reply.count(b"\r\n") == 2
    assert r.do("GET k") == b"v"


def test_a_protocol_error_comes_after_the_replies_before_it(server):
    data = b"".join(encode("SET", f"k{i}", "v") for i in range(100)) + b"*x\r\n"
    assert closes_with(server, data) == (
        b"+OK\r\n" * 100 + b"-ERR Protocol error: invalid multibulk length\r\n"
    )


def test_empty_requests_are_ignored(r):
    r.send(b"\r\n*0\r\n*-1\r\n\r\n\n" + encode("PING") + b"\r\n*-5\r\n" + encode("PING"))
    assert r.read() == Status("PONG")
    assert r.read() == Status("PONG")


def test_inline_commands(r):
    r.send(b"SET k v\r\nGET k\nget    k  \r\n  PING\r\n")
    assert [r.read() for _ in range(4)] == [OK, b"v", b"v", Status("PONG")]
    r.send(
        b'SET k "a b\\r\\n\\x41\\"\\\\"\r\nGET k\r\nSET k \'a "b\\\'\'\r\nGET "k"\r\nECHO ""\r\n'
    )
    assert [r.read() for _ in range(5)] == [OK, b'a b\r\nA"\\', OK, b"a \"b'", b""]


def test_inline_and_multibulk_requests_mix_in_one_pipeline(r):
    r.send(b"PING\r\n" + encode("PING") + b"ECHO x\r\n" + encode("ECHO", "y"))
    assert [r.read() for _ in range(4)] == [Status("PONG"), Status("PONG"), b"x", b"y"]


def test_unknown_commands_quote_the_first_arguments(r):
    assert r.call("nosuch") == Error("ERR unknown command 'nosuch', with args beginning with: ")
    assert r.call("NoSuch", "a", "b c") == Error(
        "ERR unknown command 'NoSuch', with args beginning with: 'a' 'b c' "
    )
    assert r.call("x\r\ny", "a\r\nb") == Error(
        "ERR unknown command 'x  y', with args beginning with: 'a  b' "
    )
    assert r.call("") == Error("ERR unknown command '', with args beginning with: ")
    long = "x" * 200
    assert r.call(long, long, long).text == (
        f"ERR unknown command '{long[:128]}', with args beginning with: '{long[:128]}' "
    )
    many = [str(i) for i in range(100)]
    expected = "ERR unknown command 'nosuch', with args beginning with: "
    shown = ""
    for arg in many:
        if len(shown) >= 128:
            break
        shown += f"'{arg[:128 - len(shown)]}' "
    assert r.call("nosuch", *many).text == expected + shown


def client_fields(text):
    return dict(field.split("=", 1) for field in text.decode().strip().split(" "))


CLIENT_FIELDS_7_0 = (
    "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem"
    " rbs rbp obl oll omem tot-mem events cmd user redir resp"
).split()
CLIENT_FIELDS_7_2 = CLIENT_FIELDS_7_0 + ["lib-name", "lib-ver"]


def test_client_id_info_and_list(server, r):
    ident = r.do("CLIENT ID")
    assert ident > 0
    info = r.do("CLIENT INFO")
    assert info.endswith(b"\n")
    fields = client_fields(info)
    assert set(CLIENT_FIELDS_7_0 if REFERENCE else CLIENT_FIELDS_7_2) <= set(fields)
    host, port = r.sock.getsockname()[:2]
    assert fields["id"] == str(ident)
    assert fields["addr"] == f"{host}:{port}"
    assert fields["laddr"] == f"127.0.0.1:{server.port}"
    assert fields["cmd"] == "client|info"
    assert fields["resp"] == "2"
    assert fields["user"] == "default"
    assert fields["db"] == "0"
    with server.connect(resp3=True) as other:
        other_id = other.do("CLIENT ID")
        assert other_id > ident
        by_id = {}
        for line in r.do("CLIENT LIST").splitlines():
            fields = client_fields(line)
            by_id[int(fields["id"])] = fields
        assert {ident, other_id} <= set(by_id)
        assert by_id[other_id]["resp"] == "3"
        listed = r.call("CLIENT", "LIST", "ID", str(other_id), "999999999").splitlines()
        assert [client_fields(line)["id"] for line in listed] == [str(other_id)]
        assert r.do("CLIENT LIST TYPE replica") == b""
        assert len(r.do("CLIENT LIST TYPE normal").splitlines()) >= 2
    assert r.do("CLIENT LIST TYPE what") == Error("ERR Unknown client type 'what'")
    assert r.do("CLIENT LIST ID x") == Error("ERR Invalid client ID")
    assert r.do("CLIENT LIST WHAT") == SYNTAX
    assert r.do("CLIENT WHAT") == Error("ERR unknown subcommand 'WHAT'. Try CLIENT HELP.")
    assert r.do("CLIENT") == arity("client")
    assert r.do("CLIENT ID x") == arity("client|id")


def test_client_list_in_resp3_is_verbatim_text(r3):
    assert r3.raw("CLIENT", "INFO").startswith(b"=")
    assert r3.raw("CLIENT", "LIST")[1:].split(b"\r\n")[1].startswith(b"txt:id=")


def test_client_names(r):
    assert r.raw("CLIENT", "GETNAME") == b"$-1\r\n"
    assert r.do("CLIENT SETNAME me") == OK
    assert r.do("CLIENT GETNAME") == b"me"
    assert b" name=me " in r.do("CLIENT INFO")
    assert r.call("CLIENT", "SETNAME", "") == OK
    assert r.raw("CLIENT", "GETNAME") == b"$-1\r\n"
    assert r.do("CLIENT SETNAME") == arity("client|setname")


@only_dragonfly("CLIENT SETINFO came with 7.2")
def test_client_setinfo(r):
    assert r.do("CLIENT SETINFO LIB-NAME redis-py") == OK
    assert r.do("CLIENT SETINFO lib-ver 1.2.3") == OK
    fields = client_fields(r.do("CLIENT INFO"))
    assert fields["lib-name"] == "redis-py" and fields["lib-ver"] == "1.2.3"
    assert r.do("CLIENT SETINFO WHAT x") == Error("ERR Unrecognized option 'WHAT'")
    assert r.call("CLIENT", "SETINFO", "LIB-NAME", "a b") == Error(
        "ERR lib-name cannot contain spaces, newlines or special characters."
    )
    assert r.do("CLIENT SETINFO LIB-NAME") == arity("client|setinfo")


def test_client_no_evict(r):
    assert r.do("CLIENT NO-EVICT ON") == OK
    assert r.do("CLIENT NO-EVICT off") == OK
    assert r.do("CLIENT NO-EVICT maybe") == SYNTAX


@only_dragonfly("CLIENT NO-TOUCH came with 7.2")
def test_client_no_touch(r):
    assert r.do("CLIENT NO-TOUCH ON") == OK
    assert r.do("CLIENT NO-TOUCH off") == OK
    assert r.do("CLIENT NO-TOUCH maybe") == SYNTAX


def test_client_kill_by_id_and_by_address(server, r):
    with server.connect() as victim:
        ident = victim.do("CLIENT ID")
        assert r.call("CLIENT", "KILL", "ID", ident) == 1
        assert victim.read_until_closed() == b""
        assert r.call("CLIENT", "KILL", "ID", ident) == 0
    with server.connect() as victim:
        address = "%s:%d" % victim.sock.getsockname()[:2]
        victim.do("PING")  # the kernel has accepted it, and now the server has, too
        assert r.call("CLIENT", "KILL", address) == OK
        assert victim.read_until_closed() == b""
        assert r.call("CLIENT", "KILL", address) == Error("ERR No such client")
    with server.connect() as victim:
        address = "%s:%d" % victim.sock.getsockname()[:2]
        victim.do("PING")
        assert r.call("CLIENT", "KILL", "ADDR", address, "TYPE", "normal") == 1
        assert victim.read_until_closed() == b""
    assert r.do("PING") == Status("PONG")
    assert r.do("CLIENT KILL ID x") == Error("ERR client-id should be greater than 0")
    assert r.do("CLIENT KILL TYPE what") == Error("ERR Unknown client type 'what'")
    assert r.do("CLIENT KILL SKIPME maybe TYPE normal") == SYNTAX
    assert r.do("CLIENT KILL") == arity("client|kill")


def test_client_kill_type_spares_the_caller(server, r):
    with server.connect() as a, server.connect() as b:
        a.do("PING"), b.do("PING")
        assert r.do("CLIENT KILL TYPE normal SKIPME yes") >= 2
        assert a.read_until_closed() == b"" and b.read_until_closed() == b""
    assert r.do("PING") == Status("PONG")


def test_killing_oneself_answers_first(server):
    with server.connect() as c:
        ident = c.do("CLIENT ID")
        c.send(encode("CLIENT", "KILL", "ID", ident, "SKIPME", "no"))
        assert c.read_until_closed() == b":1\r\n"


def test_client_reply_modes(r):
    r.send(
        encode("CLIENT", "REPLY", "OFF") + encode("SET", "k", "v") + encode("CLIENT", "REPLY", "ON")
    )
    assert r.read() == OK  # only of REPLY ON
    r.send(encode("CLIENT", "REPLY", "SKIP") + encode("CLIENT", "REPLY", "ON") + encode("PING"))
    assert [r.read(), r.read()] == [OK, Status("PONG")]
    r.send(encode("CLIENT", "REPLY", "SKIP") + encode("SET", "k", "w") + encode("GET", "k"))
    assert r.read() == b"w"
    assert r.do("CLIENT REPLY WHAT") == SYNTAX


def test_client_pause_holds_writes_until_unpause(server, r):
    with server.connect() as other:
        assert r.do("CLIENT PAUSE 60000 WRITE") == OK
        other.send_command("SET", "k", "v")
        assert r.do("EXISTS k") == 0
        assert r.do("CLIENT UNPAUSE") == OK
        assert other.read() == OK
        assert r.do("GET k") == b"v"
    assert r.do("CLIENT PAUSE x") == Error("ERR timeout is not an integer or out of range")
    assert r.do("CLIENT PAUSE -1") == Error("ERR timeout is negative")
    assert r.do("CLIENT PAUSE 1 WHAT") == Error("ERR CLIENT PAUSE mode must be WRITE or ALL")


def test_client_pause_all_ends_by_itself(server, r):
    with server.connect() as other:
        other.do("PING")
        assert r.do("CLIENT PAUSE 200") == OK
        assert other.do("SET k v") == OK


@pytest.mark.flags(timeout=1)
def test_idle_connections_are_closed_after_timeout(server):
    with server.connect() as idle:
        idle.do("PING")
        assert idle.read_until_closed() == b""


@pytest.mark.flags(maxclients=20)
def test_connections_past_maxclients_are_told_and_closed(server):
    held = []
    try:
        for _ in range(100):
            c = RespSocket(server.address)
            held.append(c)
            try:
                reply = c.call("PING")
            except ConnectionError:
                pytest.fail("closed without a word")
            if isinstance(reply, Error):
                assert reply.text == "ERR max number of clients reached"
                break
        else:
            pytest.fail("nobody was refused")
        assert 15 <= len(held) <= 21
    finally:
        for c in held:
            c.close()
    wait_until(lambda: accepts(server), what="room again")


def accepts(server):
    try:
        with RespSocket(server.address) as c:
            return c.call("PING") == Status("PONG")
    except ConnectionError:
        return False


def test_a_half_closed_connection_gets_its_replies(server):
    with server.connect() as c:
        c.send(encode("SET", "k", "v") + encode("GET", "k"))
        c.sock.shutdown(socket.SHUT_WR)
        # redis-server may drop what it has not written yet when it sees the end of the stream.
        data = c.read_until_closed()
        assert b"+OK\r\n$1\r\nv\r\n".startswith(data)
        if not REFERENCE:
            assert data == b"+OK\r\n$1\r\nv\r\n"


def server_side_socket(server, r):
    """A duplicate of the server's end of this connection."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(server.pid)
    try:
        for number in os.listdir(f"/proc/{server.pid}/fd"):
            fd = libc.syscall(438, process, int(number), 0)  # pidfd_getfd
            if fd < 0:
                if ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
                    pytest.skip("this process may not look into the server's descriptors")
                continue
            try:
                copy = socket.socket(fileno=fd)
            except OSError:
                os.close(fd)  # no socket
                continue
            try:
                if copy.getpeername() == r.sock.getsockname():
                    return copy
            except OSError:
                pass  # a listening socket has no peer
            copy.close()
    finally:
        os.close(process)
    pytest.skip("the server's end is no ordinary descriptor")


def test_the_servers_sockets_have_nodelay_and_keepalive(server, r):
    r.do("PING")
    with server_side_socket(server, r) as end:
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0


def test_client_help_lists_subcommands(r):
    for command in ("CLIENT", "CONFIG", "COMMAND", "OBJECT", "MEMORY", "DEBUG"):
        lines = r.do(f"{command} HELP")
        assert lines[0].text.startswith(f"{command} <subcommand> [<arg> [value] [opt] ...].")
        assert lines[-2].text == "HELP"


MEGABYTE = 1 << 20


@pytest.mark.threads
def test_the_longest_argument_is_set_live(server, r):
    """For clients that are there, for those that come, and for strings that grow."""
    initial = r.call("CONFIG", "GET", "proto-max-bulk-len")[1]
    longer = b"x" * (MEGABYTE + 1)
    with server.connect() as before:
        before.call("PING")
        assert r.call("CONFIG", "SET", "proto-max-bulk-len", "1mb") == OK
        with server.connect() as after:
            for i, client in enumerate((before, after)):
                assert client.call("SET", f"k{i}", longer[1:]) == OK
                client.sock.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % len(longer))
                assert client.read().text == "ERR Protocol error: invalid bulk length"
                assert client.read_until_closed() == b""
    for key in ("k0", "k1"):  # on several shards
        for grow in (("APPEND", key, "x"), ("SETRANGE", key, MEGABYTE, "x"),
                     ("SETBIT", "bits", 8 * MEGABYTE, "1")):
            assert isinstance(r.call(*grow), Error), grow
    assert r.call("CONFIG", "SET", "proto-max-bulk-len", "2mb") == OK
    with server.connect() as client:
        assert client.call("SET", "k0", longer) == OK
        assert client.call("APPEND", "k1", "x") == MEGABYTE + 1
    assert r.call("CONFIG", "SET", "proto-max-bulk-len", initial) == OK
    assert r.call("CONFIG", "GET", "proto-max-bulk-len")[1] == initial
    assert isinstance(r.call("CONFIG", "SET", "proto-max-bulk-len", "100"), Error)
