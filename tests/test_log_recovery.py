# SPDX-License-Identifier: Apache-2.0
"""Recovery of the append-only log to a second: --aof_history, --recover_list, --recover_to."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from harness.resp import OK, Error
from harness.server import BINARY, REFERENCE, Server, wait_until, wait_until_loaded
from test_append_log import (
    THREADS,
    dump_all,
    info,
    restart,
    run_commands,
    start_redis,
    wait_rewritten,
)

pytestmark = pytest.mark.skipif(REFERENCE, reason="redis-server has no such thing")


@pytest.fixture
def servers(servers):
    """The same, of servers that have loaded."""

    def make(**flags):
        server = servers(**flags)
        wait_until_loaded(server)
        return server

    return make


@pytest.fixture
def into():
    """A directory that is not there yet."""
    folder = tempfile.mkdtemp(prefix="dfly-recovered-")
    yield os.path.join(folder, "e")
    shutil.rmtree(folder)


def dragonfly(*arguments):
    env = {name: v for name, v in os.environ.items() if not name.startswith("DFLY_")}
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, env=env)


def recover(directory, to, into, **flags):
    """What it says."""
    done = dragonfly(
        f"--dir={directory}",
        f"--recover_to={to}",
        f"--recover_into={into}",
        *(f"--{name}={value}" for name, value in flags.items()),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def refusal(*arguments):
    done = dragonfly(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def end_of_second():
    """The Unix second in which everything so far was answered. It is over when this returns."""
    second = int(time.time())
    wait_until(lambda: time.time() > second + 1.1, what="the next second")
    return second


def rewrite(server, count):
    with server.connect() as r:
        assert not isinstance(r.call("BGREWRITEAOF"), Error)
    wait_rewritten(server, count)


def history(server):
    folder = os.path.join(server.dir, "appendonlydir", "history")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def tree(directory):
    """All files with their content."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, directory)] = f.read()
    return found


def assert_has(into, data):
    """Both servers start from it, and have that. Each has a copy: they write."""
    path = os.path.join(into, "appendonlydir", "appendonly.aof.manifest")
    checked = subprocess.run(["redis-check-aof", path], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ours = Server(appendonly="yes", dir=shutil.copytree(into, into + "-ours"))
    try:
        wait_until_loaded(ours)
        with ours.connect() as r:
            assert dump_all(r) == data
    finally:
        ours.stop()
        shutil.rmtree(ours.flags["dir"])
        shutil.rmtree(ours.dir)
    copy = shutil.copytree(into, into + "-redis")
    process, r = start_redis(copy)
    try:
        assert dump_all(r) == data
        r.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        shutil.rmtree(copy)


def local(second):
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))


@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("threads", THREADS)
def test_somebody_ran_flushall(servers, into, threads, policy):
    server = servers(
        appendonly="yes", appendfsync=policy, aof_history="24h", proactor_threads=threads
    )
    wait_rewritten(server, 1)  # the first base
    with server.connect() as r:
        run_commands(r)
    rewrite(server, 2)
    with server.connect() as r:
        r.call("SET", "behind", "the base")
        data = dump_all(r)
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
        good = end_of_second()
        assert r.call("FLUSHALL") == OK
        r.call("SET", "and", "then")
    rewrite(server, 3)
    with server.connect() as r:
        r.call("SET", "more", "of it")
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    said = recover(server.dir, local(good), into)
    assert re.search(r"taken: the base of .*, and 1 command in 1 epoch ", said), said
    left_out = r"  3 commands in [23] epochs .* were left out; the first is FLUSHALL\n"
    assert re.search(left_out, said), said
    assert said.endswith(f"Start a server with it:\n  dragonfly --appendonly --dir={into}\n")
    assert_has(into, data)
    # As Unix time, in UTC, and from the directory of a server that was killed.
    server.kill()
    shutil.rmtree(into)
    recover(server.dir, good, into)
    expected = tree(into)
    assert sorted(expected) == [
        "appendonlydir/appendonly.aof.2.base.rdb",
        "appendonlydir/appendonly.aof.3.incr.aof",
        "appendonlydir/appendonly.aof.manifest",
    ]
    shutil.rmtree(into)
    before = tree(server.dir)
    recover(server.dir, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(good)), into)
    assert tree(into) == expected
    assert tree(server.dir) == before


def test_the_list_says_what_can_be_had(servers, into):
    server = servers(appendonly="yes", appendfsync="always")
    wait_rewritten(server, 1)
    with server.connect() as r:
        r.call("SET", "a", "1")
        assert info(r)["aof_history_bytes"] == "0"
        assert info(r)["aof_history_oldest"] == "0"
    rewrite(server, 2)

    def lines():
        done = dragonfly("--recover_list", f"--dir={server.dir}")
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.splitlines()

    assert len(lines()) == 2
    assert lines()[1] == "There is no history: see --aof_history."
    with server.connect() as r:
        assert r.call("CONFIG", "SET", "aof-history", "90m") == OK
        assert r.call("CONFIG", "GET", "aof-history") == [b"aof-history", b"90m"]
        r.call("SET", "b", "2")
        data = dump_all(r)
        end_of_second()
    rewrite(server, 3)
    restart(server, aof_history="2d")
    with server.connect() as r:
        r.call("SET", "c", "3")
        now = info(r)
        assert int(now["aof_history_bytes"]) == sum(
            os.path.getsize(os.path.join(server.dir, "appendonlydir", "history", name))
            for name in history(server)
            if not name.endswith("manifest")
        )
        assert r.call("CONFIG", "GET", "aof-history") == [b"aof-history", b"48h"]
    first, second = lines()
    time_shown = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} \((\d+)\)"
    pattern = rf"{time_shown} to {time_shown}: (\d+) commands? in 1 epoch \((\d+) to \d+\); (.*)"
    of_first, of_second = re.fullmatch(pattern, first), re.fullmatch(pattern, second)
    assert of_first and of_second, (first, second)
    assert of_first[1] == now["aof_history_oldest"]
    assert of_first[5].endswith("history/1.appendonly.aof.manifest")
    assert of_second[5].endswith("appendonly.aof.manifest, the log itself")
    recover(server.dir, f"epoch:{of_first[4]}", into)
    assert_has(into, data)
    shutil.rmtree(into)
    said = recover(server.dir, of_first[2], into)
    assert "  1 command in 1 epoch " in said
    assert_has(into, data)


def test_errors_change_nothing(servers, into):
    server = servers(appendonly="yes", appendfsync="always", aof_history="1h")
    wait_rewritten(server, 1)
    with server.connect() as r:
        for i in range(20):
            r.call("SET", f"k{i}", "v" * 1000)
    to, target = f"--dir={server.dir}", f"--recover_into={into}"
    error = refusal(to, target, "--recover_to=-1d")
    assert re.search(r"is before the oldest time that can be had, 20\d\d-", error), error
    error = refusal(to, target, "--recover_to=yesterday")
    assert "--recover_to: 'yesterday' is no time; examples: '2026-11-25 10:03:00', -5m" in error
    assert "need each other" in refusal(to, "--recover_to=-5m")
    assert "need each other" in refusal(to, target)
    error = refusal(f"--dir={into}", target, "--recover_to=-1s")
    assert "there is no append-only log: " in error
    assert "there is no append-only log: " in refusal("--recover_list", f"--dir={into}")
    assert "there is no epoch 777" in refusal(to, target, "--recover_to=epoch:777")
    assert not os.path.exists(into)
    error = refusal(to, f"--recover_into={server.dir}", "--recover_to=-0s")
    assert error == f"dragonfly: {server.dir}: it is not empty\n"

    server.kill()
    folder = os.path.join(server.dir, "appendonlydir")
    (name,) = (name for name in os.listdir(folder) if name.endswith(".incr.aof"))
    with open(os.path.join(folder, name), "r+b") as f:
        f.seek(5000)
        f.write(b"!")
    error = refusal(to, target, "--recover_to=-0s")
    assert re.search(rf"{name}: offset \d+: the checksum of epoch \d+ is wrong", error), error
    assert not os.path.exists(into)


def test_a_full_disk_is_an_error_and_nothing_stays(servers):
    folder = tempfile.mkdtemp(prefix="dfly-full-")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        os.rmdir(folder)
        pytest.skip("tmpfs cannot be mounted here")
    try:
        server = servers(appendonly="yes", appendfsync="always")
        with server.connect() as r:
            for i in range(30):
                r.call("SET", f"k{i}", "v" * 100_000)
        error = refusal(
            f"--dir={server.dir}", f"--recover_into={folder}/e", "--recover_to=-0s"
        )
        assert "No space left on device" in error
        assert os.listdir(folder) == []
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)


def test_the_history_goes_when_it_is_old_or_not_wanted(servers):
    server = servers(appendonly="yes", aof_history="1h")
    wait_rewritten(server, 1)
    with server.connect() as r:
        r.call("SET", "a", "1")
    rewrite(server, 2)
    assert len(history(server)) == 3
    with server.connect() as r:
        assert r.call("CONFIG", "SET", "aof-history", "1s") == OK
        wait_until(lambda: history(server) == [], what="the end of the history")
        wait_until(lambda: info(r)["aof_history_bytes"] == "0")
        r.call("SET", "b", "2")
        assert r.call("CONFIG", "SET", "aof-history", "3600") == OK
    rewrite(server, 3)
    assert len(history(server)) == 3
    # A start without a history leaves it alone, and says so.
    restart(server, aof_history="0")
    assert "with --aof_history=0 it stays as it is" in server.log()
    assert len(history(server)) == 3
    with server.connect() as r:
        for wrong in ["-1h", "soon", "1w", ""]:
            reply = r.call("CONFIG", "SET", "aof-history", wrong)
            assert isinstance(reply, Error), wrong
        assert r.call("CONFIG", "SET", "aof-history", "1h") == OK
        wait_until(lambda: info(r)["aof_history_bytes"] != "0")
        assert r.call("CONFIG", "SET", "aof-history", "0") == OK
        wait_until(lambda: history(server) == [], what="the end of the history")
        wait_until(lambda: info(r)["aof_history_bytes"] == "0")


@pytest.mark.parametrize("threads", THREADS)
def test_a_server_under_load_can_be_recovered_from(servers, into, threads):
    server = servers(
        appendonly="yes", appendfsync="always", aof_history="1h", proactor_threads=threads
    )
    wait_rewritten(server, 1)
    counted = [0]
    stop = threading.Event()

    def count():
        with server.connect() as r:
            while not stop.is_set():
                r.call("MULTI")
                r.call("INCR", "a")
                r.call("INCR", "b")
                counted[0] = r.call("EXEC")[0]

    thread = threading.Thread(target=count)
    thread.start()
    bounds = {}
    try:
        for i in range(3):
            second = int(time.time())
            low = told = counted[0]
            while time.time() < second + 1:
                low, told = told, counted[0]  # `low` was told before the second was over
                time.sleep(0.001)
            wait_until(lambda: time.time() > second + 1.1)
            bounds[second] = (low, counted[0] + 1)
            rewrite(server, 2 + i)
            recover(server.dir, second, into)
            bounds[second] += (tree(into),)
            shutil.rmtree(into)
            recover(server.dir, "-0s", into)  # whatever is there
            shutil.rmtree(into)
    finally:
        stop.set()
        thread.join()
    for second, (low, high, files) in bounds.items():
        # Later, and from a server that writes no more, it is the same.
        recover(server.dir, second, into)
        assert tree(into) == files
        recovered = Server(appendonly="yes", dir=into)
        wait_until_loaded(recovered)
        with recovered.connect() as r:
            a, b = int(r.call("GET", "a") or 0), int(r.call("GET", "b") or 0)
        recovered.stop()
        shutil.rmtree(recovered.dir)
        shutil.rmtree(into)
        assert a == b
        assert low <= a <= high


def test_a_log_of_redis_can_be_recovered_as_far_as_it_has_times(servers, into):
    directory = tempfile.mkdtemp(prefix="dfly-redis-")
    process, r = start_redis(directory)
    try:
        # The first base has no data, and is as old as the server.
        assert r.call("CONFIG", "SET", "aof-timestamp-enabled", "yes") == OK
        run_commands(r)
        r.call("DEL", "stream")  # what a group has read is not in logs of redis-server 7.0
        data = dump_all(r)
        good = end_of_second()
        assert r.call("FLUSHALL") == OK
        r.call("SET", "and", "then")
        end_of_second()
        said = recover(directory, good, into)
        left_out = r"  2 commands, from .* were left out; the first is FLUSHALL\n"
        assert re.search(left_out, said), said
        assert "epoch" not in said
        assert_has(into, data)
        done = dragonfly("--recover_list", f"--dir={directory}")
        assert re.search(r"\(\d+\): \d+ commands; .*manifest, the log itself\n", done.stdout)
        r.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        shutil.rmtree(directory)


def test_redis_leaves_the_history_alone(servers, into):
    server = servers(appendonly="yes", appendfsync="always", aof_history="1h")
    wait_rewritten(server, 1)
    with server.connect() as r:
        r.call("SET", "a", "1")
        data = dump_all(r)
        good = end_of_second()
        r.call("FLUSHALL")
    rewrite(server, 2)
    server.kill()
    before = history(server)
    assert len(before) == 3
    process, r = start_redis(server.dir)
    r.call("SET", "of", "redis")
    assert not isinstance(r.call("BGREWRITEAOF"), Error)
    wait_until(lambda: info(r)["aof_rewrite_in_progress"] == "0")
    r.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert history(server) == before
    server.start_again()
    wait_until_loaded(server)
    assert history(server)[:3] == before
    recover(server.dir, good, into)
    assert_has(into, data)
