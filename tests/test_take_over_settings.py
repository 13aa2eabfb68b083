# SPDX-License-Identifier: Apache-2.0
"""--take_over: by which settings it is started, and settings that are not as in the old process."""

import hashlib
import os
import signal
import socket
import subprocess
import threading

import pytest

from harness.ports import free_port
from harness.resp import OK, RespSocket
from harness.server import BINARY, PATIENCE_S, REFERENCE, SANITIZED, stopped, wait_until
from harness.taking import FakeNew, FakeOld, NewProcess, take_over

from test_config_file import clean_environment
from test_take_over import assert_serves, old  # noqa: F401 - `old` is a fixture

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="redis-server cannot do it"),
]


# ---------------------------------------------------------------------------- how it is started


class Site:
    """Processes that are started by configuration files, one after the other."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.pid_file = folder / "pid"
        (folder / "redis.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\npidfile {self.pid_file}\nsave ''\n"
            "proactor_threads 2\n"
        )
        with open(folder / "log", "wb") as log:
            self.first = subprocess.Popen(
                [BINARY, "redis.conf"], cwd=folder, stdout=log, stderr=log, env=clean_environment()
            )
        wait_until(lambda: self.pid() == self.first.pid, what="its start")
        with RespSocket(("127.0.0.1", self.port)) as c:
            assert c.call("PING").text == "PONG"

    def pid(self):
        text = self.pid_file.read_text() if self.pid_file.exists() else ""
        return int(text) if text else None  # it is made before it is written

    def upgrade(self, lines):
        """By another file, and through a pipe: the status, and what the pipe had up to its end."""
        (self.folder / "upgrade.conf").write_text(
            f"include redis.conf\ndaemonize yes\ntake_over {self.pid_file}\n{lines}"
        )
        run = subprocess.run(
            [BINARY, "upgrade.conf"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            timeout=PATIENCE_S,
        )
        return run.returncode, run.stdout.decode(errors="replace")

    def end(self):
        """Also of a process that is nobody's child."""
        if self.first.poll() is None:
            self.first.kill()
            self.first.wait()
        pid = self.pid()
        if pid not in (None, self.first.pid):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.end()


def test_a_configuration_file_and_a_pipe(site):
    """Who reads the pipe of the command comes to its end, though the new process lives on."""
    with RespSocket(("127.0.0.1", site.port)) as c:
        assert c.call("SET", "k", "v") == OK
    status, text = site.upgrade("take_over_timeout_s 300\ntake_over_pause_ms 4000\n")
    assert status == 0, text
    assert "has taken over" in text
    assert site.first.wait(PATIENCE_S) == 0
    wait_until(lambda: site.pid() not in (None, site.first.pid), what="its pid file")
    with RespSocket(("127.0.0.1", site.port)) as c:
        assert int(c.info("server")["process_id"]) == site.pid()
        assert c.call("GET", "k") == b"v"


def test_a_configuration_file_whose_limit_is_passed(site):
    with stopped(site.first):
        status, text = site.upgrade("take_over_timeout_s 1\n")
    assert status == 1, text
    assert "--take_over: it is not done within take_over_timeout_s" in text
    with RespSocket(("127.0.0.1", site.port)) as c:
        assert int(c.info("server")["process_id"]) == site.first.pid


def test_a_configuration_file_that_names_a_primary(site):
    status, text = site.upgrade("replicaof 127.0.0.1 1\n")
    assert status == 1, text
    assert "--take_over: replicaof is set" in text
    assert site.first.poll() is None


# --------------------------------------------------------------------------------- a lower limit


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is more than that, and counts")
def test_nobody_is_refused_for_a_lower_limit_of_memory(old):  # noqa: F811
    """What is too much has gone when the first client comes."""
    server = old(maxmemory="2gb")
    with server.connect() as c:
        assert c.call("DEBUG", "POPULATE", 40_000, "key", 1000) == OK
    ends, replies, errors = threading.Event(), set(), []

    def write():
        while not ends.is_set():
            try:
                with RespSocket(server.address, timeout=PATIENCE_S) as c:
                    while not ends.is_set():
                        replies.add(c.call("SET", "k", "v"))
            except ConnectionError:
                pass
            except Exception as e:
                errors.append(e)
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        take_over(server, maxmemory="20mb", maxmemory_policy="allkeys-lru")
        with server.connect() as c:
            assert c.call("SET", "k", "v") == OK
            assert int(c.info("stats")["evicted_keys"]) > 15_000
    finally:
        ends.set()
        thread.join()
    assert not errors
    assert replies == {OK}


# -------------------------------------------------------------------------------- long settings


LONG = "x" * 300_000  # no packet takes it


def digest(text):
    return hashlib.sha256(f"{len(text)}:{text}".encode()).hexdigest()


def test_a_setting_that_is_longer_than_a_packet(old):  # noqa: F811
    server = old()
    with server.connect() as c:
        assert c.call("CONFIG", "SET", "masterauth", LONG) == OK
    with FakeNew(server) as fake:
        told = fake.hello()
        assert f"digest masterauth {digest(LONG)}" in told
        assert max(len(text) for text in told) < 100_000
    wait_until(lambda: "does not take over" in server.log(), what="the end of it")
    new = take_over(server)
    (line,) = [line for line in new.log().splitlines() if "settings that are not as in" in line]
    assert line.endswith(": masterauth")
    assert LONG[:100] not in new.log()


def test_long_settings_that_are_the_same_are_not_told(old, tmp_path):  # noqa: F811
    server = old()  # only for its flags and its folder

    def talk(channel):
        mine, its = socket.socketpair()
        with mine:
            its.setblocking(False)
            channel.say("stream", its.fileno())
            its.close()
            channel.say(f"digest maxclients {digest('10000')}")
            channel.say(f"digest timeout {digest('7')}")
            channel.say("told")
            mine.recv(100)

    fake = FakeOld(str(tmp_path), talk)
    log = NewProcess(server, target=fake.path).fails()
    fake.end()
    (line,) = [line for line in log.splitlines() if "settings that are not as in" in line]
    assert line.endswith(": timeout")
    assert_serves(server)
