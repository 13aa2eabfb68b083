# SPDX-License-Identifier: Apache-2.0
"""POST /api/commands: commands over HTTP, as whom, for whom, and their limits."""

import http.client
import json
import socket
import threading

import pytest

from harness.http import ask, basic
from harness.resp import OK, Error
from harness.server import only_dragonfly, wait_blocked, wait_until

pytestmark = [
    only_dragonfly("no HTTP"),
    pytest.mark.threads,
    pytest.mark.sanitized,
]

FIELDS = {"Content-Type": "application/json", "X-Requested-With": "test"}


def post(server, commands, fields=None, target="/api/commands", body=None):
    """The status, and the body as a value."""
    headers = {**FIELDS, **(fields or {})}
    headers = {name: value for name, value in headers.items() if value is not None}
    body = json.dumps({"commands": commands}) if body is None else body
    status, response, text = ask(server, target, "POST", headers, body)
    assert response["Content-Type"] == "application/json", text
    return status, json.loads(text)


def run(server, *commands, fields=None):
    status, body = post(server, list(commands), fields)
    assert status == 200, body
    assert list(body) == ["replies"]
    return body["replies"]


def test_commands_are_executed_in_their_order(server, r):
    assert run(server) == []
    replies = run(server, "SET k 'a b'", ["GET", "k"], ["APPEND", "k", "ä"], "GET k", "NOSUCH")
    assert replies[:4] == ["OK", "a b", 5, "a bä"]
    assert replies[4]["error"].startswith("ERR unknown command 'NOSUCH'")
    assert r.call("GET", "k") == "a bä".encode()
    many = [["INCR", f"n{i % 7}"] for i in range(700)]
    assert run(server, *many)[-7:] == [100] * 7
    big = "x" * 500_000
    assert run(server, ["SET", "k", big], "GET k") == ["OK", big]


def test_replies_keep_their_shapes(server, r):
    r.call("SET", "bytes", b"\xff\x00")
    r.call("HSET", "h", "error", "1")
    r.call("ZADD", "z", "1.5", "m")
    r.call("SADD", "s", "x")
    replies = run(
        server,
        "GET bytes",
        "HGETALL h",
        "ZSCORE z m",
        "SMEMBERS s",
        "GET none",
        "LPUSH s x",
        ["SET", "n", "9223372036854775807"],
        "INCRBY n 0",
        "EXISTS a",
    )
    assert replies == [
        {"base64": "/wA="}, {"map": [["error", "1"]]}, 1.5, ["x"], None,
        {"error": "WRONGTYPE Operation against a key holding the wrong kind of value"},
        "OK", {"integer": "9223372036854775807"}, 0,
    ]  # fmt: skip


def test_a_request_is_a_client_of_its_own(server, r):
    assert run(server, "MULTI", "SET k 1", "INCR k", "EXEC") == [
        "OK",
        "QUEUED",
        "QUEUED",
        ["OK", 2],
    ]
    assert run(server, "SELECT 3", "SET k 9", "CLIENT SETNAME x") == ["OK", "OK", "OK"]
    assert run(server, "GET k", "CLIENT GETNAME") == ["2", None]
    (me,) = run(server, "CLIENT INFO")
    assert " addr=127.0.0.1:" in me and " resp=3 lib-name=http " in me
    wait_until(lambda: b"lib-name=http" not in r.call("CLIENT", "LIST"))
    assert run(server, "HELLO 2", "HGETALL none")[1] == []
    assert run(server, ["EVAL", "return {1, {ok = 'x'}, false}", "0"]) == [[1, "x", None]]


def test_a_connection_carries_many_requests(server, r):
    body = json.dumps({"commands": ["INCR n"]}).encode()
    head = b"POST /api/commands HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"X-Requested-With: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(server.address, timeout=60) as c:
        c.sendall((head + body) * 50)
        c.shutdown(socket.SHUT_WR)
        received = c.makefile("rb").read()
    assert received.count(b"HTTP/1.1 200 OK") == 50
    assert r.call("GET", "n") == b"50"
    assert received.endswith(b'{"replies":[50]}\n')


@pytest.mark.parametrize(
    "fields, status, why",
    [
        ({"Content-Type": "text/plain"}, 415, "Content-Type"),
        ({"Content-Type": None}, 415, "Content-Type"),
        ({"X-Requested-With": None}, 400, "X-Requested-With"),
        ({"Origin": "http://evil.example"}, 403, "pages of this server"),
        ({"Origin": "null"}, 403, "pages of this server"),
        ({"Host": "evil.example:6379", "Origin": "http://evil.example:6379"}, 403, "by a name"),
        ({"Host": "evil.example"}, 403, "by a name"),
        ({"Authorization": "Basic " + "x" * 8}, 401, "wrong"),
        (basic("default", "wrong"), 401, "wrong"),
        (basic("nobody", ""), 401, "wrong"),
    ],
)
def test_who_is_not_believed_gets_nothing_done(server, r, fields, status, why):
    got, body = post(server, ["SET k 1"], fields)
    # The default user has no password here, so it takes any.
    if "Authorization" in fields and fields == basic("default", "wrong"):
        assert (got, body) == (200, {"replies": ["OK"]})
        return
    assert got == status and why in body["error"]
    assert r.call("EXISTS", "k") == 0


def test_pages_of_this_server_are_believed(server):
    host = "%s:%d" % server.address
    assert run(server, "PING", fields={"Origin": "http://" + host}) == ["PONG"]
    assert run(server, "PING", fields={"Host": "localhost", "Origin": "http://localhost"}) == [
        "PONG"
    ]


@pytest.mark.parametrize(
    "body", ["", "x", "[]", '{"commands":1}', '{"commands":[[]]}', '{"commands":[["GET",1]]}']
)
def test_bodies_that_make_no_sense_are_refused(server, body):
    status, answer = post(server, None, body=body)
    assert status == 400 and "body" in answer["error"]


def test_other_methods_and_places_take_no_body(server):
    for method in ("GET", "HEAD", "DELETE", "OPTIONS"):
        status, fields, _ = ask(server, "/api/commands", method)
        assert status == 405 and fields["Allow"] == "POST"
    assert ask(server, "/", "POST", FIELDS, "{}")[0] == 413
    assert ask(server, "/api/commandsx", "POST", FIELDS, "{}")[0] == 413


def test_streams_are_not_for_http(server):
    for command in ("SUBSCRIBE x", "psubscribe *", "SSUBSCRIBE x", "MONITOR"):
        status, body = post(server, ["PING", command])
        assert status == 400 and "is not for HTTP" in body["error"]


@pytest.mark.flags(http_timeout_ms=300)
def test_what_takes_too_long_is_left(server, r):
    status, body = post(server, ["SET k 1", "BLPOP q 0", "SET k 2"])
    assert status == 503
    assert body == {"replies": ["OK"], "error": "ERR no reply in time"}
    # As a client that has left: what comes now is for others.
    wait_blocked(r, 0)
    assert r.call("RPUSH", "q", "x") == 1
    assert r.call("LLEN", "q") == 1
    assert r.call("GET", "k") == b"1"


@pytest.mark.flags(http_reply_max="1kb")
def test_replies_are_limited(server, r):
    r.call("SET", "k", "x" * 3000)
    r.call("SET", "small", "x")
    status, body = post(server, ["GET small", "GET k", "SET after 1"])
    assert status == 503
    assert body == {"replies": ["x"], "error": "ERR replies of more than 1024 bytes"}
    assert run(server, "GET small") == ["x"]


@pytest.mark.flags(http_body_max="1kb")
def test_bodies_are_limited(server):
    assert run(server, ["SET", "k", "x" * 900]) == ["OK"]
    assert ask(server, "/api/commands", "POST", FIELDS, "x" * 1100)[0] == 413


@pytest.mark.flags(web_console="false")
def test_it_can_be_turned_off(server):
    assert ask(server, "/")[0] == 404
    assert ask(server, "/console.js")[0] == 404
    assert ask(server, "/api/commands", "POST", FIELDS, '{"commands":[]}')[0] == 413
    assert ask(server, "/livez")[0] == 200


@pytest.mark.flags(requirepass="s3cret", restricted_commands="flushall")
def test_users_are_those_of_the_acl(server, r):
    status, body = post(server, ["PING"])
    assert (status, body) == (401, {"error": "a user and its password are needed"})
    status, body = post(server, ["PING"], basic("default", "wrong"))
    assert (status, body) == (401, {"error": "the user or the password is wrong"})
    assert r.call("ACL", "LOG")[0]
    assert run(server, "ACL WHOAMI", fields=basic("default", "s3cret")) == ["default"]
    # With a password also by a name.
    named = {**basic("default", "s3cret"), "Host": "redis.example"}
    assert run(server, "PING", fields=named) == ["PONG"]
    assert post(server, ["PING"])[0] == 401  # the next one on the same server
    r.call("ACL", "SETUSER", "reader", "on", ">p", "~k*", "+get", "+info", "+multi", "+exec")
    reader = basic("reader", "p")
    replies = run(
        server, "GET k", "GET other", "SET k 1", "MULTI", "SET k 1", "EXEC", fields=reader
    )
    assert replies[0] is None
    assert replies[1]["error"].startswith("NOPERM No permissions to access a key")
    assert replies[2]["error"].startswith("NOPERM User reader has no permissions to run the 'set'")
    assert replies[5]["error"].startswith("EXECABORT")
    (denied,) = run(server, "FLUSHALL", fields=basic("default", "s3cret"))
    assert "admin port" in denied["error"]
    assert r.call("ACL", "DELUSER", "reader") == 1
    assert post(server, ["PING"], reader)[0] == 401


@pytest.mark.flags(requirepass="s3cret")
def test_long_replies_are_for_those_who_have_said_who_they_are(server, r):
    r.call("SET", "k", "x" * 3_000_000)
    (value,) = run(server, "GET k", fields=basic("default", "s3cret"))
    assert len(value) == 3_000_000


@pytest.mark.flags(requirepass="s3cret")
def test_so_are_long_bodies(server, r):
    long = ["SET", "k", "x" * 100_000]
    fields = {**FIELDS, **basic("default", "s3cret")}
    status, _, _ = ask(server, "/api/commands", "POST", fields, json.dumps({"commands": [long]}))
    assert status == 413
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    for command in (["PING"], long):
        connection.request("POST", "/api/commands", json.dumps({"commands": [command]}), fields)
        response = connection.getresponse()
        assert response.status == 200
        response.read()
    connection.close()
    assert r.call("STRLEN", "k") == 100_000


def test_a_killed_request_is_told(server, r):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post(server, ["BLPOP q 0"])))
    thread.start()
    wait_until(lambda: b" cmd=blpop" in r.call("CLIENT", "LIST"))
    line = [text for text in r.call("CLIENT", "LIST").split(b"\n") if b" cmd=blpop" in text][0]
    assert r.call("CLIENT", "KILL", "ID", line.split()[0][3:]) == 1
    thread.join()
    assert answers == [(503, {"replies": [], "error": "ERR the client was closed"})]


def test_clients_that_leave_do_no_harm(server, r):
    body = json.dumps({"commands": ["DEBUG SLEEP 0.2", "INCR left"]}).encode()
    head = b"POST /api/commands HTTP/1.1\r\nContent-Type: application/json\r\n"
    head += b"X-Requested-With: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    for end in range(0, len(head + body), 40):
        with socket.create_connection(server.address, timeout=60) as c:
            c.sendall((head + body)[:end])
    for _ in range(20):
        with socket.create_connection(server.address, timeout=60) as c:
            c.sendall(head + body)
    # The last one may not have been accepted yet when this is asked for the first time.
    wait_until(lambda: r.call("GET", "left") == b"20", what="all that were sent whole")
    wait_until(lambda: r.info("clients")["connected_clients"] == "1", what="nobody else")
    assert r.call("GET", "left") == b"20"


@pytest.mark.parametrize("how", ["shutdown", "SIGTERM"])
def test_the_server_stops_while_requests_run(start_server, how):
    server = start_server(proactor_threads=2)
    threads = []

    def wait():
        try:
            post(server, ["BLPOP q 0"])
        except (OSError, http.client.HTTPException):
            pass  # it was cut off

    for _ in range(4):
        threads.append(threading.Thread(target=wait))
        threads[-1].start()
    with server.connect() as r:
        wait_blocked(r, 4)
    if how == "SIGTERM":
        server.stop()
    else:
        try:
            post(server, ["SHUTDOWN NOSAVE"])
        except (OSError, http.client.HTTPException):
            pass
        server.process.wait(60)
    for thread in threads:
        thread.join()


# --- What the console asks for ---


def test_blocked_clients_and_their_keys(server, r):
    assert r.call("CLIENT", "BLOCKED") == []
    with server.connect() as a, server.connect() as b:
        a.call("CLIENT", "SETNAME", "worker")
        a.send_command("BLPOP", "q1", "q2", "q1", 0)
        wait_until(lambda: len(r.call("CLIENT", "BLOCKED")) == 1)
        b.send_command("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        wait_until(lambda: len(r.call("CLIENT", "BLOCKED")) == 2)
        (blocked, other) = run(server, "CLIENT BLOCKED")[0]
        fields = dict(blocked["map"])
        assert fields["name"] == "worker" and fields["cmd"] == "blpop"
        assert fields["keys"] == ["q1", "q2"]
        assert fields["addr"] == "%s:%d" % a.sock.getsockname()
        assert fields["milliseconds"] >= 0
        assert dict(other["map"])["keys"] == ["s"]
        r.call("RPUSH", "q2", "x")
        assert a.read() == [b"q2", b"x"]
        wait_until(lambda: len(r.call("CLIENT", "BLOCKED")) == 1)


def test_hot_keys(server, r):
    stop = threading.Event()

    def load():
        with server.connect() as c:
            while not stop.is_set():
                for i in range(8):
                    c.call("GET", "hot")
                    c.call("MSET", "warm", "1", f"cold:{i}", "1")
                c.call("EVAL", "redis.call('INCR', 'lua') return 1", "1", "lua")

    thread = threading.Thread(target=load)
    thread.start()
    try:
        wait_until(lambda: r.call("EXISTS", "lua") == 1)
        (reply,) = run(server, "CLIENT HOTKEYS 500 3")
    finally:
        stop.set()
        thread.join()
    found = dict(reply["map"])
    keys = dict(found["keys"]["map"])
    assert {"hot", "warm"} <= set(keys) and len(keys) == 3
    assert found["error"] == 0
    assert found["total"] >= sum(keys.values())
    assert all(abs(keys[key] * 25 / found["total"] - 8) < 3 for key in ("hot", "warm"))
    # Nobody counts any more.
    assert r.call("CLIENT", "HOTKEYS", "1") in ([b"total", 0, b"error", 0, b"keys", []],)
    for bad in (("0",), ("60001",), ("x",), ("1", "0"), ("1", "1001"), ("1", "x")):
        assert isinstance(r.call("CLIENT", "HOTKEYS", *bad), Error)


def test_info_of_threads_and_shards(server, r):
    r.call("MSET", *[str(i) for i in range(200)])
    threads = r.info("threads")
    assert sum(int(value.split("clients=")[1].split(",")[0]) for value in threads.values()) == int(
        r.info("clients")["connected_clients"]
    )
    shards = r.info("shards")
    assert list(shards) == [f"shard{i}" for i in range(int(r.info("server")["num_shards"]))]
    assert sum(int(value.split("keys=")[1].split(",")[0]) for value in shards.values()) == 100
    assert "thread0" not in r.info("default") and "thread0" in r.info("everything")


def test_clients_are_killed_by_their_user(server, r):
    r.call("ACL", "SETUSER", "temp", "on", "nopass", "+@all", "~*")
    c = server.connect()
    assert c.call("AUTH", "temp", "x") == OK
    assert r.call("CLIENT", "KILL", "USER", "nobody") == Error("ERR No such user 'nobody'")
    assert r.call("CLIENT", "KILL", "USER", "temp") == 1
    with pytest.raises((ConnectionError, OSError)):
        c.call("PING")
    assert r.call("CLIENT", "KILL", "USER", "temp") == 0
    r.call("ACL", "DELUSER", "temp")
