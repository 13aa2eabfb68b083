# SPDX-License-Identifier: Apache-2.0
"""Snapshots: what is saved is there after a restart, and nothing else ever takes its place."""

import contextlib
import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest

from harness import snapshot_files
from harness.resp import OK, Error, Status
from harness.server import (
    PATIENCE_S,
    REFERENCE,
    Server,
    ServerFailed,
    look_while_it_loads,
    wait_until,
)

pytestmark = pytest.mark.skipif(REFERENCE, reason="files and flags of our own")

FORMATS = ["dump", "dump.rdb"]
FAR_MS = 4_000_000_000_000


def fill(r):
    """Values of every type and encoding. Returns what reads them."""
    commands = [
        "SET string text",
        "SET int 12345",
        "SET negative -7",
        f"SET long {'x' * 3000}",
        "SETBIT bits 70000 1",
        f"SET deadline v PXAT {FAR_MS}",
        "RPUSH list a b 17 -5",
        f"RPUSH long-list {' '.join(str(i) * 3 for i in range(2000))}",
        f"RPUSH wide-list {'y' * 9000} b",
        "SADD intset 1 2 300000 -5",
        "SADD set a b c",
        f"SADD long-set {' '.join('m%d' % i for i in range(1000))}",
        "ZADD zset 1 a 2.5 b -inf c",
        f"ZADD long-zset {' '.join('%d z%d' % (i, i) for i in range(1000))}",
        "HSET hash f v g 12",
        f"HSET long-hash {' '.join('f%d v%d' % (i, i) for i in range(1000))}",
        "XADD stream 5-1 f v",
        "XADD stream 5-2 g w h x",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
        "PFADD hll a b c",
        f"PEXPIREAT list {FAR_MS}",
    ]
    for command in commands:
        reply = r.call(*command.split(" "))
        assert not isinstance(reply, Error), (command, reply)
    return [
        "GET string",
        "GET int",
        "GET negative",
        "GET long",
        "GET bits",
        "PEXPIRETIME deadline",
        "LRANGE list 0 -1",
        "LRANGE long-list 0 -1",
        "LRANGE wide-list 0 -1",
        "SORT intset",
        "SORT set ALPHA",
        "SORT long-set ALPHA",
        "ZRANGE zset 0 -1 WITHSCORES",
        "ZRANGE long-zset 0 -1 WITHSCORES",
        "HMGET hash f g",
        "HGET long-hash f77",
        "HLEN long-hash",
        "XRANGE stream - +",
        "XPENDING stream group",
        "XINFO GROUPS stream",
        "PFCOUNT hll",
        "PEXPIRETIME list",
        "OBJECT ENCODING int",
        "OBJECT ENCODING list",
        "OBJECT ENCODING long-list",
        "OBJECT ENCODING intset",
        "OBJECT ENCODING set",
        "OBJECT ENCODING long-set",
        "OBJECT ENCODING zset",
        "OBJECT ENCODING long-zset",
        "OBJECT ENCODING hash",
        "OBJECT ENCODING long-hash",
    ]


def fill_ours(r):
    """What redis-server 7.0 has no form for."""
    for command in [
        "HSET fields f v g w",
        f"HPEXPIREAT fields {FAR_MS} FIELDS 1 f",
        "SADD members a b",
        "SADDEX members 1000000 c",
        "BF.RESERVE bloom 0.01 100",
        "BF.ADD bloom x",
        "CMS.INITBYDIM sketch 100 5",
        "CMS.INCRBY sketch x 7",
        "TOPK.RESERVE top 3",
        "TOPK.ADD top a b a",
        'JSON.SET json $ {"a":[1,2.5,"x"],"b":null}',
        "SET sticky v",
        "STICK sticky",
    ]:
        reply = r.call(*command.split(" "))
        assert not isinstance(reply, Error), (command, reply)
    return [
        "HGET fields f",
        "HPEXPIRETIME fields FIELDS 2 f g",
        "SMISMEMBER members a b c d",
        "BF.EXISTS bloom x",
        "BF.EXISTS bloom y",
        "CMS.QUERY sketch x",
        "TOPK.LIST top",
        "JSON.GET json",
    ]


def read(r, commands):
    return {command: r.call(*command.split(" ")) for command in commands}


def stop_and_start(server, **changes):
    server.stop()
    server.start_again(**changes)


@pytest.mark.parametrize("dbfilename", FORMATS)
@pytest.mark.parametrize("mode", ["none", "lz4", "zstd"])
def test_all_types_come_back_whatever_the_threads(start_server, dbfilename, mode):
    server = start_server(dbfilename=dbfilename, proactor_threads=2, compression_mode=mode)
    with server.connect() as r:
        commands = fill(r) + fill_ours(r)
        before = read(r, commands)
        r.call("SELECT", 3)
        r.call("SET", "other", "db")
        assert r.call("SAVE") == OK
    for threads, shards in [(2, 2), (1, 1), (4, 7), (2, 2)]:
        stop_and_start(server, proactor_threads=threads, num_shards=shards)
        with server.connect() as r:
            assert read(r, commands) == before
            r.call("SELECT", 3)
            assert r.call("GET", "other") == b"db"
            assert r.call("SAVE") == OK


@pytest.mark.sanitized
@pytest.mark.parametrize("dbfilename", FORMATS)
def test_all_types_come_back(start_server, dbfilename):
    server = start_server(dbfilename=dbfilename, proactor_threads=2)
    with server.connect() as r:
        commands = fill(r) + fill_ours(r)
        before = read(r, commands)
        assert r.call("SAVE") == OK
    server.kill()
    server.start_again()
    with server.connect() as r:
        assert read(r, commands) == before


def test_redis_server_reads_ours_and_ours_reads_its(start_server):
    ours = start_server(dbfilename="dump.rdb", proactor_threads=2)
    theirs = Server(reference=True, dbfilename="dump.rdb")
    try:
        with ours.connect() as r:
            commands = fill(r)
            fill_ours(r)
            r.call("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f',"
                   " function() return 7 end)")
            before = read(r, commands)
            assert r.call("SAVE") == OK
        theirs.stop()
        os.replace(os.path.join(ours.dir, "dump.rdb"), os.path.join(theirs.dir, "dump.rdb"))
        theirs.start_again()
        with theirs.connect() as r:
            found = read(r, commands)
            # Short lists and sets of texts have no packed form in 7.0.
            for command in ("OBJECT ENCODING list", "OBJECT ENCODING set"):
                del before[command], found[command]
            assert found == before
            assert r.call("FCALL", "f", 0) == 7
            assert r.call("HGET", "fields", "f") == b"v", "a hash without its deadlines"
            assert r.call("EXISTS", "bloom") == 0, "what it has no form for is left out"
            r.call("DEL", "fields", "members", "sticky")
            r.call("SET", "new", "1")
            assert r.call("SAVE") == OK
        theirs.stop()
        ours.stop()
        os.replace(os.path.join(theirs.dir, "dump.rdb"), os.path.join(ours.dir, "dump.rdb"))
        ours.start_again(proactor_threads=3)
        with ours.connect() as r:
            assert read(r, before) == before
            assert r.call("GET", "new") == b"1"
            assert r.call("FCALL", "f", 0) == 7
    finally:
        theirs.kill()


def test_functions_scripts_and_the_shards_of_tags_come_back(start_server):
    server = start_server(proactor_threads=4, num_shards=4, shard_round_robin_prefix="q")
    queues = [5, 2, 7, 1, 0, 3, 6, 4]
    with server.connect() as r:
        for queue in queues:
            r.call("RPUSH", "{q%d}:wait" % queue, "job")
        places = {queue: r.call("DEBUG", "SHARD", "{q%d}:wait" % queue) for queue in queues}
        assert [places[queue] for queue in queues] == [0, 1, 2, 3] * 2
        sha = r.call("SCRIPT", "LOAD", "return 'loaded'").decode()
        r.call("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f',"
               " function() return 7 end)")
        assert r.call("SAVE") == OK
    server.kill()
    server.start_again()
    with server.connect() as r:
        # In another order than before.
        for queue in reversed(queues):
            assert r.call("DEBUG", "SHARD", "{q%d}:wait" % queue) == places[queue]
            assert r.call("LRANGE", "{q%d}:wait" % queue, 0, -1) == [b"job"]
        assert r.call("RPUSH", "{q8}:wait", "job") == 1
        assert r.call("DEBUG", "SHARD", "{q8}:wait") == 0, "the order goes on"
        assert r.call("EVALSHA", sha, 0) == b"loaded"
        assert r.call("FCALL", "f", 0) == 7
    # With other shards they are placed anew, in the order in which they were first seen.
    server.kill()
    server.start_again(proactor_threads=3, num_shards=3)
    with server.connect() as r:
        for index, queue in enumerate(queues):
            assert r.call("LRANGE", "{q%d}:wait" % queue, 0, -1) == [b"job"]
            assert r.call("DEBUG", "SHARD", "{q%d}:wait" % queue) == index % 3


def test_keys_that_are_due_stay_away(start_server):
    server = start_server(dbfilename="dump")
    with server.connect() as r:
        assert r.call("DEBUG", "SET-ACTIVE-EXPIRE", 0) == OK  # it is saved, though it is due
        r.call("SET", "short", "v", "PX", 1)
        r.call("SET", "long", "v", "EX", 1000)
        assert r.call("SAVE") == OK
    server.kill()
    time.sleep(0.01)
    server.start_again()
    with server.connect() as r:
        assert r.call("DBSIZE") == 1
        info = r.info("persistence")
        assert info["rdb_last_load_keys_expired"] == "1"
        assert info["rdb_last_load_keys_loaded"] == "1"


@pytest.mark.sanitized
@pytest.mark.parametrize("dbfilename", FORMATS)
def test_a_snapshot_is_of_one_moment(start_server, dbfilename):
    """Pairs are written together, over shards; in no snapshot they differ. Also large values."""
    server = start_server(dbfilename=dbfilename, proactor_threads=4, num_shards=4)
    stop = threading.Event()
    saves = 8
    with server.connect() as r:
        for i in range(2000):
            r.call("SET", f"filler:{i}", "x" * 100)
        r.call("RPUSH", "long", *(f"element {i}" for i in range(1, 60001)))

    def write(name):
        with server.connect() as w:
            n = 0
            while not stop.is_set():
                n += 1
                assert w.call("MSET", f"{name}:a", n, f"{name}:b", n, f"{name}:c", n) == OK
                w.call("MULTI")
                w.call("INCR", f"{name}:x")
                w.call("INCR", f"{name}:y")
                w.call("EXEC")
                w.call("EVAL", "redis.call('INCR', KEYS[1]); redis.call('INCR', KEYS[2])", 2,
                       f"{name}:s", f"{name}:t")
                w.call("LPUSH", "long", n)
                w.call("SET", f"filler:{n % 2000}", n)

    threads = [threading.Thread(target=write, args=(f"w{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    snapshots = []
    try:
        with server.connect() as r:
            for _ in range(saves):
                assert r.call("SAVE") == OK
                snapshots.append(snapshot_files.take(server))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    server.stop()
    for copy in snapshots[::3]:
        snapshot_files.put_back(server, copy)
        server.start_again()
        with server.connect() as r:
            for i in range(3):
                names = [f"w{i}:{letter}" for letter in "abc"]
                assert len(set(r.call("MGET", *names))) == 1
                for first, second in ("xy", "st"):
                    assert r.call("GET", f"w{i}:{first}") == r.call("GET", f"w{i}:{second}")
            elements = r.call("LRANGE", "long", 0, -1)
            assert elements[-60000:] == [b"element %d" % i for i in range(1, 60001)]
            assert r.call("DBSIZE") >= 2001
        server.stop()


@pytest.mark.sanitized
@pytest.mark.parametrize("dbfilename", FORMATS)
def test_who_changes_a_large_value_waits_until_it_is_saved(start_server, dbfilename):
    """It is not copied for that. Commands, EXEC and scripts; what is saved is of one moment."""
    server = start_server(dbfilename=dbfilename, proactor_threads=2, num_shards=2)
    keys = [f"large:{{{i}}}" for i in range(6)]  # EXECs have one shard each
    script = "return redis.call('HSET', KEYS[1], 's', ARGV[1])"
    with server.connect() as r:
        for key in keys:
            r.call("HSET", key, *[f"{name}{i}" for i in range(6000) for name in "fv"])
            r.call("HSET", key, "version", 0, "again", 0)  # the first cut may come before others
            r.call("SET", key + ":text", "x" * 500_000)
            for _ in range(20):  # until it is known to keep to its key
                assert r.call("EVAL", script, 1, key, 0) in (0, 1)
        hurried = versions = 0
        while hurried < 10:
            assert r.call("BGSAVE") == Status("Background saving started")
            while True:
                versions += 1
                replies = r.pipeline(
                    [
                        command
                        for key in keys
                        for command in [
                            ("HSET", key, "version", versions),
                            ("APPEND", key + ":text", "y"),
                            ("MULTI",),
                            ("HSET", key, "again", versions),
                            ("APPEND", key + ":text", "y"),
                            ("EXEC",),
                            ("EVAL", script, 1, key, versions),
                            ("HGET", key, "version"),
                        ]
                    ]
                )
                assert not any(isinstance(reply, Error) for reply in replies), replies
                assert replies[7::8] == [b"%d" % versions] * len(keys)
                info = r.info("persistence")
                if info["rdb_bgsave_in_progress"] == "0":
                    break
            assert info["rdb_last_bgsave_status"] == "ok"
            assert info["snapshot_last_values_copied"] == "0"
            hurried += int(info["snapshot_last_values_hurried"])
    server.kill()
    server.start_again()
    with server.connect() as r:
        for key in keys:
            assert r.call("HLEN", key) == 6003
            numbers = [int(n) for n in r.call("HMGET", key, "version", "again", "s")]
            assert versions >= numbers[0] >= numbers[1] >= numbers[2] >= numbers[0] - 1
            appended = r.call("STRLEN", key + ":text") - 500_000
            assert 2 * numbers[0] - 2 <= appended <= 2 * numbers[0]


@pytest.mark.parametrize("dbfilename", FORMATS)
def test_a_kill_leaves_the_last_good_one(start_server, dbfilename):
    server = start_server(dbfilename=dbfilename, proactor_threads=2)
    rng = random.Random(5)
    kills = int(os.environ.get("DFLY_KILLS", 12))
    with server.connect() as r:
        r.call("DEBUG", "POPULATE", 60_000, "key", 100)
        r.call("SET", "generation", 0)
        assert r.call("SAVE") == OK
    last_good = 0
    for generation in range(1, kills + 1):
        with server.connect() as r:
            r.call("SET", "generation", generation)
            assert r.call("BGSAVE") == Status("Background saving started")
            time.sleep(rng.random() * 0.08)
            done = r.info("persistence")["rdb_bgsave_in_progress"] == "0"
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.start_again()
        with server.connect() as r:
            assert r.call("DBSIZE") == 60_001
            found = int(r.call("GET", "generation"))
            assert found in (last_good, generation)
            assert found == generation or not done
            last_good = found
            # Leftovers go with the next good one.
            r.call("SET", "generation", last_good)
            assert r.call("SAVE") == OK
        expected = 1 if dbfilename.endswith(".rdb") else 3
        assert len(snapshot_files.names_of(server)) == expected, snapshot_files.names_of(server)


def corrupt(path, offset, value=None):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([(byte[0] ^ 0x40) if value is None else value]))


@pytest.mark.sanitized
@pytest.mark.parametrize("dbfilename", FORMATS)
def test_a_damaged_file_is_refused_and_told(start_server, dbfilename):
    server = start_server(dbfilename=dbfilename, proactor_threads=2)
    with server.connect() as r:
        fill(r)
        assert r.call("SAVE") == OK
    server.stop()
    rng = random.Random(3)
    for name in snapshot_files.names_of(server):
        path = os.path.join(server.dir, name)
        with open(path, "rb") as file:
            good = file.read()
        damages = [("flip", rng.randrange(len(good))) for _ in range(4)]
        damages += [("cut", rng.randrange(len(good))) for _ in range(2)] + [("gone", 0)]
        for kind, offset in damages:
            with open(path, "wb") as file:
                file.write(good[:offset] if kind == "cut" else good)
            if kind == "flip":
                corrupt(path, offset)
            if kind == "gone":
                os.remove(path)
                if not name.endswith(".dfs") or "summary" in name:
                    continue  # then there is no snapshot
            with open(server.log_path, "w"):
                pass
            with pytest.raises(ServerFailed, match="ended at start with 1"):
                server.start_again()
            assert "cannot load the snapshot" in server.log()
            assert name in server.log(), (kind, offset)
            if kind != "gone":
                assert re.search(r"byte \d+", server.log()), server.log()
        with open(path, "wb") as file:
            file.write(good)
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "string") == b"text"


def test_the_end_saves_when_rules_say_so(start_server):
    server = start_server(save="1000 1", dbfilename="dump")
    with server.connect() as r:
        r.call("SET", "k", "1")
    server.stop()  # SIGTERM
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "k") == b"1"
        r.call("SET", "k", "2")
        r.send_command("SHUTDOWN", "NOSAVE")
        server.wait_for_exit()
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "k") == b"1"
        r.call("SET", "k", "3")
        r.send_command("SHUTDOWN")
        server.wait_for_exit()
    server.start_again(save="")
    with server.connect() as r:
        assert r.call("GET", "k") == b"3"
        r.call("SET", "k", "4")
        r.send_command("SHUTDOWN", "SAVE")
        server.wait_for_exit()
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "k") == b"4"
        r.call("SET", "k", "5")
    server.stop()
    server.start_again()
    with server.connect() as r:
        assert r.call("GET", "k") == b"4", "without rules SIGTERM does not save"


def test_nothing_that_was_answered_is_lost_by_sigterm(start_server):
    server = start_server(save="1000 1", proactor_threads=3, num_shards=3)
    written = [0] * 4

    def write(index):
        try:
            with server.connect() as w:
                while True:
                    n = written[index] + 1
                    if w.call("MSET", f"a{index}", n, f"b{index}", n) != OK:
                        return
                    written[index] = n
        except (OSError, EOFError):
            pass

    for _ in range(3):
        threads = [threading.Thread(target=write, args=(i,)) for i in range(len(written))]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        server.stop()
        for thread in threads:
            thread.join()
        server.start_again()
        with server.connect() as r:
            for i, n in enumerate(written):
                found = int(r.call("GET", f"a{i}") or 0)
                assert found in (n, n + 1), "answered, and lost"
                assert r.call("GET", f"b{i}") == r.call("GET", f"a{i}")
                written[i] = found


@contextlib.contextmanager
def missing_directory(server, r):
    """Nothing can be saved meanwhile."""
    data = os.path.join(server.dir, "data")
    os.makedirs(data, exist_ok=True)
    assert r.call("CONFIG", "SET", "dir", data) == OK
    os.rename(data, data + "-away")
    try:
        yield
    finally:
        os.rename(data + "-away", data)


def test_rules_save_and_failures_are_seen(start_server):
    server = start_server(save="1 3", dbfilename="dump")
    with server.connect() as r:
        before = r.call("LASTSAVE")
        for i in range(3):
            r.call("SET", f"k{i}", i)
        wait_until(lambda: r.info("persistence")["rdb_saves"] == "1", what="a save")
        assert r.call("LASTSAVE") >= before
        info = r.info("persistence")
        assert info["rdb_changes_since_last_save"] == "0"
        assert info["rdb_last_bgsave_status"] == "ok"
        with missing_directory(server, r):
            assert isinstance(r.call("SAVE"), Error)
            info = r.info("persistence")
            assert info["rdb_last_bgsave_status"] == "ok"
            assert "No such file" in info["snapshot_last_error"]
            r.call("BGSAVE")
            wait_until(
                lambda: r.info("persistence")["rdb_last_bgsave_status"] == "err", what="a failure"
            )
            misconf = "MISCONF Redis is configured to save RDB snapshots"
            assert r.call("SET", "k0", "new").text.startswith(misconf)
            assert r.call("PING").text.startswith(misconf)
            assert r.call("GET", "k0") == b"0"
            assert r.call("EVAL", "return redis.pcall('SET', KEYS[1], 1)", 1, "k0").text.startswith(
                misconf
            )
            r.call("MULTI")
            assert r.call("SET", "k0", "new").text.startswith(misconf)
            assert r.call("EXEC").text.startswith("EXECABORT")
            assert r.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no") == OK
            assert r.call("SET", "k0", "new") == OK
            assert r.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes") == OK
            assert isinstance(r.call("SET", "k0", "new"), Error)
        assert r.call("SAVE") == OK
        assert r.call("SET", "k0", "new") == OK
        assert r.info("persistence")["rdb_last_bgsave_status"] == "ok"


def test_a_shutdown_that_cannot_save_goes_on(start_server):
    server = start_server(save="1000 1", dbfilename="dump")
    with server.connect() as r:
        r.call("SET", "k", "v")
        with missing_directory(server, r):
            assert r.call("SHUTDOWN") == Error("ERR Errors trying to SHUTDOWN. Check logs.")
            server.process.send_signal(signal.SIGTERM)
            # SHUTDOWN has written the same line.
            refused = "save the DB, can't exit"
            wait_until(lambda: server.log().count(refused) == 2, what="it goes on")
        assert r.call("SET", "k", "w") == OK
    server.stop()
    server.start_again(dir=server.dir)
    with server.connect() as r:
        data = os.path.join(server.dir, "gone")
        os.mkdir(data)
        assert r.call("CONFIG", "SET", "dir", data) == OK
        os.rmdir(data)
        r.send_command("SHUTDOWN", "FORCE")
        server.wait_for_exit()
    server.start_again(dir=os.path.join(server.dir, "data"))
    with server.connect() as r:
        assert r.call("GET", "k") == b"w"


@contextlib.contextmanager
def stopping_for_a_while(server):
    """A server that SIGTERM has told to stop, and that has enough to save to be asked meanwhile."""
    with server.connect() as r:
        r.call("DEBUG", "POPULATE", 200_000, "key", 1000)
        assert r.call("CONFIG", "SET", "shutdown-on-sigterm", "save") == OK
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: snapshot_files.names_of(server), what="a file that grows")
        yield r


def test_what_sigterm_has_begun_can_be_aborted(start_server):
    server = start_server(dbfilename="dump.rdb", rdbcompression=False)
    with stopping_for_a_while(server) as r:
        assert r.call("SHUTDOWN", "ABORT") == OK
        wait_until(lambda: "save the DB, can't exit" in server.log(), what="it goes on")
        assert r.call("SET", "k", "v") == OK
        assert snapshot_files.names_of(server) == []
        assert r.call("CONFIG", "SET", "shutdown-on-sigterm", "nosave") == OK
    server.stop()
    assert snapshot_files.names_of(server) == []


def test_a_second_sigint_ends_it_at_once():
    server = Server(dbfilename="dump.rdb", rdbcompression=False)
    try:
        with stopping_for_a_while(server):
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(timeout=PATIENCE_S) == 1
    finally:
        server.kill()
    assert "a second SIGINT: ends now, without a save" in server.log()
    assert snapshot_files.names_of(server) == []


@pytest.mark.parametrize(
    "rule,is_saved", [("default", True), ("nosave", False), ("force", True), ("save now", True)]
)
def test_rules_for_signals(start_server, rule, is_saved):
    server = start_server(save="1000 1", dbfilename="dump.rdb", shutdown_on_sigterm="save")
    with server.connect() as r:
        assert r.call("CONFIG", "GET", "shutdown-on-sigterm")[1] == b"save"
        assert r.call("CONFIG", "SET", "shutdown-on-sigterm", rule.upper()) == OK
        assert r.call("CONFIG", "GET", "shutdown-on-sigterm")[1].decode() == rule
        for wrong in ("", "later", "save nosave"):
            reply = r.call("CONFIG", "SET", "shutdown-on-sigterm", wrong)
            assert "possibly related to argument 'shutdown-on-sigterm'" in reply.text
        r.call("SET", "k", "v")
    server.stop()
    assert snapshot_files.names_of(server) == (["dump.rdb"] if is_saved else [])


def test_a_signal_can_force_an_end_without_a_save(start_server):
    server = start_server(save="1000 1", dbfilename="dump.rdb", shutdown_on_sigterm="force")
    with server.connect() as r:
        r.call("SET", "k", "v")
        with missing_directory(server, r):
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_exit()
    assert "ends without a save" in server.log()


def test_a_full_disk_leaves_the_last_good_one(start_server, tmp_path):
    mounted = tmp_path / "small"
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", mounted]).returncode:
        pytest.skip("a small file system cannot be mounted: not root, or no right to")
    try:
        for dbfilename in FORMATS:
            server = start_server(dir=str(mounted), dbfilename=dbfilename, compression_mode="none")
            with server.connect() as r:
                r.call("SET", "k", "good")
                assert r.call("SAVE") == OK
                for i in range(400):
                    r.call("SET", f"big{i}", os.urandom(10_000))
                r.call("SET", "k", "bad")
                assert "No space left on device" in r.call("SAVE").text
                assert "No space left" in r.info("persistence")["snapshot_last_error"]
                r.call("DEL", *[f"big{i}" for i in range(400)])
            server.kill()
            server.start_again()
            with server.connect() as r:
                assert r.call("GET", "k") == b"good"
                assert r.call("SAVE") == OK
            server.stop()
            for name in os.listdir(mounted):
                os.remove(mounted / name)
    finally:
        subprocess.run(["umount", mounted], check=True)


def test_timestamps_keep_older_ones_and_the_newest_is_loaded(start_server):
    server = start_server(dbfilename="dump-{timestamp}")
    with server.connect() as r:
        for i in range(2):
            r.call("SET", "k", i)
            assert r.call("SAVE") == OK
            time.sleep(1.1)
    summaries = [name for name in snapshot_files.names_of(server) if name.endswith("-summary.dfs")]
    assert len(summaries) == 2
    assert re.fullmatch(r"dump-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-summary.dfs", summaries[0])
    stop_and_start(server)
    with server.connect() as r:
        assert r.call("GET", "k") == b"1"


def test_no_name_means_no_snapshots(start_server):
    server = start_server(dbfilename="", save="1 1")
    with server.connect() as r:
        r.call("SET", "k", "v")
        for command in ("SAVE", "BGSAVE"):
            assert r.call(command).text.startswith("ERR Snapshots are disabled")
    server.stop()
    assert snapshot_files.names_of(server) == []


def test_replies_are_those_of_redis(start_server):
    server = start_server(dbfilename="dump")
    with server.connect() as r:
        assert r.call("BGSAVE", "SCHEDULE") == Status("Background saving started")
        wait_until(lambda: r.info("persistence")["rdb_bgsave_in_progress"] == "0", what="the end")
        assert r.call("BGSAVE", "WHAT") == Error("ERR syntax error")
        assert r.call("SAVE", "WHAT") == Error("ERR syntax error")
        r.call("MULTI")
        assert r.call("SAVE") == Error("ERR Command not allowed inside a transaction")
        r.call("DISCARD")
        assert r.call("SHUTDOWN", "ABORT") == Error("ERR No shutdown in progress.")
        assert r.call("CONFIG", "SET", "save", "900 1 300 10") == OK
        assert r.call("CONFIG", "GET", "save") == [b"save", b"900 1 300 10"]
        assert "Invalid save parameters" in r.call("CONFIG", "SET", "save", "900").text
        assert r.call("CONFIG", "SET", "dbfilename", "other.rdb") == OK
        assert "can't be a path" in r.call("CONFIG", "SET", "dbfilename", "a/b").text
        assert r.call("SAVE") == OK
        assert "other.rdb" in os.listdir(server.dir)
        assert "No such file" in r.call("CONFIG", "SET", "dir", "/no/such/place").text


def test_while_it_loads_clients_are_told(start_server):
    server = start_server(dbfilename="dump", proactor_threads=2)
    loading = Error("LOADING Redis is loading the dataset in memory")
    seen = set()

    def look():
        with server.connect() as r:
            while True:
                reply = r.call("GET", "key:1")
                if reply != loading:
                    assert reply == b"value:1\0\0\0"
                    return
                seen.add("GET")
                assert r.call("DEBUG", "RELOAD") in (loading, OK)
                r.call("MULTI")
                if r.call("SET", "a", "b") == loading:
                    assert r.call("EXEC").text.startswith("EXECABORT")
                    seen.add("MULTI")
                else:
                    r.call("DISCARD")
                info = r.info("persistence")
                if info["loading"] == "1":
                    seen.add("INFO")
                    assert 0 <= float(info["loading_loaded_perc"]) <= 100

    look_while_it_loads(server, look, lambda: len(seen) == 3, keys=1_000_000)
    assert seen == {"GET", "MULTI", "INFO"}
    with server.connect() as r:
        assert r.call("DBSIZE") == 1_000_000
        assert r.call("EXISTS", "a") == 0
        assert r.info("persistence")["loading"] == "0"


@pytest.mark.sanitized
def test_a_save_does_not_stop_writes_while_a_script_runs(start_server):
    """The cut would wait for the script's locks, and writes for the cut."""
    server = start_server(dbfilename="dump", proactor_threads=2)
    with server.connect() as r, server.connect() as script:
        text = "for i = 1, tonumber(ARGV[1]) do redis.call('GET', KEYS[1]) end"
        for _ in range(4):  # its first runs have all locks
            r.call("EVAL", text, 1, "k", 1)
        gave_way = r.info("transaction")["script_gave_way"]
        script.send_command("EVAL", text, 1, "k", 10**12)
        # Then it has its locks.
        wait_until(lambda: r.info("transaction")["script_gave_way"] != gave_way, what="the script")
        assert r.call("BGSAVE") == Status("Background saving started")
        for i in range(50):
            assert r.call("SET", f"other{i}", i) == OK, "else BUSY, after five seconds"
        assert r.info("persistence")["rdb_bgsave_in_progress"] == "1"
        assert r.call("SCRIPT", "KILL") == OK
        wait_until(lambda: r.info("persistence")["rdb_saves"] == "1", what="the save")
        assert isinstance(script.read(), Error)


def test_debug_reload(start_server):
    server = start_server(dbfilename="dump", proactor_threads=2)
    with server.connect() as r:
        commands = fill(r)
        before = read(r, commands)
        assert r.call("DEBUG", "RELOAD") == OK
        assert read(r, commands) == before
        r.call("SET", "string", "changed")
        assert r.call("DEBUG", "RELOAD", "NOSAVE") == OK
        assert read(r, commands) == before
        # An EXEC holds locks that it would wait for.
        for keys in ([], ["a"], ["a", "b", "c", "d"]):
            r.call("MULTI")
            for key in keys:
                r.call("SET", key, "v")
            r.call("DEBUG", "RELOAD")
            assert r.call("EXEC")[-1] == Error("ERR DEBUG RELOAD is not possible inside a MULTI")
            r.call("MULTI")
            for key in keys:
                r.call("SET", key, "v")
            r.call("BGSAVE")
            assert r.call("EXEC")[-1] == Status("Background saving scheduled")
            wait_until(lambda: r.info("persistence")["rdb_bgsave_in_progress"] == "0", what="end")


def test_a_save_comes_behind_that_of_flushall(start_server):
    """As in Redis, where FLUSHALL itself saves when there are rules."""
    server = start_server(save="3600 1", proactor_threads=2)
    with server.connect() as r:
        for i in range(30):
            assert r.call("DEBUG", "POPULATE", 2000, f"k{i}") == OK
            assert r.call("FLUSHALL") == OK
            r.call("SET", "k", i)
            if i % 3 == 0:
                assert r.call("SAVE") == OK
            elif i % 3 == 1:
                assert r.call("BGSAVE") == Status("Background saving started")
            else:
                assert r.call("DEBUG", "RELOAD") == OK
                assert r.call("GET", "k") == str(i).encode()
            wait_until(lambda: r.info("persistence")["rdb_bgsave_in_progress"] == "0")


def in_rdb(*entries):
    """A file with these entries: a type, a key of one letter, and a value."""
    keys = b"".join(kind + b"\x01" + key + value for kind, key, value in entries)
    return b"REDIS0010\xfe\x00" + keys + b"\xff" + bytes(8)


NO_ENTRIES = b"\x07\x07\x00\x00\x00\x00\x00\xff"  # a listpack
# redis-server 7.0 leaves out the same.
WITHOUT_ELEMENTS = [
    (b"\x01", b"a", b"\x00"),  # a list
    (b"\x12", b"b", b"\x01\x02" + NO_ENTRIES),  # a quicklist
    (b"\x02", b"c", b"\x00"),  # a set
    (b"\x05", b"d", b"\x00"),  # a zset
    (b"\x11", b"e", NO_ENTRIES),
    (b"\x04", b"f", b"\x00"),  # a hash
    (b"\x10", b"g", NO_ENTRIES),
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("is_base", [False, True])
def test_keys_without_elements_are_left_out(start_server, is_base, threads):
    server = start_server(dbfilename="dump.rdb", proactor_threads=threads)
    server.stop()
    entries = [(b"\x00", b"s", b"\x01v"), *WITHOUT_ELEMENTS, (b"\x02", b"t", b"\x01\x01m")]
    folder = os.path.join(server.dir, "appendonlydir")
    if is_base:
        os.mkdir(folder)
        with open(os.path.join(folder, "appendonly.aof.manifest"), "w") as file:
            file.write("file base seq 1 type b\n")
    with open(os.path.join(folder, "base") if is_base else f"{server.dir}/dump.rdb", "wb") as file:
        file.write(in_rdb(*entries))
        if is_base:  # what follows may make such a key
            file.write(b"*3\r\n$5\r\nLPUSH\r\n$1\r\na\r\n$1\r\ne\r\n")
    server.start_again(appendonly=is_base)
    with server.connect() as r:
        wait_until(lambda: r.info("persistence")["loading"] == "0")
        keys = [b"a", b"s", b"t"] if is_base else [b"s", b"t"]
        assert sorted(r.call("KEYS", "*")) == keys
        assert r.call("SMEMBERS", "t") == [b"m"]
    assert f"empty keys skipped: {len(WITHOUT_ELEMENTS)}," in server.log()
    assert "skipping empty key: d\n" in server.log()
