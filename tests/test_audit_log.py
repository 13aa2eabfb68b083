# SPDX-License-Identifier: Apache-2.0
"""--audit_log: who has logged in, who was refused, and what administrators have done."""

import base64
import json
import os
import re
import subprocess

import pytest

from harness.certificates import Certificates
from harness.http import ask
from harness.resp import OK, Error, RespSocket
from harness.server import BINARY, free_port, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized, only_dragonfly("Redis has no audit log")]


class Audited:
    def __init__(self, start_server, folder, **flags):
        self.path = os.path.join(folder, "audit.log")
        self.server = start_server(audit_log=self.path, **flags)

    def lines(self, path=None):
        with open(path or self.path) as f:
            whole, _, _ = f.read().rpartition("\n")  # the last line may be being written
        return [json.loads(line) for line in whole.splitlines()]

    def wait_for(self, **fields):
        """Until there is a line with these; returns it."""

        def find():
            for line in self.lines():
                if all(line.get(name) == value for name, value in fields.items()):
                    return line
            return None

        return wait_until(find, what=f"a line with {fields}")


@pytest.fixture
def audited(start_server, tmp_path):
    return Audited(start_server, str(tmp_path))


def test_commands_of_administrators(audited):
    with audited.server.connect() as c:
        c.call("CLIENT", "SETNAME", "me")
        identity = c.call("CLIENT", "ID")
        assert c.call("CONFIG", "SET", "maxmemory", "1gb") == OK
        line = audited.wait_for(command=["CONFIG", "SET", "maxmemory", "1gb"])
        assert line["event"] == "command"
        assert line["user"] == "default"
        assert line["client_id"] == identity
        assert line["client_name"] == "me"
        assert re.fullmatch(r"127\.0\.0\.1:\d+", line["address"])
        assert line["db"] == 0
        assert line["result"] == "ok"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
        assert isinstance(c.call("CONFIG", "SET", "maxmemory", "lots"), Error)
        assert audited.wait_for(command=["CONFIG", "SET", "maxmemory", "lots"])["result"] == "ERR"
        for command in (
            ["FLUSHALL"],
            ["FLUSHDB"],
            ["SWAPDB", "0", "1"],
            ["CLIENT", "LIST"],
            ["SAVE"],
            ["SLOWLOG", "RESET"],
            ["LATENCY", "RESET"],
            ["ACL", "DELUSER", "nobody"],
            ["FUNCTION", "FLUSH"],
            ["DEBUG", "SLEEP", "0"],
        ):
            c.call(*command)
            assert audited.wait_for(command=command)["result"] == "ok"


def test_ordinary_commands_are_not_there(audited):
    with audited.server.connect() as c:
        for command in (
            ("SET", "k", "v"),
            ("GET", "k"),
            ("MSET", "a", 1, "b", 2, "c", 3),
            ("PING",),
            ("INFO",),
            ("KEYS", "*"),
            ("EVAL", "return redis.call('GET', 'k')", 0),
            ("SELECT", 1),
            ("REPLCONF", "listening-port", 1),
            ("PUBLISH", "c", "m"),
        ):
            c.call(*command)
        c.call("SAVE")
        audited.wait_for(command=["SAVE"])
    assert [line["command"] for line in audited.lines()] == [["SAVE"]]


def test_what_exec_and_scripts_run(audited):
    with audited.server.connect() as c:
        assert c.pipeline([("MULTI",), ("SET", "k", "v"), ("FLUSHALL",), ("EXEC",)])[3] == [OK, OK]
        assert audited.wait_for(command=["FLUSHALL"])["user"] == "default"
        assert c.call("EVAL", "return redis.call('FLUSHDB')", 0) == OK
        line = audited.wait_for(command=["FLUSHDB"])
        assert (line["result"], line["user"], line["from"]) == ("ok", "default", "script")
        assert (line["db"], "client_name" in line) == (0, False)
        assert c.call("ACL", "SETUSER", "alice", "on", "nopass", "+@all", "-config", "~*") == OK
        c.call("CLIENT", "SETNAME", "cleaner")
        for user in ("alice", "default"):
            if user == "alice":
                assert c.call("AUTH", user, "x") == OK
                assert c.call("EVAL", "return redis.call('FLUSHALL')", 0) == OK
            else:
                assert c.call("ACL", "SETUSER", "root", "on", "nopass", "+@all", "~*", "&*") == OK
                assert c.call("AUTH", "root", "x") == OK
                assert c.call("EVAL", "#!lua\nreturn redis.call('FLUSHALL', 'SYNC')", 0) == OK
        line = audited.wait_for(command=["FLUSHALL"], user="alice")
        assert (line["from"], line["client_name"]) == ("script", "cleaner")
        line = audited.wait_for(command=["FLUSHALL", "SYNC"])
        assert (line["user"], line["from"]) == ("root", "script")


def test_what_scripts_run_has_the_facts_of_now(audited):
    """The client has run a script before it has a name and selects a database."""
    with audited.server.connect() as c:
        identity = c.call("CLIENT", "ID")
        assert c.call("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "-del", "~*") == OK
        for user in ("default", "bob"):
            c.call("AUTH", user, "x")
            for name, db in (("", 0), ("joe", 0), ("joe", 5), ("jim", 5)):
                assert c.call("CLIENT", "SETNAME", name) == OK
                assert c.call("SELECT", db) == OK
                done = len(audited.lines())
                assert c.call("EVAL", "return redis.call('FLUSHDB')", 0) == OK
                select = "redis.call('SELECT', 7) return redis.call('FLUSHALL')"
                assert c.call("EVAL", select, 0) == OK
                c.call("EVAL", "return redis.call('DEL', 'k')", 0)

                def written(done=done, count=3 if user == "bob" else 2):
                    lines = [line for line in audited.lines()[done:] if "from" in line]
                    return len(lines) == count and lines

                found = wait_until(written, what="lines of what the scripts did")
                assert [line.get("db") for line in found] == [db, 7, None][: len(found)]
                for line in found:
                    assert line["from"] == "script"
                    assert line["user"] == user
                    assert line["client_id"] == identity
                    assert re.fullmatch(r"127\.0\.0\.1:\d+", line["address"])
                    assert line.get("client_name", "") == name
        denial = c.call("ACL", "LOG")[0]
        denial = dict(zip(denial[::2], denial[1::2], strict=True))
        assert b" name=jim " in denial[b"client-info"] and b" db=5 " in denial[b"client-info"]


def test_logins(audited):
    with audited.server.connect() as admin:
        assert admin.call("ACL", "SETUSER", "alice", "on", ">secret", "+@all", "~*") == OK
    with audited.server.connect() as c:
        assert c.call("AUTH", "alice", "secret") == OK
        line = audited.wait_for(event="login", user="alice", result="ok")
        assert line["method"] == "AUTH"
        assert c.call("AUTH", "alice", "wrongpassword").text.startswith("WRONGPASS")
        audited.wait_for(event="login", user="alice", result="denied", method="AUTH")
        assert c.call("AUTH", "eve", "x").text.startswith("WRONGPASS")
        audited.wait_for(event="login", user="eve", result="denied")
        c.call("HELLO", 3, "AUTH", "alice", "secret")
        audited.wait_for(event="login", user="alice", result="ok", method="HELLO")
        c.call("HELLO", 2, "AUTH", "alice", "nosecret")
        audited.wait_for(event="login", user="alice", result="denied", method="HELLO")


def test_logins_by_http(start_server, tmp_path):
    audited = Audited(start_server, str(tmp_path), requirepass="secret")
    for password, result in (("secret", "ok"), ("wrong", "denied")):
        token = base64.b64encode(b"default:" + password.encode()).decode()
        with RespSocket(audited.server.address) as c:
            c.send(f"GET /metrics HTTP/1.1\r\nAuthorization: Basic {token}\r\n\r\n".encode())
            assert c.sock.recv(100)
        audited.wait_for(event="login", user="default", result=result, method="HTTP")
    assert ask(audited.server, "/metrics")[0] == 401


def test_logins_by_certificates(start_server, tmp_path):
    certificates = Certificates(tmp_path)
    certificates.make("alice")
    port = free_port()
    audited = Audited(
        start_server,
        str(tmp_path),
        tls_port=port,
        tls_auth_clients_user="CN",
        user="alice on +@all ~*",
        **certificates.flags(),
    )
    with RespSocket(("127.0.0.1", port), tls=certificates.client("alice")) as c:
        assert c.call("ACL", "WHOAMI") == b"alice"
    audited.wait_for(event="login", user="alice", method="certificate", result="ok")
    with RespSocket(("127.0.0.1", port), tls=certificates.client("client")) as c:
        assert c.call("ACL", "WHOAMI") == b"default"
    audited.wait_for(event="login", user="client", method="certificate", result="denied")


def test_what_is_denied(audited):
    with audited.server.connect() as c:
        rules = ("on", "nopass", "+get", "+set", "+eval", "+publish", "~mine:*", "resetchannels")
        assert c.call("ACL", "SETUSER", "bob", *rules) == OK
        assert c.call("AUTH", "bob", "") == OK
        c.call("FLUSHALL")
        line = audited.wait_for(event="denied", command="flushall")
        assert (line["user"], line["reason"], line["object"]) == ("bob", "command", "flushall")
        c.call("SET", "other", "the-secret-value")
        line = audited.wait_for(event="denied", command="set")
        assert (line["reason"], line["object"], line["result"]) == ("key", "other", "NOPERM")
        c.call("PUBLISH", "news", "the-secret-value")
        assert audited.wait_for(event="denied", command="publish")["object"] == "news"
        c.call("EVAL", "return redis.call('DEL', 'k')", 0)
        line = audited.wait_for(event="denied", command="del")
        assert line["from"] == "script"
        assert line["user"] == "bob"
    with open(audited.path) as f:
        assert "the-secret-value" not in f.read()


def test_no_secret_is_in_it(start_server, tmp_path):
    secret = "Correct-Horse-Battery"
    audited = Audited(start_server, str(tmp_path), enable_debug_command="yes")
    with audited.server.connect() as c:
        c.call("AUTH", secret)
        c.call("AUTH", "alice", secret)
        c.call("AUTH", "a", secret, secret)
        c.call("HELLO", 3, "AUTH", "alice", secret)
        c.call("HELLO", 2, "SETNAME", "x", "AUTH", "default", secret)
        c.call("ACL", "SETUSER", "alice", "on", ">" + secret, "+@all", "~*")
        c.call("ACL", "SETUSER", "alice", "<" + secret)
        c.call("ACL", "SETUSER", "alice", "nonsense", ">" + secret)
        c.call("ACL", "DRYRUN", "alice", "AUTH", "alice", secret)
        for name in (
            "requirepass",
            "masterauth",
            "MasterUser",
            "tls-key-file-pass",
            "TLS_KEY_FILE_PASS",
            "tls-client-key-file-pass",
            "tls_client_key_file_pass",
        ):
            c.call("CONFIG", "SET", "timeout", 0, name, secret)
            c.call("CONFIG", "SET", name, secret, "nonsense", 1)
        c.call("AUTH", secret)
        c.call("MIGRATE", "127.0.0.1", 1, "k", 0, 10, "AUTH", secret)
        c.call("MIGRATE", "127.0.0.1", 1, "", 0, 10, "AUTH2", "alice", secret, "KEYS", "a", "b")
        c.call("CONFIG", "SET", "requirepass", "")
        c.call("SAVE")
    audited.wait_for(command=["SAVE"])
    with open(audited.path) as f:
        text = f.read()
    assert secret not in text
    assert "(redacted)" in text


def test_odd_names_do_not_break_lines(audited):
    with audited.server.connect() as c:
        c.call("AUTH", b'na"me\n\xff\x00', "x")
        c.call("CONFIG", "GET", b"\xc3\n")
        c.call("SAVE")
    audited.wait_for(command=["SAVE"])
    assert any(line["event"] == "login" for line in audited.lines())


def test_sighup_opens_it_again(audited):
    with audited.server.connect() as c:
        c.call("SAVE")
        audited.wait_for(command=["SAVE"])
        os.rename(audited.path, audited.path + ".1")
        audited.server.process.send_signal(1)
        wait_until(lambda: os.path.exists(audited.path), what="the new file")
        c.call("CONFIG", "RESETSTAT")
        audited.wait_for(command=["CONFIG", "RESETSTAT"])
    assert [line["command"] for line in audited.lines(audited.path + ".1")] == [["SAVE"]]


def test_its_file_is_for_its_owner(audited):
    assert os.stat(audited.path).st_mode & 0o777 == 0o600


def test_a_bad_path_ends_the_start(tmp_path):
    done = subprocess.run(
        [BINARY, "--port=0", f"--unixsocket={tmp_path}/s", "--audit_log=/no/such/folder/file"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        "--audit_log: cannot open /no/such/folder/file: No such file or directory" in done.stderr
    )


def test_a_full_disk_stops_nobody(start_server):
    server = start_server(audit_log="/dev/full")
    with server.connect() as c:
        for _ in range(200):
            assert c.call("CONFIG", "GET", "port")
        wait_until(
            lambda: int(c.info("stats")["audit_log_lost_lines"]) >= 200, what="the lost lines"
        )
        info = c.info("stats")
        assert info["audit_log_status"] == "err"
        assert info["audit_log_lines"] == "0"
    # Once a minute.
    told = "audit log: cannot write /dev/full: No space left on device"
    wait_until(lambda: told in server.log(), what="the line in the log")
    assert server.log().count(told) < 100


def test_a_pipe_that_nobody_reads_stops_nobody(start_server, tmp_path):
    """As a disk that hangs: what does not fit is dropped."""
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    server = start_server(audit_log=path, audit_log_buffer_limit="4kb")
    with server.connect() as c:
        wait_until(
            lambda: c.call("CONFIG", "GET", "x" * 100) == []
            and int(c.info("stats")["audit_log_lost_lines"]) > 0,
            what="lines that are lost",
        )
        assert c.call("SET", "k", "v") == OK
    server.stop()  # which does not wait for the pipe for ever
    os.close(reader)


def test_counts(audited):
    with audited.server.connect() as c:
        c.call("SAVE")
        audited.wait_for(command=["SAVE"])
        wait_until(lambda: c.info("stats")["audit_log_lines"] == "1", what="the count")
        info = c.info("stats")
        assert info["audit_log_lost_lines"] == "0"
        assert info["audit_log_status"] == "ok"
        text = ask(audited.server, "/metrics")[2]
        assert "\ndragonfly_audit_log_lines_total 1\n" in text


def test_without_one_there_is_nothing(server):
    with server.connect() as c:
        assert "audit_log_lines" not in c.info("stats")
