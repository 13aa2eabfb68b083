# SPDX-License-Identifier: Apache-2.0
"""The append-only log on a disk that fails: tests/harness/bad_disk.c."""

import contextlib
import os
import select
import shutil
import subprocess

import pytest

from harness.resp import OK, Error
from harness.server import REFERENCE, ROOT, SANITIZED, Server, wait_until, wait_until_loaded

pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="the directory is ours to look into"),
    pytest.mark.skipif(SANITIZED, reason="the sanitizer's library has to be the first"),
]

MISCONF = "MISCONF Errors writing to the AOF file: Input/output error"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad_disk") / "bad_disk.so"
    source = os.path.join(ROOT, "tests", "harness", "bad_disk.c")
    compiler = shutil.which("cc") or "gcc"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(path), source, "-ldl"]
    subprocess.run(command, check=True)
    return path


class Disk:
    def __init__(self, library, folder):
        self.library = library
        self.folder = folder
        self.text = folder / "bad_disk"
        self.does("")
        self.servers = []

    def does(self, what):
        # In one step: the server reads it all the time.
        new = self.folder / "bad_disk.new"
        new.write_text(what)
        os.replace(new, self.text)

    def server(self, **flags):
        wrapper = ["env", f"LD_PRELOAD={self.library}", f"BAD_DISK={self.text}"]
        server = Server(wrapper=wrapper, force_epoll=True, appendonly="yes", **flags)
        self.servers.append(server)
        return server

    def close(self):
        self.does("")
        for server in self.servers:
            server.kill()
            shutil.rmtree(server.dir, ignore_errors=True)


@pytest.fixture
def disk(library, tmp_path):
    made = Disk(library, tmp_path)
    yield made
    made.close()


def info(r):
    text = r.call("INFO", "persistence").decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def has_reply(r):
    return select.select([r.sock], [], [], 0)[0] != []


def after_a_kill(server):
    server.kill()
    server.start_again()
    wait_until_loaded(server)
    return server.connect()


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_sync_that_fails_loses_nothing(disk, policy):
    server = disk.server(appendfsync=policy, proactor_threads=2)
    with server.connect() as r, server.connect() as other:
        assert r.call("SET", "before", "1") == OK
        disk.does("eio-sync")
        r.send_command("SET", "meanwhile", "2")  # with always the reply waits for the disk
        wait_until(lambda: info(other)["aof_last_write_status"] == "err")
        assert other.call("SET", "more", "3") == Error(MISCONF)
        assert other.call("GET", "before") == b"1"
        disk.does("")
        assert r.read() == OK
        wait_until(lambda: other.call("SET", "after", "4") == OK)
        assert other.call("WAITAOF", 1, 0, 0) == [1, 0]
        assert info(other)["aof_last_write_status"] == "ok"
        assert int(info(other)["aof_errors"]) > 0
    with after_a_kill(server) as r:
        assert r.call("MGET", "before", "meanwhile", "more", "after") == [b"1", b"2", None, b"4"]


def test_a_write_that_fails_is_done_again(disk):
    server = disk.server(appendfsync="always")
    with server.connect() as r, server.connect() as other:
        assert r.call("SET", "before", "1") == OK
        disk.does("eio-write")
        r.send_command("SET", "meanwhile", "2")
        wait_until(lambda: info(other)["aof_last_write_status"] == "err")
        assert other.call("INCR", "more") == Error(MISCONF)
        disk.does("")
        assert r.read() == OK
        wait_until(lambda: other.call("INCR", "more") == 1)
    with after_a_kill(server) as r:
        assert r.call("MGET", "before", "meanwhile", "more") == [b"1", b"2", b"1"]


def test_short_writes_are_finished(disk):
    server = disk.server(appendfsync="always")
    disk.does("short")
    values = {f"key:{i}": str(i) * (1 + 5000 * (i % 7)) for i in range(50)}
    with server.connect() as r:
        for key, value in values.items():
            assert r.call("SET", key, value) == OK
    disk.does("")
    with after_a_kill(server) as r:
        for key, value in values.items():
            assert r.call("GET", key) == value.encode()


def test_a_slow_disk_holds_only_what_waits_for_it(disk):
    # One thread: a connection that is to move to another one first waits for its replies to leave.
    server = disk.server(appendfsync="always", proactor_threads=1)
    with contextlib.ExitStack() as stack:
        r, writer, reader = (stack.enter_context(server.connect()) for _ in range(3))
        for i in range(5):
            assert r.call("SET", f"old:{i}", "1") == OK
        disk.does("hang")
        for i in range(100):
            writer.send_command("SET", "new", str(i))
        # All of them are executed, in spite of the first one's wait.
        wait_until(lambda: b"cmdstat_set:calls=105," in r.call("INFO", "commandstats"))
        assert info(r)["aof_buffer_length"] != "0"
        # Others do not wait; but a key may have the slot of `new` in FreshKeys, so there are five.
        others = [stack.enter_context(server.connect()) for _ in range(5)]
        for i, other in enumerate(others):
            other.send_command("GET", f"old:{i}")
        wait_until(lambda: sum(map(has_reply, others)) > 0)
        reader.send_command("GET", "new")  # tells what is not on the disk: it waits, too
        reader.send_command("ECHO", "x")  # and so does what is behind it
        wait_until(lambda: b"cmdstat_echo:calls=1," in r.call("INFO", "commandstats"))
        assert not has_reply(reader) and not has_reply(writer)
        disk.does("")
        assert reader.read() == b"99"
        assert reader.read() == b"x"
        for other in others:
            assert other.read() == b"1"
        for _ in range(100):
            assert writer.read() == OK
    with after_a_kill(server) as r:
        assert r.call("GET", "new") == b"99"


def test_the_server_ends_although_the_disk_fails(disk):
    server = disk.server(appendfsync="always")
    with server.connect() as r, server.connect() as other:
        assert r.call("SET", "before", "1") == OK
        disk.does("eio-sync")
        r.send_command("SET", "meanwhile", "2")
        wait_until(lambda: info(other)["aof_last_write_status"] == "err")
    server.process.terminate()
    server.process.wait(timeout=60)
    disk.does("")
    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        assert r.call("GET", "before") == b"1"
