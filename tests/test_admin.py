# SPDX-License-Identifier: Apache-2.0
"""Running a server: pid file, orderly ends in the middle of work, pauses, statistics, flags."""

import select
import signal
import subprocess
import time

import pytest

from harness.resp import NOT_INT, OK, SYNTAX, Error, Push, Status, arity, encode
from harness.server import BINARY, PATIENCE_S, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized]


@only_dragonfly("it blocks the whole server")
def test_debug_sleep_holds_up_its_own_client_only(server, r):
    with server.connect() as sleeper:
        # Long enough for two commands on the slowest machine.
        sleeper.send_command("DEBUG", "SLEEP", "5")
        assert r.do("SET k v") == OK
        assert r.do("GET k") == b"v"
        assert not select.select([sleeper.sock], [], [], 0)[0], "its reply has come already"
        assert sleeper.read() == OK


@only_dragonfly("it blocks the whole server")
def test_clients_that_leave_during_a_slow_command_harm_nobody(server, r):
    for command in (("DEBUG", "SLEEP", "0.05"), ("DEBUG", "POPULATE", "20000"), ("CLIENT", "LIST")):
        for _ in range(10):
            c = server.connect()
            c.send(encode(*command) * 3)
            c.abort()
    wait_until(lambda: len(r.do("CLIENT LIST").splitlines()) == 1, what="they are gone")
    assert r.do("PING") == Status("PONG")


@only_dragonfly("it blocks the whole server")
@pytest.mark.parametrize("command", ["DEBUG SLEEP 1000", "DEBUG POPULATE 100000000"])
def test_a_slow_command_does_not_delay_the_end(start_server, command):
    server = start_server()
    with server.connect() as slow:
        slow.send_command(*command.split())
        with server.connect() as r:
            wait_until(lambda: b"cmd=debug" in r.do("CLIENT LIST"), what="it runs")
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_exit()


def test_a_pid_file_is_there_while_the_server_runs(start_server, tmp_path):
    path = tmp_path / "pid"
    server = start_server(pidfile=str(path))
    wait_until(lambda: path.exists() and path.read_text().strip(), what="pid file")
    assert int(path.read_text()) == server.pid
    server.stop()
    assert not path.exists()


@pytest.mark.flags()
def test_a_second_pause_makes_the_first_only_longer_and_stricter(server, r):
    with server.connect() as other:
        assert r.do("CLIENT PAUSE 60000 WRITE") == OK
        assert r.do("CLIENT PAUSE 1 WRITE") == OK
        other.send_command("SET", "k", "v")
        assert r.do("EXISTS k") == 0
        assert r.do("CLIENT UNPAUSE") == OK
        assert other.read() == OK


@pytest.mark.flags()
@pytest.mark.parametrize("mode", ["WRITE", "ALL"])
def test_nothing_expires_while_clients_are_paused(server, mode):
    """Neither by itself nor as somebody asks for it: a replica that is promoted then has it all."""
    with server.connect() as c:
        assert c.call("SET", "k", "v", "PX", 60) == OK
        assert c.call("CLIENT", "PAUSE", 600_000 if mode == "WRITE" else 300, mode) == OK
        if mode == "WRITE":
            wait_until(lambda: c.call("EXISTS", "k") == 0, what="its time")
            assert c.call("GET", "k") is None
            assert c.call("DBSIZE") == 1
            assert c.info("stats")["expired_keys"] == "0"
            assert c.call("CLIENT", "UNPAUSE") == OK
        wait_until(lambda: c.call("DBSIZE") == 0, what="its end")
        assert c.info("stats")["expired_keys"] == "1"


def test_what_was_held_by_a_pause_runs_in_order(server, r):
    with server.connect() as other:
        assert r.do("CLIENT PAUSE 60000 WRITE") == OK
        other.send(b"".join(encode("APPEND", "k", str(i)) for i in range(10)) + encode("GET", "k"))
        assert r.do("CLIENT UNPAUSE") == OK
        assert [other.read() for _ in range(11)] == [*range(1, 11), b"0123456789"]


@only_dragonfly("MAXAGE came with 7.4")
def test_client_kill_by_age(server, r):
    with server.connect() as other:
        other.do("PING")
        assert r.do("CLIENT KILL MAXAGE 100000") == 0
        assert r.do("CLIENT KILL MAXAGE 0") == Error("ERR maxage should be greater than 0")
        assert r.do("CLIENT KILL MAXAGE x") == Error("ERR maxage is not an integer or out of range")
        assert other.do("PING") == Status("PONG")


def test_client_kill_refuses_what_it_does_not_know(r):
    assert r.do("CLIENT KILL ID 1 WHAT") == SYNTAX
    assert r.do("CLIENT KILL WHAT 1") == SYNTAX
    assert r.do("CLIENT KILL USER nobody") == Error("ERR No such user 'nobody'")
    assert r.do("CLIENT KILL ID 0") == Error("ERR client-id should be greater than 0")
    assert r.do("CLIENT KILL LADDR 1.2.3.4:5") == 0
    assert r.do("CLIENT KILL nobody:0") == Error("ERR No such client")


def test_arguments_are_checked_in_the_order_of_redis(r):
    usage = "ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP."
    assert r.do("CLIENT pAuse x what more") == Error(usage % ("pAuse", "CLIENT"))
    assert r.do("CLIENT PAUSE x what") == Error("ERR CLIENT PAUSE mode must be WRITE or ALL")
    assert r.do("CLIENT PAUSE x all") == Error("ERR timeout is not an integer or out of range")
    assert r.do("CLIENT LIST ID -1 0") == b""
    assert r.do("CLIENT LIST ID -1 x") == Error("ERR Invalid client ID")
    assert r.do("DEBUG POPULATE 0 key 9223372036854775807") == OK


def test_errors_show_an_argument_up_to_its_first_nul(r):
    assert r.do("CLIENT KILL USER no\0body") == Error("ERR No such user 'no'")
    assert r.do("CLIENT KILL TYPE x\0y") == Error("ERR Unknown client type 'x'")
    assert r.do("CLIENT LIST TYPE \0") == Error("ERR Unknown client type ''")
    assert r.do("HELLO 3 what\0ever") == Error("ERR Syntax error in HELLO option 'what'")
    wrong = "ERR unknown subcommand or wrong number of arguments for 'x'. Try DEBUG HELP."
    assert r.do("DEBUG x\0y") == Error(wrong)


def test_command_looks_up_whole_names(r):
    assert r.raw("COMMAND", "INFO", "nosuch") == b"*1\r\n$-1\r\n"
    assert r.do("COMMAND GETKEYS OBJECT WHAT k") == Error("ERR Invalid command specified")
    assert r.do("COMMAND GETKEYS OBJECT ENCODING k") == [b"k"]
    for script in ("EVAL", "EVALSHA_RO", "FCALL"):
        assert r.call("COMMAND", "GETKEYS", script, "x", "0", "arg") == []
        assert r.call("COMMAND", "GETKEYSANDFLAGS", script, "x", "0") == []
    for count in ("2", "-1", "x"):
        assert r.call("COMMAND", "GETKEYS", "EVAL", "x", count, "k") == []
    invalid = Error("ERR Invalid arguments specified for command")
    assert r.do("COMMAND GETKEYS ZUNION 0 k") == invalid
    flags = r.do("COMMAND GETKEYSANDFLAGS SET k v NX GET")[0][1]
    assert flags == [Status("RW"), Status("access"), Status("update")]
    assert r.do("COMMAND GETKEYSANDFLAGS SET k v NX")[0][1] == [Status("OW"), Status("update")]
    assert r.do("COMMAND GETKEYSANDFLAGS DEL k")[0][1] == [Status("RM"), Status("delete")]


@pytest.mark.flags()
def test_commandstats_tell_failed_and_refused_calls(r):
    r.do("CONFIG RESETSTAT")
    for line in ("SET k v", "GET k", "GET k", "GET", "INCR k", "INCR k", "CLIENT ID", "NOSUCH"):
        r.do(line)
    info = r.info("commandstats")

    def stat(name):
        return dict(field.split("=") for field in info[f"cmdstat_{name}"].split(","))

    assert (stat("get")["calls"], stat("get")["rejected_calls"]) == ("2", "1")
    assert (stat("incr")["calls"], stat("incr")["failed_calls"]) == ("2", "2")
    assert stat("client|id")["calls"] == "1"
    assert float(stat("set")["usec_per_call"]) >= 0
    assert "cmdstat_nosuch" not in info


@only_dragonfly("its own section")
@pytest.mark.flags()
def test_the_dispatch_section_tells_the_paths_of_commands(r):
    r.do("CONFIG RESETSTAT")
    for i in range(50):
        r.do(f"SET k{i} v")
    r.call("MGET", *[f"k{i}" for i in range(50)])
    info = {name: int(value) for name, value in r.info("dispatch").items()}
    assert info["local_commands"] + info["remote_commands"] == 50
    assert info["remote_commands"] > 0 and info["batches"] > 0
    assert info["coordinated_commands"] >= 1


def test_counters_of_traffic_never_run_backwards(server, r):
    for _ in range(3):
        with server.connect() as other:
            other.do("PING")
        r.do("CONFIG RESETSTAT")
        info = r.info("stats")
        for name in ("total_net_input_bytes", "total_net_output_bytes"):
            assert 0 <= int(info[name]) < 1_000_000, name


def test_command_getkeysandflags(r):
    (key, flags), = r.do("COMMAND GETKEYSANDFLAGS GET k")
    assert key == b"k" and {f.text for f in flags} == {"RO", "access"}
    reply = r.do("COMMAND GETKEYSANDFLAGS MSET a 1 b 2")
    assert [key for key, _ in reply] == [b"a", b"b"]


@pytest.mark.parametrize(
    "words, flags",
    [
        ("", {"RO", "access"}),
        ("GET u8 0 OVERFLOW SAT get i5 #1", {"RO", "access"}),
        ("GET u8 0 SET u8 0 1", {"RW", "access", "update"}),
        ("OVERFLOW WRAP INCRBY u8 0 1", {"RW", "access", "update"}),
        ("GET u8", {"RW", "access", "update"}),
        ("OVERFLOW", {"RW", "access", "update"}),
        ("what", {"RW", "access", "update"}),
    ],
)
def test_bitfield_only_reads_if_it_is_sure(r, words, flags):
    ((key, got),) = r.do(f"COMMAND GETKEYSANDFLAGS BITFIELD k {words}".rstrip())
    assert key == b"k" and {flag.text for flag in got} == flags


def test_command_info_shows_subcommands_and_key_specs(r):
    row, = r.do("COMMAND INFO memory")
    assert {b"memory|usage", b"memory|help"} <= {sub[0] for sub in row[9]}
    usage, = r.call("COMMAND", "INFO", "memory|usage")
    assert usage[:2] == [b"memory|usage", -3] and usage[3:6] == [2, 2, 1]
    spec = usage[8][0]
    assert spec[2:] == [
        b"begin_search", [b"type", b"index", b"spec", [b"index", 2]],
        b"find_keys", [b"type", b"range", b"spec", [b"lastkey", 0, b"keystep", 1, b"limit", 0]],
    ]


@pytest.mark.parametrize("in_exec", [False, True])
def test_debug_protocol_answers_with_each_type(server, in_exec):
    number = b"1234567999999999999999999999999999999"
    text = b"This is a verbatim\nstring"
    after_attribute = b"$39\r\nSome real reply following the attribute\r\n"
    attribute = b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n"
    numbers = b"3\r\n:0\r\n:1\r\n:2\r\n"
    for kind, resp2, resp3 in (
        ("string", b"$11\r\nHello World\r\n", b"$11\r\nHello World\r\n"),
        ("Integer", b":12345\r\n", b":12345\r\n"),
        ("double", b"$5\r\n3.141\r\n", b",3.141\r\n"),
        ("bignum", b"$37\r\n" + number + b"\r\n", b"(" + number + b"\r\n"),
        ("null", b"$-1\r\n", b"_\r\n"),
        ("array", b"*" + numbers, b"*" + numbers),
        ("set", b"*" + numbers, b"~" + numbers),
        (
            "map",
            b"*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n",
            b"%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n",
        ),
        ("verbatim", b"$25\r\n" + text + b"\r\n", b"=29\r\ntxt:" + text + b"\r\n"),
        ("true", b":1\r\n", b"#t\r\n"),
        ("false", b":0\r\n", b"#f\r\n"),
        ("attrib", after_attribute, attribute + after_attribute),
    ):
        for is_resp3, expected in ((False, resp2), (True, resp3)):
            command = encode("DEBUG", "PROTOCOL", kind)
            if in_exec:
                command = encode("MULTI") + command + encode("EXEC")
                expected = b"+OK\r\n+QUEUED\r\n*1\r\n" + expected
            with server.connect(resp3=is_resp3) as c:
                c.send(command + encode("QUIT"))
                assert c.read_until_closed() == expected + b"+OK\r\n", kind


def test_debug_protocol_pushes_in_resp3_only(r, r3):
    assert r.do("DEBUG PROTOCOL push") == Error("ERR RESP2 is not supported by this command")
    assert r3.do("DEBUG PROTOCOL push") == Push((b"server-cpu-usage", 42))
    assert r3.read() == b"Some real reply following the push reply"
    assert r3.do("DEBUG PROTOCOL what") == Error(
        "ERR Wrong protocol type name. Please use one of the following: string|integer|double|"
        "bignum|null|array|set|map|attrib|push|verbatim|true|false"
    )


def test_debug_refuses_what_it_does_not_know(r):
    def error(name):
        return Error(
            f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP."
        )

    assert r.do("DEBUG WHAT") == error("WHAT")
    assert r.do("DEBUG OBJECT") == error("OBJECT")
    assert r.do("DEBUG POPULATE x") == Error("ERR value is out of range, must be positive")
    assert r.do("DEBUG SLEEP x") == OK
    assert r.do("DEBUG") == arity("debug")
    assert r.do("MEMORY USAGE k SAMPLES x") == NOT_INT


@pytest.mark.flags(requirepass="s3cret")
def test_without_a_password_strangers_are_let_in(server, r):
    with server.connect(auth=False) as stranger:
        assert stranger.do("PING") == Error("NOAUTH Authentication required.")
        assert r.call("CONFIG", "SET", "requirepass", "") == OK
        assert stranger.do("PING") == Status("PONG")


@only_dragonfly("flags")
@pytest.mark.parametrize(
    "flags,words",
    [
        (["--port=65536"], ["--port", "65535"]),
        (["--maxmemory=much"], ["--maxmemory", "much"]),
        (["--port=0"], ["--port", "--unixsocket"]),
        (["what"], ["what"]),
        (["--dbnum=0"], ["--dbnum"]),
    ],
)
def test_wrong_flags_end_the_start_with_their_name(flags, words):
    p = subprocess.run([BINARY, *flags], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1
    for word in words:
        assert word in p.stderr


@only_dragonfly("flags")
def test_the_version_is_told():
    p = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and "dragonfly v=" in p.stdout


@only_dragonfly("redis-server logs otherwise")
def test_the_log_tells_the_start_and_the_end_in_single_lines(start_server):
    server = start_server(proactor_threads=2)
    wait_until(lambda: "Ready to accept connections" in server.log())
    server.stop()
    text = server.log()
    assert "2 threads" in text and "Ready to accept connections" in text
    assert f"port {server.port}" in text and "stopping" in text
    assert len(text.splitlines()) < 10


@only_dragonfly("how redis-server frees its data at its end is not ours to test")
@pytest.mark.flags(proactor_threads=2)
def test_a_million_keys_do_not_delay_the_end(server, r):
    assert r.do("DEBUG POPULATE 1000000") == OK
    assert r.do("DBSIZE") == 1_000_000
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < PATIENCE_S


def test_roles_and_modules_are_told(r):
    assert r.call("ROLE") == [b"master", 0, []]
    assert r.call("MODULE", "LIST") == []
    assert r.call("MODULE", "HELP")[0].text.startswith("MODULE <subcommand>")
    assert "unknown subcommand 'nosuch'" in r.call("MODULE", "NOSUCH").text.lower()
    assert r.call("MULTI") == OK
    r.call("ROLE")
    assert r.call("EXEC") == [[b"master", 0, []]]


def test_debug_error_replies_what_it_is_told(r):
    assert r.call("DEBUG", "ERROR", "LUCK has\r\nleft us") == Error("LUCK has  left us")
    assert isinstance(r.call("DEBUG", "ERROR"), Error)
    assert any(line.text.startswith("ERROR <string>") for line in r.call("DEBUG", "HELP"))


def test_help_lists_all_subcommands(r):
    containers = 0
    for command in r.call("COMMAND"):
        names = [sub[0].decode().split("|")[1].upper() for sub in command[9]]
        if "HELP" not in names:
            continue
        containers += 1
        reply = r.call(command[0], "HELP")
        if reply == Error("ERR This instance has cluster support disabled"):
            continue
        # Those of modules are texts.
        lines = [line.decode() if isinstance(line, bytes) else line.text for line in reply]
        listed = {line.split(" ")[0] for line in lines}
        listed.add("SLAVES")  # the old name of REPLICAS
        assert set(names) <= listed, (command[0], set(names) - listed)
    assert containers > 5
