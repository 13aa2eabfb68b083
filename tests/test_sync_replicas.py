# SPDX-License-Identifier: Apache-2.0
"""--min_replicas_to_ack: what was answered is at the replicas; --fence_without_sentinels."""

import contextlib
import select
import signal
import socket
import threading

import pytest
from test_replicas import (
    BINARIES,
    COMMANDS,
    REDIS_7,
    VALKEY_9,
    assert_same,
    await_replica,
    call_all,
    follow,
    other_server,
)

from harness.ports import free_port
from harness.resp import OK, Error, RespSocket, Status
from harness.server import PATIENCE_S, REFERENCE, stop_process, stopped, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it has redis-server beside ours itself")

SYNC = {
    "repl_diskless_sync_delay": 0,
    "repl_timeout": 600,
    "proactor_threads": 2,
    "min_replicas_to_ack": 1,
    "ack_timeout": 0,
}


@pytest.fixture
def primary(start_server):
    def start(**flags):
        return start_server(**{**SYNC, **flags})

    return start


def is_answered(c, seconds=0.2):
    """What is sent when nothing holds it is there long before."""
    return bool(select.select([c.sock], [], [], seconds)[0])


def await_epochs(c):
    """Something waits for replicas."""
    wait_until(lambda: c.info("replication")["ack_waiting_epochs"] != "0", what="a waiting epoch")


@BINARIES
def test_a_reply_waits_for_the_replica(primary, tmp_path, binary):
    server = primary()
    with contextlib.ExitStack() as stack:
        replica = stack.enter_context(other_server(binary, tmp_path))
        clients = [stack.enter_context(server.connect()) for _ in range(8)]
        c, reader, blocked, script, execs, observer, piped, memory = clients
        follow(replica, server)
        call_all(c)
        assert_same(c, replica)
        blocked.send_command("BLPOP", "queue", 0)
        wait_until(lambda: observer.info("clients")["blocked_clients"] == "1", what="a BLPOP")
        with stopped(replica.process):
            c.send_command("SET", "key", "v")
            script.send_command("EVAL", "return redis.call('INCR', KEYS[1])", 1, "counter")
            for words in (["MULTI"], ["SET", "{a}1", "v"], ["SET", "{b}2", "v"]):
                execs.send_command(*words)
            execs.send_command("EXEC")
            piped.send_command("RPUSH", "queue", "job")
            piped.send_command("PING")
            await_epochs(observer)
            # A read that has seen it waits with it; one that has not does not.
            reader.send_command("GET", "key")
            memory.send_command("GET", "string")
            assert memory.read() == b"text"
            assert [execs.read() for _ in range(3)] == [OK, Status("QUEUED"), Status("QUEUED")]
            waiting = (c, reader, blocked, script, execs, piped)
            assert [is_answered(w) for w in waiting] == [False] * 6
        assert c.read() == OK
        assert reader.read() == b"v"
        assert blocked.read() == [b"queue", b"job"]
        assert script.read() == 1
        assert execs.read() == [OK, OK]
        assert [piped.read(), piped.read()] == [1, Status("PONG")]
        assert_same(c, replica)
        assert observer.info("replication")["ack_timeouts"] == "0"


def test_ours_acknowledges_ours_at_once(primary, start_server):
    server, follower = primary(), start_server(proactor_threads=3)
    with server.connect() as c, follower.connect() as replica:
        follow(replica, server)
        for i in range(300):
            assert c.call("INCR", "counter") == i + 1
            assert replica.call("GET", "counter") == b"%d" % (i + 1)
        with stopped(follower.process):
            c.send_command("SET", "k", "v")
            with server.connect() as observer:
                await_epochs(observer)
            assert not is_answered(c)
        assert c.read() == OK


def test_without_replicas_nothing_is_answered(primary, tmp_path):
    server = primary()
    with server.connect() as c, server.connect() as other:
        c.send_command("SET", "k", "v")
        await_epochs(other)
        assert not is_answered(c)
        assert other.call("PING") == Status("PONG")
        with other_server(REDIS_7, tmp_path) as replica:
            follow(replica, server)
            assert c.read() == OK
            assert_same(c, replica)


def test_two_of_three(primary, tmp_path):
    server = primary(min_replicas_to_ack=2)
    with contextlib.ExitStack() as stack:
        c, other = (stack.enter_context(server.connect()) for _ in range(2))
        replicas = []
        for name, binary in (("a", REDIS_7), ("b", VALKEY_9), ("c", REDIS_7)):
            (tmp_path / name).mkdir()
            replicas.append(stack.enter_context(other_server(binary, tmp_path / name)))
            follow(replicas[-1], server)
        call_all(c)
        with stopped(replicas[0].process):
            call_all(c, ["SET one-away v"])
            with stopped(replicas[1].process):
                c.send_command("SET", "two-away", "v")
                await_epochs(other)
                assert not is_answered(c)
            assert c.read() == OK
        await_replica(c, 3)
        for replica in replicas:
            assert_same(c, replica)


def test_after_the_timeout_it_is_said_that_the_write_stays(primary, tmp_path):
    server = primary()
    with server.connect() as other, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        with server.connect() as c, stopped(replica.process):
            assert other.call("CONFIG", "SET", "ack-timeout", 100) == OK
            c.send_command("SET", "k", "v")
            error = c.read()
            assert isinstance(error, Error) and error.text.startswith("UNREPLICATED The write was")
            with pytest.raises(ConnectionError):
                c.read()
            assert other.call("CONFIG", "SET", "ack-timeout", 0) == OK
        # One that has nothing to wait for is not concerned, and new ones get answers again.
        assert other.call("PING") == Status("PONG")
        assert other.call("SET", "later", "v") == OK
        assert other.call("GET", "k") == b"v"
        assert other.info("replication")["ack_timeouts"] == "1"


def test_it_is_switched_on_and_off(primary, tmp_path):
    server = primary(min_replicas_to_ack=0)
    with contextlib.ExitStack() as stack:
        c, other = (stack.enter_context(server.connect()) for _ in range(2))
        replica = stack.enter_context(other_server(REDIS_7, tmp_path))
        follow(replica, server)
        for _ in range(3):
            with stopped(replica.process):
                assert c.call("SET", "free", "v") == OK
                assert other.call("CONFIG", "SET", "min-replicas-to-ack", 1) == OK
                c.send_command("SET", "held", "v")
                await_epochs(other)
                assert not is_answered(c)
                assert other.call("CONFIG", "SET", "min-replicas-to-ack", 0) == OK
                assert c.read() == OK
        assert other.info("replication")["min_replicas_to_ack"] == "0"


def test_with_a_log_that_is_synced_too(primary, tmp_path):
    server = primary(appendonly="yes", appendfsync="always")
    with server.connect() as c, server.connect() as other:
        with other_server(REDIS_7, tmp_path) as replica:
            follow(replica, server)
            call_all(c)
            with stopped(replica.process):
                c.send_command("SET", "held", "v")
                await_epochs(other)
                assert not is_answered(c)
                # The log's policy makes no difference to that.
                assert other.call("CONFIG", "SET", "appendfsync", "everysec") == OK
                assert other.call("CONFIG", "SET", "appendonly", "no") == OK
                assert not is_answered(c)
            assert c.read() == OK
            call_all(c, ["FLUSHALL", *COMMANDS])
            assert_same(c, replica)


def test_durable_means_on_the_disk_of_the_replica(primary, tmp_path):
    server = primary(ack_means="durable")
    with contextlib.ExitStack() as stack:
        c, other = (stack.enter_context(server.connect()) for _ in range(2))
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        without = stack.enter_context(other_server(VALKEY_9, tmp_path / "a"))
        follow(without, server)
        c.send_command("SET", "k", "v")
        await_epochs(other)
        assert not is_answered(c)
        logged = stack.enter_context(other_server(VALKEY_9, tmp_path / "b", appendonly="yes"))
        follow(logged, server)
        assert c.read() == OK


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_ours_tells_what_is_on_its_disk(primary, start_server, policy):
    server = primary(ack_means="durable")
    follower = start_server(proactor_threads=2, appendonly="yes", appendfsync=policy)
    with server.connect() as c, follower.connect() as replica:
        follow(replica, server)
        for i in range(5):
            assert c.call("SET", "k", f"{i}") == OK
        follower.kill()
        follower.start_again()
        with follower.connect() as replica:
            assert replica.call("GET", "k") == b"4"


def test_a_primary_that_is_demoted_tells_nobody(primary, tmp_path, start_server):
    server = primary()
    with other_server(REDIS_7, tmp_path) as replica, server.connect() as other:
        with server.connect() as c:
            follow(replica, server)
            stop_process(replica.process)
            c.send_command("SET", "lost", "v")
            await_epochs(other)
            new = start_server(repl_diskless_sync_delay=0)
            assert other.call("REPLICAOF", "127.0.0.1", new.port) == OK
            error = c.read()
            assert isinstance(error, Error) and error.text.endswith("this server is a replica now.")
            with pytest.raises(ConnectionError):
                c.read()
            replica.process.send_signal(signal.SIGCONT)
        # Reads of a replica wait for nobody.
        with new.connect() as c:
            assert c.call("SET", "k", "v") == OK
            await_replica(c)
            assert other.call("GET", "k") == b"v"
            assert other.info("replication")["min_replicas_to_ack"] == "0"


def test_writers_while_the_replica_comes_and_goes(primary, tmp_path):
    """What each of them was told is at the replica, whenever that stops for good."""
    server = primary()
    with other_server(REDIS_7, tmp_path) as replica, server.connect() as c:
        follow(replica, server)
        told = {}
        stop = threading.Event()

        def write(number):
            with server.connect() as own:
                count = 0
                while not stop.is_set():
                    values = [("RPUSH", f"list{number}", f"{count + i}") for i in range(10)]
                    replies = own.pipeline(values)
                    assert replies == list(range(count + 1, count + 11))
                    count += 10
                    told[number] = count

        writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for writer in writers:
            writer.start()
        try:
            for i in range(20):
                seen = dict(told)
                for number, count in seen.items():
                    assert replica.call("LLEN", f"list{number}") >= count
                if i % 5 == 4:
                    assert c.call("CLIENT", "KILL", "TYPE", "replica") in (0, 1)
                wait_until(lambda seen=seen: dict(told) != seen, what="more answers")
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert sorted(told) == [0, 1, 2, 3]
        await_replica(c)
        assert_same(c, replica)


class FakeSentinel:
    """It says at once which server is the primary, if it is to say that."""

    def __init__(self, server, number, says=True):
        self.port = server.port
        self.c = RespSocket(("127.0.0.1", server.port), timeout=PATIENCE_S)
        assert self.c.call("CLIENT", "SETNAME", f"sentinel-{number:08x}-cmd") == OK
        if says:
            self.say("127.0.0.1", self.port)

    def say(self, host, port):
        hello = f"127.0.0.1,26379,{'a' * 40},1,mymaster,{host},{port},1"
        assert self.c.call("PUBLISH", "__sentinel__:hello", hello) == 0

    def ping(self):
        assert self.c.call("PING") == Status("PONG")

    def close(self):
        self.c.close()


def test_the_fence(primary):
    """Sentinels that are silent, or gone, leave writes without answers."""
    server = primary(min_replicas_to_ack=0, fence_without_sentinels=2, fence_ms=100_000)
    with server.connect() as c, server.connect() as other:
        c.send_command("SET", "k", "v")
        await_epochs(other)
        sentinels = [FakeSentinel(server, 1), FakeSentinel(server, 1)]
        assert not is_answered(c)
        assert other.info("replication")["is_fenced"] == "1"
        sentinels.append(FakeSentinel(server, 2))
        assert c.read() == OK
        assert c.call("SET", "k", "w") == OK
        sentinels.pop().close()
        wait_until(lambda: other.info("replication")["is_fenced"] == "1", what="the fence")
        c.send_command("SET", "k", "x")
        assert not is_answered(c)
        sentinels.append(FakeSentinel(server, 3))
        assert c.read() == OK
        # They are heard too rarely for this.
        assert other.call("CONFIG", "SET", "fence-ms", 1) == OK
        wait_until(lambda: other.info("replication")["is_fenced"] == "1", what="the fence")
        c.send_command("SET", "k", "y")
        assert not is_answered(c)
        assert other.call("CONFIG", "SET", "fence-without-sentinels", 0) == OK
        assert c.read() == OK
        for sentinel in sentinels:
            sentinel.close()


def test_a_sentinel_that_names_another_primary_does_not_count(primary):
    """It was promoted while nobody reached this one, which is to be demoted some seconds later."""
    flags = {"replica_announce_ip": "10.1.2.3", "replica_announce_port": 7000}
    server = primary(min_replicas_to_ack=0, fence_without_sentinels=1, fence_ms=100_000, **flags)
    with server.connect() as c, server.connect() as other:
        c.send_command("SET", "k", "v")
        await_epochs(other)
        sentinel = FakeSentinel(server, 1, says=False)
        sentinel.ping()
        assert not is_answered(c)  # it has not said anything
        for host, port in (("10.1.2.3", 7001), ("10.1.2.4", 7000), ("127.0.0.1", 1)):
            sentinel.say(host, port)
            assert not is_answered(c)
        wait_until(lambda: "names 127.0.0.1 1 as the primary" in server.log(), what="a line")
        for host, port in (("10.1.2.3", 7000), ("127.0.0.1", server.port), ("a.host", 7000)):
            sentinel.say(host, port)
            assert c.read() == OK
            sentinel.say("10.1.2.4", 7000)
            wait_until(lambda: other.info("replication")["is_fenced"] == "1", what="the fence")
            c.send_command("SET", "k", "w")
            assert not is_answered(c)
        sentinel.say("10.1.2.3", 7000)
        assert c.read() == OK
        for message in ("", ",", ",,,,,,,", "a,b,c,d,e,f,g,h", "a,b,c,d,e,10.1.2.3,70000,1"):
            assert sentinel.c.call("PUBLISH", "__sentinel__:hello", message) == 0
        assert c.call("SET", "k", "y") == OK  # what makes no sense is not heard
        sentinel.close()


def test_a_publish_does_not_wait_for_replicas(primary):
    """Sentinel publishes on the connection that it pings on."""
    server = primary(min_replicas_to_ack=1, ack_timeout=0)
    with server.connect() as c, server.connect() as other:
        other.send_command("SET", "key", "value")
        await_epochs(c)
        for command in (["PUBLISH", "c", "m"], ["SPUBLISH", "c", "m"]):
            assert c.call(*command) == 0
            assert c.call("PING") == Status("PONG")


def test_memcached_waits_too(primary, tmp_path):
    port = free_port()
    server = primary(memcached_port=port)
    with other_server(REDIS_7, tmp_path) as replica, server.connect() as c:
        follow(replica, server)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as m:
            with stopped(replica.process):
                m.sendall(b"set key 0 0 1\r\nv\r\n")
                await_epochs(c)
                assert not select.select([m], [], [], 0.2)[0]
            assert m.recv(100) == b"STORED\r\n"


def test_commands_of_all_kinds(primary, tmp_path):
    server = primary(proactor_threads=3)
    with server.connect() as c, other_server(REDIS_7, tmp_path) as replica:
        follow(replica, server)
        call_all(c, [*COMMANDS, "FLUSHALL", *COMMANDS])
        assert_same(c, replica)


@BINARIES
def test_a_server_that_was_just_promoted_keeps_the_promise(primary, start_server, tmp_path, binary):
    """Also before it has a replica: its first answer leaves when another one has it, too."""
    old, new = primary(), primary(proactor_threads=3)
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(other_server(binary, tmp_path))
        o, n, writer, reader = [stack.enter_context(s.connect()) for s in (old, new, new, new)]
        follow(n, old)
        follow(other, old)
        assert o.call("SET", "k", "old") == OK
        wait_until(lambda: n.call("GET", "k") == other.call("GET", "k") == b"old", what="a write")
        offset = o.info("replication")["master_repl_offset"]
        for r in (n, other):
            wait_until(lambda r=r: r.info("replication")["slave_repl_offset"] == offset)
        old.kill()
        assert n.call("REPLICAOF", "NO", "ONE") == OK
        writer.send_command("SET", "k", "new")
        await_epochs(n)
        reader.send_command("GET", "k")
        assert [is_answered(w) for w in (writer, reader)] == [False] * 2
        follow(other, new)
        assert writer.read() == OK
        assert reader.read() == b"new"
        assert other.call("GET", "k") == b"new"
        assert n.info("stats")["sync_full"] == "0"
    old.start_again()
