# SPDX-License-Identifier: Apache-2.0
"""Snapshots with a name of their own, and --after_save_command."""

import os
import stat

import pytest

from harness.resp import OK, SYNTAX, Error, Status
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized, only_dragonfly("Redis has one file")]

STARTED = Status("Background saving started")


def files(server):
    return sorted(name for name in os.listdir(server.dir) if name != "server.log")


def wait_saved(c):
    wait_until(lambda: c.info("persistence")["rdb_bgsave_in_progress"] == "0", what="the save")
    assert c.info("persistence")["rdb_last_bgsave_status"] == "ok"


def test_save_to_a_name(start_server):
    server = start_server(dbfilename="dump.rdb")
    with server.connect() as c:
        c.call("SET", "k", "first")
        assert c.call("SAVE", "TO", "first.rdb") == OK
        c.call("SET", "k", "second")
        assert c.call("SAVE", "RDB", "TO", "second") == OK
        assert c.call("SAVE", "to", "third", "df") == OK
        assert c.call("SAVE", "RDB", "fourth") == OK
        assert c.call("BGSAVE", "SCHEDULE", "RDB", "TO", "fifth.rdb") == STARTED
        wait_saved(c)
        assert c.call("BGSAVE", "TO", "sixth.rdb") == STARTED
        wait_saved(c)
    names = files(server)
    for name in ("first.rdb", "second.rdb", "fourth.rdb", "fifth.rdb", "sixth.rdb"):
        assert name in names
    assert "third-summary.dfs" in names
    assert "dump.rdb" not in names
    again = start_server(dir=server.dir, dbfilename="first.rdb")
    with again.connect() as c:
        assert c.call("GET", "k") == b"first"
    again = start_server(dir=server.dir, dbfilename="third")
    with again.connect() as c:
        assert c.call("GET", "k") == b"second"


def test_timestamps_in_names(start_server):
    server = start_server()
    with server.connect() as c:
        assert c.call("SAVE", "RDB", "TO", "at-{timestamp}") == OK
    (name,) = files(server)
    assert name.startswith("at-20") and name.endswith(".rdb")


def test_for_the_next_start_it_is_no_save(start_server):
    """A rule of --save still has to save what the start looks for."""
    server = start_server()
    with server.connect() as c:
        c.call("SET", "k", "v")
        before = c.info("persistence")
        assert c.call("SAVE", "TO", "other") == OK
        after = c.info("persistence")
        assert after["rdb_changes_since_last_save"] == before["rdb_changes_since_last_save"] == "1"
        assert int(after["rdb_saves"]) == int(before["rdb_saves"]) + 1
        assert c.call("SAVE", "TO", "dump") == OK  # the name of --dbfilename
        assert c.info("persistence")["rdb_changes_since_last_save"] == "0"


@pytest.mark.parametrize(
    "name",
    ["../up", "/tmp/x", "a/b", "..", ".", ".hidden", "", ".rdb", "a\nb", "a\0b", "s3://b/k"],
)
def test_names_that_are_none(start_server, name):
    server = start_server()
    with server.connect() as c:
        for command in (("SAVE", "TO", name), ("BGSAVE", "TO", name), ("SAVE", "RDB", name)):
            reply = c.call(*command)
            assert isinstance(reply, Error), command
            assert reply.text.startswith("ERR the name of a snapshot"), command
        assert isinstance(c.call("SAVE", "TO", "x" * 1000), Error)
    assert files(server) == []


def test_syntax(server):
    with server.connect() as c:
        for words in (
            ("x",),
            ("TO",),
            ("RDB", "TO"),
            ("TO", "a", "b"),
            ("TO", "a", "TO", "b"),
            ("RDB", "DF"),
            ("RDB", "a", "b"),
            ("SCHEDULE", "SCHEDULE"),
        ):
            assert c.call("BGSAVE", *words) == SYNTAX, words
        assert c.call("SAVE", "SCHEDULE") == SYNTAX


# --- The program that runs afterwards ---


def script(folder, text, name="after"):
    path = os.path.join(str(folder), name)
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def after(c, runs):
    """Its fields of INFO, once it has run so often."""

    def fields():
        info = c.info("persistence")
        return info if info["after_save_command_runs"] == str(runs) else None

    return wait_until(fields, what=f"{runs} runs")


def test_it_gets_the_file_of_each_snapshot(start_server, tmp_path):
    out = tmp_path / "out"
    program = script(tmp_path, f'echo "$1 $2 $3" >> {out}; cat /dev/stdin >> {out}; exit 0\n')
    server = start_server(after_save_command=f"{program}  first second", dbfilename="dump.rdb")
    with server.connect() as c:
        c.call("SET", "k", "v")
        assert c.call("SAVE") == OK
        after(c, 1)
        assert c.call("BGSAVE", "TO", "other.rdb") == STARTED
        info = after(c, 2)
        assert info["after_save_command_failures"] == "0"
        assert info["after_save_command_last_status"] == "0"
        folder = os.path.realpath(server.dir)
        assert out.read_text().splitlines() == [
            f"first second {folder}/dump.rdb",
            f"first second {folder}/other.rdb",
        ]
    server.stop()


def test_the_last_save_counts_too(start_server, tmp_path):
    out = tmp_path / "out"
    program = script(tmp_path, f"echo $1 >> {out}\n")
    server = start_server(after_save_command=program, dbfilename="dump.rdb")
    with server.connect() as c:
        c.call("SET", "k", "v")
        c.send(b"SHUTDOWN SAVE\r\n")
        server.wait_for_exit()
    wait_until(out.exists, what="the program")


def test_failures_are_told(start_server, tmp_path):
    program = script(tmp_path, "exit 7\n")
    server = start_server(after_save_command=program)
    with server.connect() as c:
        assert c.call("SAVE") == OK
        info = after(c, 1)
        assert info["after_save_command_failures"] == "1"
        assert info["after_save_command_last_status"] == "7"
        assert info["rdb_last_bgsave_status"] == "ok"
        script(tmp_path, "kill -9 $$\n")
        assert c.call("SAVE") == OK
        assert after(c, 2)["after_save_command_last_status"] == str(128 + 9)
        os.unlink(program)
        assert c.call("SAVE") == OK
        assert after(c, 3)["after_save_command_last_status"] == "-1"
    log = server.log()
    assert "has ended with status 7" in log
    assert "No such file or directory" in log


def test_it_stops_nobody(start_server, tmp_path):
    """While it runs others are served, snapshots wait for their turn, and the server can end."""
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)
    program = script(tmp_path, f"timeout 600 cat {gate} > /dev/null\n")
    server = start_server(after_save_command=program)
    with server.connect() as c:
        for _ in range(20):
            assert c.call("SAVE") == OK
        assert c.call("SET", "k", "v") == OK
        wait_until(
            lambda: c.info("persistence")["after_save_command_in_progress"] == "1",
            what="the program",
        )
        info = c.info("persistence")
        assert info["after_save_command_runs"] == "0"
        assert int(info["after_save_command_skipped"]) >= 3
    server.stop()
    # All that were begun end now.
    while True:
        try:
            fd = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            break
        os.close(fd)


def test_it_has_no_files_and_no_blocked_signals_of_the_server(start_server, tmp_path):
    out = tmp_path / "out"
    program = script(
        tmp_path, f"ls /proc/$$/fd > {out}.fds\nexec grep Sig /proc/self/status > {out}.signals\n"
    )
    server = start_server(after_save_command=program)
    with server.connect() as c:
        assert c.call("SAVE") == OK
        after(c, 1)
    fds = {int(name) for name in (tmp_path / "out.fds").read_text().split()}
    assert {fd for fd in fds if 3 <= fd < 10} == set()
    signals = dict(
        line.split(":") for line in (tmp_path / "out.signals").read_text().splitlines()
    )
    assert int(signals["SigBlk"], 16) == 0
    assert int(signals["SigIgn"], 16) & (1 << 12) == 0  # SIGPIPE


def test_no_client_can_set_it(start_server):
    server = start_server()
    with server.connect() as c:
        reply = c.call("CONFIG", "SET", "after_save_command", "/bin/true")
        assert reply.text.endswith("can't set immutable config")
        assert c.call("CONFIG", "GET", "after_save_command") == [b"after_save_command", b""]
