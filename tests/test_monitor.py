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
