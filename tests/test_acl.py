# SPDX-License-Identifier: Apache-2.0
"""Users and what they may do (ACL): replies of redis-server byte for byte, changes that living
connections obey at once, files of users, and refusals wherever a command runs."""

import re
import threading

import pytest

from harness.resp import OK, Status
from harness.scripts import check_replies
from harness.server import REFERENCE, ServerFailed, only_dragonfly, wait_blocked

pytestmark = [pytest.mark.sanitized]

SCRIPTS = {
    "commands": """
        a: ACL SETUSER u on nopass ~* +get +set +acl +config|get +select|1
        u: AUTH u any
        u: GET k
        u: SET k v
        u: DEL k
        u: CONFIG GET maxclients
        u: CONFIG SET maxclients 100
        u: SELECT 1
        u: SELECT 0
        u: ACL WHOAMI
        u: NOSUCH
        u: GET
        u: RESET
        u: ACL WHOAMI
        a: ACL DELUSER u""",
    "categories": """
        a: ACL SETUSER u on nopass ~* +@all -@write -@dangerous
        u: AUTH u any
        u: GET k
        u: SET k v
        u: LPUSH l v
        u: KEYS *
        u: FLUSHALL
        a: ACL SETUSER u -@all +@hash
        u: HSET h f v
        u: GET k
        a: ACL SETUSER u nocommands allcommands
        u: GET k
        a: ACL DELUSER u""",
    "keys": """
        a: ACL SETUSER u on nopass +@all ~k* %R~r* %W~w* %RW~b*
        u: AUTH u any
        u: SET k1 v
        u: GET k1
        u: SET r1 v
        u: GET r1
        u: SET w1 v
        u: GET w1
        u: SET w1 v GET
        u: SET b1 v GET
        u: MGET k1 r1
        u: MGET k1 w1
        u: MSET k1 a r1 b
        u: COPY r1 w1
        u: COPY w1 r1
        u: EXISTS r1
        u: EXISTS w1
        u: EXISTS z
        u: TYPE w1
        u: STRLEN w1
        u: RENAME r1 w1
        u: RENAME k1 b1
        u: SORT r1 STORE w2
        u: SORT w1 STORE r2
        u: ZUNIONSTORE w3 2 r1 r2
        u: ZUNIONSTORE w3 2 r1 w2
        u: XREAD STREAMS r1 0
        u: XREAD STREAMS w1 0
        u: GEORADIUS r1 0 0 1 km STORE r2
        u: GEORADIUS r1 0 0 1 km STORE w2
        u: EVAL return(1) 1 k1
        u: EVAL return(1) 1 r1
        u: EVAL_RO return(1) 1 r1
        u: LMPOP 2 k1 z LEFT
        u: BLPOP z 0.01
        u: BITFIELD r1 GET u8 0
        u: BITFIELD r1 SET u8 0 1
        u: DEBUG OBJECT z
        u: MEMORY USAGE z
        u: OBJECT ENCODING z
        a: ACL DELUSER u""",
    "sort reads other keys": """
        a: ACL SETUSER u on nopass +@all ~l
        u: AUTH u any
        u: RPUSH l 2 1
        u: SORT l
        u: SORT l BY nosort
        u: SORT l BY w*
        u: SORT l GET #
        u: SORT l LIMIT 0 1 BY w* GET v*
        a: ACL SETUSER u %R~*
        u: SORT l BY w* GET v*
        a: ACL DELUSER u""",
    "channels": """
        a: ACL SETUSER u on nopass +@all ~* resetchannels &c1 &p:*
        u: AUTH u any
        u: PUBLISH c1 m
        u: PUBLISH p:1 m
        u: PUBLISH c2 m
        u: SPUBLISH c2 m
        s: AUTH u any
        s: SUBSCRIBE c1
        s: SUBSCRIBE c1 c2
        t: AUTH u any
        t: PSUBSCRIBE p:*
        t: PSUBSCRIBE p:1
        v: AUTH u any
        v: SSUBSCRIBE c2
        v: UNSUBSCRIBE c2
        a: ACL DELUSER u""",
    "selectors": """
        a: ACL SETUSER u on nopass +get ~a* (+set ~b*) (+lpush ~c*)
        u: AUTH u any
        u: GET a1
        u: SET b1 v
        u: GET b1
        u: SET a1 v
        u: LPUSH c1 v
        u: GET c2
        u: DEL a1
        a: ACL GETUSER u
        a: ACL SETUSER u clearselectors
        u: SET b1 v
        a: ACL GETUSER u
        a: ACL DELUSER u""",
    "transactions": """
        a: ACL SETUSER u on nopass ~k* +multi +exec +discard +get +set +eval +mget
        u: AUTH u any
        u: MULTI
        u: GET k
        u: GET z
        u: EXEC
        u: MULTI
        u: DEL k
        u: EXEC
        u: MULTI
        u: SET k v
        u: GET k
        u: MGET k k2
        a: ACL SETUSER u -get
        u: EXEC
        u: MULTI
        u: SET k v
        u: SET k2 v
        u: EVAL return(redis.call('set',KEYS[1],'w')) 1 k
        a: ACL SETUSER u resetkeys ~k2
        u: EXEC
        a: GET k
        a: ACL DELUSER u""",
    "the user that is running a script": """
        a: ACL SETUSER u on nopass ~k* &c +eval +evalsha +get +set +publish +mget +script|load
        u: AUTH u any
        u: EVAL return(redis.call('get','k')) 0
        u: EVAL return(redis.pcall('get','z')) 0
        u: EVAL return(redis.pcall('mget','k','z')) 0
        u: EVAL return(redis.pcall('del','k')) 0
        u: EVAL return(redis.pcall('publish','c','m')) 0
        u: EVAL return(redis.pcall('publish','d','m')) 0
        u: EVAL return(redis.call('del','k')) 0
        u: EVAL return{redis.acl_check_cmd('get','k'),redis.acl_check_cmd('get','z')} 0
        u: EVAL return{redis.acl_check_cmd('del','k'),redis.acl_check_cmd('set','k','v')} 0
        a: EVAL return{redis.acl_check_cmd('del','k'),redis.acl_check_cmd('config','get','x')} 0
        a: EVAL return(redis.acl_check_cmd('nosuch')) 0
        u: EVAL return(1) 1 z
        a: ACL DELUSER u""",
    "passwords": """
        a: ACL SETUSER u on >one >two ~* +@all
        u: AUTH u one
        u: AUTH u two
        u: AUTH u three
        u: ACL WHOAMI
        a: ACL SETUSER u <one
        u: AUTH u one
        a: ACL SETUSER u <one
        a: ACL SETUSER u #zz
        a: ACL SETUSER u !zz
        a: ACL SETUSER u #2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881
        u: AUTH u x
        a: ACL GETUSER u
        a: ACL SETUSER u resetpass
        u: AUTH u x
        u: GET k
        a: ACL SETUSER u off nopass
        u: AUTH u x
        u: HELLO 2 AUTH u x
        a: ACL SETUSER u on
        u: AUTH nosuch x
        u: AUTH a b c
        a: ACL DELUSER u""",
    "wrong rules": """
        a: ACL SETUSER u foo
        a: ACL SETUSER u +nosuch
        a: ACL SETUSER u -@nosuch
        a: ACL SETUSER u +config|nosuch
        a: ACL SETUSER u +config|get|x
        a: ACL SETUSER u -select|0
        a: ACL SETUSER u +get|a|b
        a: ACL SETUSER u %X~k
        a: ACL SETUSER u %~k
        a: ACL SETUSER u (+get
        a: ACL SETUSER u (+nosuch)
        a: ACL SETUSER u allkeys ~k
        a: ACL SETUSER u allchannels &c
        a: ACL SETUSER u on +nosuch
        a: ACL GETUSER u
        a: ACL SETUSER
        a: ACL GETUSER
        a: ACL DELUSER default
        a: ACL DELUSER nosuch nosuch
        a: ACL GENPASS 0
        a: ACL GENPASS x
        a: ACL GENPASS 5000
        a: ACL CAT nosuch
        a: ACL CAT a b
        a: ACL LOG x
        a: ACL LOAD
        a: ACL SAVE
        a: ACL NOSUCH
        a: ACL""",
    "dry runs": """
        a: ACL SETUSER u on nopass ~k* &c +get +publish +config|get +mget
        a: ACL DRYRUN u get k
        a: ACL DRYRUN u get z
        a: ACL DRYRUN u mget k z
        a: ACL DRYRUN u set k v
        a: ACL DRYRUN u config set a b
        a: ACL DRYRUN u config get a
        a: ACL DRYRUN u publish d m
        a: ACL DRYRUN u get
        a: ACL DRYRUN u nosuch
        a: ACL DRYRUN nosuch get k
        a: ACL DRYRUN default flushall
        a: ACL DELUSER u""",
    "lists": """
        a: ACL LIST
        a: ACL USERS
        a: ACL SETUSER b
        a: ACL SETUSER c on >x %R~a %W~b ~c resetchannels &d +@all -@admin
        a: ACL LIST
        a: ACL USERS
        a: ACL GETUSER b
        a: ACL GETUSER c
        a: ACL GETUSER default
        a: ACL SETUSER c reset
        a: ACL GETUSER c
        a: ACL DELUSER b c nosuch""",
    "requirepass is the default user's password": """
        a: CONFIG SET requirepass secret
        b: PING
        b: AUTH wrong
        b: AUTH default secret
        b: PING
        c: AUTH secret
        c: PING
        a: ACL GETUSER default
        a: CONFIG SET requirepass ''
        a: ACL GETUSER default
        e: PING
        e: AUTH x""",
    "the default user may be restricted": """
        a: ACL SETUSER admin on nopass +@all ~*
        a: AUTH admin x
        a: ACL SETUSER default -@all +get
        b: GET k
        b: SET k v
        b: PING
        a: ACL SETUSER default off
        c: GET k
        c: AUTH admin x
        a: ACL SETUSER default on nopass +@all
        d: SET k v
        a: AUTH default x
        a: ACL DELUSER admin""",
}


# What 7.2 says in other words than 7.0: patterns of both, and one text for them.
DENIAL = rb"(?:[Tt]his user|User \S+) has no permissions to "
REWORDED = [
    (rb"The user executing the script can't run this command or subcommand"
     rb"|ACL failure in script: User \S+ has no permissions to run the '[^']*' command",
     b"<not in scripts>"),
    (rb"The user executing the script can't access at least one of the keys mentioned in the "
     rb"command arguments|ACL failure in script: No permissions to access a key", b"<no key>"),
    (rb"The user executing the script can't publish to the channel mentioned in the command"
     rb"|ACL failure in script: No permissions to access a channel", b"<no channel>"),
    (DENIAL + rb"access one of the keys used as arguments|No permissions to access a key",
     b"<key>"),
    (DENIAL + rb"access one of the channels used as arguments|No permissions to access a channel",
     b"<channel>"),
    (rb"(?:\$\d+\r\n)?" + DENIAL, b"<denied> "),  # DRYRUN tells it in a bulk string
    # All users have sanitize-payload: in ACL LIST, and among the flags of ACL GETUSER.
    (rb"\$\d+\r\nuser (\S+ \S+(?: nopass)?)(?: sanitize-payload)?", rb"user \1"),
]


def flags_without_sanitizing(match):
    return b"%s%d%s" % (match[1], int(match[2]) - 1, match[3])


def comparable(raw):
    for pattern, text_of_both in REWORDED:
        raw = re.sub(pattern, text_of_both, raw)
    return re.sub(rb"([*~])(\d)((?:\r\n\$\d\r\n(?:on|off|nopass))*)\r\n\$16\r\nsanitize-payload",
                  flags_without_sanitizing, raw)


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gets_the_replies_of_redis_server(pair, name, resp3):
    check_replies(pair, SCRIPTS[name], resp3, comparable)


@only_dragonfly("7.2 has one text for what is refused, and tells the user")
@pytest.mark.threads
def test_what_is_refused_is_told_as_by_7_2(server):
    with server.connect() as admin, server.connect() as c:
        ask(admin, "ACL", "SETUSER", "alice", "on", "nopass", "~k*", "resetchannels", "+get",
            "+publish", "+eval", "+config|get")
        become(c, "alice")
        in_script = "return redis.pcall(unpack(ARGV))"
        run = "User alice has no permissions to run the '%s' command"
        refused = [
            (("SET", "k", "v"), run % "set"),
            (("CONFIG", "SET", "maxmemory", "0"), run % "config|set"),
            (("GET", "other"), "No permissions to access a key"),
            (("PUBLISH", "channel", "m"), "No permissions to access a channel"),
        ]
        for command, why in refused:
            assert c.call(*command).text == "NOPERM " + why
            assert c.call("EVAL", in_script, "0", *command).text in (
                "ERR ACL failure in script: " + why,
                "ERR This Redis command is not allowed from script")
        access = "User alice has no permissions to access the '%s' %s"
        assert ask(admin, "ACL", "DRYRUN", "alice", "SET", "k", "v") == run % "set"
        assert ask(admin, "ACL", "DRYRUN", "alice", "GET", "other") == access % ("other", "key")
        assert (ask(admin, "ACL", "DRYRUN", "alice", "PUBLISH", "c", "m")
                == access % ("c", "channel"))
        for rules, shown in ((["skip-sanitize-payload"], "skip-sanitize-payload"),
                             (["reset"], "sanitize-payload")):
            ask(admin, "ACL", "SETUSER", "alice", *rules)
            assert shown in ask(admin, "ACL", "GETUSER", "alice")[1]
            assert any(f" {shown} " in line for line in ask(admin, "ACL", "LIST")
                       if line.startswith("user alice "))
        ask(admin, "ACL", "DELUSER", "alice")


@pytest.mark.parametrize("rule, shown", [
    ("%RW~a", "~a"), ("%WR~a", "~a"), ("%rw~a", "~a"), ("%R~a", "%R~a"), ("%w~a", "%W~a"),
    ("%R~", "%R~"), ("%R", "%R~"), ("%RW", "~"), ("%RW~*", "~*"), ("~", "~"), ("%R~~a", "%R~~a"),
    ("%R~a %W~a", "~a"), ("~a %R~a", "~a"), ("%R~a %R~a", "%R~a"), ("%RW~* ~a", "~* ~a"),
    ("%R~* ~*", "~*"), ("%W~ %R~", "~"),
])
def test_patterns_of_keys_are_shown_as_by_redis_server(server, rule, shown):
    with server.connect() as c:
        assert ask(c, "ACL", "SETUSER", "forms", "reset", *rule.split()) == OK
        assert ask(c, "ACL", "GETUSER", "forms")[7] == shown
        line = next(line for line in ask(c, "ACL", "LIST") if line.startswith("user forms "))
        assert line.endswith(f" {shown} resetchannels -@all")
        ask(c, "ACL", "DELUSER", "forms")


@pytest.mark.parametrize("rule", ["%RR~a", "%~a", "%X~a", "%RWR~a", "%R~a b", "~ "])
def test_wrong_patterns_of_keys_are_refused(server, rule):
    with server.connect() as c:
        assert c.call("ACL", "SETUSER", "forms", rule).text == (
            f"ERR Error in ACL SETUSER modifier '{rule}': Syntax error")


@only_dragonfly("7.0 serves it; 7.2 refuses it when it is served")
@pytest.mark.threads
@pytest.mark.parametrize("lost", [["-blpop"], ["resetkeys"]], ids=["the command", "the keys"])
@pytest.mark.parametrize("keys", [["list"], ["list", "list2", "list3"]], ids=["one", "several"])
def test_a_client_that_waits_obeys_a_change(server, lost, keys):
    with server.connect() as admin, server.connect() as c:
        ask(admin, "FLUSHALL")
        ask(admin, "ACL", "LOG", "RESET")
        ask(admin, "ACL", "SETUSER", "waits", "on", "nopass", "+@all", "~*")
        become(c, "waits")
        c.send_command("BLPOP", *keys, "0")
        wait_blocked(admin, 1)
        ask(admin, "ACL", "SETUSER", "waits", "+get")  # nothing that concerns it
        ask(admin, "ACL", "SETUSER", "waits", *lost)
        assert c.read().text == (
            "NOPERM User waits has no permissions to run the 'blpop' command"
            if lost == ["-blpop"] else "NOPERM No permissions to access a key")
        ask(admin, "RPUSH", "list", "v")
        assert ask(admin, "LRANGE", "list", "0", "-1") == ["v"]
        assert log_of(admin)[0]["username"] == "waits"
        assert c.call("PING") == Status("PONG")
        ask(admin, "ACL", "DELUSER", "waits")


def text(value):
    if isinstance(value, list):
        return [text(v) for v in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def ask(connection, *args):
    return text(connection.call(*args))


def log_of(connection):
    entries = ask(connection, "ACL", "LOG")
    return [dict(zip(entry[::2], entry[1::2])) for entry in entries]


def become(connection, user):
    assert ask(connection, "AUTH", user, "x") == OK


@pytest.mark.threads
def test_what_is_refused_is_logged(server):
    with server.connect() as admin, server.connect() as c:
        ask(admin, "ACL", "LOG", "RESET")
        ask(admin, "ACL", "SETUSER", "logged", "on", "nopass", "~k", "+get", "+eval", "+multi",
            "+publish", "resetchannels")
        become(c, "logged")
        for command in (["SET", "k", "v"], ["GET", "other"], ["GET", "other"],
                        ["PUBLISH", "c", "m"],
                        ["EVAL", "return redis.pcall('get', 'third')", "0"],
                        ["AUTH", "nobody", "y"], ["MULTI"], ["DEL", "k"]):
            c.raw(*command)
        seen = [(e["reason"], e["context"], e["object"], e["username"], e["count"])
                for e in log_of(admin)]
        assert seen == [
            ("command", "multi", "del", "logged", 1),
            ("auth", "toplevel", "AUTH", "nobody", 1),
            ("key", "lua", "third", "logged", 1),
            ("channel", "toplevel", "c", "logged", 1),
            ("key", "toplevel", "other", "logged", 2),
            ("command", "toplevel", "set", "logged", 1),
        ]
        assert all("user=logged" in e["client-info"] for e in log_of(admin))
        assert ask(admin, "ACL", "LOG", 2)[0][5] == "multi"  # the newest one
        ask(admin, "CONFIG", "SET", "acllog-max-len", "3")
        assert REFERENCE or len(log_of(admin)) == 3  # redis-server cuts when the next one comes
        ask(admin, "CONFIG", "SET", "acllog-max-len", "128")
        ask(admin, "ACL", "LOG", "RESET")
        assert log_of(admin) == []
        ask(admin, "ACL", "DELUSER", "logged")


@pytest.mark.threads
def test_living_connections_obey_a_change_at_once(server):
    with server.connect() as admin:
        ask(admin, "ACL", "SETUSER", "living", "on", "nopass", "~*", "+@all")
        clients = [server.connect() for _ in range(20)]
        for c in clients:
            become(c, "living")
            assert ask(c, "SET", "k", "v") == OK
        ask(admin, "ACL", "SETUSER", "living", "-set")
        for c in clients:
            assert c.raw("SET", "k", "v").startswith(b"-NOPERM")
            assert ask(c, "GET", "k") == "v"
        ask(admin, "ACL", "DELUSER", "living")
        for c in clients:
            with pytest.raises(OSError):
                ask(c, "GET", "k")


@pytest.mark.threads
def test_subscribers_who_lose_a_channel_are_closed(server):
    with server.connect() as admin:
        ask(admin, "ACL", "SETUSER", "sub", "on", "nopass", "+@all", "&a", "&b*")
        stays, goes, pattern = (server.connect() for _ in range(3))
        for c in (stays, goes, pattern):
            become(c, "sub")
        ask(stays, "SUBSCRIBE", "a")
        ask(goes, "SUBSCRIBE", "b1")
        ask(pattern, "PSUBSCRIBE", "b*")
        ask(admin, "ACL", "SETUSER", "sub", "resetchannels", "&a")
        assert goes.read_until_closed() == b""
        assert pattern.read_until_closed() == b""
        ask(admin, "PUBLISH", "a", "m")
        assert text(stays.read()) == ["message", "a", "m"]
        ask(admin, "ACL", "DELUSER", "sub")


@pytest.mark.threads
def test_who_deletes_itself_gets_its_reply(server):
    with server.connect() as c:
        ask(c, "ACL", "SETUSER", "self", "on", "nopass", "+@all", "~*")
        become(c, "self")
        assert ask(c, "ACL", "DELUSER", "self") == 1
        assert c.read_until_closed() == b""


@pytest.mark.threads
def test_a_blocked_client_of_a_deleted_user_takes_nothing(server):
    with server.connect() as admin, server.connect() as c:
        ask(admin, "FLUSHALL")
        ask(admin, "ACL", "SETUSER", "waits", "on", "nopass", "+@all", "~*")
        become(c, "waits")
        c.send_command("BLPOP", "list", "0")
        wait_blocked(admin, 1)
        ask(admin, "ACL", "DELUSER", "waits")
        assert c.read_until_closed() == b""
        ask(admin, "RPUSH", "list", "v")
        assert ask(admin, "LRANGE", "list", "0", "-1") == ["v"]


@pytest.mark.threads
def test_scripts_on_other_threads_ask_for_their_own_user(server):
    """Keys in many shards, so that scripts run on all threads."""
    script = "return redis.pcall('set', KEYS[1], ARGV[1])"
    denied = (b"-ERR The user executing the script", b"-ERR ACL failure in script: ")
    with server.connect() as admin, server.connect() as c:
        ask(admin, "ACL", "SETUSER", "scripts", "on", "nopass", "~good*", "+eval", "+set", "-get")
        become(c, "scripts")
        for i in range(50):
            assert ask(c, "EVAL", script, 1, f"good{i}", "v") == OK
            assert c.raw("EVAL", "return redis.pcall('set', ARGV[1], 'v')", 1, f"good{i}",
                         f"bad{i}").startswith(denied)
            get = c.raw("EVAL", "return redis.pcall('get', KEYS[1])", 1, f"good{i}")
            assert get.startswith(denied)
        two = ["good1", "good2", "good3", "good4"]
        assert c.raw("EVAL", "for _, k in ipairs(KEYS) do redis.call('set', k, 'w') end "
                     "return redis.pcall('del', KEYS[1])", 4, *two).startswith(denied)
        assert ask(admin, "MGET", *two) == ["w"] * 4
        assert [k for k in ask(admin, "KEYS", "bad*")] == []
        ask(admin, "ACL", "DELUSER", "scripts")


@pytest.mark.threads
def test_pipelines_while_the_user_changes(server):
    """Each command is either carried out or refused; nothing is lost, and nobody is mistaken for
    another."""
    with server.connect() as admin, server.connect() as c:
        ask(admin, "ACL", "SETUSER", "flips", "on", "nopass", "~*", "+@all")
        become(c, "flips")
        is_over = threading.Event()

        def flip():
            with server.connect() as other:
                while not is_over.is_set():
                    ask(other, "ACL", "SETUSER", "flips", "-incr")
                    ask(other, "ACL", "SETUSER", "flips", "+incr")

        flipper = threading.Thread(target=flip)
        flipper.start()
        done = 0
        try:
            for _ in range(200):
                for i in range(20):
                    c.send_command("INCR", f"n{i}")
                for _ in range(20):
                    reply = c.read_raw()
                    assert reply.startswith((b":", b"-NOPERM "))
                    done += reply.startswith(b":")
        finally:
            is_over.set()
            flipper.join()
        total = sum(int(v or 0) for v in ask(admin, "MGET", *[f"n{i}" for i in range(20)]))
        assert total == done
        ask(admin, "ACL", "DELUSER", "flips")
        ask(admin, "FLUSHALL")


@only_dragonfly("it has one thread")
def test_migrated_connections_keep_their_user(start_server):
    server = start_server(proactor_threads=4)
    with server.connect() as admin:
        ask(admin, "ACL", "SETUSER", "moves", "on", "nopass", "~k*", "+get", "+set", "+acl|whoami")
        clients = [server.connect() for _ in range(8)]
        for i, c in enumerate(clients):
            become(c, "moves")
            for _ in range(300):
                ask(c, "GET", f"k{i}")
        assert int(admin.info("dispatch")["migrations"]) > 0
        for c in clients:
            assert ask(c, "ACL", "WHOAMI") == "moves"
            assert c.raw("GET", "z").startswith(b"-NOPERM")


# --- Files ---

FILE = """
user default on nopass ~* &* +@all

user alice on >secret ~a* +@read
user bob on nopass ~b* resetchannels -@all +set (~c* +get)
"""


@pytest.fixture
def acl_file(tmp_path):
    path = tmp_path / "users.acl"
    path.write_text(FILE)
    path.chmod(0o640)
    return path


def test_users_come_from_a_file(start_server, acl_file):
    server = start_server(aclfile=str(acl_file))
    with server.connect() as c:
        assert ask(c, "ACL", "USERS") == ["alice", "bob", "default"]
        assert c.raw("AUTH", "alice", "wrong").startswith(b"-WRONGPASS")
        assert ask(c, "AUTH", "alice", "secret") == OK
        assert ask(c, "GET", "a") is None
        assert c.raw("SET", "a", "v").startswith(b"-NOPERM")


@only_dragonfly("ACL LOAD closes clients whose user stays")
def test_a_file_is_saved_and_loaded(start_server, acl_file):
    server = start_server(aclfile=str(acl_file))
    with server.connect() as c, server.connect() as alice:
        ask(alice, "AUTH", "alice", "secret")
        ask(c, "ACL", "SETUSER", "eve", "on", ">x", "+get", "~e*", "(+set %W~f*)")
        users = ask(c, "ACL", "LIST")
        assert ask(c, "ACL", "SAVE") == OK
        assert [line for line in acl_file.read_text().splitlines()] == users
        assert acl_file.stat().st_mode & 0o777 == 0o640
        ask(c, "ACL", "SETUSER", "eve", "+@all")
        ask(c, "ACL", "DELUSER", "bob")
        assert ask(c, "ACL", "LOAD") == OK
        assert ask(c, "ACL", "LIST") == users
        assert ask(alice, "GET", "a") is None  # its user is still there


@pytest.mark.skipif(bool(REFERENCE), reason="redis-server closes clients and crashes on some lines")
@pytest.mark.parametrize("line, why", [
    ("user x on +nosuch", "Unknown command or category name in ACL"),
    ("user x on foo", "Syntax error"),
    ("foo x on", "should start with user keyword"),
    ("user", "should start with user keyword"),
    ("user alice on", "Duplicate user 'alice' found on line 6"),
    ("user x on (+get", "Unmatched parenthesis"),
])
def test_a_wrong_file_changes_nothing(start_server, acl_file, line, why):
    server = start_server(aclfile=str(acl_file))
    with server.connect() as c:
        before = ask(c, "ACL", "LIST")
        acl_file.write_text(FILE + line + "\n")
        assert why in c.raw("ACL", "LOAD").decode()
        assert ask(c, "ACL", "LIST") == before
        acl_file.unlink()
        assert "No such file" in c.raw("ACL", "LOAD").decode()
    acl_file.write_text(FILE + line + "\n")
    with pytest.raises(ServerFailed, match=why.split("'")[0]):
        start_server(aclfile=str(acl_file))


def test_a_file_that_cannot_be_written_is_told(start_server, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "users.acl"
    path.write_text(FILE)
    server = start_server(aclfile=str(path))
    path.unlink()
    folder.rmdir()
    with server.connect() as c:
        assert c.raw("ACL", "SAVE").startswith(b"-ERR There was an error trying to save the ACLs")


@pytest.mark.skipif(bool(REFERENCE), reason="redis-server has them in its configuration file")
def test_users_come_from_flags(start_server):
    server = start_server(user="alice on nopass +@all ~*\nbob off")
    with server.connect() as c:
        assert ask(c, "ACL", "USERS") == ["alice", "bob", "default"]
    with pytest.raises(ServerFailed, match="Duplicate user"):
        start_server(user="alice on\nalice off")
    with pytest.raises(ServerFailed, match="not both"):
        start_server(user="alice on", aclfile="x")


def test_acl_pubsub_default(start_server):
    server = start_server(acl_pubsub_default="allchannels")
    with server.connect() as c:
        ask(c, "ACL", "SETUSER", "new")
        assert ask(c, "ACL", "GETUSER", "new")[9] == "&*"
        ask(c, "CONFIG", "SET", "acl-pubsub-default", "resetchannels")
        ask(c, "ACL", "SETUSER", "newer")
        assert ask(c, "ACL", "GETUSER", "newer")[9] == ""


@pytest.mark.threads
def test_generated_passwords(server):
    with server.connect() as c:
        assert len(ask(c, "ACL", "GENPASS")) == 64
        assert len(ask(c, "ACL", "GENPASS", 5)) == 2
        assert len(ask(c, "ACL", "GENPASS", 4096)) == 1024
        assert ask(c, "ACL", "GENPASS") != ask(c, "ACL", "GENPASS")
