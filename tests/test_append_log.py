# SPDX-License-Identifier: Apache-2.0
"""The append-only log: what was answered is there after a kill, and Redis reads the files."""

import os
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from harness.ports import free_port
from harness.resp import OK, Error, RespSocket, Status
from harness.server import PATIENCE_S, REFERENCE, ServerFailed, wait_until, wait_until_loaded

pytestmark = pytest.mark.skipif(REFERENCE, reason="the directory is ours to look into")

THREADS = [1, 3]
FAR_MS = 4_000_000_000_000


def info(r, section="persistence"):
    text = r.call("INFO", section)
    lines = (line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)
    return dict(lines)


def restart(server, **changes):
    server.kill()
    server.start_again(**changes)
    wait_until_loaded(server)


def assert_refuses_to_start(server, **changes):
    """It ends by itself, with an error, while or before it loads."""
    try:
        server.start_again(**changes)
    except ServerFailed:
        pass
    assert server.process.wait(timeout=PATIENCE_S) == 1


def files(server):
    """Of the log, without the file of its lock."""
    names = os.listdir(os.path.join(server.dir, "appendonlydir"))
    return sorted(name for name in names if name != ".appendonly.aof.lock")


def contents(server):
    """Of each file of the log."""
    folder = os.path.join(server.dir, "appendonlydir")
    for name in files(server):
        with open(os.path.join(folder, name), "rb") as f:
            yield f.read()


def manifest(server):
    with open(os.path.join(server.dir, "appendonlydir", "appendonly.aof.manifest")) as f:
        return f.read()


def wait_rewritten(server, count):
    """Until so many rewrites have succeeded since the start."""

    def is_done():
        with server.connect() as r:
            now = info(r)
            return int(now["aof_rewrites"]) >= count and now["aof_rewrite_in_progress"] == "0"

    wait_until(is_done, what=f"{count} rewrites")


def dump_all(r):
    """Everything that clients can see, by DUMP-like reads that do not depend on encodings."""
    found = {}
    for db in range(2):
        assert r.call("SELECT", str(db)) == OK
        for key in r.call("KEYS", "*"):
            kind = r.call("TYPE", key).text
            value = {
                "string": lambda: r.call("GET", key),
                "list": lambda: r.call("LRANGE", key, "0", "-1"),
                "set": lambda: sorted(r.call("SMEMBERS", key)),
                "zset": lambda: r.call("ZRANGE", key, "0", "-1", "WITHSCORES"),
                "hash": lambda: sorted(
                    zip(r.call("HKEYS", key), r.call("HVALS", key), strict=True)
                ),
                "stream": lambda: [r.call("XRANGE", key, "-", "+"), r.call("XINFO", "GROUPS", key)],
            }[kind]()
            found[(db, key)] = (kind, value, r.call("PEXPIRETIME", key))
    assert r.call("SELECT", "0") == OK
    return found


COMMANDS = [
    "SET string text",
    "SET int 5",
    "INCRBY int 7",
    "INCRBYFLOAT float 1.5",
    "APPEND string more",
    f"SET deadline v PXAT {FAR_MS}",
    "SET soon v EX 1000000",
    "EXPIRE string 1000000",
    "RPUSH list a b c d",
    "LPOP list",
    "LMOVE list other LEFT RIGHT",
    "SADD set a b c d e",
    "SPOP set",
    "SPOP set 2",
    "ZADD zset 1 a 2.5 b -inf c",
    "ZINCRBY zset 0.25 a",
    "GEOADD geo 13.361389 38.115556 Palermo",
    "HSET hash f v g 12",
    "HINCRBYFLOAT hash g 0.25",
    "XADD stream * f v",
    "XADD stream MAXLEN ~ 100 * f w",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
    "PFADD hll a b c",
    "SETBIT bits 7000 1",
    "BITFIELD bits SET u8 0 255",
    "MSET a 1 b 2 c 3 d 4",
    "RENAME a z",
    "COPY b y",
    "SINTERSTORE inter set set",
    "EVAL return{redis.call('INCR',KEYS[1]),redis.call('SET',KEYS[2],'s')} 2 e1 e2",
    "SELECT 1",
    "SET in-one v",
    "SELECT 0",
    "MOVE c 1",
    "GETDEL d",
]


def run_commands(r):
    for command in COMMANDS:
        reply = r.call(*command.split(" "))
        assert not isinstance(reply, Error), (command, reply)
    r.call("MULTI")
    r.call("SET", "m1", "v", "EX", "1000000")
    r.call("LPUSH", "m2", "x", "y")
    assert not isinstance(r.call("EXEC"), Error)


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
@pytest.mark.parametrize("threads", THREADS)
def test_everything_is_there_after_a_kill(servers, threads, policy):
    server = servers(appendonly="yes", appendfsync=policy, proactor_threads=threads)
    wait_until_loaded(server)
    with server.connect() as r:
        run_commands(r)
        before = dump_all(r)
        if policy != "always":  # what was answered is written by now, or soon
            wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server)
    with server.connect() as r:
        assert dump_all(r) == before
        r.call("SET", "after", "v")
        before = dump_all(r)
        if policy != "always":
            wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server, proactor_threads=4 - threads)
    with server.connect() as r:
        assert dump_all(r) == before


def start_redis(directory):
    """A redis-server that loads the log of `directory`, and a connection to it."""
    port = free_port()
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", directory]
        + ["--appendonly", "yes", "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, "redis-server does not start"
        try:
            r = RespSocket(("127.0.0.1", port), timeout=PATIENCE_S)
            if r.call("PING") == Status("PONG"):
                return process, r
            r.close()
        except OSError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


def check_aof(server):
    path = os.path.join(server.dir, "appendonlydir", "appendonly.aof.manifest")
    return subprocess.run(["redis-check-aof", path], capture_output=True, text=True)


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_redis_reads_our_log_and_we_read_its(servers, policy):
    server = servers(
        appendonly="yes", appendfsync=policy, proactor_threads=2, aof_timestamp_enabled="yes"
    )
    wait_until_loaded(server)
    with server.connect() as r:
        run_commands(r)
    wait_rewritten(server, 1)  # the first base
    with server.connect() as r:
        reply = r.call("BGREWRITEAOF")
        assert reply == Status("Background append only file rewriting started")
    wait_rewritten(server, 2)
    with server.connect() as r:
        r.call("SET", "behind", "the base")
        before = dump_all(r)
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    server.kill()
    checked = check_aof(server)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    process, r = start_redis(server.dir)
    try:
        assert dump_all(r) == before
        r.call("SET", "of", "redis")
        r.call("RPUSH", "list", "of redis")
        before = dump_all(r)
        r.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0

    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        assert dump_all(r) == before
        r.call("SET", "of", "ours again")
        before = dump_all(r)
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server)
    with server.connect() as r:
        assert dump_all(r) == before


def test_rewrites_replace_the_files_while_clients_write(servers):
    server = servers(appendonly="yes", proactor_threads=2)
    wait_until_loaded(server)
    wait_rewritten(server, 1)  # the first base
    stop = threading.Event()
    counted = [0]

    def count():
        with server.connect() as r:
            while not stop.is_set():
                counted[0] = r.call("INCR", "counter")

    thread = threading.Thread(target=count)
    thread.start()
    try:
        with server.connect() as r:
            r.call("DEBUG", "POPULATE", "20000")
            for rewrite in range(2, 5):
                assert not isinstance(r.call("BGREWRITEAOF"), Error)
                wait_rewritten(server, rewrite)
    finally:
        stop.set()
        thread.join()
    assert len(files(server)) == 3, files(server)
    assert manifest(server).count("type b") == 1
    with server.connect() as r:
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server)
    with server.connect() as r:
        assert int(r.call("GET", "counter")) == counted[0]
        assert r.call("DBSIZE") == 20001


def test_it_can_be_switched_on_and_off(servers):
    server = servers(proactor_threads=2)
    with server.connect() as r:
        run_commands(r)
        assert info(r)["aof_enabled"] == "0"
        assert r.call("CONFIG", "SET", "appendonly", "yes") == OK
        assert r.call("CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]
        wait_rewritten(server, 1)
        r.call("SET", "later", "v")
        before = dump_all(r)
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server, appendonly="yes")
    with server.connect() as r:
        assert dump_all(r) == before
        assert r.call("CONFIG", "SET", "appendonly", "no") == OK
        wait_until(lambda: info(r)["aof_enabled"] == "0")
        r.call("SET", "not-logged", "v")
        # What is in the log is older now, and stays until there is a new base.
        assert r.call("CONFIG", "SET", "appendonly", "yes") == OK
        wait_until(lambda: info(r)["aof_enabled"] == "1")
        wait_rewritten(server, 1)
        before = dump_all(r)
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server)
    with server.connect() as r:
        assert dump_all(r) == before


REFUSED = "appendonlydir/appendonly.aof.manifest: another server writes its append-only log there"


def test_logs_of_two_names_are_in_one_directory(servers):
    server = servers(appendonly="yes", aof_history="1h")
    other = servers()
    other.stop()
    own, other.dir = other.dir, server.dir
    # A name that begins as the other one does.
    flags = {"appendonly": "yes", "appendfilename": "appendonly.aof.other", "aof_history": "1h"}
    other.start_again(dbfilename="", **flags)
    for each, value in ((server, "a"), (other, "b")):
        with each.connect() as r:
            r.call("SET", "k", value)
            assert r.call("WAITAOF", 1, 0, 0) == [1, 0]
            assert not isinstance(r.call("BGREWRITEAOF"), Error)
        wait_rewritten(each, 2)  # the first one is that of the start
    # Each removes what is left over of its own log only.
    for each, value in ((server, b"a"), (other, b"b"), (server, b"a")):
        each.kill()
        each.start_again()
        wait_until_loaded(each)
        with each.connect() as r:
            assert r.call("GET", "k") == value
            assert int(info(r)["aof_history_bytes"]) > 0
    other.stop()
    other.dir = own


def test_a_long_name_of_another_alphabet(servers):
    """Its line in the manifest is not longer than redis-server and this one read."""
    name = "日" * 66  # 198 bytes
    server = servers(appendonly="yes", appendfilename=name)
    with server.connect() as r:
        assert r.call("SET", "k", "v") == OK
        assert r.call("WAITAOF", 1, 0, 0) == [1, 0]
    server.kill()
    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        assert r.call("GET", "k") == b"v"
    for flag in ("appendfilename", "appenddirname"):
        with pytest.raises(ServerFailed, match=f"{flag} can't be longer than 200 bytes"):
            servers(**{flag: name + "日"})


def test_a_second_server_is_kept_from_the_log(servers):
    server = servers(appendonly="yes")
    other = servers()
    with server.connect() as r, other.connect() as o:
        r.call("SET", "k", "v")
        assert o.call("CONFIG", "SET", "dir", server.dir) == OK
        assert isinstance(o.call("CONFIG", "SET", "appendonly", "yes"), Error)
        wait_until(lambda: f"{server.dir}/{REFUSED}" in other.log())
        assert info(o)["aof_enabled"] == "0"
    other.stop()
    own = other.dir
    other.dir = server.dir
    assert_refuses_to_start(other, appendonly="yes")
    assert other.log().splitlines()[-1].count(REFUSED) == 1
    # One that was killed has it no more.
    server.kill()
    other.start_again(appendonly="yes")
    with other.connect() as o:
        assert o.call("GET", "k") == b"v"
        # Nor one that does not write a log any more.
        assert o.call("CONFIG", "SET", "appendonly", "no") == OK
        wait_until(lambda: info(o)["aof_enabled"] == "0")
        server.start_again(appendonly="yes")
    other.dir = own


def test_appendfsync_changes_while_clients_write(servers):
    server = servers(appendonly="yes", proactor_threads=2)
    wait_until_loaded(server)
    stop = threading.Event()
    counted = [0]

    def count():
        with server.connect() as r:
            while not stop.is_set():
                counted[0] = r.call("INCR", "counter")

    thread = threading.Thread(target=count)
    thread.start()
    try:
        with server.connect() as r:
            for policy in ["always", "no", "always", "everysec", "always"]:
                before = counted[0]
                wait_until(
                    lambda p=policy: r.call("CONFIG", "SET", "appendfsync", p) == OK
                )
                wait_until(lambda b=before: counted[0] > b + 20)
            # The change is made in the background; the next one waits for it.
            assert r.call("CONFIG", "SET", "appendfsync", "always") == OK
    finally:
        stop.set()
        thread.join()
    restart(server)
    with server.connect() as r:
        assert int(r.call("GET", "counter")) == counted[0]


@pytest.mark.parametrize("threads", THREADS)
def test_appendfsync_is_in_force_when_it_is_answered(servers, threads):
    server = servers(appendonly="yes", appendfsync="everysec", proactor_threads=threads)
    with server.connect() as r:
        for i in range(20):
            assert r.call("CONFIG", "SET", "appendfsync", "always") == OK
            assert r.call("SET", f"key-{i}", "v") == OK
            assert any(f"key-{i}\r\n".encode() in content for content in contents(server))
            assert r.call("CONFIG", "SET", "appendfsync", "everysec") == OK


def test_a_snapshot_becomes_the_beginning_of_a_log(servers):
    server = servers(dbfilename="dump.rdb")
    with server.connect() as r:
        run_commands(r)
        assert r.call("SAVE") == OK
        before = dump_all(r)
    restart(server, appendonly="yes")
    with server.connect() as r:
        assert dump_all(r) == before
    assert "type b" in manifest(server)
    os.remove(os.path.join(server.dir, "dump.rdb"))
    restart(server)
    with server.connect() as r:
        assert dump_all(r) == before


def test_a_torn_end_is_left_out_and_said(servers):
    server = servers(appendonly="yes", appendfsync="always")
    wait_until_loaded(server)
    wait_rewritten(server, 1)
    with server.connect() as r:
        r.call("SET", "a", "1")
        r.call("SET", "b", "2")
    server.stop()
    name = [n for n in files(server) if n.endswith(".incr.aof")][-1]
    path = os.path.join(server.dir, "appendonlydir", name)
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        f.truncate(size - 3)
    assert_refuses_to_start(server, aof_load_truncated="no")
    server.start_again(aof_load_truncated="yes")
    wait_until_loaded(server)
    with server.connect() as r:
        assert r.call("GET", "a") == b"1"
        assert r.call("GET", "b") is None
    assert "the append-only log ends in the middle" in server.log()


def test_damage_ends_the_start_with_file_and_offset(servers):
    server = servers(appendonly="yes", appendfsync="always")
    wait_until_loaded(server)
    wait_rewritten(server, 1)
    with server.connect() as r:
        for i in range(20):
            r.call("SET", f"k{i}", "x" * 100)
    server.stop()
    name = [n for n in files(server) if n.endswith(".incr.aof")][-1]
    path = os.path.join(server.dir, "appendonlydir", name)
    with open(path, "r+b") as f:
        f.seek(700)
        f.write(b"?")
    before = open(path, "rb").read()
    assert_refuses_to_start(server)
    assert name in server.log_tail()
    assert open(path, "rb").read() == before


def test_info_and_errors(servers):
    server = servers(appendonly="yes", appendfsync="always")
    wait_until_loaded(server)
    wait_rewritten(server, 1)
    with server.connect() as r:
        r.call("SET", "a", "1")
        now = info(r)
        assert now["aof_enabled"] == "1"
        assert now["aof_last_write_status"] == "ok"
        assert now["aof_last_bgrewrite_status"] == "ok"
        assert int(now["aof_current_size"]) > 0
        assert int(now["aof_syncs"]) >= 1
        error = r.call("CONFIG", "SET", "appendfsync", "sometimes")
        assert isinstance(error, Error)
        error = r.call("CONFIG", "SET", "appendfilename", "x")
        assert isinstance(error, Error)


OURS = [
    "SET sticky v",
    "STICK sticky",
    "SADD members a b",
    "SADDEX members 1000000 c",
    "HSET fields f v g w",
    f"HPEXPIREAT fields {FAR_MS} FIELDS 1 f",
    "BF.RESERVE bloom 0.01 100",
    "BF.ADD bloom x",
    "CMS.INITBYDIM sketch 100 5",
    "CMS.INCRBY sketch x 7",
    "TOPK.RESERVE top 3",
    "TOPK.ADD top a b a",
    "JSON.SET json $ [1]",
    "JSON.ARRAPPEND json $ 2",
]
LIBRARY = "#!lua name=lib\nredis.register_function('f', function(keys) return 'from f' end)"


@pytest.mark.parametrize("threads", THREADS)
def test_what_no_redis_knows_stays_here_and_stops_no_redis(servers, threads):
    server = servers(appendonly="yes", appendfsync="always", proactor_threads=threads)
    wait_until_loaded(server)
    reads = [
        ("SMEMBERS", "members"),
        ("HPEXPIRETIME", "fields", "FIELDS", "2", "f", "g"),
        ("BF.EXISTS", "bloom", "x"),
        ("CMS.QUERY", "sketch", "x"),
        ("TOPK.LIST", "top"),
        ("JSON.GET", "json"),
        ("STICK", "sticky"),
        ("FCALL", "f", "0"),
    ]

    def read(r):
        replies = [r.call(*query) for query in reads]
        return [sorted(replies[0]), *replies[1:]]

    with server.connect() as r:
        for command in OURS:
            reply = r.call(*command.split(" "))
            assert not isinstance(reply, Error), (command, reply)
        assert r.call("FUNCTION", "LOAD", LIBRARY) == b"lib"
        before = read(r)
    restart(server)
    with server.connect() as r:
        assert read(r) == before
    server.kill()
    assert check_aof(server).returncode == 0
    process, r = start_redis(server.dir)
    try:
        assert r.call("GET", "sticky") == b"v"
        assert r.call("FCALL", "f", "0") == b"from f"
        assert r.call("HGETALL", "fields") != []
        r.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.parametrize("threads", THREADS)
def test_keys_that_were_due_are_as_they_were(servers, threads):
    """A deadline passes while the server is down: what the log says of the key comes first."""
    server = servers(appendonly="yes", appendfsync="always", proactor_threads=threads)
    wait_until_loaded(server)
    wait_rewritten(server, 1)
    with server.connect() as r:
        r.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        soon = int(time.time() * 1000) + 6000
        for i in range(50):
            r.call("SET", f"k{i}", "v", "PXAT", str(soon))
            r.call("SET", f"gone{i}", "v", "PXAT", str(soon))
        r.call("BGREWRITEAOF")
        wait_rewritten(server, 2)
        for i in range(50):
            r.call("PERSIST", f"k{i}")
        assert time.time() * 1000 < soon or pytest.skip("the machine is too slow for this second")
    server.kill()
    wait_until(lambda: time.time() * 1000 > soon)
    server.start_again()
    wait_until_loaded(server)
    with server.connect() as r:
        for i in range(50):
            assert r.call("GET", f"k{i}") == b"v"
            assert r.call("GET", f"gone{i}") is None


@pytest.fixture
def small_disk():
    """A file system of 3 MB; the test gives it more room by `grow`."""
    folder = tempfile.mkdtemp(prefix="dfly-full-")
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]
    if subprocess.run(command, capture_output=True).returncode != 0:
        os.rmdir(folder)
        pytest.skip("tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    os.rmdir(folder)


def grow(folder):
    subprocess.run(["mount", "-o", "remount,size=60m", folder], check=True)


def test_a_full_disk_refuses_writes_and_it_goes_on(servers, small_disk):
    server = servers(appendonly="yes", appendfsync="everysec", dir=small_disk)
    wait_until_loaded(server)
    wait_rewritten(server, 1)
    with server.connect() as r:
        value = "x" * 100_000

        def refusal():
            reply = r.call("RPUSH", "list", value)
            return isinstance(reply, Error) and reply.text

        wait_until(refusal)
        assert refusal() == "MISCONF Errors writing to the AOF file: No space left on device"
        assert info(r)["aof_last_write_status"] == "err"
        assert isinstance(r.call("PING"), Error)
        length = r.call("LLEN", "list")
        assert length > 0
        grow(small_disk)
        wait_until(lambda: r.call("SET", "again", "v") == OK)
        assert info(r)["aof_last_write_status"] == "ok"
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server)
    with server.connect() as r:
        assert r.call("LLEN", "list") == length
        assert r.call("GET", "again") == b"v"
    server.stop()


def test_a_log_whose_first_base_fails_has_nothing_twice(servers, small_disk):
    server = servers(dir=small_disk, proactor_threads=2, rdbcompression="no")
    with server.connect() as r:
        r.call("DEBUG", "POPULATE", "300000")
        assert r.call("CONFIG", "SET", "appendonly", "yes") == OK
        wait_until(lambda: int(info(r)["aof_rewrites_consecutive_failures"]) > 0)
        for _ in range(100):
            # While a base fills the disk writes may be refused.
            wait_until(lambda: not isinstance(r.call("INCR", "counter"), Error))
        counted = int(r.call("GET", "counter"))
        grow(small_disk)
        wait_rewritten(server, 1)
        wait_until(lambda: info(r)["aof_buffer_length"] == "0")
    restart(server, appendonly="yes")
    with server.connect() as r:
        assert int(r.call("GET", "counter")) == counted
        assert r.call("DBSIZE") == 300_001
    server.stop()
