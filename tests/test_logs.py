# SPDX-License-Identifier: Apache-2.0
"""--log_format=json: each message is a line with one object."""

import datetime
import json
import os
import re
import subprocess

import pytest

from harness.resp import OK
from harness.server import BINARY, free_port, only_dragonfly, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.alone,
    only_dragonfly("Redis has no JSON in its log"),
]

BEGIN = datetime.datetime.now(datetime.timezone.utc)  # before any server starts


def parsed(text):
    return [json.loads(line) for line in text.splitlines()]


def check(lines):
    assert lines
    for line in lines:
        assert set(line) == {"time", "level", "thread", "source", "message"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
        when = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
        assert BEGIN <= when <= datetime.datetime.now(datetime.timezone.utc)
        assert line["level"] in ("info", "warning", "error")
        assert isinstance(line["thread"], int)
        assert re.fullmatch(r"\w+\.(cc|h):\d+", line["source"])


def test_stderr_is_lines_of_json(start_server):
    server = start_server(log_format="json")
    with server.connect() as c:
        # A line of a client with all that may spoil a line.
        script = b'redis.log(redis.LOG_WARNING, "a \\"quote\\"\\nnext \\255\\\\ \xc3\xbc")'
        assert c.call("EVAL", script, 0) is None
        assert c.call("CONFIG", "GET", "log-format") == [b"log-format", b"json"]
    server.stop()
    lines = parsed(server.log())
    check(lines)
    messages = [line["message"] for line in lines]
    assert any("Ready to accept connections" in message for message in messages)
    assert any("bye bye" in message for message in messages)
    assert any('a "quote"' in message and "ü" in message for message in messages)
    assert {line["level"] for line in lines} >= {"info", "warning"}
    assert len({line["thread"] for line in lines}) > 1


def test_the_log_file_has_them_and_sighup_opens_it_again(start_server, tmp_path):
    path = str(tmp_path / "the.log")
    server = start_server(log_format="json", logfile=path)
    os.rename(path, path + ".1")
    server.process.send_signal(1)
    wait_until(lambda: os.path.exists(path), what="the new file")
    server.stop()
    with open(path + ".1") as before, open(path) as after:
        check(parsed(before.read()))
        check(parsed(after.read()))


def test_files_of_log_dir_have_them(tmp_path):
    port = free_port()
    process = subprocess.Popen(
        [BINARY, f"--port={port}", "--bind=127.0.0.1", f"--dir={tmp_path}", "--save="]
        + [f"--log_dir={tmp_path}", "--log_format=json"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        path = tmp_path / f"dragonfly.log.json.{process.pid}"
        wait_until(lambda: path.exists() and "Ready" in path.read_text(), what="the log")
    finally:
        process.terminate()
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert stderr == ""
    check(parsed(path.read_text()))
    assert not [name for name in os.listdir(tmp_path) if ".log.INFO" in name]


def test_levels_stay_what_they_are(start_server):
    server = start_server(log_format="json", loglevel="warning")
    with server.connect() as c:
        assert c.call("CONFIG", "SET", "loglevel", "notice") == OK
        assert c.call("SAVE") == OK
    server.stop()
    lines = parsed(server.log())
    check(lines)
    assert not any("starts, process" in line["message"] for line in lines)
    assert any("bye bye" in line["message"] for line in lines)


def test_an_error_of_the_start_is_a_line_too(tmp_path):
    done = subprocess.run(
        [BINARY, "--log_format=json", "--port=0"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    lines = parsed(done.stderr)
    assert lines[-1]["level"] == "error"
    assert "nobody could connect" in lines[-1]["message"]


def test_a_format_that_is_none(tmp_path):
    done = subprocess.run(
        [BINARY, "--log_format=xml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "--log_format: 'xml' is not text, legacy or json" in done.stderr


def test_text_is_the_default(server):
    assert re.search(r"^I\d{8} ", server.log(), re.M)
    with server.connect() as c:
        assert c.call("CONFIG", "GET", "log-format") == [b"log-format", b"text"]
