# SPDX-License-Identifier: Apache-2.0
"""What Redis 7.2 and 7.4 brought, where no other file has it: docs/release-notes.md says which.
What the reference, 7.0, does not have yet is for ours only."""

import pytest

from harness.resp import OK, Error, Push, Status
from harness.server import only_dragonfly, wait_blocked, wait_until

pytestmark = [pytest.mark.threads]


def last_entry(r, *keys, options=()):
    return r.call("XREAD", *options, "STREAMS", *keys, *["+"] * len(keys))


@only_dragonfly("7.4")
def test_xread_plus_reads_the_last_entry(r):
    assert last_entry(r, "s") is None
    for i in range(1, 4):
        r.call("XADD", "s", f"{i}-0", "f", str(i))
    last = [[b"3-0", [b"f", b"3"]]]
    assert last_entry(r, "s") == [[b"s", last]]
    assert last_entry(r, "s", options=("COUNT", "2")) == [[b"s", last]]
    assert last_entry(r, "s", options=("BLOCK", "1")) == [[b"s", last]]
    assert last_entry(r, "none", "s") == [[b"s", last]]
    r.call("XDEL", "s", "3-0")
    assert last_entry(r, "s") == [[b"s", [[b"2-0", [b"f", b"2"]]]]]
    r.call("XTRIM", "s", "MAXLEN", "0")
    assert last_entry(r, "s") is None
    r.call("XADD", "wide", "1-0", "f", "1")
    r.call("XADD", "wide", "18446744073709551615-18446744073709551615", "f", "2")
    assert last_entry(r, "wide")[0][1][0][0] == b"18446744073709551615-18446744073709551615"


@only_dragonfly("7.4")
@pytest.mark.parametrize("key", ["missing", "emptied"])
def test_xread_plus_of_nothing_waits_for_the_next_entry(server, r, key):
    r.call("XADD", "emptied", "5-0", "f", "0")
    r.call("XDEL", "emptied", "5-0")
    with server.connect() as waiter:
        waiter.send_command("XREAD", "BLOCK", "0", "STREAMS", key, "+")
        wait_blocked(r, 1)
        r.call("XADD", key, "6-0", "f", "1")
        assert waiter.read() == [[key.encode(), [[b"6-0", [b"f", b"1"]]]]]


@only_dragonfly("7.4")
def test_xreadgroup_has_no_plus(r):
    r.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    answer = r.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "+")
    assert answer.text.startswith("ERR The + ID is meaningless in the context of XREADGROUP")


@only_dragonfly("7.2 and 7.4")
def test_info_clients_counts_who_waits_and_watches(server, r):
    names = (
        "watching_clients",
        "total_watched_keys",
        "total_blocking_keys",
        "total_blocking_keys_on_nokey",
    )

    def counts():
        clients = r.info("clients")
        return [int(clients[name]) for name in names]

    assert counts() == [0, 0, 0, 0]
    r.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    with server.connect() as one, server.connect() as two, server.connect() as watcher:
        one.send_command("BLPOP", "a", "b", "0")
        two.send_command("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
        watcher.call("WATCH", "x", "y", "z")
        wait_until(lambda: counts() == [1, 3, 3, 1])
        lines = r.call("CLIENT", "LIST").decode().splitlines()
        assert sorted(line.split(" watch=")[1].split(" ")[0] for line in lines) == list("0003")
        watcher.call("UNWATCH")
        r.call("RPUSH", "a", "1")
        r.call("DEL", "s")
        wait_until(lambda: counts() == [0, 0, 0, 0])


@only_dragonfly("7.4")
def test_info_keyspace_counts_hashes_with_deadlines_of_fields(r):
    r.call("HSET", "h", "f", "1")
    assert r.info("keyspace")["db0"].endswith("subexpiry=0")
    r.call("HEXPIRE", "h", "1000", "FIELDS", "1", "f")
    wait_until(lambda: r.info("keyspace")["db0"].endswith("subexpiry=1"))


PUBLISHES = {
    "exec": (["MULTI"], ["PUBLISH", "c", "m"], ["PING"], ["EXEC"]),
    "exec over shards": (["MULTI"], ["PUBLISH", "c", "m"], ["MSET", "a", "1", "b", "2"], ["EXEC"]),
    "shard channel": (["MULTI"], ["SPUBLISH", "sc", "m"], ["PING"], ["EXEC"]),
    "script": (["EVAL", "redis.call('PUBLISH', 'c', 'm') return 7", "0"],),
    "script with a key": (["EVAL", "redis.call('PUBLISH', 'c', 'm') return 7", "1", "k"],),
    "script with keys": (["EVAL", "redis.call('PUBLISH', 'c', 'm') return 7", "2", "k", "l"],),
    "plain": (["PUBLISH", "c", "m"],),
}


@only_dragonfly("7.2 sends the reply first")
@pytest.mark.parametrize("way", PUBLISHES)
def test_a_client_gets_its_reply_before_its_own_message(server, way):
    with server.connect(resp3=True) as client:
        client.call("SUBSCRIBE", "c")
        client.call("SSUBSCRIBE", "sc")
        for _ in range(20):
            for command in PUBLISHES[way]:
                client.send_command(*command)
            replies = [client.read() for _ in range(len(PUBLISHES[way]) + 1)]
            assert isinstance(replies[-1], Push) and replies[-1].items[2] == b"m", replies
            assert not any(isinstance(reply, Push) for reply in replies[:-1]), replies


@only_dragonfly("7.2 sends the reply first")
def test_messages_of_others_come_while_a_client_waits(server, r):
    with server.connect(resp3=True) as client:
        client.call("SUBSCRIBE", "c")
        client.send_command("BLPOP", "none", "0")
        wait_blocked(r, 1)
        r.call("PUBLISH", "c", "1")
        assert client.read() == Push((b"message", b"c", b"1"))
        r.call("RPUSH", "none", "x")
        assert client.read() == [b"none", b"x"]


@only_dragonfly("7.2 sends the reply first")
def test_what_an_exec_publishes_and_leaves_comes_behind_it(server):
    with server.connect(resp3=True) as client:
        commands = (["MULTI"], ["SUBSCRIBE", "d"], ["PUBLISH", "d", "m"], ["UNSUBSCRIBE"], ["EXEC"])
        for command in commands:
            client.send_command(*command)
        for _ in commands:
            client.read()
        assert client.read() == Push((b"message", b"d", b"m"))
        assert client.call("PING") == Status("PONG")


@only_dragonfly("7.2: CLIENT SETINFO")
def test_setinfo_and_no_touch_are_in_client_list(r):
    assert r.call("CLIENT", "SETINFO", "LIB-NAME", "lib") == OK
    assert r.call("CLIENT", "SETINFO", "lib-ver", "1.2") == OK
    assert r.call("CLIENT", "NO-TOUCH", "ON") == OK
    line = r.call("CLIENT", "INFO").decode()
    assert " lib-name=lib lib-ver=1.2" in line and " flags=T " in line
    assert isinstance(r.call("CLIENT", "SETINFO", "lib-name", "a b"), Error)
    assert isinstance(r.call("CLIENT", "SETINFO", "other", "a"), Error)


@only_dragonfly("7.4: CLIENT KILL MAXAGE")
def test_client_kill_by_age(server, r):
    with server.connect() as old:
        old.call("PING")
        assert r.call("CLIENT", "KILL", "MAXAGE", "100000") == 0
        assert isinstance(r.call("CLIENT", "KILL", "MAXAGE", "x"), Error)
        wait_until(lambda: r.call("CLIENT", "KILL", "MAXAGE", "1", "SKIPME", "yes") == 1)


@only_dragonfly("7.2: WITHSCORE; 7.4: NOVALUES")
def test_options_of_7_2_and_7_4(r):
    r.call("ZADD", "z", "1", "a", "2", "b")
    assert r.call("ZRANK", "z", "b", "WITHSCORE") == [1, b"2"]
    assert r.call("ZREVRANK", "z", "b", "WITHSCORE") == [0, b"2"]
    r.call("HSET", "h", "f", "v")
    assert r.call("HSCAN", "h", "0", "NOVALUES") == [b"0", [b"f"]]
    for command in (["BITCOUNT", "none", "x"], ["BITPOS", "none", "2"]):
        assert isinstance(r.call(*command), Error), command


@only_dragonfly("7.2: acl_access_denied_*")
def test_info_stats_counts_what_acl_refuses(server, r):
    names = [f"acl_access_denied_{what}" for what in ("auth", "cmd", "key", "channel")]

    def counts():
        stats = r.info("stats")
        return [int(stats[name]) for name in names]

    before = counts()
    r.call("ACL", "SETUSER", "refused", "on", "nopass", "~k", "+get", "+eval", "+publish",
           "resetchannels")
    with server.connect() as client:
        client.call("AUTH", "refused", "x")
        client.call("SET", "k", "v")
        client.call("EVAL", "return redis.pcall('set', 'k', 'v')", "0")
        for _ in range(3):
            client.call("GET", "other")
        client.call("PUBLISH", "c", "m")
        client.call("AUTH", "nobody", "x")
    r.call("ACL", "DRYRUN", "refused", "SET", "k", "v")
    r.call("CONFIG", "RESETSTAT")  # leaves them
    assert [after - b for after, b in zip(counts(), before)] == [1, 2, 3, 1]
    r.call("ACL", "DELUSER", "refused")


@only_dragonfly("7.2: eventloop_*")
def test_info_stats_tells_of_the_event_loops(r):
    def numbers():
        stats = r.info("stats")
        return {name: int(stats[name]) for name in stats if "eventloop" in name}

    assert sorted(numbers()) == ["eventloop_cycles", "eventloop_duration_cmd_sum",
                                 "eventloop_duration_sum",
                                 "instantaneous_eventloop_cycles_per_sec",
                                 "instantaneous_eventloop_duration_usec"]
    before = numbers()
    for i in range(100):
        r.call("SET", f"k{i}", "v")
    after = numbers()
    assert after["eventloop_cycles"] > before["eventloop_cycles"]
    assert after["eventloop_duration_sum"] > before["eventloop_duration_sum"]
    assert after["eventloop_duration_cmd_sum"] >= before["eventloop_duration_cmd_sum"]

    def has_a_rate():
        r.call("PING")
        return numbers()["instantaneous_eventloop_cycles_per_sec"] > 0

    wait_until(has_a_rate)
    r.call("CONFIG", "RESETSTAT")
    assert numbers()["eventloop_cycles"] < after["eventloop_cycles"]


@only_dragonfly("7.4: expired_subkeys")
def test_info_stats_counts_members_that_expired(r):
    r.call("CONFIG", "RESETSTAT")
    r.call("HSET", "h", "stays", "1", "a", "1", "b", "1")
    r.call("HSET", "gone", "a", "1", "b", "1", "c", "1")
    r.call("HPEXPIRE", "h", "1", "FIELDS", "2", "a", "b")
    r.call("HPEXPIRE", "gone", "1", "FIELDS", "3", "a", "b", "c")
    wait_until(lambda: r.info("stats")["expired_subkeys"] == "5")
    assert r.call("HKEYS", "h") == [b"stays"]
    r.call("CONFIG", "RESETSTAT")
    assert r.info("stats")["expired_subkeys"] == "0"


@only_dragonfly("7.4: evicted_scripts")
def test_scripts_of_eval_are_forgotten_past_500(r):
    r.call("SCRIPT", "FLUSH")
    r.call("CONFIG", "RESETSTAT")
    loaded = r.call("SCRIPT", "LOAD", "return 'loaded'")
    for i in range(510):
        assert r.call("EVAL", f"return {i}", "0") == i
    assert r.info("stats")["evicted_scripts"] == "10"
    assert r.info("memory")["number_of_cached_scripts"] == "501"
    assert r.call("EVALSHA", loaded, "0") == b"loaded"
    r.call("SCRIPT", "FLUSH")
    r.call("CONFIG", "RESETSTAT")
    assert r.info("stats")["evicted_scripts"] == "0"


@only_dragonfly("7.2: listener0")
def test_info_server_tells_the_listeners(start_server, tmp_path):
    path = str(tmp_path / "s")
    server = start_server(unixsocket=path)
    with server.connect() as r:
        listeners = {n: v for n, v in r.info("server").items() if n.startswith("listener")}
        assert listeners == {"listener0": f"name=tcp,bind=127.0.0.1,port={server.port}",
                             "listener1": f"name=unix,bind={path}"}


@only_dragonfly("7.2: loglevel nothing")
def test_loglevel_nothing(start_server):
    server = start_server()
    with server.connect() as r:
        def log(text):
            r.call("EVAL", "redis.log(redis.LOG_WARNING, ARGV[1])", "0", text)

        log("the first")
        wait_until(lambda: "the first" in server.log())
        assert r.call("CONFIG", "SET", "loglevel", "nothing") == OK
        log("the second")
        assert r.call("CONFIG", "SET", "loglevel", "warning") == OK
        log("the third")
        wait_until(lambda: "the third" in server.log())
        assert "the second" not in server.log()
