# SPDX-License-Identifier: Apache-2.0
"""MONITOR: the lines, their order, what is not shown, and how it ends."""

import re

import pytest

from harness.resp import Error, OK, Status
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]

LINE = re.compile(r"^\d+\.\d{6} \[(\d+) (\S+)\] (.*)$")


@pytest.fixture
def monitor(connect):
    connection = connect()
    assert connection.call("MONITOR") == OK
    return connection


def lines(monitor, count):
    """The next lines: database, client, command."""
    return [LINE.match(monitor.read().text).groups() for _ in range(count)]


def commands(monitor, count):
    return [line[2] for line in lines(monitor, count)]


def test_a_line_has_time_database_client_and_arguments(r, monitor):
    r.call("SELECT", "3")
    r.call("SET", b'a "b"\\\n\x01\xff', "v")
    r.call("SELECT", "0")
    shown = lines(monitor, 2)
    assert shown[1][0] == "3" and shown[1][1].startswith("127.0.0.1:")
    assert shown[1][2] == r'"SET" "a \"b\"\\\n\x01\xff" "v"'


def test_commands_of_all_shards_come_in_the_order_of_their_client(r, monitor):
    for i in range(50):
        r.send_command("SET", f"key:{i}", "v")
    for _ in range(50):
        r.read()
    r.call("MGET", "a", "b", "c")
    assert commands(monitor, 51) == [f'"SET" "key:{i}" "v"' for i in range(50)] + [
        '"MGET" "a" "b" "c"'
    ]


def test_exec_shows_its_commands_before_itself(r, monitor):
    for command in (("MULTI",), ("SET", "a", "1"), ("SET", "b", "1"), ("EXEC",)):
        r.call(*command)
    assert commands(monitor, 4) == ['"MULTI"', '"SET" "a" "1"', '"SET" "b" "1"', '"EXEC"']


def test_what_a_script_calls_comes_behind_it(r, monitor):
    for key in ("a", "b", "c", "d"):
        r.call("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", key, "v")
        script, call = lines(monitor, 2)
        assert script[2].startswith('"EVAL"')
        assert call[1:] == ("lua", f'"SET" "{key}" "v"')


def test_secrets_and_commands_of_administrators_are_not_shown(r, monitor):
    r.call("AUTH", "default", "x")
    r.call("HELLO", "2", "AUTH", "default", "x")
    r.call("CONFIG", "GET", "port")
    r.call("CLIENT", "LIST")
    r.call("NOSUCH")
    r.call("GET")
    r.call("PING")
    assert commands(monitor, 3) == [
        '"AUTH" "(redacted)" "(redacted)"',
        '"HELLO" "2" "AUTH" "(redacted)" "(redacted)"',
        '"PING"',
    ]


def test_a_blocking_command_is_shown_once(r, monitor):
    assert r.call("BLPOP", "nothing", "0.01") is None
    r.call("RPUSH", "q", "x")
    assert r.call("BLPOP", "q", "nothing", "1") == [b"q", b"x"]
    assert commands(monitor, 3) == [
        '"BLPOP" "nothing" "0.01"',
        '"RPUSH" "q" "x"',
        '"BLPOP" "q" "nothing" "1"',
    ]


def test_reset_ends_it(r, monitor):
    monitor.send_command("RESET")
    answers = [monitor.read().text]
    if answers != ["RESET"]:  # its own command may be shown
        answers.append(monitor.read().text)
    assert answers[-1] == "RESET"
    r.call("SET", "a", "1")
    assert monitor.call("PING") == Status("PONG")
    assert b"flags=O" not in r.call("CLIENT", "LIST")


def test_it_is_told_in_client_list_and_goes_with_its_connection(r, monitor):
    assert "flags=O " in str(r.call("CLIENT", "LIST"))
    monitor.close()
    wait_until(lambda: "flags=O " not in str(r.call("CLIENT", "LIST")))
    assert r.call("SET", "a", "1") == OK


def test_it_is_refused_in_multi_and_in_scripts(r):
    r.call("MULTI")
    r.call("MONITOR")
    assert r.call("EXEC") == [Error("ERR MONITOR isn't allowed for DENY BLOCKING client")]
    assert "not allowed from script" in str(r.call("EVAL", "return redis.call('monitor')", "0"))


@only_dragonfly("a monitor is limited as a subscriber")
@pytest.mark.flags(client_output_buffer_limit="pubsub 1mb 0 0")
def test_a_monitor_that_does_not_read_is_disconnected(r, connect):
    slow = connect()
    assert slow.call("MONITOR") == OK
    value = "x" * 100_000

    def is_gone():
        for i in range(20):
            r.call("SET", f"k{i}", value)
        return "flags=O " not in str(r.call("CLIENT", "LIST"))

    wait_until(is_gone)
    fields = dict(line.split(":", 1) for line in r.call("INFO", "stats").decode().split("\r\n")
                  if ":" in line)
    assert int(fields["client_output_buffer_limit_disconnections"]) >= 1


FAILED = [
    ("NOSCRIPT", ["EVALSHA", "f" * 40, "0"]),
    ("NOSCRIPT", ["EVALSHA", "short", "0"]),
    ("NOSCRIPT", ["EVALSHA_RO", "f" * 40, "1", "k"]),
    ("ERR", ["FCALL", "nosuch", "0"]),
    ("ERR", ["FCALL_RO", "nosuch", "1", "k"]),
    ("ERR", ["EVAL", "no lua", "0"]),
    ("ERR", ["EVAL", "return 1", "x"]),
    ("ERR", ["EVAL", "return 1", "3", "k"]),
    ("WRONGTYPE", ["LPUSH", "text", "v"]),
    ("ERR", ["INCR", "text"]),
    ("ERR", ["SELECT", "1000"]),
    ("ERR", ["EXEC"]),
    ("ERR", ["DISCARD"]),
]
REJECTED = [
    ("ERR", ["NOSUCHCOMMAND", "x"]),
    ("ERR", ["GET"]),
    ("ERR", ["CLIENT", "NOSUCH"]),
    ("ERR", ["OBJECT", "FREQ"]),
]


def test_what_fails_is_shown_and_what_is_rejected_is_not(r, monitor):
    r.call("SET", "text", "v")
    for code, command in FAILED + REJECTED:
        answer = r.call(*command)
        assert isinstance(answer, Error) and answer.text.startswith(code), (command, answer)
    r.call("PING")
    shown = [" ".join(f'"{word}"' for word in command) for _, command in FAILED]
    expected = [*shown, '"PING"']
    assert commands(monitor, 1 + len(expected))[1:] == expected


def test_in_multi_what_is_refused_is_not_shown(r, monitor):
    r.call("MULTI")
    r.call("NOSUCHCOMMAND")
    r.call("GET")
    r.call("EXEC")
    r.call("MULTI")
    r.call("EVALSHA", "f" * 40, "0")
    r.call("FCALL", "nosuch", "0")
    r.call("EXEC")
    shown = commands(monitor, 6)
    assert [each for each in shown if "EXEC" not in each] == [
        '"MULTI"',
        '"MULTI"',
        '"EVALSHA" "' + "f" * 40 + '" "0"',
        '"FCALL" "nosuch" "0"',
    ]


def test_calls_that_fail_and_are_rejected_are_counted(r):
    r.call("CONFIG", "RESETSTAT")
    r.call("EVALSHA", "f" * 40, "0")
    r.call("FCALL", "nosuch", "0")
    r.call("GET")
    stats = r.info("commandstats")
    assert "calls=1," in stats["cmdstat_evalsha"] and "failed_calls=1" in stats["cmdstat_evalsha"]
    assert "calls=1," in stats["cmdstat_fcall"] and "failed_calls=1" in stats["cmdstat_fcall"]
    assert "calls=0," in stats["cmdstat_get"] and "rejected_calls=1" in stats["cmdstat_get"]


def shown_until_the_end(r, monitor):
    """Lines but those of `r`, which ends it."""
    assert r.call("ECHO", "the end") == b"the end"
    mine = None
    shown = []
    while mine is None:
        for _, client, command in lines(monitor, 1):
            shown.append((client, command))
            if command == '"ECHO" "the end"':
                mine = client
    return [command for client, command in shown if client != mine]


def refuse(client, code, *commands_refused):
    for command in commands_refused:
        answer = client.call(*command)
        assert isinstance(answer, Error) and answer.text.startswith(code), (command, answer)


SET_IN_SCRIPT = "return redis.pcall('set', KEYS[1], 'v')"


def test_what_a_user_may_not_do_is_not_shown(r, connect, monitor):
    r.call("ACL", "SETUSER", "u", "on", "nopass", "~k*", "+get", "+multi", "+exec", "+eval",
           "+echo", "resetchannels", "+publish")
    client = connect()
    client.call("AUTH", "u", "x")
    refuse(client, "NOPERM", ["SET", "k", "v"], ["GET", "other"], ["PUBLISH", "channel", "m"],
           ["EVALSHA", "f" * 40, "0"], ["CONFIG", "GET", "x"], ["MGET", "k", "k2"])
    assert isinstance(client.call("EVAL", SET_IN_SCRIPT, "1", "k"), Error)
    client.call("MULTI")
    refuse(client, "NOPERM", ["SET", "k", "v"])
    refuse(client, "EXECABORT", ["EXEC"])
    for over_shards in (False, True):
        client.call("MULTI")
        client.call("ECHO", "first")
        for i in range(20 if over_shards else 1):
            client.call("GET", f"k{i}")
        r.call("ACL", "SETUSER", "u", "-get")
        assert isinstance(client.call("EXEC")[1], Error)
        r.call("ACL", "SETUSER", "u", "+get")
    r.call("ACL", "DELUSER", "u")
    multi = ['"ECHO" "first"', '"EXEC"']
    shown = shown_until_the_end(r, monitor)
    assert shown == ['"AUTH" "(redacted)" "(redacted)"', f'"EVAL" "{SET_IN_SCRIPT}" "1" "k"',
                     '"MULTI"', '"EXEC"', '"MULTI"', *multi, '"MULTI"', *multi]


def test_what_comes_before_auth_is_not_shown(r, connect, monitor):
    r.call("ACL", "SETUSER", "default", "resetpass", ">secret")
    client = connect()
    refuse(client, "NOAUTH", ["GET", "k"], ["SET", "k", "v"], ["MULTI"], ["EVAL", "return 1", "0"],
           ["CLIENT", "ID"])
    refuse(client, "WRONGPASS", ["AUTH", "wrong"])
    client.call("AUTH", "secret")
    client.call("GET", "k")
    r.call("ACL", "SETUSER", "default", "nopass")
    assert shown_until_the_end(r, monitor) == ['"AUTH" "(redacted)"'] * 2 + ['"GET" "k"']


def test_what_memory_does_not_allow_is_not_shown(start_server):
    server = start_server(maxmemory="0")
    with server.connect() as r, server.connect() as client, server.connect() as monitor:
        r.call("SET", "there", "v")
        assert monitor.call("MONITOR") == OK
        r.call("CONFIG", "SET", "maxmemory", "1")
        refuse(client, "OOM", *(["SET", f"k{i}", "v"] for i in range(20)),
               ["MSET", "k1", "v", "k2", "v", "k3", "v"], ["LMOVE", "a", "b", "LEFT", "LEFT"],
               ["EVAL", "#!lua\nreturn 1", "0"])
        assert isinstance(client.call("EVAL", SET_IN_SCRIPT, "1", "k"), Error)
        client.call("MULTI")
        refuse(client, "OOM", ["SET", "k", "v"])
        refuse(client, "EXECABORT", ["EXEC"])
        client.call("GET", "there")
        client.call("DEL", "there")
        r.call("CONFIG", "SET", "maxmemory", "0")
        assert shown_until_the_end(r, monitor) == [
            f'"EVAL" "{SET_IN_SCRIPT}" "1" "k"', '"MULTI"', '"EXEC"', '"GET" "there"',
            '"DEL" "there"']
