# SPDX-License-Identifier: Apache-2.0
"""What a client can bring into texts that others read line by line: each way in, with bytes that
would break a line, and each way out, which keeps its form."""

import re

import pytest

from harness.http import ask
from harness.resp import OK, Error
from harness.server import REFERENCE, only_dragonfly

pytestmark = [pytest.mark.threads]

NASTY = {
    "newline": b"a\r\nfake:1\r\n# Fake",
    "colon": b"a:b=c,d",
    "equals": b"a=b x=y",
    "quotes": b"a\"b'c\\",
    "nul": b"a\0b",
    "not utf-8": b"a\xff\xfe",
    "long": b"a" * 100_000,
    "braces": b'a{b="c"} 1',
}

# Each gets the text and may be refused; the connection goes on.
WAYS_IN = {
    "error of a script": lambda r, text: r.call(
        "EVAL", "return redis.error_reply(ARGV[1])", "0", text
    ),
    "code of an error": lambda r, text: r.call(
        "EVAL", "return redis.error_reply(ARGV[1])", "0", text.replace(b" ", b"")[:20] + b" text"
    ),
    "thrown error": lambda r, text: r.call("EVAL", "error(ARGV[1])", "0", text),
    "unknown command": lambda r, text: r.call(text, text),
    "unknown subcommand": lambda r, text: r.call("CLIENT", text),
    "client's name": lambda r, text: r.call("CLIENT", "SETNAME", text),
    "library's name": lambda r, text: r.call("CLIENT", "SETINFO", "lib-name", text),
    "library's version": lambda r, text: r.call("CLIENT", "SETINFO", "lib-ver", text),
    "name in HELLO": lambda r, text: r.call("HELLO", "2", "SETNAME", text),
    "user": lambda r, text: r.call("AUTH", text, "p"),
    "new user": lambda r, text: r.call("ACL", "SETUSER", text, "on", "nopass"),
    "key": lambda r, text: r.call("SET", text, "v"),
    "key of a wrong type": lambda r, text: (r.call("SET", text, "v"), r.call("LPUSH", text, "v")),
    "channel": lambda r, text: r.call("PUBLISH", text, text),
    "function": lambda r, text: r.call("FCALL", text, "0"),
    "script": lambda r, text: r.call("EVAL", text, "0"),
    "sha": lambda r, text: r.call("EVALSHA", text, "0"),
    "library": lambda r, text: r.call(
        "FUNCTION",
        "LOAD",
        b"#!lua name=" + text + b"\nredis.register_function('f', function() end)",
    ),
    "setting": lambda r, text: r.call("CONFIG", "SET", text, text),
    "value of a setting": lambda r, text: r.call("CONFIG", "SET", "maxmemory-policy", text),
}

INFO_LINE = re.compile(rb"(# [A-Za-z_ ]+|[!-9;-~]+:[^\r\n]*)?\Z")
METRIC_LINE = re.compile(
    r'(#.*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z_]+="([^"\\]|\\["\\n])*",?)*\})? [-+.0-9a-zA-Z]+)?\Z'
)


def check_info(server, r, monitor):
    for line in r.call("INFO", "everything").split(b"\r\n"):
        assert INFO_LINE.match(line), line[:200]
        assert b"\n" not in line and b"\0" not in line, line[:200]
        assert not line.startswith((b"fake:", b"# Fake")), line
        if line.startswith(b"errorstat_"):
            assert re.fullmatch(rb"errorstat_[!-9;-~]+:count=\d+", line), line[:200]


def check_client_list(server, r, monitor):
    lines = r.call("CLIENT", "LIST").split(b"\n")
    assert lines.pop() == b""
    for line in lines:
        assert re.fullmatch(rb"id=\d+( [a-z-]+=[!-~]*)+", line), line[:200]
    assert len(lines) == int(r.info("clients")["connected_clients"])


def check_monitor(server, r, monitor):
    r.call("ECHO", "the end")
    while True:
        line = monitor.read().text
        assert re.fullmatch(r'\d+\.\d{6} \[\d+ \S+\]( "([ -!#-\[\]-~]|\\.)*")+', line), line[:200]
        if line.endswith('"ECHO" "the end"'):
            return


def check_slowlog(server, r, monitor):
    for entry in r.call("SLOWLOG", "GET", "-1"):
        assert len(entry) == 6 and all(len(arg) <= 200 for arg in entry[3]), entry
    assert all(len(each) == 4 for each in r.call("LATENCY", "LATEST"))


def check_acl_log(server, r, monitor):
    for entry in r.call("ACL", "LOG"):
        assert entry[0] == b"count"
        client = dict(zip(entry[::2], entry[1::2]))[b"client-info"]
        assert re.fullmatch(rb"id=\d+( [a-z-]+=[!-~]*)+", client)


def check_metrics(server, r, monitor):
    if REFERENCE:
        return
    for line in ask(server, "/metrics")[2].split("\n"):
        assert METRIC_LINE.match(line), line[:200]


WAYS_OUT = [
    check_info,
    check_client_list,
    check_monitor,
    check_slowlog,
    check_acl_log,
    check_metrics,
]


@only_dragonfly("7.0 leaves some of them as they are")
@pytest.mark.parametrize("way", WAYS_IN)
def test_no_name_breaks_a_line(server, r, way):
    assert r.call("CONFIG", "SET", "slowlog-log-slower-than", "0") == OK
    with server.connect() as client, server.connect() as monitor:
        assert monitor.call("MONITOR") == OK
        for what, text in NASTY.items():
            WAYS_IN[way](client, text)
            assert client.call("ECHO", "alive") == b"alive", what
            for check in WAYS_OUT:
                check(server, r, monitor)
    for line in server.log().split("\n"):
        assert not line.startswith(("fake:", "# Fake")) and "\0" not in line, line[:200]
    r.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")


def errors(r):
    return {
        name.removeprefix("errorstat_"): int(text.removeprefix("count="))
        for name, text in r.info("errorstats").items()
    }


def raise_error(r, text):
    assert isinstance(r.call("EVAL", "return redis.error_reply(ARGV[1])", "0", text), Error)


def test_names_of_errors_are_cleaned(r):
    r.call("CONFIG", "RESETSTAT")
    raise_error(r, "A:B=C,D x")
    raise_error(r, "A#B x")
    raise_error(r, "B" * 30 + " is the longest")
    assert errors(r) == {"A_B=C,D": 1, "A_B": 1, "B" * 30: 1}


@only_dragonfly("7.0 and 7.2 have no limit")
def test_there_are_at_most_so_many_names_of_errors(server, r):
    r.call("CONFIG", "RESETSTAT")
    connections = [server.connect() for _ in range(4)]
    for i in range(400):
        raise_error(connections[i % 4], f"E{i} x")
    counted = errors(r)
    assert len(counted) == 129 and sum(counted.values()) == 400
    assert counted["ERRORSTATS_OVERFLOW"] == 272
    assert r.info("stats")["total_error_replies"] == "400"
    for connection in connections:
        connection.close()
