# SPDX-License-Identifier: Apache-2.0
"""Small and odd machines: idle costs nothing, few descriptors, no locked memory, no io_uring, IPv6,
a tiny container."""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

from harness.resp import OK, Error, RespSocket, Status
from harness.server import (
    BINARY,
    REFERENCE,
    SANITIZED,
    Server,
    configuration_flags,
    only_dragonfly,
    wait_until,
)

MATRIX = pytest.mark.matrix
OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")


def raise_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000))


@MATRIX
@only_dragonfly("its timer wakes it ten times a second")
@pytest.mark.skipif(
    SANITIZED, reason="it counts wake-ups of all threads, and sanitizers have some that tick"
)
def test_a_thousand_idle_connections_cause_at_most_five_wakeups_a_second(server, r):
    """Counts context switches of all threads over windows of three seconds. The window is the
    measurement, not a wait for something to happen; noise of the machine is forgiven by the next.
    """
    held = [RespSocket(server.address) for _ in range(1000)]
    try:
        for c in held:
            assert c.call("PING") == Status("PONG")

        def is_idle():
            begin, switches = time.monotonic(), server.context_switches()
            time.sleep(3)
            return (server.context_switches() - switches) / (time.monotonic() - begin) <= 5

        wait_until(is_idle)
        assert held[500].call("PING") == Status("PONG")
    finally:
        for c in held:
            c.close()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@MATRIX
def test_exhausted_descriptors_stop_newcomers_only(start_server, configuration):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    server = start_server(preexec_fn=few, **configuration_flags(configuration))
    with server.connect() as first:
        held = []
        try:
            for _ in range(200):
                try:
                    held.append(RespSocket(server.address, timeout=0.3))
                except (TimeoutError, ConnectionError):
                    break  # even the backlog is full
            for c in held:
                with contextlib.suppress(ConnectionError):  # turned away
                    c.send_command("PING")
            replies = {}

            def at_least_ten_are_served():
                ready, _, _ = select.select([c.sock for c in held if c not in replies], [], [], 0)
                for c in [c for c in held if c.sock in ready]:
                    try:
                        replies[c] = c.read()
                    except ConnectionError:
                        replies[c] = None
                return list(replies.values()).count(Status("PONG")) >= 10

            wait_until(at_least_ten_are_served)
            assert first.call("SET", "k", "v") == OK
            assert first.call("GET", "k") == b"v"

            # Connections that wait must not keep the server busy. Windows of one second; who may go
            # on keeps it busy for a while.
            def is_quiet():
                before = cpu_seconds(server.pid)
                time.sleep(1)
                return cpu_seconds(server.pid) - before < 0.5

            wait_until(is_quiet)
            at_least_ten_are_served()
            known = (Status("PONG"), Error("ERR max number of clients reached"), None)
            assert all(reply in known for reply in replies.values())
            assert list(replies.values()).count(Status("PONG")) < 100
        finally:
            for c in held:
                c.close()
        assert first.call("PING") == Status("PONG")

        def newcomer_is_served():
            try:
                with server.connect() as c:
                    return c.call("PING") == Status("PONG")
            except (TimeoutError, ConnectionError):
                return False

        wait_until(newcomer_is_served, what="room for newcomers")
    assert len(server.log()) < 20_000, "one line, not one for each failure"


@MATRIX
def test_no_locked_memory_is_no_reason_to_fail(start_server, configuration):
    def none():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))

    server = start_server(preexec_fn=none, **configuration_flags(configuration))
    with server.connect() as r:
        assert r.call("SET", "k", "v") == OK
        assert r.call("GET", "k") == b"v"


def refuse_io_uring(error):
    """Makes the three io_uring system calls fail, as Docker's default seccomp profile does."""

    def apply():
        libc = ctypes.CDLL(None, use_errno=True)
        program = [
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x35, 0, 2, 425),  # below io_uring_setup: allow
            (0x25, 1, 0, 427),  # above io_uring_register: allow
            (0x06, 0, 0, 0x00050000 | error),  # SECCOMP_RET_ERRNO
            (0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
        ]
        code = b"".join(struct.pack("HBBI", *line) for line in program)
        buffer = ctypes.create_string_buffer(code)
        filter_ = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
        keep = ctypes.create_string_buffer(filter_)
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, keep, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

    return apply


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"),
    reason="the filter knows the numbers of system calls on x86-64 and arm64 only",
)
@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_without_io_uring_the_server_uses_epoll_and_says_so_once(start_server, error):
    server = start_server(
        preexec_fn=refuse_io_uring(error), **({} if REFERENCE else {"proactor_threads": 4})
    )
    with server.connect() as r:
        assert r.call("SET", "k", "v") == OK
        assert r.info("server")["multiplexing_api"] == "epoll"
    if not REFERENCE:
        lines = [line for line in server.log().splitlines() if "back to epoll" in line]
        assert len(lines) == 1, lines


@only_dragonfly("threads and flags")
def test_force_epoll_is_visible(start_server):
    with start_server(force_epoll=True).connect() as r:
        assert r.info("server")["multiplexing_api"] == "epoll"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_ipv6(start_server):
    server = start_server(bind="::1")
    with RespSocket(("::1", server.port)) as c:
        assert c.call("PING") == Status("PONG")
        assert f"addr=[::1]:{c.sock.getsockname()[1]}".encode() in c.call("CLIENT", "INFO")


def test_an_address_in_use_is_told_and_ends_the_start():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        if REFERENCE:
            command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1"]
        else:
            command = [BINARY, "--logtostderr", f"--port={port}", "--bind=127.0.0.1"]
        p = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert p.returncode == 1
        assert str(port) in p.stdout + p.stderr
        assert "in use" in (p.stdout + p.stderr)


@MATRIX
@pytest.mark.sanitized
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_server_in_order(start_server, configuration, number):
    server = start_server(**configuration_flags(configuration))
    with server.connect() as busy:
        busy.send(b"*2\r\n$3\r\nGET\r\n")  # half a command
        server.process.send_signal(number)
        server.wait_for_exit()


def cgroup_limits(memory_bytes):
    """[(folder's parent, [(file, text)])] of so much and half a core, for cgroup v2 or v1."""
    root, memory, half_a_core = "/sys/fs/cgroup", str(memory_bytes), 50000
    if os.path.exists(f"{root}/cgroup.controllers"):
        return [(root, [("memory.max", memory), ("cpu.max", f"{half_a_core} 100000")])]
    if os.path.exists(f"{root}/memory/cgroup.procs") and os.path.exists(f"{root}/cpu/cgroup.procs"):
        return [
            (f"{root}/memory", [("memory.limit_in_bytes", memory)]),
            (f"{root}/cpu", [("cpu.cfs_quota_us", str(half_a_core))]),
        ]
    pytest.skip("no cgroup controllers for memory and cpu here")


@contextlib.contextmanager
def container(memory_bytes):
    """A function that makes its process enter a control group; made by root only."""
    folders = []

    def enter():
        for folder in folders:
            with open(f"{folder}/cgroup.procs", "r+") as f:
                f.write(str(os.getpid()))

    try:
        try:
            for parent, limits in cgroup_limits(memory_bytes):
                folder = f"{parent}/dfly-test-{os.getpid()}"
                os.mkdir(folder)
                folders.append(folder)
                for name, text in limits:
                    with open(f"{folder}/{name}", "r+") as f:
                        f.write(text)
        except OSError as e:
            pytest.skip(f"no cgroup can be made here: {e}")
        yield enter
    finally:
        for folder in folders:
            wait_until(lambda: open(f"{folder}/cgroup.procs").read() == "", what="cgroup is empty")
            os.rmdir(folder)


@pytest.mark.skipif(
    SANITIZED, reason="it limits resident memory, of which a sanitizer takes several times as much"
)
def test_64_mib_and_half_a_core_are_enough():
    with container(64 << 20) as enter:
        server = Server(preexec_fn=enter)
        try:
            with server.connect() as r:
                assert r.call("SET", "k", "v") == OK
                assert server.rss_bytes() < 48 << 20
                if not REFERENCE:
                    threads = r.call("CONFIG", "GET", "proactor_threads")
                    assert threads == [b"proactor_threads", b"1"]
        finally:
            server.stop()


@only_dragonfly("it has no default of maxmemory")
@pytest.mark.skipif(
    SANITIZED, reason="it limits resident memory, of which a sanitizer takes several times as much"
)
@pytest.mark.parametrize("value_bytes", [32, 1000, 100_000])
def test_32_mib_serve_and_refuse_what_is_too_much(value_bytes):
    """With the default flags: it is full before the kernel ends it."""
    with container(32 << 20) as enter:
        server = Server(preexec_fn=enter)
        try:
            with server.connect() as r:
                limit = int(r.info("memory")["maxmemory"])
                assert limit == (32 << 20) // 10 * 8
                value = b"x" * value_bytes
                batch = max(1, 100_000 // value_bytes)
                count = 0
                full = False
                while not full:
                    names = [b"key:%012d" % (count + i) for i in range(batch)]
                    replies = r.pipeline([("SET", name, value) for name in names])
                    assert set(replies) <= {OK, OOM}
                    full = OOM in replies
                    count += replies.count(OK)
                assert count * value_bytes > 8 << 20
                assert r.call("EVAL", "return redis.call('GET', KEYS[1])", 1, names[0]) in (
                    value,
                    None,
                )
                assert r.pipeline([("GET", b"key:%012d" % 0)] * 100) == [value] * 100
                assert r.call("SAVE") == OK
                assert r.call("DEL", b"key:%012d" % 0, b"key:%012d" % 1) == 2
                assert r.call("DBSIZE") == count - 2
        finally:
            server.stop()


@pytest.mark.skipif(
    SANITIZED, reason="it limits resident memory, of which a sanitizer takes several times as much"
)
@pytest.mark.flags()  # nobody else has used it
def test_an_empty_server_is_small(server, r):
    assert r.call("PING") == Status("PONG")
    assert server.rss_bytes() < 40 << 20
