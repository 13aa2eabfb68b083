# SPDX-License-Identifier: Apache-2.0
"""Primaries and replicas that are broken or hostile. Whatever one of them sends, its link ends with
a line in the log, the server serves its clients, and the link is tried again."""

import os
import re
import threading

import pytest

from harness.fake_primary import EMPTY_RDB, ID, FakePrimary, full_copy
from harness.resp import OK, Error, Status, encode
from harness.seeds import new_rng
from harness.server import REFERENCE, SANITIZED, SLOWNESS, wait_until

pytestmark = pytest.mark.skipif(REFERENCE, reason="it is about links of ours")

MARK = "m" * 40


@pytest.fixture
def fake():
    fake = FakePrimary()
    yield fake
    fake.listener.close()


@pytest.fixture(params=["disabled", "swapdb"])
def replica(start_server, request):
    return start_server(proactor_threads=2, repl_timeout=60, repl_diskless_load=request.param)


def send_all(link, data):
    """As much of it as the other side takes before it ends the link."""
    try:
        link.sendall(data)
    except OSError:
        pass


def count_lines(server, pattern):
    return len(re.findall(pattern, server.log()))


def follow(r, fake):
    """Anew, also if it has been one of this primary before: the next try comes at once."""
    for words in (["NO", "ONE"], ["127.0.0.1", fake.port]):
        # While a copy is loaded it says LOADING.
        wait_until(lambda: r.call("REPLICAOF", *words) == OK, what=str(words))


def assert_serves(r):
    """Also while it loads a copy."""
    assert r.info("replication")["role"] == "slave"


def is_up(r):
    return r.info("replication")["master_link_status"] == "up"


# --- What a primary says first ---

GREETINGS = {
    "an-endless-line": (b"+" + b"x" * (1 << 20), "it has sent a line that is too long"),
    "an-endless-line-of-nothing": (b"\0" * (1 << 20), "it has sent a line that is too long"),
    "an-array": (b"*3\r\n$1\r\na\r\n", r"PING: \*3"),
    "an-error": (b"-ERR go away\r\n", "PING: -ERR go away"),
    "a-line-for-terminals": (b"-\x1b[2J\x07\r\n", r"PING: -\\"),
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "PING: HTTP/1.1 400"),
}


@pytest.mark.parametrize("name", GREETINGS)
def test_a_greeting_that_is_none_ends_the_link(replica, fake, name):
    data, told = GREETINGS[name]
    with replica.connect() as r:
        follow(r, fake)
        fake.accept_silently()
        sender = threading.Thread(target=send_all, args=(fake.socket, data))
        sender.start()
        wait_until(lambda: count_lines(replica, f"no link with the primary .*{told}"), what=told)
        sender.join()
        fake.close()
        fake.accept(full_copy())  # it tries again
        wait_until(lambda: is_up(r), what="the link")
        fake.close()


# --- What it answers to PSYNC ---

ANSWERS = {
    "an-endless-line": b"+FULLRESYNC " + b"a" * (1 << 20),
    "a-short-id": b"+FULLRESYNC " + b"a" * 39 + b" 1\r\n",
    "no-id": b"+FULLRESYNC\r\n",
    "no-hexadecimal-id": b"+FULLRESYNC " + b"g" * 40 + b" 1\r\n",
    "no-offset": f"+FULLRESYNC {ID}\r\n".encode(),
    "more-words": f"+FULLRESYNC {ID} 1 2\r\n".encode(),
    "a-huge-offset": f"+FULLRESYNC {ID} {2**63 - 1}\r\n".encode(),
    "an-offset-beyond": f"+FULLRESYNC {ID} {2**64}\r\n".encode(),
    "a-negative-offset": f"+FULLRESYNC {ID} -2\r\n".encode(),
    "continue-without-a-reason": b"+CONTINUE\r\n",
    "continue-with-a-wrong-id": b"+CONTINUE zz\r\n",
    "another-word": b"+CONTINUED\r\n",
    "an-integer": b":1\r\n",
    "dual-channel": b"+DUALCHANNELSYNC\r\n",
}


def test_answers_to_psync_that_are_none(replica, fake):
    with replica.connect() as r:
        assert r.call("SET", "old", "v") == OK
        for name, answer in ANSWERS.items():
            before = count_lines(replica, "no link with the primary")
            follow(r, fake)
            sender = threading.Thread(target=fake.accept, args=(b"",))
            sender.start()
            sender.join()
            send_all(fake.socket, answer)
            wait_until(lambda: count_lines(replica, "no link with the primary") > before, what=name)
            fake.close()
            assert_serves(r)
            assert r.call("GET", "old") == b"v", name
        fake.accept(full_copy())
        wait_until(lambda: is_up(r), what="the link")
        fake.close()


# --- Copies ---

COPIES = {
    "an-endless-header": b"$" + b"1" * 4096,
    "a-negative-size": b"$-1\r\n",
    "no-room-for-a-file": b"$17\r\n" + b"x" * 17,
    "a-size-beyond": b"$%d\r\n" % 2**64,
    "a-short-mark": b"$EOF:" + b"m" * 39 + b"\r\n",
    "an-error": b"-ERR no room\r\n",
    "cut-short": b"$1000000\r\nREDIS0010",
    "a-huge-one-cut-short": b"$%d\r\nREDIS0010" % (2**63 - 1),
    "the-wrong-mark": f"$EOF:{MARK}\r\n".encode() + EMPTY_RDB + b"n" * 40,
    "nothing-but-the-mark": f"$EOF:{MARK}\r\n{MARK}".encode(),
    "a-wrong-checksum": b"$%d\r\n" % len(EMPTY_RDB) + EMPTY_RDB[:-1] + b"\1",
    "no-file": b"$1000\r\n" + b"x" * 1000,
    "nothing": b"",
}


def test_copies_that_are_none_leave_the_data(replica, fake):
    with replica.connect() as r:
        assert r.call("SET", "old", "v") == OK
        for name, copy in COPIES.items():
            before = count_lines(replica, "no link with the primary")
            follow(r, fake)
            fake.accept(f"+FULLRESYNC {ID} 7\r\n\n\n".encode() + copy)
            fake.close()
            wait_until(lambda: count_lines(replica, "no link with the primary") > before, what=name)
            assert_serves(r)
            assert r.call("GET", "old") == b"v", name
            assert os.listdir(replica.dir) == ["server.log"], name
        fake.accept(full_copy())
        wait_until(lambda: is_up(r), what="the link")
        assert r.call("DBSIZE") == 0
        fake.close()


def test_a_million_signs_of_life(replica, fake):
    """They may come in front of each line and of the copy, and cost no more than their bytes."""
    newlines = b"\n" * (1 << 20)
    with replica.connect() as r:
        follow(r, fake)
        fake.accept_silently()
        send_all(fake.socket, newlines)
        while (command := fake.read_command())[0].upper() != b"PSYNC":
            fake.socket.sendall(b"+PONG\r\n" if command[0] == b"PING" else newlines + b"+OK\r\n")
        copy = b"$%d\r\n" % len(EMPTY_RDB) + EMPTY_RDB
        fake.socket.sendall(newlines + f"+FULLRESYNC {ID} 1\r\n".encode() + newlines + copy)
        wait_until(lambda: is_up(r), what="the link")
        fake.close()


# --- Streams ---

STREAMS = {
    "an-endless-line": (b"*" + b"1" * (1 << 20), "protocol|[Pp]rotocol|closed"),
    "a-huge-bulk": (b"*2\r\n$3\r\nGET\r\n$%d\r\n" % (2**63 - 1), "protocol"),
    "a-huge-array": (b"*%d\r\n" % (2**31), "protocol"),
    "a-negative-bulk": (b"*1\r\n$-7\r\n", "protocol"),
    "a-nested-array": (b"*1\r\n*1\r\n$4\r\nPING\r\n", "protocol"),
    "a-line": (b"SET k inline\r\n", "no command of a stream"),
    "what-waits": (encode("BLPOP", "none", "0"), "blpop, which waits"),
    "what-waits-in-multi": (
        encode("MULTI") + encode("BLPOP", "none", "0") + encode("EXEC"),
        "blpop, which waits",
    ),
    "what-pushes": (encode("SUBSCRIBE", "channel"), "subscribe, which waits"),
}


def test_streams_that_are_none_end_the_link(replica, fake):
    with replica.connect() as r:
        for name, (data, _) in STREAMS.items():
            before = count_lines(replica, "the stream of the primary has ended")
            follow(r, fake)
            fake.accept(full_copy())
            fake.socket.sendall(encode("SELECT", 0) + encode("SET", "before", name))
            send_all(fake.socket, data)
            wait_until(
                lambda: count_lines(replica, "the stream of the primary has ended") > before,
                what=name,
            )
            wait_until(lambda: r.call("GET", "before") == name.encode(), what=name)
            fake.close()
            assert r.call("GET", "k") is None
            assert_serves(r)
            fake.accept(full_copy())  # by itself
            fake.close()


def test_half_a_command_is_asked_for_again(replica, fake):
    with replica.connect() as r:
        follow(r, fake)
        fake.accept(full_copy(offset=1000))
        whole = encode("SELECT", 0) + encode("INCR", "n")
        more = encode("APPEND", "s", "x" * 100)
        for size in (1, 3, 17, len(more) - 1):
            fake.socket.sendall(whole + more[:size])
            wait_until(lambda: r.call("GET", "n") == b"1", what="what is whole")
            fake.close()
            command = fake.accept(b"+CONTINUE\r\n")
            assert command == [b"PSYNC", ID.encode(), str(1001 + len(whole)).encode()], size
            fake.socket.sendall(more)
            wait_until(lambda: r.call("STRLEN", "s") == 100, what="the rest")
            fake.socket.sendall(encode("FLUSHALL"))
            wait_until(lambda: r.call("DBSIZE") == 0)
            fake.close()
            follow(r, fake)
            fake.accept(full_copy(offset=1000))
        fake.close()


def garbled(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        how = rng.randrange(5)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at : at + rng.randint(1, 20)]
        elif how == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        elif how == 3:
            data[at:at] = data[rng.randrange(len(data)) :][: rng.randint(1, 40)]
        else:
            data[at : at + 1] = rng.choice([b"-1", b"999999999999999999999", b"*", b"$", b"\r\n"])
        data = data or bytearray(b"x")
    return bytes(data)


def test_garbled_streams_and_copies(replica, fake):
    """Seeded mutations of a whole link, from the answer to PSYNC on."""
    rng = new_rng()
    commands = [
        ("SELECT", 1), ("SET", "k", "v", "PXAT", 4_000_000_000_000), ("MULTI",), ("INCR", "n"),
        ("RPUSH", "l", "a", "b"), ("EXEC",), ("PING",), ("REPLCONF", "GETACK", "*"),
        ("XADD", "s", "1-1", "f", "v"), ("EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "e"),
        ("ECHO", "\x01" + "*1"), ("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH"), ("FLUSHALL",),
        ("PUBLISH", "c", "m"), ("SWAPDB", 0, 1),
    ]  # fmt: skip
    with replica.connect() as r:
        for _ in range(200 // SLOWNESS):
            follow(r, fake)
            fake.accept(b"")
            stream = b"".join(encode(*rng.choice(commands)) for _ in range(rng.randint(1, 12)))
            head, tail = full_copy(), garbled(rng, stream)
            if rng.randrange(3) == 0:
                head, tail = garbled(rng, head), stream
            send_all(fake.socket, head + tail)
            fake.close()
            assert_serves(r)
        follow(r, fake)
        fake.accept(full_copy())
        wait_until(lambda: is_up(r), what="the link")
        fake.close()


# --- Silence ---


@pytest.mark.parametrize("stage", ["greeting", "psync", "header", "copy", "stream"])
def test_silence_ends_the_link(start_server, fake, stage):
    replica = start_server(proactor_threads=2, repl_timeout=1)
    with replica.connect() as r:
        follow(r, fake)
        if stage == "greeting":
            fake.accept_silently()
        else:
            begin = f"+FULLRESYNC {ID} 7\r\n".encode()
            fake.accept(
                {
                    "psync": b"",
                    "header": begin,
                    "copy": begin + b"$100\r\nREDIS0010",
                    "stream": full_copy(),
                }[stage]
            )
        wait_until(lambda: "silent for repl-timeout" in replica.log(), what="the line")
        fake.close()
        fake.accept_silently()  # the next try
        assert_serves(r)
        fake.close()


# --- Replicas that are none ---


@pytest.fixture
def primary(start_server):
    return start_server(proactor_threads=2, repl_diskless_sync_delay=0)


def connected_replicas(c):
    return c.info("replication")["connected_slaves"]


def test_who_acknowledges_what_it_was_not_sent_leaves(primary):
    with primary.connect() as c:
        for words in (["ACK", 10**18], ["ACK", 2**63 - 1], ["ACK", 0, "FACK", 10**18]):
            with primary.connect() as liar:
                liar.send_command("PSYNC", "?", "-1")
                assert liar.read_line().lstrip(b"\n").startswith(b"+FULLRESYNC ")
                wait_until(lambda: connected_replicas(c) == "1", what="the replica")
                liar.send_command("REPLCONF", *words)
                liar.read_until_closed()
            wait_until(lambda: connected_replicas(c) == "0", what="its end")
        assert c.call("SET", "k", "v") == OK
        assert c.call("WAIT", 1, 1) == 0
    assert "which it was never sent" in primary.log()


def test_acks_without_a_stream_do_nothing(primary):
    with primary.connect() as c:
        for words in (["ACK", 1], ["ACK", 10**18, "FACK", 1], ["GETACK", "*"]):
            c.send_command("REPLCONF", *words)
        assert c.call("PING") == Status("PONG")
        assert connected_replicas(c) == "0"


@pytest.mark.parametrize(
    "host", [b"a b", b"a\r\nrole:slave", b"a,state=online", b"\0", b"\x1b[2J", b"'", b"\xff"]
)
def test_no_peer_writes_lines_of_info(primary, host):
    with primary.connect() as c, primary.connect() as strange:
        assert strange.call("REPLCONF", "ip-address", host) == Error(
            "ERR Invalid REPLCONF ip-address"
        )
        assert strange.call("REPLICAOF", host, 1) == Error("ERR Invalid master host")
        reply = strange.call("CONFIG", "SET", "replica-announce-ip", host)
        assert isinstance(reply, Error), reply
        assert c.info("replication")["role"] == "master"


def test_announced_addresses_are_shown(start_server, primary):
    replica = start_server(
        proactor_threads=2, replica_announce_ip="db-7.example.net", replica_announce_port=7007
    )
    with primary.connect() as c, replica.connect() as r:
        assert r.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        wait_until(lambda: is_up(r), what="the link")
        wait_until(lambda: "state=online" in c.info("replication").get("slave0", ""))
        assert c.info("replication")["slave0"].startswith("ip=db-7.example.net,port=7007,")
        assert c.call("ROLE")[2][0][:2] == [b"db-7.example.net", b"7007"]


@pytest.mark.skipif(SANITIZED, reason="it fills memory faster than a sanitized server writes")
def test_a_slow_copy_holds_no_writer(start_server):
    """Who takes its copy more slowly than clients write loses it, not they their time."""
    primary = start_server(
        proactor_threads=2,
        repl_diskless_sync_delay=0,
        repl_timeout=1_000_000,
        snapshot_buffer_limit="4mb",
        rdbcompression="no",
    )
    with primary.connect() as c, primary.connect(rcvbuf=4096) as slow:
        assert c.call("DEBUG", "POPULATE", 20_000, "key", 4096) == OK
        assert slow.call("REPLCONF", "capa", "eof") == OK
        slow.send_command("PSYNC", "?", "-1")
        slow.read_line()
        wait_until(lambda: connected_replicas(c) == "1", what="the replica")
        for i in range(20_000):  # each is in the copy as it was
            assert c.call("SETRANGE", f"key:{i}", 0, "x") == 4096
        wait_until(lambda: connected_replicas(c) == "0", what="its end")
        slow.read_until_closed()
        assert c.call("SET", "k", "v") == OK
    assert "it takes its copy so slowly" in primary.log()
