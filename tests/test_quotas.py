# SPDX-License-Identifier: Apache-2.0
"""Quotas of users and databases (docs/quotas.md).

No test looks at a clock: a rate of one in a second means, for a test, that what waits goes on only
when the setting is another one."""

import re

import pytest

from harness.http import ask
from harness.nodes import follow
from harness.resp import OK, Error, Map, RespSocket, Status, encode

from harness.server import PATIENCE_S, free_port, only_dragonfly, wait_blocked, wait_until
from test_config_file import run  # noqa: F401 - a fixture

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized, only_dragonfly("no quotas")]

QUEUED = Status("QUEUED")
# Of commands that are to wait for longer than any test.
MANY = 2 * PATIENCE_S
DB = 9  # the tenant's


@pytest.fixture
def admin(server):
    """Its commands are not counted, but for those that a test sends as the user `default`."""
    with server.connect() as c:
        yield c
        assert c.call("CONFIG", "SET", "quota", "") == OK
        c.call("ACL", "DELUSER", "u", "v")
        c.call("CONFIG", "RESETSTAT")


@pytest.fixture
def user(server, admin):
    """Connections of users, each made when a test asks for it."""
    opened = []

    def connect(name="u", db=0, **options):
        rules = ("on", "nopass", "+@all", "~*", "&*")
        assert admin.call("ACL", "SETUSER", name, *rules) == OK
        c = server.connect(**options)
        opened.append(c)
        assert c.call("AUTH", name, "x") == OK
        if db:
            assert c.call("SELECT", db) == OK
        return c

    yield connect
    for c in opened:
        c.close()


@pytest.fixture(params=["user", "db"])
def tenant(request, user):
    """(the words that name it in the setting, a connection that it limits, one that is free)."""
    if request.param == "user":
        return "user u", user("u"), user("v")
    return f"db {DB}", user("v", db=DB), user("v")


def set_quota(admin, text):
    assert admin.call("CONFIG", "SET", "quota", text) == OK


def quota_of(admin):
    return admin.call("CONFIG", "GET", "quota")[1].decode()


def counted(admin, owner):
    """The row of INFO as a dict of numbers. `owner`: 'user u'."""
    row = admin.info("quotas")["quota_" + owner.replace(" ", "_")]
    pairs = (pair.split("=") for pair in row.split(","))
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


def is_refused(reply):
    return isinstance(reply, Error) and reply.text.startswith("QUOTA ")


def spend(c, attempts=MANY):
    """Commands until one is refused."""
    for _ in range(attempts):
        reply = c.call("GET", "k")
        if is_refused(reply):
            return reply
    raise AssertionError("nothing was refused")


# --- The setting ---


def test_the_setting_names_what_changes(admin):
    assert quota_of(admin) == ""
    set_quota(admin, "user u commands 10 memory 1mb db 3 bytes 1kb action error")
    set_quota(admin, "user v connections 5")
    assert quota_of(admin) == (
        "user u commands 10 memory 1048576 user v connections 5 db 3 bytes 1024 action error"
    )
    set_quota(admin, "user u db 3 commands 7")
    assert quota_of(admin) == "user v connections 5 db 3 commands 7"
    set_quota(admin, "")
    assert quota_of(admin) == ""
    assert "quota" not in str(admin.info("quotas"))


def test_errors_say_what_is_wrong(admin):
    for text, why in {
        "commands 10": "an entry begins with user or db, not with 'commands'",
        "user u commands many": "commands is a number from 0 to 1000000000, not 'many'",
        "user u speed 1": "'speed' is none of user, db, commands, bytes, connections, memory and "
        "action",
        "user u action kill": "action is delay or error, not 'kill'",
        "db 16 commands 1": "there is no database 16, there are 16",
    }.items():
        reply = admin.call("CONFIG", "SET", "quota", text)
        prefix = "ERR CONFIG SET failed (possibly related to argument 'quota') - "
        assert reply == Error(prefix + why)
    assert quota_of(admin) == ""


def test_it_is_in_the_file_and_is_rewritten(run, tmp_path):  # noqa: F811
    path = tmp_path / "redis.conf"
    path.write_text(
        "quota user u commands 10 action error\n"
        "# what the tenants have\nquota db 3 memory 2mb\n"
    )
    server = run(path, "--port", "PORT")
    with server.connect() as c:
        assert quota_of(c) == "user u commands 10 action error db 3 memory 2097152"
        set_quota(c, "user u commands 11 user v bytes 1mb")
        set_quota(c, "db 3")
        assert c.call("CONFIG", "REWRITE") == OK
    assert "quota user u commands 11 user v bytes 1048576\n" in path.read_text()
    assert path.read_text().count("quota") == 1
    assert server.stop() == 0
    server = run(path, "--port", "PORT")
    with server.connect() as c:
        assert quota_of(c) == "user u commands 11 user v bytes 1048576"
        set_quota(c, "")
        assert c.call("CONFIG", "REWRITE") == OK
    assert "quota" not in path.read_text()


def test_a_wrong_flag_ends_the_start(run):  # noqa: F811
    server = run("--port", "PORT", "--dbnum=4", "--quota=db 4 commands 1")
    assert server.process.wait(PATIENCE_S) != 0
    assert "there is no database 4, there are 4" in server.log()


@pytest.mark.flags(quota="user u commands 5 action error")
def test_it_is_a_flag(server, user):
    assert spend(user("u")).text == "QUOTA user 'u' may run 5 commands in a second"


# --- Commands ---


def test_commands_past_the_quota_are_errors(admin, tenant):
    owner, limited, other = tenant
    set_quota(admin, f"{owner} commands 5 action error")
    count = 400
    for c in (limited, other):
        c.send(b"".join(encode("INCR", f"n{c is other}") for _ in range(count)))
    replies = [limited.read() for _ in range(count)]
    done = [reply for reply in replies if not is_refused(reply)]
    assert done == list(range(1, len(done) + 1))
    assert 5 <= len(done) < count
    name = owner.replace("db", "database").replace("user u", "user 'u'")
    assert {reply.text for reply in replies if is_refused(reply)} == {
        f"QUOTA {name} may run 5 commands in a second"
    }
    assert counted(admin, owner)["refused"] == count - len(done)
    assert counted(admin, owner)["delayed"] == 0
    assert [other.read() for _ in range(count)] == list(range(1, count + 1))


def test_commands_past_the_quota_wait(admin, tenant):
    owner, limited, other = tenant
    set_quota(admin, f"{owner} commands 1")
    limited.send(b"".join(encode("INCR", "n") for _ in range(MANY)))
    wait_until(lambda: counted(admin, owner)["delayed"] > 0, what="a command that waits")
    for i in range(50):  # all others go on
        assert other.call("SET", "k", i) == OK
    assert counted(admin, owner)["refused"] == 0
    set_quota(admin, f"{owner} commands 0")
    assert [limited.read() for _ in range(MANY)] == list(range(1, MANY + 1))


def test_what_waits_goes_on_by_itself(admin, tenant):
    owner, limited, _ = tenant
    set_quota(admin, f"{owner} commands 100")
    limited.send(b"".join(encode("INCR", "n") for _ in range(150)))
    assert [limited.read() for _ in range(150)] == list(range(1, 151))
    assert counted(admin, owner)["delayed"] > 0


def test_all_connections_of_a_user_share_it(admin, user):
    connections = [user("u") for _ in range(8)]
    set_quota(admin, "user u commands 40 action error")
    for c in connections:
        c.send(b"".join(encode("PING") for _ in range(500)))
    replies = [c.read() for c in connections for _ in range(500)]
    refused = sum(is_refused(reply) for reply in replies)
    assert 0 < refused < len(replies)
    assert counted(admin, "user u")["refused"] == refused


@pytest.mark.flags(proactor_threads=1, num_shards=1)  # threads have turns by their timers only
def test_waiting_connections_take_turns(admin, user):
    """No connection is far ahead; without turns the first would be done first."""
    connections = [user("u") for _ in range(4)]
    set_quota(admin, "user u commands 300")
    wait_until(lambda: spent(admin, connections[0]), what="a command that waits")
    for c in connections:
        c.send(b"".join(encode("INCR", "turns") for _ in range(100)))
    ends = []
    for c in connections:
        ends.append([c.read() for _ in range(100)][-1])
    assert max(ends) == 400
    assert min(ends) > 110, ends


def spent(admin, c):
    """Sends commands; has one of them waited?"""
    c.pipeline([("PING",)] * 100)
    return counted(admin, "user u")["delayed"] > 0


def test_who_waited_and_leaves_is_gone(admin, user):
    """Its end is seen, though it is not received from."""
    connections = [user("u") for _ in range(5)]
    before = int(admin.info("clients")["connected_clients"])
    set_quota(admin, "user u commands 1")
    for c in connections:
        c.send(b"".join(encode("INCR", "n") for _ in range(MANY)))
    wait_until(lambda: counted(admin, "user u")["delayed"] >= 4, what="those that wait")
    for c in connections:
        c.close()
    clients = lambda: int(admin.info("clients")["connected_clients"])  # noqa: E731
    wait_until(lambda: clients() == before - 5, what="their ends")
    assert counted(admin, "user u")["used_connections"] == 0


@pytest.mark.parametrize("way", ["close", "reset", "auth"])
def test_bytes_are_owed_by_who_leaves(server, admin, user, way):
    c = user("u")
    value = b"x" * 1024 * MANY
    assert admin.call("SET", "large", value) == OK
    set_quota(admin, "user u bytes 1kb action error")
    assert c.call("GET", "large") == value
    if way == "close":
        c.close()
        wait_until(lambda: counted(admin, "user u")["used_connections"] == 0, what="its end")
        c = user("u")
    elif way == "reset":
        assert c.call("RESET") == Status("RESET")
        assert c.call("AUTH", "u", "x") == OK
    else:
        user("v")
        assert c.call("AUTH", "v", "x") == OK
        assert c.call("AUTH", "u", "x") == OK
    assert is_refused(c.call("GET", "large"))


def test_bytes_bound_a_pipeline(admin, user):
    c = user("u")
    value = b"x" * 1024 * MANY
    assert admin.call("SET", "large", value) == OK
    set_quota(admin, "user u bytes 1kb action error")
    c.send(encode("GET", "large") * 100)
    replies = [c.read() for _ in range(100)]
    assert replies[0] == value
    assert all(is_refused(reply) for reply in replies[1:])


def test_waiting_for_bytes_goes_on_by_itself(admin, user):
    connections = [user("u") for _ in range(10)]
    value = b"x" * 10_000
    assert admin.call("SET", "k", value) == OK
    set_quota(admin, "user u bytes 300kb")
    for c in connections:
        c.send(encode("GET", "k") * 6)
    for c in connections:
        assert [c.read() for _ in range(6)] == [value] * 6
    assert counted(admin, "user u")["delayed"] > 0


@pytest.mark.flags(proactor_threads=1, num_shards=1)  # the list was one for each thread
def test_a_long_command_holds_back_its_own_quota_only(admin, user):
    busy, waits = user("u"), user("v")
    text = b"x" * 1000
    set_quota(admin, "user u bytes 1mb user v bytes 1kb")
    busy.send_command("EVAL", "while true do end", 0)
    wait_until(lambda: b" cmd=eval " in admin.call("CLIENT", "LIST"), what="the script")
    waits.send(encode("ECHO", text) * 3)  # one waits until those before it are paid for
    assert [waits.read() for _ in range(3)] == [text] * 3
    assert counted(admin, "user v")["delayed"] > 0
    assert admin.call("SCRIPT", "KILL") == OK
    assert isinstance(busy.read(), Error)


def test_unknown_and_denied_commands_count(server, admin, user):
    c = user("u")
    assert admin.call("ACL", "SETUSER", "u", "-get") == OK
    set_quota(admin, "user u commands 1 action error")
    for command in (("NOSUCH", "x"), ("GET", "k"), ("GET",)):
        wait_until(lambda: is_refused(c.call(*command)), what=f"{command} that is refused")


def test_what_comes_again_is_counted_once(admin, user):
    """EXISTS over shards waits for the replies before it, and is looked at again."""
    c = user("u")
    set_quota(admin, "user u commands 240 action error")
    keys = [f"key{i}" for i in range(100)]
    c.send(b"".join(encode("SET", key, "v") + encode("EXISTS", *keys) for key in keys))
    assert not any(is_refused(c.read()) for _ in range(2 * len(keys)))


def test_nobody_is_locked_out(server, admin, user):
    c = user("u")
    set_quota(admin, "user u commands 1 bytes 1 action error")
    spend(c)
    for _ in range(20):
        assert quota_of(c).startswith("user u")
        assert c.call("ACL", "SETUSER", "v", "off") == OK
        assert c.call("AUTH", "u", "x") == OK
        assert isinstance(c.call("HELLO", 3, "AUTH", "u", "x"), Map)
        assert isinstance(c.call("HELLO", 2, "AUTH", "u", "x"), list)
    spend(c)
    assert c.call("RESET") == Status("RESET")
    assert c.call("GET", "k") is None  # as the user `default`
    assert c.call("AUTH", "u", "x") == OK
    assert c.call("QUIT") == OK


def test_logging_in_counts_while_something_is_left(admin, user):
    c = user("u")
    set_quota(admin, "user u commands 1 action error")
    *logged_in, reply = c.pipeline([("AUTH", "u", "x")] * 100 + [("GET", "k")])
    assert logged_in == [OK] * 100
    assert is_refused(reply)


def test_clients_of_the_admin_port_have_none(start_server):
    port = free_port()
    server = start_server(admin_port=port)
    with server.connect() as c, RespSocket(("127.0.0.1", port)) as admin:
        text = "user default commands 1 connections 1 action error db 0 commands 1 action error"
        set_quota(c, text)
        for _ in range(50):
            assert admin.call("GET", "k") is None
        spend(c)


def test_only_what_logs_in_is_free(admin, user):
    c = user("u")
    set_quota(admin, "user u commands 1 action error")
    for command in (("HELLO", 2), ("EXEC",), ("DISCARD",)):
        # EXEC: EXECABORT, because of that
        wait_until(lambda: "QUOTA " in str(c.call(*command)), what=f"{command} that is refused")


# --- MULTI, scripts, what blocks, subscriptions ---


def test_a_select_that_is_queued_is_no_way_round(admin, user):
    c = user("v")
    set_quota(admin, f"db {DB} commands 5 action error")
    assert c.call("MULTI") == OK
    assert c.call("SELECT", DB) == QUEUED
    replies = c.pipeline([("INCR", "n")] * MANY)
    assert sum(is_refused(reply) for reply in replies) > MANY / 2
    assert c.call("EXEC").text.startswith("EXECABORT")
    assert c.call("GET", "n") is None


def test_a_refused_command_ends_its_multi(admin, user):
    c = user("u")
    assert c.call("MULTI") == OK
    assert c.call("SET", "k", "1") == QUEUED
    set_quota(admin, "user u commands 1 action error")
    wait_until(lambda: is_refused(c.call("SET", "k", "2")), what="a command that is refused")
    assert c.call("EXEC").text.startswith("EXECABORT")
    assert admin.call("EXISTS", "k") == 0


def test_exec_is_carried_out_whole(admin, tenant):
    owner, limited, _ = tenant
    assert limited.call("MULTI") == OK
    for _ in range(30):
        assert limited.call("INCR", "n") == QUEUED
    set_quota(admin, f"{owner} commands 1 action error")
    assert limited.call("EXEC") == list(range(1, 31))


def test_a_multi_that_waits(admin, tenant):
    owner, limited, _ = tenant
    set_quota(admin, f"{owner} commands 1")
    limited.send(encode("MULTI") + b"".join(encode("INCR", "n") for _ in range(MANY)))
    limited.send(encode("EXEC"))
    wait_until(lambda: counted(admin, owner)["delayed"] > 0, what="a command that waits")
    set_quota(admin, "")
    assert [limited.read() for _ in range(MANY + 1)] == [OK] + [QUEUED] * MANY
    assert limited.read() == list(range(1, MANY + 1))


def test_a_script_is_one_command(admin, user):
    c = user("u")
    set_quota(admin, "user u commands 1 action error")
    text = "for i = 1, 300 do redis.call('INCR', KEYS[1]) end return redis.call('GET', KEYS[1])"
    assert wait_until(lambda: c.call("EVAL", text, 1, "n") == b"300")


def test_who_blocks_has_begun(admin, user):
    c, other = user("u"), user("v")
    c.send_command("BLPOP", "list", 0)
    wait_blocked(admin, 1)
    set_quota(admin, "user u commands 1 bytes 1")
    assert other.call("RPUSH", "list", "x") == 1
    assert c.read() == [b"list", b"x"]


def test_messages_come_in_any_case(admin, user):
    c, other = user("u"), user("v")
    assert c.call("SUBSCRIBE", "news")[0] == b"subscribe"
    set_quota(admin, "user u commands 1 bytes 1")
    for i in range(20):
        wait_until(lambda: other.call("PUBLISH", "news", i) == 1)
        assert c.read() == [b"message", b"news", b"%d" % i]


def test_who_waits_for_bytes_goes_on_when_the_one_before_is_paid_for(admin, user):
    """What a thread has in hand would do for the requests of all its clients."""
    connections = [user("u") for _ in range(24)]
    value = b"x" * 1_200_000
    assert admin.call("SET", "k", value) == OK
    set_quota(admin, "user u bytes 300kb")
    assert connections[0].call("GET", "k") == value
    assert admin.call("CONFIG", "RESETSTAT") == OK
    for c in connections:
        c.send_command("GET", "k")

    def calls():
        row = admin.info("commandstats").get("cmdstat_get", "calls=0")
        return int(re.match("calls=([0-9]+)", row)[1])

    wait_until(lambda: calls() > 0, what="the first one")
    assert calls() <= 4  # one of each thread
    set_quota(admin, "")
    assert [c.read() for c in connections] == [value] * len(connections)


def test_what_was_refused_costs_no_bytes(admin, user):
    c = user("u")
    set_quota(admin, "user u commands 1 bytes 10kb action error")
    spend(c)
    c.send(encode("SET", "k", b"x" * 10_000) * 2 * MANY)
    replies = [c.read() for _ in range(2 * MANY)]
    assert sum(map(is_refused, replies)) > MANY
    # What is owed stays owed: a second for each that went through.
    set_quota(admin, "user u bytes 10kb action error")
    wait_until(lambda: not is_refused(c.call("GET", "k")), what="the end of what is owed")


def test_messages_count_as_they_come(admin, user):
    c, second, other = user("u"), user("u"), user("v")
    assert c.call("SUBSCRIBE", "news")[0] == b"subscribe"
    set_quota(admin, "user u bytes 1kb action error")
    text = b"x" * 1024 * MANY
    assert other.call("PUBLISH", "news", text) == 1
    assert c.read() == [b"message", b"news", text]
    # What these have themselves is far less. A thread may have kept one token.
    assert any(is_refused(second.call("GET", "k")) for _ in range(3))


# --- Bytes ---


def test_bytes_received_past_the_quota_are_errors(admin, tenant):
    owner, limited, other = tenant
    set_quota(admin, f"{owner} bytes 1kb action error")
    assert limited.call("SET", "large", b"x" * 1024 * MANY) == OK  # owed afterwards
    reply = limited.call("GET", "k")
    assert re.fullmatch("QUOTA .* may send and receive 1024 bytes in a second", reply.text)
    assert other.call("SET", "large", b"x" * 1024 * MANY) == OK
    assert other.call("GET", "k") is None
    assert counted(admin, owner)["refused"] == 1


def test_bytes_sent_past_the_quota_wait(admin, tenant):
    owner, limited, other = tenant
    value = b"x" * 1024 * MANY
    assert limited.call("SET", "large", value) == OK
    set_quota(admin, f"{owner} bytes 1kb")
    assert limited.call("GET", "large") == value
    limited.send_command("PING")
    wait_until(lambda: counted(admin, owner)["delayed"] == 1, what="a command that waits")
    assert other.call("PING") == Status("PONG")
    set_quota(admin, f"{owner} bytes 1gb")
    assert limited.read() == Status("PONG")


def test_what_a_waiting_client_sends_is_not_read(admin, user):
    c = user("u")
    assert c.call("CLIENT", "SETNAME", "waiting") == OK
    set_quota(admin, "user u commands 1")
    c.send(b"".join(encode("PING") for _ in range(MANY)))
    wait_until(lambda: counted(admin, "user u")["delayed"] > 0, what="a command that waits")
    c.sock.settimeout(0.2)
    sent = 0
    with pytest.raises(TimeoutError):  # the kernel's buffers are full
        while sent < 64 << 20:
            sent += c.sock.send(b"PING\r\n" * 10_000)
    lines = admin.call("CLIENT", "LIST").decode().splitlines()
    (line,) = [line for line in lines if " name=waiting " in line]
    assert int(re.search(r" qbuf=(\d+)", line)[1]) < 128 * 1024


# --- Who leaves ---


def test_who_waits_may_be_killed_or_leave(admin, user):
    killed, leaves, breaks = user("u"), user("u"), user("u")
    set_quota(admin, "user u commands 1")
    for c in (killed, leaves, breaks):
        c.send(b"".join(encode("INCR", "n") for _ in range(MANY)))
    wait_until(lambda: counted(admin, "user u")["delayed"] >= 3, what="three that wait")
    assert admin.call("CLIENT", "KILL", "ID", killed_id(admin, killed)) == 1
    leaves.close()
    breaks.abort()
    wait_until(lambda: counted(admin, "user u")["used_connections"] <= 1, what="those that left")
    set_quota(admin, "")
    wait_until(lambda: b" user=u " not in admin.call("CLIENT", "LIST"), what="their ends")


def killed_id(admin, connection):
    address = "%s:%d" % connection.sock.getsockname()
    lines = admin.call("CLIENT", "LIST").decode().splitlines()
    (line,) = [line for line in lines if f" addr={address} " in line]
    return re.match(r"id=(\d+)", line)[1]


def test_a_pause_and_a_quota(admin, user):
    c = user("u")
    set_quota(admin, "user u commands 1")
    c.send(b"".join(encode("INCR", "n") for _ in range(MANY)))
    wait_until(lambda: counted(admin, "user u")["delayed"] > 0, what="a command that waits")
    assert admin.call("CLIENT", "PAUSE", 100_000, "WRITE") == OK
    set_quota(admin, "")
    assert admin.call("CLIENT", "UNPAUSE") == OK
    assert [c.read() for _ in range(MANY)] == list(range(1, MANY + 1))


# --- Connections ---


def test_connections_of_a_user(server, admin, user):
    first, second = user("u"), user("u")
    set_quota(admin, "user u connections 2")
    assert counted(admin, "user u")["used_connections"] == 2
    text = "QUOTA user 'u' has as many connections as it may have, 2"
    with server.connect() as c:
        assert c.call("AUTH", "u", "x") == Error(text)
        assert c.call("HELLO", 3, "AUTH", "u", "x") == Error(text)
        assert c.call("ACL", "WHOAMI") == b"default"
        assert counted(admin, "user u")["refused_connections"] == 2
        assert first.call("AUTH", "u", "x") == OK  # has one already
        assert second.call("PING") == Status("PONG")
        first.close()
        wait_until(lambda: c.call("AUTH", "u", "x") == OK, what="a place")
        assert c.call("ACL", "WHOAMI") == b"u"
        assert c.call("RESET") == Status("RESET")
        assert counted(admin, "user u")["used_connections"] == 1


def test_connections_of_a_database(server, admin, user):
    first, second = user("v", db=DB), user("v")
    set_quota(admin, f"db {DB} connections 1")
    text = f"QUOTA database {DB} has as many connections as it may have, 1"
    assert second.call("SELECT", DB) == Error(text)
    assert second.call("SET", "here", "1") == OK
    assert admin.call("EXISTS", "here") == 1
    assert first.call("SELECT", DB) == OK
    assert first.call("SELECT", 1) == OK
    assert second.call("SELECT", DB) == OK
    assert counted(admin, f"db {DB}")["used_connections"] == 1


def test_a_change_of_the_setting_gives_no_places(admin, user):
    first, second = user("v", db=DB), user("v")
    set_quota(admin, f"db {DB} connections 1")
    assert second.call("MULTI") == OK
    assert second.call("SELECT", DB) == QUEUED
    assert second.call("EXEC") == [OK]
    set_quota(admin, "user nobody commands 5")
    assert is_refused(second.call("GET", "k"))
    assert first.call("GET", "k") is None
    assert counted(admin, f"db {DB}")["used_connections"] == 1


@pytest.mark.flags()
def test_new_connections_past_a_quota_may_become_others(server, admin, user):
    c = user("u")
    set_quota(admin, "user default connections 1")
    with server.connect() as refused:
        assert is_refused(refused.call("GET", "k"))
        assert refused.read_until_closed() == b""
    with server.connect() as other:
        assert other.call("CLIENT", "SETINFO", "lib-name", "x") == OK
        assert other.call("AUTH", "u", "x") == OK
        assert other.call("GET", "k") is None
    assert c.call("GET", "k") is None
    set_quota(admin, "user default db 0 connections 1")
    with server.connect() as other:
        assert is_refused(other.call("GET", "k"))
        assert other.call("SELECT", 1) == OK
        assert other.call("GET", "k") is None


def test_a_select_of_an_exec_finds_no_place(admin, user):
    first, second = user("v", db=DB), user("v")
    set_quota(admin, f"db {DB} connections 1")
    assert second.call("MULTI") == OK
    assert second.call("SELECT", DB) == QUEUED
    assert second.call("SET", "there", "1") == QUEUED
    assert second.call("EXEC") == [OK, OK]
    assert is_refused(second.call("GET", "there"))
    assert first.call("GET", "there") == b"1"
    first.close()
    wait_until(lambda: second.call("GET", "there") == b"1", what="a place")


def test_a_user_that_is_deleted_and_made_anew(server, admin, user):
    c = user("u")
    set_quota(admin, "user u connections 1 commands 5 action error")
    assert admin.call("ACL", "DELUSER", "u") == 1
    with pytest.raises(OSError):
        for _ in range(100):
            c.call("PING")
    wait_until(lambda: counted(admin, "user u")["used_connections"] == 0, what="its end")
    c = user("u")
    spend(c)
    with server.connect() as other:
        assert is_refused(other.call("AUTH", "u", "x"))


def test_a_user_that_is_changed_stays_limited(admin, user):
    c = user("u")
    set_quota(admin, "user u commands 5 connections 1 action error")
    assert admin.call("ACL", "SETUSER", "u", "-flushall") == OK
    spend(c)
    assert admin.call("ACL", "SETUSER", "u", "+flushall") == OK
    spend(c)
    assert counted(admin, "user u")["used_connections"] == 1


def test_the_database_is_that_of_select(admin, user):
    c = user("v")
    set_quota(admin, f"db {DB} commands 5 action error")
    for _ in range(50):
        assert c.call("GET", "k") is None
    assert c.call("SELECT", DB) == OK
    spend(c)
    wait_until(lambda: c.call("SELECT", 0) == OK, what="a token for SELECT")
    for _ in range(50):
        assert c.call("GET", "k") is None


# --- Memory ---


OOM = f"OOM command not allowed when database {DB} uses its quota of 2097152 bytes."


def fill(c):
    for i in range(10_000):
        reply = c.call("SET", f"key:{i}", b"x" * 1000)
        if reply != OK:
            return reply
    raise AssertionError("it was never full")


def test_memory_of_a_database(admin, user):
    c, other = user("v", db=DB), user("v")
    set_quota(admin, f"db {DB} memory 2mb")
    assert other.call("MULTI") == OK
    assert other.call("SELECT", DB) == QUEUED
    assert other.call("SET", "k", "v") == QUEUED
    assert fill(c) == Error(OOM)
    used = counted(admin, f"db {DB}")
    assert 1_900_000 < used["used_memory"] < 2_300_000
    assert used["refused_writes"] == 1
    assert c.call("GET", "key:1") == b"x" * 1000
    assert c.call("LPUSH", "l", "x") == Error(OOM)
    # Whichever way. What was queued before it was full is not begun.
    assert other.call("EXEC").text == f"EXECABORT Transaction discarded because of: {OOM}"
    assert other.call("SET", "k", b"x" * 100_000) == OK
    assert other.call("COPY", "k", "k", "DB", DB) == Error(OOM)
    assert other.call("MOVE", "k", DB) == Error(OOM)
    script = f"redis.call('SELECT', {DB}) return redis.call('SET', KEYS[1], 'v')"
    assert OOM in other.call("EVAL", script, 1, "k").text
    assert OOM in c.call("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, "k").text
    grows = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'v')"
    assert OOM in c.call("EVAL", grows, 1, "k").text
    assert OOM in c.call("EVAL", "#!lua flags=allow-oom\n" + grows, 1, "k").text
    assert c.call("EVAL", "return redis.call('EXISTS', KEYS[1])", 1, "k") == 0
    assert c.call("MULTI") == OK
    assert c.call("SET", "k", "v") == Error(OOM)
    assert c.call("EXEC").text.startswith("EXECABORT")
    # Room for it.
    assert c.call("FLUSHDB") == OK
    wait_until(lambda: c.call("SET", "k", "v") == OK, what="room")
    assert other.call("MOVE", "k", DB) == 0
    assert other.call("COPY", "k", "k2", "DB", DB) == 1


def test_memory_that_is_there_when_the_quota_comes(admin, user):
    c = user("v", db=DB)
    for i in range(3000):
        c.send_command("SET", f"key:{i}", b"x" * 1000)
    assert [c.read() for _ in range(3000)] == [OK] * 3000
    set_quota(admin, f"db {DB} memory 2mb")
    assert c.call("SET", "k", "v") == Error(OOM)
    set_quota(admin, f"db {DB} memory 20mb")
    assert c.call("SET", "k", "v") == OK
    before = counted(admin, f"db {DB}")["used_memory"]
    assert before > 3_000_000
    assert c.call("SWAPDB", DB, DB - 1) == OK
    wait_until(
        lambda: c.call("SET", "k", "v") == OK
        and counted(admin, f"db {DB}")["used_memory"] < before / 2,
        what="the other database",
    )


def half_a_command(connection, size):
    connection.send(b"*2\r\n$3\r\nGET\r\n$%d\r\n" % (size + 10) + b"x" * size)


def test_the_largest_clients_of_a_user_are_ended(server, admin, user):
    small, large = user("u"), user("u")
    other = user("v")
    set_quota(admin, "user u memory 2mb user v memory 100mb")
    half_a_command(other, 8 << 20)
    with pytest.raises(OSError):  # it may be closed before it has sent all
        half_a_command(large, 8 << 20)
        large.read()
    assert small.call("PING") == Status("PONG")
    other.send(b"x" * 10 + b"\r\n")
    assert other.read() is None
    assert counted(admin, "user u")["evicted_clients"] == 1
    assert counted(admin, "user v")["evicted_clients"] == 0
    assert "the clients of user 'u' more than its quota" in server.log()


def test_what_is_queued_and_watched_counts(admin, user):
    queues, watches = user("u"), user("v")
    set_quota(admin, "user u memory 1mb user v memory 1mb")
    assert queues.call("MULTI") == OK
    with pytest.raises(OSError):
        for _ in range(1_000_000):
            assert queues.call("SET", "k", b"x" * 1000) == QUEUED
    with pytest.raises(OSError):
        for i in range(1_000_000):
            assert watches.call("WATCH", f"{i}" * 50) == OK
    assert counted(admin, "user u")["evicted_clients"] == 1
    assert counted(admin, "user v")["evicted_clients"] == 1


# --- What is told ---


def test_what_is_told(server, admin, user):
    c = user("u", db=DB)
    set_quota(admin, f"user u commands 5 connections 7 action error db {DB} memory 10mb")
    spend(c)
    refused = counted(admin, "user u")
    assert refused.pop("used_memory") == 0
    assert refused == {
        "commands": 5,
        "bytes": 0,
        "connections": 7,
        "memory": 0,
        "action": "error",
        "used_connections": 1,
        "delayed": 0,
        "refused": 1,
        "refused_connections": 0,
        "refused_writes": 0,
        "evicted_clients": 0,
    }
    _, _, text = ask(server, "/metrics")
    assert 'dragonfly_quota_refused_commands_total{owner="user",name="u"} 1\n' in text
    assert 'dragonfly_quota_connections{owner="user",name="u"} 1\n' in text
    assert f'dragonfly_quota_limit{{owner="db",name="{DB}",of="memory"}} 10485760\n' in text
    assert admin.call("CONFIG", "RESETSTAT") == OK
    assert counted(admin, "user u")["refused"] == 0
    assert counted(admin, "user u")["used_connections"] == 1


# --- Replicas, the log, memcached ---


@pytest.mark.flags(repl_diskless_sync_delay=0)
def test_replicas_are_not_limited(server, admin, start_server):
    replica = start_server()
    set_quota(admin, "user default commands 1000000 bytes 1gb connections 2 db 0 commands 1000000")
    with replica.connect() as r:
        follow(r, server)
        # Nor is what comes from the primary.
        assert r.call("CONFIG", "SET", "quota", "db 0 memory 1kb commands 1") == OK
        for i in range(100):
            assert admin.call("SET", f"key:{i}", b"x" * 1000) == OK
        wait_until(lambda: counted_keys(r) == 100, what="all keys")
        assert r.call("CONFIG", "SET", "quota", "") == OK


@pytest.mark.flags(repl_diskless_sync_delay=0)
def test_a_replica_that_leaves_owes_nothing(server, admin, user, start_server):
    """The stream is nobody's."""
    c, replica = user("u"), start_server()
    set_quota(admin, "user default bytes 50kb action error")
    with replica.connect() as r:
        follow(r, server)
        assert c.call("SET", "k", b"x" * 1024 * 50 * MANY) == OK
        wait_until(lambda: r.call("STRLEN", "k") == 1024 * 50 * MANY, what="the key")
        assert r.call("REPLICAOF", "NO", "ONE") == OK
    wait_until(lambda: admin.info("replication")["connected_slaves"] == "0", what="its end")
    with server.connect() as plain:
        assert plain.call("STRLEN", "k") == 1024 * 50 * MANY


def counted_keys(r):
    keys = r.info("keyspace").get("db0", "keys=0")
    return int(re.search(r"keys=(\d+)", keys)[1])


def test_the_log_is_read_whatever_the_quotas_are(start_server):
    server = start_server(appendonly="yes")
    with server.connect() as c:
        for i in range(100):
            assert c.call("SET", f"key:{i}", b"x" * 1000) == OK
    server.stop()
    server.start_again(quota="db 0 memory 1kb commands 1000")
    with server.connect() as c:
        wait_until(lambda: counted_keys(c) == 100, what="all keys")
        assert c.call("SET", "k", "v").text.startswith("OOM ")
        assert c.call("DEL", "key:1") == 1


@pytest.mark.parametrize("name", ["dump.rdb", "dump"])
def test_what_is_loaded_counts(start_server, name):
    server = start_server(dbfilename=name, save="3600 1000000")
    with server.connect() as c:
        for i in range(300):
            assert c.call("SET", f"key:{i}", b"x" * 1000) == OK
        assert c.call("SAVE") == OK
    server.stop()
    server.start_again(quota="db 0 memory 100kb")
    with server.connect() as c:
        assert counted_keys(c) == 300
        assert counted(c, "db 0")["used_memory"] > 300_000
        assert c.call("SET", "k", "v").text.startswith("OOM ")


def test_memcached_is_limited(start_server):
    port = free_port()
    server = start_server(memcached_port=port)
    with server.connect() as c, RespSocket(("127.0.0.1", port)) as m:
        m.send(b"set k 0 0 1\r\nv\r\n")
        assert m.read_line() == b"STORED"
        set_quota(c, "db 0 commands 1 action error")
        m.send(b"get k\r\n" * 50)
        lines = [m.read_line() for _ in range(50)]
        assert any(line.startswith(b"SERVER_ERROR") for line in lines)
        set_quota(c, "db 0 commands 1")
        m.send(b"version\r\n" * MANY)
        wait_until(lambda: counted(c, "db 0")["delayed"] > 0, what="a command that waits")
        set_quota(c, "")
