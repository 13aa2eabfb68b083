# SPDX-License-Identifier: Apache-2.0
"""Faults that Redis 8.8 and 8.10 have mended: none of them is here. Of the others of these releases
tests are in list_test.cc, bitmap_test.cc, config_test.cc, units_test.cc, tls_test.cc,
conditional_writes_test.cc, and in test_blocking.py (keys that become lists while clients wait)."""

import select

import pytest

from harness.resp import OK, Error, Push, Status
from harness.server import only_dragonfly, wait_blocked, wait_until
from test_config_file import refusal, run  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.sanitized, only_dragonfly("redis-server 7.0 has these faults")]

CANNOT_ACCESS = Error("NOPERM No permissions to access a key")


# --- What ACL looks at, and what a command uses ---


@pytest.mark.threads
def test_the_target_of_sort_is_the_one_that_acl_has_looked_at(server, r):
    r.do("FLUSHALL")
    r.do("RPUSH list 2 1")
    # The names of the options themselves are allowed.
    r.do("ACL SETUSER sorts on nopass +@all ~list ~STORE ~ASC ~DESC ~GET ~own")
    with server.connect() as c:
        assert c.do("AUTH sorts x") == OK
        for words in ("BY STORE STORE other", "STORE other BY STORE ASC", "GET STORE STORE other",
                      "STORE own BY STORE DESC STORE other", "LIMIT 0 1 BY store STORE other"):
            assert c.do(f"SORT list {words}") == CANNOT_ACCESS, words
            reply = c.call("EVAL", "return redis.pcall('SORT', unpack(ARGV))", 0, "list",
                           *words.split())
            assert "No permissions to access a key" in reply.text, words
            assert r.do("EXISTS other") == 0
        for words in ("BY STORE STORE own", "STORE other BY STORE STORE own"):
            assert c.do(f"SORT list {words}") == 2
            assert r.do("DEL own") == 1
            assert r.do(f"COMMAND GETKEYS SORT list {words}") == [b"list", b"own"]
    r.do("ACL DELUSER sorts")


@pytest.mark.threads
def test_sort_in_a_transaction_locks_its_target(r):
    r.do("FLUSHALL")
    r.do("RPUSH list 2 1")
    for i in range(20):  # keys of all shards
        r.do("MULTI")
        r.do(f"SORT list BY STORE STORE t{i}")
        r.do(f"LRANGE t{i} 0 -1")
        assert r.do("EXEC") == [2, [b"2", b"1"]]


@pytest.mark.threads
def test_targets_of_georadius_that_are_given_twice(server, r):
    r.do("FLUSHALL")
    r.do("GEOADD places 0 0 m")
    r.do("ACL SETUSER stores on nopass +@all ~places ~own ~STORE")
    with server.connect() as c:
        assert c.do("AUTH stores x") == OK
        for start in ("GEORADIUS places 0 0 1 km", "GEORADIUSBYMEMBER places m 1 km"):
            for first in ("STORE", "STOREDIST"):
                for middle in ("own STORE", "own STOREDIST", "STORE STORE"):
                    assert c.do(f"{start} {first} {middle} other") == CANNOT_ACCESS
                assert c.do(f"{start} {first} other STORE own") == 1
                assert r.do("DEL own") == 1
            assert r.do("EXISTS other") == 0
    r.do("ACL DELUSER stores")


@pytest.mark.threads
def test_streams_that_have_the_names_of_options(server, r):
    r.do("FLUSHALL")
    for key in ("STREAMS", "secret", "own"):
        r.do(f"XADD {key} 1-1 f {key}")
        r.do(f"XGROUP CREATE {key} STREAMS 0")
    r.do("ACL SETUSER reads on nopass +@all ~own ~STREAMS")
    with server.connect() as c:
        assert c.do("AUTH reads x") == OK
        for words in ("XREAD STREAMS STREAMS secret 0 0", "XREAD COUNT 1 STREAMS secret 0",
                      "XREADGROUP GROUP STREAMS STREAMS STREAMS secret >",
                      "XREADGROUP GROUP STREAMS c COUNT 1 STREAMS secret >",
                      "XREAD MAXCOUNT 5 STREAMS secret 0", "XREAD MAXSIZE 5 STREAMS secret 0"):
            assert c.do(words) == CANNOT_ACCESS, words
        assert c.do("XREAD STREAMS STREAMS own 0 0") == [
            [b"STREAMS", [[b"1-1", [b"f", b"STREAMS"]]]], [b"own", [[b"1-1", [b"f", b"own"]]]]]
        # A value that is no number is no end of the options.
        for option in ("COUNT", "MAXCOUNT", "MAXSIZE", "BLOCK"):
            reply = c.do(f"XREAD {option} STREAMS STREAMS own 0")
            assert isinstance(reply, Error) and not reply.text.startswith("NOPERM")
    r.do("ACL DELUSER reads")


@pytest.mark.threads
def test_bcast_does_not_tell_names_of_keys_that_may_not_be_read(server, r):
    r.do("FLUSHALL")
    r.do("ACL SETUSER caches on nopass +@all ~own:* %W~written:*")
    with server.connect(resp3=True) as c:
        assert c.do("AUTH caches x") == OK
        assert c.do("CLIENT TRACKING on BCAST") == OK
        for key in ("secret:1", "written:1", "own:1"):
            r.do(f"SET {key} v")
        assert c.read() == Push((b"invalidate", [b"own:1"]))
        r.do("MSET secret:2 v own:2 v")
        assert c.read() == Push((b"invalidate", [b"own:2"]))
        # What counts is what it may do now.
        r.do("ACL SETUSER caches ~secret:*")
        r.do("SET secret:3 v")
        assert c.read() == Push((b"invalidate", [b"secret:3"]))
    r.do("ACL DELUSER caches")


# --- Transactions of who loses rights ---


@pytest.mark.threads
@pytest.mark.parametrize("keys", ["k k2 k3 k4", "{k}1 {k}2 {k}3 {k}4"], ids=["shards", "shard"])
def test_rights_are_those_that_there_are_at_exec(server, r, keys):
    r.do("FLUSHALL")
    r.do("ACL SETUSER loses on nopass +@all ~* &*")
    a, b, *_ = keys.split()
    with server.connect() as c:
        assert c.do("AUTH loses x") == OK
        c.do(f"WATCH {a}")
        c.do("MULTI")
        for command in (f"SET {a} v", f"MSET {keys.replace(' ', ' v ')} v",
                        f"SORT {a} BY x* STORE {b}", "PUBLISH c m", "PING"):
            assert c.do(command) == Status("QUEUED")
        assert c.call("EVAL", "return redis.call('set', KEYS[1], 'v')", 1, a) == Status("QUEUED")
        assert c.call("EVAL", "return redis.call('get', 'free')", 0) == Status("QUEUED")
        r.do("ACL SETUSER loses resetkeys resetchannels")
        replies = c.do("EXEC")
        assert [isinstance(reply, Error) for reply in replies] == [
            True, True, True, True, False, True, True]
        assert r.do("DBSIZE") == 0
        r.do("ACL SETUSER loses allkeys allchannels")
        assert c.do(f"SET {a} v") == OK  # it is in no MULTI any more
    r.do("ACL DELUSER loses")


@pytest.mark.threads
def test_an_exec_that_is_forbidden_ends_the_transaction(server, r):
    r.do("FLUSHALL")
    r.do("ACL SETUSER loses on nopass +@all ~* &*")
    with server.connect() as c:
        assert c.do("AUTH loses x") == OK
        for lost in ("-exec", "-@all"):
            c.do("WATCH w")
            c.do("MULTI")
            c.do("SET k v")
            r.do(f"ACL SETUSER loses {lost}")
            assert c.do("EXEC").text.startswith(
                "EXECABORT Transaction discarded because of: NOPERM User loses")
            r.do("ACL SETUSER loses +@all")
            assert c.do("PING") == Status("PONG")
            assert c.do("DISCARD") == Error("ERR DISCARD without MULTI")
            # Nor does it watch.
            c.do("MULTI")
            r.do("SET w changed")
            assert c.do("PING") == Status("QUEUED")
            assert c.do("EXEC") == [Status("PONG")]
        assert r.do("EXISTS k") == 0
        # A DISCARD that is forbidden leaves it as it is, and what was queued is not carried out.
        c.do("MULTI")
        c.do("SET k v")
        r.do("ACL SETUSER loses -discard")
        assert c.do("DISCARD").text.startswith("NOPERM")
        assert c.do("EXEC").text.startswith("EXECABORT")
        assert r.do("EXISTS k") == 0
    r.do("ACL DELUSER loses")


# --- Errors are one line ---

LINES = b"a\r\n+OK\n-ERR b\rc"


@pytest.mark.threads
@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
def test_no_error_is_more_than_a_line(server, resp3):
    texts = LINES.decode().replace("\r", "\\r").replace("\n", "\\n")
    scripts = [f"return redis.error_reply('{texts}')", f"return {{err='{texts}'}}",
               f"error('{texts}')", f"error({{err='{texts}'}})", f"return {{ok='{texts}'}}",
               f"return redis.status_reply('{texts}')", f"return redis.call('{texts}')",
               f"return redis.pcall('{texts}')", f"return redis.pcall('config', 'get', '{texts}')",
               f"return redis.pcall('object', '{texts}', 'x')",
               f"return redis.call('xreadgroup', 'group', '{texts}', 'c', 'streams', 'k', '>')",
               f"return redis.sha1hex('{texts}', 1)", f"return nosuch['{texts}']",
               f"local t = {{}}; return t['{texts}'].x", f"redis.setresp('{texts}')",
               f"return cjson.decode('{texts}')", f"return loadstring('{texts}')()"]
    commands = [[LINES], [LINES, LINES], ["GET", LINES, LINES], ["CLIENT", LINES],
                ["CLIENT", "KILL", LINES], ["CLIENT", "KILL", "TYPE", LINES],
                ["CLIENT", "SETINFO", "lib-name", LINES],
                ["CLIENT", "SETNAME", LINES], ["CONFIG", LINES], ["CONFIG", "SET", LINES, "x"],
                ["CONFIG", "SET", "maxmemory", LINES], ["CONFIG", "SET", "save", LINES],
                ["CONFIG", "SET", "maxmemory-policy", LINES], ["CONFIG", "SET", "dir", LINES],
                ["CONFIG", "SET", "tls-cert-file", LINES, "tls-port", "1"],
                ["CONFIG", "SET", "notify-keyspace-events", LINES], ["OBJECT", LINES],
                ["HELLO", "3", LINES], ["HELLO", LINES], ["ACL", "SETUSER", "x", LINES],
                ["ACL", "SETUSER", LINES], ["ACL", "DRYRUN", LINES, "get", "k"],
                ["ACL", "DRYRUN", "default", LINES], ["ACL", "CAT", LINES], ["AUTH", LINES, "x"],
                ["XREADGROUP", "GROUP", LINES, "c", "STREAMS", LINES, ">"],
                ["XADD", "k", LINES, "f", "v"], ["XGROUP", "SETID", "none", LINES, "0"],
                ["FUNCTION", "LOAD", LINES], ["FUNCTION", "LOAD", b"#!lua name=" + LINES],
                ["FUNCTION", "LOAD", b"#!lua name=l\nredis.register_function('" + LINES + b"')"],
                ["FCALL", LINES, "0"], ["EVAL", LINES, "0"], ["EVALSHA", LINES, "0"],
                ["COMMAND", "GETKEYS", LINES], ["LATENCY", LINES], ["MEMORY", LINES],
                ["SLOWLOG", LINES], ["PUBSUB", LINES], ["GEOADD", "k", LINES, "0", "m"],
                ["BITFIELD", "k", "GET", LINES, "0"], ["ZADD", "k", LINES, "m"],
                ["JSON.SET", "k", "$", LINES], ["JSON.GET", "none", LINES],
                ["RESTORE", "k", "0", LINES],
                ["REPLICAOF", LINES, "1x"], ["SUBSCRIBE"], ["SORT", "k", LINES],
                *(["EVAL", script, "0"] for script in scripts)]
    with server.connect(resp3=resp3) as c:
        for command in commands:
            c.send_command(*command)
            c.send_command("ECHO", "next")
            first = c.read()  # whatever it is: the next reply is the next one
            assert c.read() == b"next", (command, first)
            # Queued, and in a script.
            c.call("MULTI")
            c.call(*command)
            c.call("EXEC")
            assert c.call("ECHO", "next") == b"next", command
        c.send(b"GET " + b"x\ry z\n")
        assert isinstance(c.read(), Error)
        assert c.call("ECHO", "next") == b"next"
    with server.connect() as r:
        r.do("ACL DELUSER x")
        r.do("FLUSHALL")


# --- CONFIG ---

CONTROLS = ["\n", "\r", "\0", "\x1b", "\x7f"]
PASSWORDS = ["requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"]


def test_a_value_with_control_characters_is_none(start_server):
    server = start_server(enable_protected_configs="yes")
    with server.connect() as r:
        values = r.call("CONFIG", "GET", "*")
        for name, value in zip(values[::2], values[1::2]):
            for control in ["\0"] if name.decode() in PASSWORDS else CONTROLS:
                byte = control.encode()
                for wrong in (value + byte + b"appendonly yes", byte + value, value + byte):
                    reply = r.call("CONFIG", "SET", name, wrong)
                    assert isinstance(reply, Error), (name, wrong)
        assert r.call("CONFIG", "GET", "*") == values
        assert r.call("CONFIG", "SET", "dbfilename", "a\0b").text == (
            "ERR CONFIG SET failed (possibly related to argument 'dbfilename') - "
            "argument must have no control characters")
        # Text beyond ASCII is none of them.
        assert r.call("CONFIG", "SET", "dbfilename", "d\u00fcmp.rdb") == OK


def test_no_value_becomes_a_line_of_its_own_in_redis_conf(run, tmp_path):  # noqa: F811
    path = tmp_path / "redis.conf"
    path.write_text("timeout 7\n")
    server = run("redis.conf", "--port", "PORT")
    wrong = "x\nappendonly yes\r\n\x01\"' #"
    with server.connect() as c:
        for name in PASSWORDS[1:]:
            assert c.call("CONFIG", "SET", name, wrong) == OK
        assert c.call("CONFIG", "REWRITE") == OK
        assert c.call("CONFIG", "GET", "masterauth")[1] == wrong.encode()
    lines = path.read_bytes().split(b"\n")
    assert not [line for line in lines if line.startswith(b"appendonly")]
    assert not [line for line in lines if any(byte < 32 for byte in line)]
    assert server.stop() == 0
    again = run("redis.conf", "--port", "PORT")
    assert again.config("masterauth") == wrong
    assert again.config("appendonly") == "no"
    assert again.stop() == 0
    # Half of a password would be one that nobody has chosen.
    for name in ("requirepass", "dbfilename"):
        path.write_text(f'{name} "half\\x00whole"\n')
        assert f"the value of '{name}' has a NUL in it" in refusal(tmp_path, "redis.conf")


def test_a_setting_that_is_named_twice_by_whatever_names(r):
    for pairs in ("slave-read-only no replica-read-only yes",
                  "replica-read-only no slave_read_only yes",
                  "list-max-listpack-size 5 list-max-ziplist-size 6"):
        assert r.do(f"CONFIG SET {pairs}").text.endswith("duplicate parameter")
    assert r.do("CONFIG GET list-max-ziplist-size") == [b"list-max-ziplist-size", b"-2"]


@pytest.mark.parametrize("value", ["9999999999gb", "8589934592gb", "17179869184gb",
                                   "18014398509481984kb", "18014398509481985kb",
                                   "9223372036854775808b", "99999999999999999999b"])
def test_a_memory_value_that_overflows_is_none(r, value):
    names = r.do("CONFIG GET *")[::2]
    for name in ("maxmemory", "client-query-buffer-limit", "maxmemory-clients", "repl-backlog-size",
                 "auto-aof-rewrite-min-size", "proto-max-bulk-len"):
        assert name.encode() in names
        before = r.do(f"CONFIG GET {name}")
        assert isinstance(r.do(f"CONFIG SET {name} {value}"), Error)
        assert r.do(f"CONFIG GET {name}") == before
    reply = r.call("CONFIG", "SET", "client-output-buffer-limit", f"normal {value} 0 0")
    assert isinstance(reply, Error)


# --- Numbers ---


def test_offsets_and_indexes_that_do_not_fit(r):
    r.do("FLUSHALL")
    r.do("RPUSH list a b c")
    for index in (1 << 32, (1 << 32) + 1, -(1 << 32) - 1, (1 << 63) - 1, -(1 << 63), 1 << 31):
        assert r.do(f"LSET list {index} x") == Error("ERR index out of range")
        assert r.do(f"LINDEX list {index}") is None
        assert r.do(f"LRANGE list {index} {index}") == []
        assert r.do(f"LRANGE list 0 {index}") == ([] if index < 0 else [b"a", b"b", b"c"])
    assert r.do("LRANGE list 0 -1") == [b"a", b"b", b"c"]
    wrong = Error("ERR bit offset is not an integer or out of range")
    for offset in [(1 << 63) - n for n in (1, 2, 7, 8, 9, 63, 64, 65)] + [
            f"#{n}" for n in ((1 << 63) - 1, 1 << 60, 1 << 58, (1 << 57) + 1, 1 << 57)]:
        for field in ("u1", "u63", "i64"):
            if offset == f"#{1 << 57}" and field == "u1":
                continue
            assert r.do(f"BITFIELD bits SET {field} {offset} 1") == wrong
            assert r.do(f"BITFIELD bits GET {field} {offset}") == wrong
            assert r.do(f"BITFIELD_RO bits GET {field} {offset}") == wrong
            assert r.do(f"BITFIELD bits INCRBY {field} {offset} 1") == wrong
    assert r.do("EXISTS bits") == 0


def test_conditions_of_set_exclude_each_other(r):
    r.do("SET k v")
    digest = "0" * 16
    conditions = ["NX", "XX", "IFEQ v", "IFNE w", f"IFDEQ {digest}", f"IFDNE {digest}"]
    for one in conditions:
        for other in conditions:
            if one != other:
                assert r.do(f"SET k w {one} {other}") == Error("ERR syntax error"), (one, other)
    assert r.do("GET k") == b"v"


# --- Who waits, and goes at that moment ---


@pytest.mark.threads
@pytest.mark.parametrize("wait", ["BLPOP k 0", "BLMOVE k {t} LEFT LEFT 0", "BZPOPMIN k 0",
                                  "XREAD BLOCK 0 STREAMS k $",
                                  "BLMOVEM k {t} LEFT LEFT 0 COUNT 1 BULK"])
def test_a_client_that_is_killed_by_what_serves_another_one(server, r, wait):
    push = {"BZ": "ZADD k 1 a 2 b", "XR": "XADD k * f v"}.get(wait[:2], "RPUSH k a b")
    for target in ("t1", "t2", "t3"):
        for kills in ("MULTI|{kill}|{push}|EXEC", "MULTI|{push}|{kill}|EXEC", "{push}|{kill}"):
            r.do("FLUSHALL")
            with server.connect() as first, server.connect() as second:
                numbers = [c.do("CLIENT ID") for c in (first, second)]
                first.send_command(*wait.replace("{t}", target).split())
                wait_blocked(r, 1)
                second.send_command(*wait.replace("{t}", target).split())
                wait_blocked(r, 2)
                kill = f"CLIENT KILL ID {numbers[1]}"
                for command in kills.format(kill=kill, push=push).split("|"):
                    assert not isinstance(r.do(command), Error)
                assert first.read() is not None
                with pytest.raises(ConnectionError):
                    while True:  # it may have been served before
                        second.read()
            wait_blocked(r, 0)
            assert r.do("PING") == Status("PONG")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_client_that_is_evicted_while_another_one_is_served(start_server, threads):
    server = start_server(proactor_threads=threads, maxmemory_clients="8mb")
    with server.connect() as r:
        r.do("CLIENT NO-EVICT on")
        waiting = [server.connect() for _ in range(6)]
        for number, c in enumerate(waiting):
            c.send_command("BLPOP", "list", 0)
            wait_blocked(r, number + 1)
        # Nobody reads, so that replies stay, until clients have to go.
        value = b"x" * (4 << 20)
        for _ in range(len(waiting)):
            r.call("RPUSH", "list", value)
        wait_until(lambda: r.info("stats")["evicted_clients"] != "0", what="an eviction")
        assert r.do("PING") == Status("PONG")
        with server.connect() as c:
            r.do("DEL list")
            c.send_command("BLPOP", "list", 0)

            def is_served():
                r.do("RPUSH list v")  # whoever else still waits comes first
                return select.select([c.sock], [], [], 0.01)[0]

            wait_until(is_served, what="it is served")
            assert c.read() == [b"list", b"v"]
        for c in waiting:
            c.close()


@pytest.mark.parametrize("resp3", [False, True], ids=["resp2", "resp3"])
def test_who_subscribes_when_memory_is_full(start_server, resp3):
    server = start_server(proactor_threads=2)
    with server.connect() as r, server.connect(resp3=resp3) as c:
        r.do("SET k v")
        r.do("CONFIG SET maxmemory 1mb")
        r.call("MSET", *(part for i in range(200) for part in (f"key{i}", "x" * 5000)))
        wait_until(lambda: isinstance(r.call("SET", "more", "x" * 100_000), Error),
                   what="full memory")
        for name in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"):
            for number in range(300):
                c.send_command(name, f"{name}{number}" + "x" * 1000, f"{name}{number}")
                for _ in range(2):
                    reply = c.read()
                    assert reply.items[0] == name.lower().encode() if resp3 else (
                        reply[0] == name.lower().encode())
        assert r.call("PUBLISH", "SUBSCRIBE1", "m") == 1
        assert (c.read().items if resp3 else c.read())[-1] == b"m"
        assert r.do("PING") == Status("PONG")
