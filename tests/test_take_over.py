# SPDX-License-Identifier: Apache-2.0
"""--take_over: a new process replaces an old one, and clients only have to connect again."""

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess
import threading

import pytest

from harness.certificates import Certificates
from harness.nodes import assert_same, await_link, continuations, copies, follow, role
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket
from harness.seeds import new_rng
from harness.server import BINARY, PATIENCE_S, REFERENCE, SANITIZED
from harness.server import stopped, wait_blocked, wait_until
from harness.taking import FakeNew, FakeOld, NewProcess, pid_file, take_over

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.skipif(REFERENCE, reason="redis-server cannot do it"),
]


@pytest.fixture
def old(start_server):
    """A factory. What it starts is taken over in place: the fixture judges the last process."""

    def start(**flags):
        return start_server(pidfile="pid", **flags)

    return start


class Counters:
    """Clients that count by INCR, and connect again whenever they have to. What was acknowledged
    must be there."""

    def __init__(self, address, count=4):
        self.ends = threading.Event()
        self.address = address
        self.acknowledged = [0] * count
        self.sent = [0] * count
        self.reconnects = 0
        self.failures = []
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, i):
        try:
            while not self.ends.is_set():
                try:
                    with RespSocket(self.address, timeout=PATIENCE_S) as c:
                        self._count(c, i)
                except ConnectionError:
                    self.reconnects += 1
        except Exception as e:
            self.failures.append(e)

    def _count(self, c, i):
        while not self.ends.is_set():
            self.sent[i] += 1
            reply = c.call("INCR", f"counter:{i}")
            while isinstance(reply, Error) and reply.text.startswith("LOADING"):
                reply = c.call("INCR", f"counter:{i}")
            # Each is one more than what it was, unless the one before was lost without an answer.
            assert self.acknowledged[i] < reply <= self.sent[i], (reply, self.acknowledged[i])
            self.acknowledged[i] = reply

    def await_more(self, count=200):
        goal = sum(self.acknowledged) + count
        wait_until(lambda: sum(self.acknowledged) >= goal or self.failures, what="more")

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures

    def check(self, c):
        for i, least in enumerate(self.acknowledged):
            value = int(c.call("GET", f"counter:{i}"))
            assert least <= value <= self.sent[i]


@contextlib.contextmanager
def counting(address, **options):
    counters = Counters(address, **options)
    try:
        yield counters
    finally:
        counters.end()


@pytest.mark.parametrize("threads", [(1, 4), (4, 1)])
@pytest.mark.parametrize("log", ["no", "everysec", "always"])
def test_nothing_is_lost_under_load(old, threads, log):
    flags = {"appendonly": "no" if log == "no" else "yes"}
    if log != "no":
        flags["appendfsync"] = log
    server = old(proactor_threads=threads[0], **flags)
    with counting(server.address) as counters:
        for number in range(3):  # and back, and once more
            counters.await_more()
            take_over(server, proactor_threads=threads[(number + 1) % 2])
            counters.await_more()
    assert counters.reconnects >= 12
    with server.connect() as c:
        counters.check(c)
        values = [c.call("GET", f"counter:{i}") for i in range(4)]
        if log == "no":
            return
        if log == "everysec":
            assert c.call("WAITAOF", 1, 0, 0)[0] == 1
    # The log that three processes have written is one.
    server.kill()
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
        assert [c.call("GET", f"counter:{i}") for i in range(4)] == values


def test_data_functions_and_scripts_go_along(old):
    server = old()
    with server.connect() as c:
        assert c.pipeline([["SELECT", 3], ["SET", "k", "v", "PX", 10**9], ["SADD", "s", "a"]])
        assert c.call("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', "
                      "function() return 'of f' end)") == b"l"
        sha = c.call("SCRIPT", "LOAD", "return 'of the script'")
    take_over(server)
    with server.connect() as c:
        assert c.call("SELECT", 3) == OK
        assert c.call("GET", "k") == b"v"
        assert 0 < c.call("PTTL", "k") <= 10**9
        assert c.call("SMEMBERS", "s") == [b"a"]
        assert c.call("FCALL", "f", 0) == b"of f"
        assert c.call("EVALSHA", sha, 0) == b"of the script"
        assert role(c)["role"] == "master"


def test_replicas_go_on_without_a_copy(old, start_server):
    server = old(repl_diskless_sync_delay=0)
    replicas = [start_server(repl_diskless_sync_delay=0) for _ in range(2)]
    with server.connect() as c, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(replica.connect()) for replica in replicas]
        for replica in clients:
            replica.call("REPLICAOF", "127.0.0.1", server.port)
            await_link(replica)
        assert c.call("SET", "k", "v") == OK
        with counting(server.address) as counters:
            for _ in range(2):
                counters.await_more()
                take_over(server)
                counters.await_more()
        with server.connect() as new:
            for replica in clients:
                await_link(replica)
            assert_same(new, *clients)
            assert continuations(new) == 2
            assert copies(new) == 0


def test_clients_in_all_states_are_told_by_an_end(old):
    """And nothing of what they wanted is done."""
    server = old()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(5)]
        blocked, subscribed, in_multi, watching, quiet = clients
        blocked.send_command("BLPOP", "list", 0)
        assert subscribed.call("SUBSCRIBE", "ch")[0] == b"subscribe"
        assert in_multi.call("MULTI") == OK
        assert in_multi.call("SET", "in-multi", "v").text == "QUEUED"
        assert watching.call("WATCH", "k") == OK
        wait_blocked(quiet, 1)
        take_over(server)
        for client in clients:
            with pytest.raises(ConnectionError):
                client.read()
    with server.connect() as c:
        assert c.call("RPUSH", "list", "a") == 1
        assert c.call("LRANGE", "list", 0, -1) == [b"a"]
        assert c.call("EXISTS", "in-multi") == 0
        assert c.call("PUBLISH", "ch", "m") == 0


def test_a_reply_that_was_due_is_sent(old):
    """A client that reads late gets all answers to what was done before."""
    server = old()
    with server.connect() as c, server.connect(rcvbuf=4096) as late:
        assert c.call("SET", "large", "x" * 300_000) == OK
        late.send_command("INCR", "n")
        for _ in range(8):
            late.send_command("GET", "large")
        wait_until(lambda: c.call("GET", "n") == b"1", what="INCR")
        new = NewProcess(server)
        assert late.read() == 1
        with contextlib.suppress(ConnectionError):
            for _ in range(8):
                assert late.read() == b"x" * 300_000
        new.await_taken()


def test_who_connects_meanwhile_waits_for_the_new_process(old):
    """The kernel's queue is the same before and after: nobody is refused."""
    server = old(take_over_pause_ms=600_000)
    with FakeNew(server) as new:
        new.hello()
        new.follow()
        names = new.sync()
        assert names[0] == f"listener tcp {server.port} 127.0.0.1"
        assert names[-1].split()[0] == "synced"
        with RespSocket(server.address) as waiting:
            waiting.send_command("PING")
            listener = socket.socket(fileno=os.dup(new.fds[0]))
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(PATIENCE_S)
                assert accepted.recv(100) == b"*1\r\n$4\r\nPING\r\n"
            listener.close()
    with server.connect() as c:
        assert c.call("PING").text == "PONG"


def test_all_sockets_go_along(old, tmp_path):
    """TCP on two addresses, the admin's, memcached's, and a unix socket; by which it is found."""
    path = str(tmp_path / "s")
    ports = [free_port(), free_port()]
    server = old(
        bind="127.0.0.1 127.0.0.2",
        unixsocket=path,
        unixsocketperm="770",
        admin_port=ports[0],
        memcached_port=ports[1],
    )
    for _ in range(2):
        new = NewProcess(server, target=path)
        new.await_taken()
        for address in [server.address, ("127.0.0.2", server.port), ("127.0.0.1", ports[0]), path]:
            with RespSocket(address) as c:
                info = c.info("server")
                assert int(info["process_id"]) == new.process.pid
        with socket.create_connection(("127.0.0.1", ports[1])) as s:
            s.sendall(b"version\r\n")
            assert s.recv(100).startswith(b"VERSION")
    server.stop()
    assert not os.path.exists(path)
    assert not os.path.exists(pid_file(server))


def test_tls_ports_go_along(old, tmp_path):
    certificates = Certificates(tmp_path)
    flags = certificates.flags(tls_replication=True)
    server = old(only_tls=True, client_tls=certificates.client("client"), **flags)
    with server.connect() as c:
        assert c.call("SET", "k", "v") == OK
    take_over(server)
    with server.connect() as c:
        assert c.call("GET", "k") == b"v"


def test_other_ports_are_opened_and_closed(old):
    server = old(bind="127.0.0.1 127.0.0.2")
    take_over(server, bind="127.0.0.1 127.0.0.3")
    with RespSocket(("127.0.0.3", server.port)) as c:
        assert c.call("PING").text == "PONG"
    with pytest.raises(ConnectionRefusedError):
        RespSocket(("127.0.0.2", server.port))


def test_a_port_that_cannot_be_had_is_found_before_the_end(old):
    server = old()
    with socket.socket() as taken:
        taken.bind(("127.0.0.4", server.port))
        taken.listen()
        new = NewProcess(server, bind="127.0.0.1 127.0.0.4")
        assert "Address already in use" in new.fails()
    with server.connect() as c:
        assert c.call("SET", "k", "v") == OK
        assert c.call("GET", "k") == b"v"


# ------------------------------------------------------------------------------ users and rights


def test_passwords_and_tls_are_no_matter_between_the_two(old):
    server = old(requirepass="secret", masterauth="another")
    with server.connect() as c:
        assert c.call("ACL", "SETUSER", "default", "-psync", "-replconf") == OK
        assert c.call("SET", "k", "v") == OK
    take_over(server)
    with server.connect() as c:
        assert c.call("GET", "k") == b"v"


def test_differences_are_told(old):
    server = old()
    with server.connect() as c:
        assert c.call("CONFIG", "SET", "slowlog-max-len", 77, "requirepass", "secret") == OK
        assert c.call("AUTH", "secret") == OK
        assert c.call("ACL", "SETUSER", "bob", "on", ">password") == OK
    new = take_over(server)
    log = new.log()
    assert "settings that are not as in the old process" in log
    assert "requirepass, " in log or ", requirepass" in log
    assert "slowlog-max-len" in log
    assert "the users are not as in the old process" in log
    assert "secret" not in log and "password" not in log


def test_nobody_else_may(old, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    server = old()
    os.chmod(server.dir, 0o777)
    os.chmod(pid_file(server), 0o644)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    binary = tmp_path / "dragonfly"
    binary.write_bytes(open(BINARY, "rb").read())
    binary.chmod(0o755)
    for folder in [tmp_path, *tmp_path.parents]:
        if not os.stat(folder).st_mode & 1:
            folder.chmod(0o755)
    with open(pid_file(server)) as f:
        pid = f.read().strip()
    # It does not even ask who is not of its own kind.
    run = subprocess.run(
        [*other, str(binary), f"--take_over={pid_file(server)}", f"--dir={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd="/",
    )
    assert run.returncode == 1
    assert f"process {pid} is not this user's" in run.stderr
    # And if it does: nothing is answered.
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
        f"s.connect('\\0dragonfly-take-over-{pid}')\n"
        "try: s.send(b'take-over 1'); print(s.recv(100))\n"
        "except OSError as e: print(b'')"
    )
    run = subprocess.run(
        [*other, "/usr/bin/python3", "-c", code], capture_output=True, timeout=PATIENCE_S, cwd="/"
    )
    assert run.stdout.strip() == b"b''", run
    wait_until(lambda: "user 65534 may not take over" in server.log(), what="the reason")
    take_over(server)


# ------------------------------------------------------------------------------- what goes wrong


def assert_serves(server):
    """As if nothing had been: also writes, and who comes newly."""
    with server.connect() as c:
        assert c.call("SET", "k", "v") == OK
        assert c.call("GET", "k") == b"v"
        assert role(c)["role"] == "master"


def give_up_at(server, step):
    """A new process that ends at that step."""
    with FakeNew(server) as new:
        if step == "connect":
            return
        if step == "nonsense":
            return new.channel.say("take-over 999")
        new.hello()
        if step == "hello":
            return
        if step == "ready without a link":
            new.channel.say("ready")
            heard = new.channel.hear_until("refused")
            assert heard[-1][0] == "refused the new process follows no more"
            return
        new.follow()
        if step == "follow":
            return
        new.sync()


STEPS = ["connect", "nonsense", "hello", "ready without a link", "follow", "sync"]


@pytest.mark.parametrize("log", ["no", "yes"])
def test_the_new_process_dies_at_each_step(old, log):
    server = old(appendonly=log)
    with counting(server.address) as counters:
        for step in STEPS:
            counters.await_more(20)
            give_up_at(server, step)
            wait_until(
                lambda: server.log().count("does not take over") == STEPS.index(step) + 1,
                what="the end of it",
            )
            counters.await_more(20)
            assert_serves(server)
        assert counters.reconnects == 0
        take_over(server)  # none of these is in the way
    with server.connect() as c:
        counters.check(c)


def test_it_is_killed_at_any_time(old):
    """Either the old process goes on, or nothing is lost."""
    rng = new_rng()
    server = old(appendonly="yes", appendfsync="always")
    with server.connect() as c:
        assert c.call("DEBUG", "POPULATE", 20_000, "key", 100) == OK
    ended = 0
    server.ends = []  # of processes that were taken over
    with counting(server.address) as counters:
        for _ in range(12):
            counters.await_more(20)
            new = NewProcess(server)
            # From its start to its end it is about a tenth of a second.
            threading.Event().wait(rng.random() * 0.15)
            new.process.kill()
            new.process.wait()
            if is_over(server, new):
                # It had taken over: there is no server now.
                ended += 1
                server.process = new.process
                server.start_again(keeps_port=True)
                with server.connect() as c:
                    wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
            counters.await_more(20)
            assert_serves(server)
    with server.connect() as c:
        counters.check(c)
    print(f"{ended} of 12 had taken over")


def is_over(server, new):
    """The old process ends by itself, or it has seen that the new one is gone."""

    def is_seen():
        log = server.log()
        ends = log.count("does not take over") + log.count("has taken over, this one ends")
        return ends == log.count("wants to take over")

    wait_until(is_seen, what="its end")
    taken = server.log().count("has taken over, this one ends")
    if taken > len(server.ends):
        server.ends.append(new.old.wait(PATIENCE_S))
        assert server.ends[-1] == 0
        return True
    return False


def test_clients_wait_no_longer_than_the_limit(old):
    server = old(take_over_pause_ms=300)
    with FakeNew(server) as new, server.connect() as c, server.connect() as reader:
        new.hello()
        new.follow()
        new.sync()
        c.send_command("INCR", "n")
        reader.send_command("GET", "n")
        assert c.read() == 1  # not before that time
        assert reader.read() in (None, b"1")
        with pytest.raises(OSError):  # it comes too late
            new.channel.say("taken")
            new.channel.say("taken")
    wait_until(lambda: "or is not ready in time" in server.log(), what="the reason")
    assert_serves(server)


def test_nothing_is_answered_behind_the_point_of_no_return(old):
    server = old(take_over_pause_ms=600_000)
    with FakeNew(server) as new, server.connect() as c, server.connect() as reader:
        assert c.call("SET", "n", "0") == OK
        new.hello()
        new.follow()
        new.sync()
        c.send_command("INCR", "n")
        reader.send_command("GET", "n")
        new.channel.say("taken")
        for client in (c, reader):
            with pytest.raises(ConnectionError):
                client.read()
        assert new.channel.hear()[0] == "released"
        assert server.is_alive()  # it waits for the last word
        new.channel.say("done")
        server.wait_for_exit()
        # The socket has never been closed.
        with socket.create_connection(server.address, timeout=PATIENCE_S):
            pass


def test_commands_that_do_not_end(old):
    """A script that writes is not broken off: it is the new process that gives up."""
    server = old(take_over_pause_ms=100, busy_reply_threshold=1)
    with FakeNew(server) as new, server.connect() as c, server.connect() as other:
        new.hello()
        new.follow()
        c.send_command("EVAL", "redis.call('set', KEYS[1], 1) while true do end", 1, "k")
        wait_until(lambda: b"cmd=eval" in other.call("CLIENT", "LIST"), what="the script")
        new.channel.say("ready")
        text = new.channel.hear_until("refused")[-1][0]
        assert "take_over_pause_ms of the old process: commands that write do not end" in text
        assert other.call("PING").text == "PONG"


def test_only_one_at_a_time(old):
    server = old()
    with FakeNew(server) as first:
        first.hello()
        assert "another process is about to take over" in NewProcess(server).fails()
    wait_until(lambda: "does not take over" in server.log(), what="the end of the first")
    take_over(server)


def test_who_cannot_be_taken_over(old, start_server, tmp_path):
    primary, server = start_server(), old()
    with server.connect() as c:
        follow(c, primary)
        assert "is a replica" in NewProcess(server).fails()
        assert c.call("REPLICAOF", "NO", "ONE") == OK
        wait_until(lambda: role(c)["role"] == "master", what="the role")
    assert "replicaof is set" in NewProcess(server, replicaof="127.0.0.1 1").fails()
    nobody = tmp_path / "nobody"
    nobody.write_text("no number")
    assert "has no process id" in NewProcess(server, target=nobody).fails()
    assert "No such file" in NewProcess(server, target=tmp_path / "none").fails()
    nobody.write_text("999999999")
    assert "cannot be reached" in NewProcess(server, target=nobody).fails()
    take_over(server)


def test_a_server_that_ends_is_not_taken_over(old):
    server = old()
    with FakeNew(server) as new:
        new.hello()
        new.follow()
        server.process.send_signal(signal.SIGTERM)
        assert new.channel.hear_until("refused")[-1][0] == "refused this process ends"
    server.wait_for_exit()


@pytest.mark.parametrize("how", ["refuses", "dies", "hangs", "dies behind the copy's begin"])
def test_the_old_process_fails(old, tmp_path, how):
    """The new one ends, with 1 and the reason, and has touched nothing."""
    server = old()  # only for its flags and its folder
    ends = threading.Event()

    def talk(channel):
        if how == "refuses":
            return channel.say("refused because")
        if how == "dies":
            return None
        if how == "hangs":
            return ends.wait(PATIENCE_S)
        mine, its = socket.socketpair()
        with mine:
            its.setblocking(False)
            channel.say("stream", its.fileno())
            its.close()
            channel.say("told")
            mine.recv(100)

    fake = FakeOld(str(tmp_path), talk)
    new = NewProcess(server, target=fake.path, take_over_timeout_s=1)
    log = new.fails()
    ends.set()
    fake.end()
    expected = {
        "refuses": "--take_over: because",
        "dies": "the old process has ended",
        "hangs": "it is not done within take_over_timeout_s",
        "dies behind the copy's begin": "--take_over: ",
    }
    assert expected[how] in log
    assert_serves(server)


def test_the_old_process_stands(old):
    """It has the sockets, and may go on at any time: so the new one gives up."""
    server = old()
    with stopped(server.process):
        new = NewProcess(server, take_over_timeout_s=1)
        assert "it is not done within take_over_timeout_s" in new.fails()
    assert_serves(server)


def test_the_new_process_is_told_to_end(old):
    server = old()
    with stopped(server.process):
        new = NewProcess(server)
        wait_until(lambda: "starts, process" in new.log(), what="its start")
        new.process.send_signal(signal.SIGTERM)
        assert "it was told to end" in new.fails()
    assert_serves(server)


# -------------------------------------------------------------------------------------- the files


def test_a_log_begins_where_there_was_none(old):
    server = old()
    with server.connect() as c:
        assert c.call("SET", "k", "v") == OK
    take_over(server, appendonly="yes")
    with server.connect() as c:
        assert c.call("SET", "k2", "v2") == OK
        await_base(c)
        assert c.call("WAITAOF", 1, 0, 0)[0] == 1
    server.kill()
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
        assert c.call("MGET", "k", "k2") == [b"v", b"v2"]


def test_a_log_in_another_directory(old):
    server = old()
    with server.connect() as c:
        assert c.call("DEBUG", "POPULATE", 1000) == OK
    take_over(server, appendonly="yes", appenddirname="other")
    with server.connect() as c:
        await_base(c)
    take_over(server, appenddirname="third")
    with server.connect() as c:
        assert c.call("SET", "k", "v") == OK
        await_base(c)
        assert c.call("WAITAOF", 1, 0, 0)[0] == 1
    server.kill()
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
        assert c.call("GET", "k") == b"v"
        assert c.call("DBSIZE") == 1001


def await_base(c):
    wait_until(lambda: c.info("persistence")["aof_rewrite_in_progress"] == "0", what="the base")


def test_what_is_not_saved_yet_counts(old):
    """The rules for snapshots go on where the old process was."""
    server = old(save="3600 1000000")
    with server.connect() as c:
        assert c.call("SET", "a", "1") == OK
        assert c.call("SAVE") == OK
        last = c.call("LASTSAVE")
        assert c.call("SET", "b", "2") == OK
    take_over(server)
    with server.connect() as c:
        assert c.info("persistence")["rdb_changes_since_last_save"] == "1"
        assert c.call("LASTSAVE") == last
    server.stop()
    server.start_again()
    with server.connect() as c:
        wait_until(lambda: c.info("persistence")["loading"] == "0", what="the load")
        assert c.call("MGET", "a", "b") == [b"1", b"2"]


HELD = [
    ("PUBLISH", "c", "x"),
    ("CONFIG", "SET", "maxmemory", "5gb"),
    ("ACL", "SETUSER", "bob", "on", "nopass"),
    ("SCRIPT", "LOAD", "return 1"),
    ("DBSIZE",), ("KEYS", "*"), ("REPLICAOF", "NO", "ONE"), ("FAILOVER", "ABORT"),
]


@pytest.mark.parametrize("ends", ["taken", "given up"])
def test_all_commands_wait(old, ends):
    """They are answered if the old process goes on, and never if it does not."""
    server = old(take_over_pause_ms=600_000)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in HELD]
        for c in clients:
            assert c.call("PING").text == "PONG"
        new = stack.enter_context(FakeNew(server))
        new.hello()
        new.follow()
        new.sync()
        offset = new.offset
        for c, command in zip(clients, HELD):
            c.send_command(*command)
        for c in clients:
            assert not select.select([c.sock], [], [], 0.05)[0]
        assert new.offset == offset
        if ends == "taken":
            new.channel.say("taken")
            for c in clients:
                with pytest.raises(ConnectionError):
                    c.read()
            assert new.channel.hear()[0] == "released"
            new.channel.say("done")
            server.wait_for_exit()
            return
        new.close()
        for c in clients:
            c.read()
        assert_serves(server)


@pytest.mark.parametrize(
    "change",
    [("ACL", "SETUSER", "eve", "off"), ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")],
)
def test_settings_and_users_that_change_meanwhile(old, change):
    server = old()
    with FakeNew(server) as new, server.connect() as c:
        assert c.call("ACL", "SETUSER", "eve", "on", "nopass", "+@all") == OK
        new.hello()
        new.follow()
        assert c.call(*change) == OK
        new.channel.say("ready")
        text = new.channel.hear_until("refused")[-1][0]
        assert text == "refused settings or users were changed during the take-over: try again"
        assert_serves(server)
    wait_until(lambda: "does not take over" in server.log(), what="the end of it")
    take_over(server)


def test_a_user_that_is_larger_than_a_packet(old):
    server = old()
    with server.connect() as c:
        patterns = [f"~{i}:{'x' * 1000}" for i in range(400)]
        assert c.call("ACL", "SETUSER", "big", "on", "nopass", *patterns) == OK
    new = take_over(server)
    assert "the users are not as in the old process" in new.log()


def test_a_log_that_cannot_be_there_is_found_before_the_end(old):
    server = old(appendonly="yes")
    assert "Not a directory" in NewProcess(server, appenddirname="pid").fails()
    assert_serves(server)


@pytest.mark.skipif(SANITIZED, reason="the sanitizer's checks need descriptors")
def test_too_few_descriptors(old):
    server = old()
    with FakeNew(server) as new:
        new.hello()
        new.follow()
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        new.channel.say("ready")
        assert "no descriptors left" in new.channel.hear_until("refused")[-1][0]
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    assert_serves(server)


def test_a_pipe_is_no_pid_file(old, tmp_path):
    server = old()
    os.mkfifo(tmp_path / "pipe")
    assert "no unix socket, and no file" in NewProcess(server, target=tmp_path / "pipe").fails()


# ---------------------------------------------------------------------------- the service manager


def test_the_service_manager_is_told(old, tmp_path, monkeypatch):
    """READY of the new process comes before the end of the old one; which does not say STOPPING."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        server = old()
        first = server.process
        wait_until(lambda: manager.recv(1000).startswith(b"READY=1"), what="READY")
        new = NewProcess(server)
        data, fds, _, _ = socket.recv_fds(manager, 1000, 4)
        assert data == b"MAINPID=%d\nREADY=1\nSTATUS=serving" % new.process.pid
        data, fds, _, _ = socket.recv_fds(manager, 1000, 4)
        assert data == b"BARRIER=1"
        assert first.poll() is None  # it waits until the manager knows
        for fd in fds:
            os.close(fd)
        new.await_taken()
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(1000)


def test_the_command_waits_for_the_result(old):
    """With --daemonize: as ExecReload= of systemd wants it."""
    server = old()
    first = server.process
    new = NewProcess(server, daemonize=True, replicaof="127.0.0.1 1")
    assert "replicaof is set" in new.fails()
    assert_serves(server)
    new = NewProcess(server, daemonize=True)
    assert new.process.wait(PATIENCE_S) == 0, new.log()
    with server.connect() as c:
        pid = int(c.info("server")["process_id"])
    assert pid not in (new.process.pid, first.pid)
    assert first.wait(PATIENCE_S) == 0
    assert "has taken over" in new.log()  # what is no terminal stays
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid), what="its end")


def is_zombie(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "Z"
