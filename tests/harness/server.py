# SPDX-License-Identifier: Apache-2.0
"""Starts the server under test, or redis-server as the reference, and judges how it ended.

DFLY_BINARY=path    the binary to test; default build/release/dragonfly
REFERENCE=redis     test redis-server instead, so that the tests check themselves
DFLY_MATRIX=small   one configuration instead of four for the tests marked `matrix`
"""

import collections
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from .ports import free_port, is_free
from .resp import Error, OK, RespSocket, Status

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.abspath(
    os.environ.get("DFLY_BINARY", os.path.join(ROOT, "build", "release", "dragonfly"))
)
REFERENCE = os.environ.get("REFERENCE", "") == "redis"
SANITIZED = os.environ.get("DFLY_SANITIZED", "") != ""

# A sanitized server is an order of magnitude slower: how much less there is to do.
SLOWNESS = 10 if SANITIZED else 1

# Whatever is waited for comes, or never does: this ends a hang, and no busy machine reaches it.
PATIENCE_S = 300 if SANITIZED else 60

BAD_LOG = re.compile(
    r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:"
    r"|Check failed|\*\*\* SIG|Assertion .* failed|pure virtual method)"
)

# Flags whose name in redis.conf is another one than with dashes; None: the reference has no such
# option.
REFERENCE_FLAGS = {
    "dbnum": "databases",
    "max_bulk_len": "proto-max-bulk-len",
    **dict.fromkeys(
        [
            "proactor_threads",
            "num_shards",
            "force_epoll",
            "lock_on_hashtags",
            "locktag_prefix",
            "locktag_delimiter",
            "default_lua_flags",
        ]
    ),
}


def only_dragonfly(reason):
    """Marks a test of behaviour that redis-server 7.0 does not have."""
    return pytest.mark.skipif(REFERENCE, reason=f"redis-server 7.0 differs: {reason}")


def only_reference_7_0(reason):
    """Marks what newer versions changed: checked on the reference only, to keep the knowledge."""
    return pytest.mark.skipif(not REFERENCE, reason=f"7.0 only: {reason}")


def environment():
    """Of a server: what sanitizers are told, and none of the variables for tests."""
    # DFLY_port and its like set flags of ours; the others are for tests.
    env = {name: v for name, v in os.environ.items() if not name.startswith("DFLY_")}
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99")
    suppressions = os.path.join(ROOT, "tests", "harness", "tsan.supp")
    env.setdefault(
        "TSAN_OPTIONS",
        "halt_on_error=0:exitcode=99:second_deadlock_stack=1:suppressions=" + suppressions,
    )
    return env


def wait_until(condition, timeout_s=PATIENCE_S, what="condition"):
    """Polls `condition` until it is true, at first without a pause to speak of; fails after the
    deadline."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.0001
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"timeout: {what}"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.01)


def stop_process(process):
    """SIGSTOP, and all its threads stand still when this returns: on a busy machine some of them
    go on until the first one has taken the signal."""
    process.send_signal(signal.SIGSTOP)
    folder = f"/proc/{process.pid}/task"

    def stands():
        for task in os.listdir(folder):
            try:
                with open(f"{folder}/{task}/stat") as f:
                    state = f.read().rpartition(")")[2].split()[0]
            except OSError:  # it has just ended
                continue
            if state not in "tTZX":
                return False
        return True

    wait_until(stands, what="a process that stands still")


@contextlib.contextmanager
def stopped(process):
    """It takes and answers nothing meanwhile."""
    stop_process(process)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def wait_until_loaded(server):
    def is_loaded():
        with server.connect() as c:
            return c.info("persistence")["loading"] == "0"

    wait_until(is_loaded, what="the end of the load")


def wait_blocked(c, count):
    """Until so many clients wait for keys, or are paused."""
    wait_until(
        lambda: c.info("clients")["blocked_clients"] == str(count), what=f"{count} blocked clients"
    )


class ServerFailed(AssertionError):
    pass


def look_while_it_loads(server, look, has_seen_all, keys=500_000):
    """Saves so many keys, key:0 and so on, kills the server and starts it again, and calls look()
    as soon as the port is there, until that has seen all: a client may be slower than the load, and
    then looks once more."""
    with server.connect() as c:
        assert c.call("DEBUG", "POPULATE", keys, "key", 10) == OK
        assert c.call("SAVE") == OK
    for _ in range(20):
        server.kill()
        again = threading.Thread(target=server.start_again)
        again.start()
        while again.is_alive():
            try:
                look()
            except OSError:
                time.sleep(0.005)
        again.join()
        if has_seen_all():
            break


class Server:
    """One process. Its end is judged in stop(): a crash or a sanitizer's report fails the test."""

    newest = collections.deque(maxlen=4)

    def __init__(
        self,
        reference=REFERENCE,
        preexec_fn=None,
        wrapper=(),
        client_tls=None,
        only_tls=False,
        **flags,
    ):
        """`client_tls`: what clients of the port use (ssl.SSLContext). `only_tls`: it is the TLS
        port, and there is no other."""
        self.reference = reference
        self.client_tls = client_tls
        self.only_tls = only_tls
        self.flags = dict(flags)
        self.dir = tempfile.mkdtemp(prefix="dfly-test-")
        self.process = None
        self.log_path = os.path.join(self.dir, "server.log")
        self._preexec_fn = preexec_fn
        self._wrapper = list(wrapper)
        self.port = free_port()
        Server.newest.append(self)
        self._start()

    def command_line(self):
        ports = {"port": 0, "tls_port": self.port} if self.only_tls else {"port": self.port}
        flags = {**ports, "bind": "127.0.0.1", **self.flags}
        if self.reference:
            line = ["redis-server", "--save", "", "--appendonly", "no", "--dir", self.dir]
            line += ["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]
            for name, value in flags.items():
                name = REFERENCE_FLAGS.get(name, name)
                if name is not None:
                    line += ["--" + name.replace("_", "-"), *str(value).split(" ")]
            return line
        line = [BINARY, "--logtostderr"]
        # As the reference: nothing is saved behind a test's back, its files are the test's, and
        # the test may look inside.
        own = {"save": "", "enable_protected_configs": "yes", "enable_debug_command": "yes"}
        for name, value in {**own, **flags}.items():
            value = (
                {True: "true", False: "false"}.get(value, value)
                if value is True or value is False
                else value
            )
            line.append(f"--{name}={value}")
        return line

    def _start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self._wrapper + self.command_line(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.dir,
                env=environment(),
                preexec_fn=self._preexec_fn,
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self.process.poll() is not None:
                raise ServerFailed(
                    f"server ended at start with {self.process.returncode}\n{self.log_tail()}"
                )
            try:
                with self.connect(auth=False, timeout=2.0) as r:
                    reply = r.call("PING")
                    if reply == Status("PONG"):
                        return
                    if isinstance(reply, Error) and reply.text.startswith("NOAUTH"):
                        return
            except OSError:
                pass
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"server did not answer PING\n{self.log_tail()}")
            time.sleep(0.01)

    @property
    def address(self):
        return (self.flags.get("bind", "127.0.0.1").split(" ")[0], self.port)

    @property
    def pid(self):
        return self.process.pid

    def connect(self, resp3=False, auth=True, timeout=PATIENCE_S, **options):
        r = RespSocket(self.address, timeout=timeout, **{"tls": self.client_tls, **options})
        password = self.flags.get("requirepass")
        if auth and password:
            assert r.call("AUTH", password) == OK
        if resp3:
            r.call("HELLO", "3")
        return r

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        """What the server wrote so far."""
        with open(self.log_path, "r", errors="replace") as f:
            return f.read()

    def log_tail(self):
        return "\n".join(self.log().splitlines()[-60:])

    def rss_bytes(self, name="VmRSS"):
        """`name`: VmHWM is the most it ever was."""
        with open(f"/proc/{self.pid}/status") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
        raise AssertionError("no " + name)

    def count_sockets(self):
        """Its open sockets: listeners, and connections whatever they speak."""
        count = 0
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                count += os.readlink(f"/proc/{self.pid}/fd/{fd}").startswith("socket:")
            except FileNotFoundError:
                pass  # closed meanwhile
        return count

    def context_switches(self):
        """Voluntary and involuntary context switches of all threads since the start."""
        total = 0
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/status") as f:
                for line in f:
                    if "ctxt_switches" in line:
                        total += int(line.split()[1])
        return total

    def start_again(self, keeps_port=False, **changes):
        """Starts in the same directory, where snapshots are, after an end; with other flags."""
        assert not self.is_alive()
        self.flags.update(changes)
        # After a kill the kernel may need a moment to let go of the old one.
        if keeps_port:
            wait_until(lambda: is_free(self.port), what="the port")
        else:
            self.port = free_port()
        self._start()

    def check_log(self):
        found = BAD_LOG.search(self.log())
        if found:
            raise ServerFailed(f"'{found.group(0)}' in the server's log\n{self.log_tail()}")

    def kill(self):
        if self.is_alive():
            self.process.kill()
            self.process.wait()

    def wait_for_exit(self, timeout_s=PATIENCE_S):
        """Waits for an end that somebody else caused (SHUTDOWN) and judges it."""
        try:
            self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"server did not stop in {timeout_s} s\n{self.log_tail()}")
        self.check_log()
        if self.process.returncode != 0:
            raise ServerFailed(f"exit status {self.process.returncode}\n{self.log_tail()}")

    def stop(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.wait_for_exit()

    def assert_healthy(self):
        if not self.is_alive():
            raise ServerFailed(f"server died: {self.process.returncode}\n{self.log_tail()}")
        self.check_log()


CONFIGURATIONS = {
    "4t": {"proactor_threads": 4, "num_shards": 4},
    "1t": {"proactor_threads": 1, "num_shards": 1},
    "4t-epoll": {"proactor_threads": 4, "num_shards": 4, "force_epoll": True},
    "1t-epoll": {"proactor_threads": 1, "num_shards": 1, "force_epoll": True},
}


def configuration_names(which=None):
    """None: one. "threads": 1 and 4 of them; "matrix": these on both engines."""
    if REFERENCE:
        return ["redis"]
    if which is None or os.environ.get("DFLY_MATRIX") == "small":
        return ["4t"]
    return list(CONFIGURATIONS) if which == "matrix" else ["4t", "1t"]


def configuration_flags(name):
    return dict(CONFIGURATIONS.get(name, {}))


if __name__ == "__main__":
    sys.exit("this is a library of tests/")
