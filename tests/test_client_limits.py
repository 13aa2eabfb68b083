# SPDX-License-Identifier: Apache-2.0
"""What clients may use: output and query buffers, and the memory of all together."""

import re
import threading
import time

import pytest

from harness.resp import OK, Error, RespSocket, Status, encode
from harness.server import free_port, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized]

OUTPUT = "client-output-buffer-limit"
DEFAULTS = b"normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"


@pytest.fixture(autouse=True)
def as_before(request):
    """The server has other tests, too."""
    if "server" not in request.fixturenames:
        return (yield)
    server = request.getfixturevalue("server")
    with server.connect() as c:
        c.call("CONFIG", "RESETSTAT")
        settings = [OUTPUT, "client-query-buffer-limit", "maxmemory-clients"]
        pairs = [word for name in settings for word in (name, config(c, name))]
    yield
    with server.connect() as c:
        assert c.call("CONFIG", "SET", *pairs) == OK


def config(r, name):
    return r.call("CONFIG", "GET", name)[1]


def is_closed(connection):
    """Reads what there is."""
    try:
        while connection.sock.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def assert_counted(server, r, name, count):
    if not server.reference:  # 7.2 has begun to
        assert r.info("stats")[name] == str(count)


def clients_text(r):
    return r.call("CLIENT", "LIST").decode()


def names(r):
    """Of the clients that are there."""
    lines = clients_text(r).splitlines()
    return {field[5:] for line in lines for field in line.split(" ") if field.startswith("name=")}


def named(server, name, **options):
    connection = server.connect(**options)
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection


def half_a_command(connection, size):
    connection.send(b"*2\r\n$3\r\nGET\r\n$%d\r\n" % (size + 10) + b"x" * size)


# --- client-output-buffer-limit ---


def test_the_setting_is_that_of_redis(r):
    assert config(r, OUTPUT) == DEFAULTS
    where = " in buffer limit configuration."
    for value, error in {
        "wrong number": "Wrong number of arguments" + where,
        "nobody 1 2 3": "Invalid client class specified" + where,
        "normal 1x 2 3": "Error in hard, soft or soft_seconds setting" + where,
    }.items():
        reply = r.call("CONFIG", "SET", OUTPUT, value)
        prefix = f"ERR CONFIG SET failed (possibly related to argument '{OUTPUT}') - "
        assert reply == Error(prefix + error)
    assert config(r, OUTPUT) == DEFAULTS
    assert r.call("CONFIG", "SET", OUTPUT, "replica 1kb 2 3") == OK
    assert r.call("CONFIG", "SET", OUTPUT, "normal 1mb 2mb 60") == OK
    assert config(r, OUTPUT).startswith(b"normal 1048576 2097152 60 slave 1024 2 3 pubsub 33554432")


def test_a_reply_above_the_hard_limit_ends_its_client(server, r):
    for _ in range(15):
        r.call("RPUSH", "l", *[b"x" * 1000] * 10)
    assert r.call("CONFIG", "SET", OUTPUT, "normal 100000 0 0") == OK
    with server.connect() as c:
        assert len(c.call("LRANGE", "l", 0, 79)) == 80
        c.send_command("LRANGE", "l", 0, -1)
        assert c.read_until_closed() == b""
    # Many small ones, that nobody reads.
    with server.connect(rcvbuf=4096) as c:
        try:
            for _ in range(2000):
                c.send(encode("LRANGE", "l", 0, 50))
        except OSError:
            pass
        assert is_closed(c)
    # What was sent before is carried out.
    with server.connect() as c:
        c.call("MULTI")
        c.call("SET", "a", "1")
        c.call("LRANGE", "l", 0, -1)
        c.call("SET", "b", "1")
        c.send_command("EXEC")
        assert c.read_until_closed() == b""
    assert r.call("MGET", "a", "b") == [b"1", b"1"]
    assert_counted(server, r, "client_output_buffer_limit_disconnections", 3)
    assert r.call("CONFIG", "SET", OUTPUT, "normal 0 0 0") == OK
    assert len(r.call("LRANGE", "l", 0, -1)) == 150
    r.call("CONFIG", "RESETSTAT")
    assert_counted(server, r, "client_output_buffer_limit_disconnections", 0)


def test_no_output_limit_locks_out_who_set_it(server, r):
    for value in ("normal 1 1 1", "normal 1 0 0", "normal 0 1 0"):
        assert r.call("CONFIG", "SET", OUTPUT, value) == OK
        assert config(r, OUTPUT).startswith(value.encode())
        with server.connect() as c:
            assert c.call("PING") == Status("PONG")
    assert r.call("CONFIG", "SET", OUTPUT, "normal 0 0 0") == OK


@only_dragonfly("the admin port is ours")
def test_no_limit_ends_clients_of_the_admin_port(start_server):
    port = free_port()
    server = start_server(admin_port=port, proactor_threads=4)
    with server.connect() as c, RespSocket(("127.0.0.1", port)) as admin:
        c.call("SET", "k", b"x" * 100_000)
        assert admin.call("CONFIG", "SET", OUTPUT, "normal 1 1 1", "maxmemory-clients", 1) == OK
        for _ in range(10):
            assert len(admin.call("GET", "k")) == 100_000
        assert admin.call("CONFIG", "SET", OUTPUT, "normal 0 0 0", "maxmemory-clients", 0) == OK


@only_dragonfly("redis-server ends them all")
def test_no_limit_of_memory_locks_out_who_set_it(server, r):
    assert r.call("CONFIG", "SET", "maxmemory-clients", 1) == OK
    with server.connect() as c:
        assert c.call("CONFIG", "SET", "maxmemory-clients", 0) == OK


def test_each_class_has_its_limit(server, r):
    assert r.call("CONFIG", "SET", OUTPUT, "normal 0 0 0 pubsub 100000 0 0") == OK
    r.call("SET", "k", b"x" * 200_000)
    with server.connect(resp3=True) as c:
        assert len(c.call("GET", "k")) == 200_000
        c.call("SUBSCRIBE", "a")
        c.send_command("GET", "k")
        assert c.read_until_closed() == b""


def test_the_soft_limit_is_a_matter_of_time(server, r):
    assert r.call("CONFIG", "SET", OUTPUT, "pubsub 0 100000 3") == OK
    with named(server, "slow", rcvbuf=4096) as slow, named(server, "late") as late:
        for c in (slow, late):
            c.call("SUBSCRIBE", "a")
        begin = time.monotonic()

        def read_late():
            for _ in range(400):
                assert late.read()[2] == b"x" * 20_000

        reader = threading.Thread(target=read_late)  # while it is published, or it is slow as well
        reader.start()
        for _ in range(400):  # what the kernel takes, and more
            r.call("PUBLISH", "a", b"x" * 20_000)
        reader.join()
        wait_until(lambda: "slow" not in names(r))
        assert time.monotonic() - begin > 3
        assert "late" in names(r)
        r.call("PUBLISH", "a", "still here")
        assert late.read()[2] == b"still here"
    assert_counted(server, r, "client_output_buffer_limit_disconnections", 1)


@pytest.mark.flags(requirepass="secret")
def test_who_is_not_authenticated_may_leave_little_unread(server):
    with server.connect(auth=False, rcvbuf=4096) as c:
        try:
            for _ in range(500):
                c.send(encode("GET", "k") * 400)
        except OSError:
            pass
        assert is_closed(c)
    # A pipeline of a library is no harm.
    with server.connect(auth=False) as c:
        c.send(encode("GET", "k") * 100 + encode("AUTH", "secret") + encode("PING") * 10_000)
        for _ in range(100):
            assert c.read() == Error("NOAUTH Authentication required.")
        assert c.read() == OK
        for _ in range(10_000):
            assert c.read() == Status("PONG")


# --- client-query-buffer-limit ---


def test_a_command_that_does_not_end_has_a_limit(server, r):
    name = "client-query-buffer-limit"
    assert config(r, name) == b"1073741824"
    error = Error(
        f"ERR CONFIG SET failed (possibly related to argument '{name}') - argument must be "
        "between 1048576 and 9223372036854775807 inclusive"
    )
    assert r.call("CONFIG", "SET", name, "1023kb") == error
    assert r.call("CONFIG", "SET", name, "1mb") == OK
    with server.connect() as c:
        half_a_command(c, 900_000)
        c.send(b"y" * 10 + b"\r\n")
        assert c.read() is None
        try:
            c.send(encode("SET", "k", b"x" * 3_000_000))
        except OSError:
            pass
        assert is_closed(c)
    assert r.call("EXISTS", "k") == 0
    if not server.reference:  # 7.0 does not count what is queued
        with server.connect() as c, pytest.raises(OSError):
            c.call("MULTI")
            for _ in range(10):
                c.call("SET", "k", b"x" * 300_000)
    assert_counted(server, r, "client_query_buffer_limit_disconnections", 2)
    assert r.call("CONFIG", "SET", name, "1gb") == OK
    with server.connect() as c:
        assert c.call("SET", "k", b"x" * 3_000_000) == OK


# --- maxmemory-clients ---


def test_the_memory_of_all_clients_is_bytes_or_percents(r):
    name = "maxmemory-clients"
    prefix = f"ERR CONFIG SET failed (possibly related to argument '{name}') - "
    for value, shown in {"1gb": b"1073741824", "7%": b"7%", "0%": b"0", "0": b"0"}.items():
        assert r.call("CONFIG", "SET", name, value) == OK
        assert config(r, name) == shown
    for value in ("-1", "-5%", "5x", "1.5%"):
        error = Error(prefix + "argument must be a memory or percent value")
        assert r.call("CONFIG", "SET", name, value) == error
    error = Error(prefix + "percentage argument must be less or equal to 100")
    assert r.call("CONFIG", "SET", name, "101%") == error


def test_the_largest_clients_go_first(server, r):
    assert r.call("CLIENT", "NO-EVICT", "on") == OK
    sizes = {"tiny": 10_000, "small": 200_000, "large": 1_000_000, "larger": 2_000_000}
    clients = []
    for name, size in sizes.items():
        clients.append(named(server, name))
        half_a_command(clients[-1], size)
    sizes_seen = lambda: [int(qbuf) for qbuf in re.findall("qbuf=([0-9]+)", clients_text(r))]
    wait_until(lambda: sum(sizes_seen()) >= sum(sizes.values()))
    assert r.call("CONFIG", "SET", "maxmemory-clients", "2mb") == OK
    wait_until(lambda: "larger" not in names(r))
    assert {"tiny", "small", "large"} <= names(r)
    assert r.call("CONFIG", "SET", "maxmemory-clients", "1mb") == OK
    wait_until(lambda: "large" not in names(r))
    assert {"tiny", "small"} <= names(r)
    assert r.info("stats")["evicted_clients"] == "2"
    # Those that come later, too.
    with named(server, "late") as c:
        try:
            half_a_command(c, 2_000_000)
        except OSError:
            pass
        wait_until(lambda: "late" not in names(r))
    assert {"tiny", "small"} <= names(r)
    for c in clients:
        c.close()
    r.call("CONFIG", "RESETSTAT")
    assert r.info("stats")["evicted_clients"] == "0"


@pytest.mark.threads
def test_who_alone_uses_more_than_all_may_is_ended_before_its_command(server, r):
    assert r.call("CONFIG", "SET", "maxmemory-clients", "2mb") == OK
    for i in range(5):
        with named(server, "hasty") as c, pytest.raises((ConnectionError, OSError)):
            assert c.call("MSET", "a", b"x" * 500_000, "b", "1") == OK
            assert c.call("GET", "b") == b"1"
            c.call("MSET", "a", "never", "b", b"x" * 2_100_000)
        wait_until(lambda: "hasty" not in names(r))
        assert r.call("GET", "b") == b"1" and r.call("STRLEN", "a") == 500_000
        assert r.info("stats")["evicted_clients"] == f"{i + 1}"
    # The same with a part of maxmemory, whichever of the two is set last.
    assert r.call("CONFIG", "SET", "maxmemory-clients", "1%") == OK
    assert r.call("CONFIG", "SET", "maxmemory", "200mb") == OK
    with server.connect() as c, pytest.raises((ConnectionError, OSError)):
        c.call("SET", "c", b"x" * 2_100_000)
    assert r.call("CONFIG", "SET", "maxmemory", "0") == OK
    with server.connect() as c:
        assert c.call("SET", "c", b"x" * 2_100_000) == OK


@pytest.mark.alone  # one client grows after the other
def test_what_a_client_keeps_besides_its_buffers_counts(server, r):
    assert r.call("CLIENT", "NO-EVICT", "on") == OK
    assert r.call("CONFIG", "SET", "maxmemory-clients", "300kb") == OK

    def grows(*command):
        """Until its client is evicted; `command`: {} is another text each time."""
        with named(server, "grows") as c, pytest.raises((ConnectionError, OSError)):
            for i in range(100_000):
                reply = c.call(*[part.replace("{}", "%012d" % i) for part in command])
                assert not isinstance(reply, Error), reply
        wait_until(lambda: "grows" not in names(r))

    grows("WATCH", "key:{}")
    grows("SUBSCRIBE", "channel:{}")
    grows("PSUBSCRIBE", "pattern:{}*")
    grows("SSUBSCRIBE", "channel:{}")
    grows("CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "p:{}")
    with named(server, "queues") as c, pytest.raises((ConnectionError, OSError)):
        c.call("MULTI")
        for _ in range(100_000):
            c.call("SET", "k", b"x" * 1000)
    wait_until(lambda: "queues" not in names(r))
    assert r.info("stats")["evicted_clients"] == "6"
    assert r.call("CONFIG", "SET", "maxmemory-clients", "0") == OK
    with server.connect() as c:
        for i in range(3000):
            c.call("SUBSCRIBE", "channel:%012d" % i)


def test_who_is_not_to_be_evicted_stays(server, r):
    assert r.call("CLIENT", "NO-EVICT", "on") == OK
    c = named(server, "stays")
    assert c.call("CLIENT", "NO-EVICT", "on") == OK
    assert r.call("CONFIG", "SET", "maxmemory-clients", "1mb") == OK
    r.call("SET", "k", b"x" * 1_000_000)
    for _ in range(10):
        c.send_command("GET", "k")
    for _ in range(9):
        assert len(c.read()) == 1_000_000
    assert len(c.read()) == 1_000_000
    half_a_command(c, 2_000_000)
    wait_until(lambda: "qbuf=2000" in clients_text(r))
    time.sleep(0.1)
    assert "stays" in names(r)
    c.send(b"y" * 10 + b"\r\n")
    assert c.read() is None
    assert c.call("CLIENT", "NO-EVICT", "off") == OK
    try:
        half_a_command(c, 2_000_000)
    except OSError:
        pass
    wait_until(lambda: "stays" not in names(r))
    c.close()


@only_dragonfly("it has one thread")
@pytest.mark.flags(maxmemory="100mb", maxmemory_clients="4%", proactor_threads=4)
def test_the_sum_is_that_of_all_threads(server, r):
    assert config(r, "maxmemory-clients") == b"4%"
    assert r.call("CLIENT", "NO-EVICT", "on") == OK
    clients = [named(server, f"c{i}") for i in range(20)]
    for c in clients:
        try:
            half_a_command(c, 300_000)
        except OSError:
            pass
    wait_until(lambda: 1 <= len(names(r) - {""}) <= 13)
    for c in clients:
        c.close()
    wait_until(lambda: names(r) == {""}, what="their memory is not counted any more")
    # A part of a limit that is lowered.
    clients = [named(server, f"d{i}") for i in range(4)]
    for c in clients:
        half_a_command(c, 300_000)
    time.sleep(0.1)
    assert len(names(r) - {""}) == 4
    assert r.call("CONFIG", "SET", "maxmemory", "25mb") == OK
    wait_until(lambda: len(names(r) - {""}) < 4)
    for c in clients:
        c.close()


@only_dragonfly("its flags")
def test_flags_that_cannot_be_are_named(start_server):
    for flag, value in {
        "client_output_buffer_limit": "normal 1 2",
        "client_query_buffer_limit": "1kb",
        "maxmemory_clients": "200%",
    }.items():
        with pytest.raises(Exception, match=flag):
            start_server(**{flag: value})
