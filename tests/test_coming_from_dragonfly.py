# SPDX-License-Identifier: Apache-2.0
"""Flags of Dragonfly: each starts the server or gives its line.

The names and their defaults are those of its public documentation (Server Configuration Flags)."""

import os
import subprocess

import pytest

from harness.resp import OK
from harness.server import BINARY, ROOT, free_port, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized, pytest.mark.alone, only_dragonfly("of Dragonfly")]

# flag=its default there
with open(os.path.join(ROOT, "tests", "golden", "dragonfly_flags.txt")) as list_of_flags:
    FLAGS = [line for line in list_of_flags.read().splitlines() if line and line[0] != "#"]

# The start ends, and the line says what to do.
REFUSED = {
    "break_replication_on_master_restart=true": "--appendonly keeps the primary's data",
    "command_alias=a=get": "--rename_command",
    "df_snapshot_format=false": "--dbfilename=NAME.rdb",
    "expose_http_api=true": "--web_console",
    "lua_float_as_int_shas=abc": "as in Redis",
    "oom_deny_commands=get": "is fixed, as in Redis",
    "rdb_ignore_expiry=true": "PERSIST",
    "rdb_load_dry_run=true": "another server",
    "tiered_prefix=/tmp/x": "--maxmemory",
    "cluster_mode=yes": "is either empty or emulated",
    "dir=s3://bucket": "--after_save_command",
    "user=redis": "User= of systemd",
    "save_schedule=never": "--snapshot_cron",
}


class Started:
    """A server with these arguments, as far as it comes."""

    def __init__(self, folder, arguments, env=None):
        self.port = free_port()
        self.log = os.path.join(folder, "log")
        line = [BINARY, "--bind=127.0.0.1", "--save=", f"--dir={folder}"]
        has_port = any(argument.startswith("--port") for argument in arguments)
        if not has_port:
            line.append(f"--port={self.port}")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*line, *arguments, "--logtostderr"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, **(env or {})},
            )

    def __enter__(self):
        def has_said():
            if self.process.poll() is not None:
                return True
            return "Ready to accept connections" in self.text()

        wait_until(has_said, what="the start, or its error")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=60)

    def text(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def is_there(self):
        return self.process.poll() is None


def warnings(text):
    return [line for line in text.splitlines() if line.startswith("W")]


def test_the_list_is_whole():
    assert len(FLAGS) > 200
    names = [flag.partition("=")[0] for flag in FLAGS]
    assert names == sorted(names)


@pytest.mark.parametrize("begin", range(0, 10))
def test_every_flag_with_its_default(tmp_path, begin):
    """Some at once: none of them is an error."""
    some = [flag for flag in FLAGS[begin::10] if not flag.startswith(("port=", "bind="))]
    arguments = [f"--{flag}" for flag in some]
    with Started(str(tmp_path), arguments) as started:
        assert started.is_there(), started.text()
        for warning in warnings(started.text()):
            if "Dragonfly" in warning:
                assert "the command line: --" in warning


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_what_would_be_missed_ends_the_start(tmp_path, flag):
    with Started(str(tmp_path), [f"--{flag}"]) as started:
        assert not started.is_there()
        assert started.process.returncode == 1
        (line,) = started.text().splitlines()
        assert line.startswith("dragonfly: --" + flag.partition("=")[0])
        assert REFUSED[flag] in line


def test_tuning_is_one_line_and_no_error(tmp_path):
    arguments = ["--pipeline_squash=5", "--hz=20", "--version_check=false", "--noversion_check"]
    with Started(str(tmp_path), arguments) as started:
        assert started.is_there()
        told = [line for line in warnings(started.text()) if "a flag of Dragonfly" in line]
        assert len(told) == 3
        assert "--pipeline_squash: a flag of Dragonfly without effect here" in told[0]


def test_other_names_and_forms(start_server):
    server = start_server(
        announce_port=7777,
        interpreter_per_thread=3,
        listpack_max_field_len=70,
        tls_cipher_suites="TLS_AES_128_GCM_SHA256",
        compression_mode=2,
        save_schedule="23:05",
        rename_command="config=conf, flushall=",
        maxmemory="1GB",
    )
    with server.connect() as c:
        got = c.call("CONF", "GET", "*")
        values = dict(zip(got[::2], got[1::2]))
        assert values[b"replica-announce-port"] == b"7777"
        assert values[b"hash-max-listpack-value"] == b"70"
        assert values[b"tls-ciphersuites"] == b"TLS_AES_128_GCM_SHA256"
        assert values[b"snapshot_cron"] == b"5 23 * * *"
        assert values[b"maxmemory"] == b"%d" % (1 << 30)
        assert c.call("FLUSHALL").text.startswith("ERR unknown command")


@pytest.mark.parametrize(
    "schedule, cron", [("*:*", "* * * * *"), ("*:15", "15 * * * *"), ("00:00", "0 0 * * *")]
)
def test_schedules(start_server, schedule, cron):
    with start_server(save_schedule=schedule).connect() as c:
        assert c.call("CONFIG", "GET", "snapshot_cron")[1] == cron.encode()


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "127.0.0.1 {}", "localhost:{}"])
def test_replicaof(start_server, form):
    primary = start_server(repl_diskless_sync_delay=0)
    replica = start_server(replicaof=form.format(primary.port))
    with primary.connect() as p, replica.connect() as r:
        assert p.call("SET", "k", "v") == OK
        wait_until(lambda: r.call("GET", "k") == b"v", what="the key on the replica")


def test_unknown_flags(tmp_path):
    with Started(str(tmp_path), ["--no_such_flag=1"]) as started:
        assert not started.is_there()
        assert "there is no flag --no_such_flag" in started.text()


@pytest.mark.parametrize("where", ["before", "behind", "environment"])
def test_ignore_unknown_flags(tmp_path, where):
    flags = ["--no_such_flag=1", "--tiered_prefix=/tmp/x", "--another"]
    ignore = "--ignore_unknown_flags"
    arguments = {"before": [ignore, *flags], "behind": [*flags, ignore + "=true"]}.get(where, flags)
    env = {"DFLY_ignore_unknown_flags": "true"} if where == "environment" else None
    with Started(str(tmp_path), arguments, env) as started:
        assert started.is_there(), started.text()
        text = "\n".join(warnings(started.text()))
        assert "there is no flag --no_such_flag, it is ignored" in text
        assert "there is no flag --another, it is ignored" in text
        assert "--tiered_prefix is ignored: a flag of Dragonfly that is not here" in text


def test_wrong_values_stay_errors(tmp_path):
    arguments = ["--ignore_unknown_flags", "--maxclients=lots"]
    with Started(str(tmp_path), arguments) as started:
        assert not started.is_there()


def test_flags_of_a_file_and_of_the_environment(tmp_path):
    path = tmp_path / "flags.txt"
    path.write_text("# of Dragonfly\n--timeout=22\n\n--pipeline_squash=1\n  --maxclients=100  \n")
    env = {"DFLY_tiered_min_value_size": "64"}
    with Started(str(tmp_path), [f"--flagfile={path}"], env) as started:
        assert started.is_there(), started.text()
        text = started.text()
        assert "--pipeline_squash: a flag of Dragonfly without effect here" in text
        assert "--tiered_min_value_size: a flag of Dragonfly without effect here" in text
    path.write_text("--timeout=22\n--no_such_flag=1\n")
    with Started(str(tmp_path), [f"--flagfile={path}"]) as started:
        assert not started.is_there()
        assert f"{path}:2: --no_such_flag: there is no flag" in started.text()
    path.write_text(f"--flagfile={path}\n")
    with Started(str(tmp_path), [f"--flagfile={path}"]) as started:
        assert not started.is_there()
        assert f"--flagfile: {path} is named by itself" in started.text()


def test_the_page_names_what_is_refused():
    with open(os.path.join(ROOT, "docs", "coming-from-dragonfly.md")) as f:
        page = f.read()
    for flag in REFUSED:
        assert f"`--{flag.partition('=')[0]}" in page, flag
