# SPDX-License-Identifier: Apache-2.0
"""The server's own commands: COMMAND, CONFIG, INFO, TIME, DEBUG, MEMORY, SHUTDOWN, maxmemory."""

import re
import subprocess
import time

import pytest

from harness.resp import NOT_INT, OK, SYNTAX, Error, Map, Status, Verbatim, arity
from harness.server import SANITIZED, BINARY, REFERENCE, only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized]

OURS = """get set setnx setex psetex getset getdel getex append strlen setrange getrange substr incr
decr incrby decrby incrbyfloat mget mset msetnx del unlink exists touch expire pexpire expireat
pexpireat ttl pttl expiretime pexpiretime persist type object scan keys randomkey dbsize flushdb
flushall ping echo select quit reset hello auth client command config info time lastsave debug
memory shutdown lcs""".split()


def test_command_count_matches_the_table(r):
    count = r.do("COMMAND COUNT")
    assert count == len(r.do("COMMAND")) == len(r.do("COMMAND INFO"))
    listed = r.do("COMMAND LIST")  # also names subcommands: config|get
    assert count == len([name for name in listed if b"|" not in name])
    assert count >= len(OURS)


def test_command_info_describes_each_command_as_redis_does(r):
    expected = {  # name: arity, flags, first key, last key, step
        "get": (2, {"readonly", "fast"}, 1, 1, 1),
        "set": (-3, {"write", "denyoom"}, 1, 1, 1),
        "incr": (2, {"write", "denyoom", "fast"}, 1, 1, 1),
        "append": (3, {"write", "denyoom", "fast"}, 1, 1, 1),
        "mget": (-2, {"readonly", "fast"}, 1, -1, 1),
        "mset": (-3, {"write", "denyoom"}, 1, -1, 2),
        "del": (-2, {"write"}, 1, -1, 1),
        "expire": (-3, {"write", "fast"}, 1, 1, 1),
        "ttl": (2, {"readonly", "fast"}, 1, 1, 1),
        "keys": (2, {"readonly"}, 0, 0, 0),
        "ping": (-1, {"fast"}, 0, 0, 0),
        "dbsize": (1, {"readonly", "fast"}, 0, 0, 0),
    }
    ignored = {"sort_for_script", "stale", "loading", "noscript", "sentinel", "movablekeys"}
    replies = r.call("COMMAND", "INFO", *expected)
    for name, row in zip(expected, replies):
        flags = {f.text for f in row[2]} - ignored
        assert (row[0].decode(), row[1], flags, row[3], row[4], row[5]) == (
            name,
            *expected[name][:1],
            expected[name][1],
            *expected[name][2:],
        ), name
        assert len(row) == 10


def test_command_info_of_unknown_names_is_null(r):
    reply = r.do("COMMAND INFO nosuch get")
    assert reply[0] is None and reply[1][0] == b"get"
    assert r.do("COMMAND INFO GET")[0][0] == b"get"


def test_every_command_of_this_server_is_listed(r):
    names = set(r.do("COMMAND LIST"))
    assert {name.encode() for name in OURS} <= names
    assert set(r.do("COMMAND LIST FILTERBY PATTERN get*")) <= {
        name for name in names if name.startswith(b"get")
    }
    assert b"get" in r.do("COMMAND LIST FILTERBY PATTERN ge*")
    assert b"get" in r.do("COMMAND LIST FILTERBY ACLCAT string")
    assert r.do("COMMAND LIST FILTERBY MODULE nosuch") == []
    assert r.do("COMMAND LIST WHAT") == SYNTAX


def test_command_docs_tells_summaries(r, r3):
    flat = r.do("COMMAND DOCS get")
    assert flat[0] == b"get"
    docs = dict(zip(flat[1][::2], flat[1][1::2]))
    assert {b"summary", b"since", b"group", b"complexity"} <= set(docs)
    assert docs[b"group"] == b"string"
    assert isinstance(r3.do("COMMAND DOCS get"), Map)
    assert r.do("COMMAND DOCS nosuch") == []
    assert len(r.do("COMMAND DOCS")) == 2 * r.do("COMMAND COUNT")


def test_command_getkeys(r):
    assert r.do("COMMAND GETKEYS GET k") == [b"k"]
    assert r.do("COMMAND GETKEYS MSET a 1 b 2") == [b"a", b"b"]
    assert r.do("COMMAND GETKEYS DEL a b c") == [b"a", b"b", b"c"]
    assert r.do("COMMAND GETKEYS SET k v EX 10") == [b"k"]
    assert r.do("COMMAND GETKEYS PING x") == Error("ERR The command has no key arguments")
    assert r.do("COMMAND GETKEYS nosuch k") == Error("ERR Invalid command specified")
    assert r.do("COMMAND GETKEYS GET a b") == Error(
        "ERR Invalid number of arguments specified for command"
    )
    assert r.do("COMMAND GETKEYS") == arity("command|getkeys")
    assert r.do("COMMAND WHAT") == Error("ERR unknown subcommand 'WHAT'. Try COMMAND HELP.")


def config(r, pattern):
    reply = r.call("CONFIG", "GET", pattern)
    return dict(zip(reply[::2], reply[1::2]))


def test_config_get_matches_patterns(r, r3):
    assert int(config(r, "maxmemory")[b"maxmemory"]) >= 0
    assert list(config(r, "MAXmemory-POLICY").values()) == [b"noeviction"]
    assert config(r, "databases") == {b"databases": b"16"}
    assert {b"maxmemory", b"maxmemory-policy"} <= set(config(r, "maxmemory*"))
    assert config(r, "nosuch") == {}
    assert r.do("CONFIG GET nosuch appendonly timeout") in (
        [b"appendonly", b"no", b"timeout", b"0"],
        [b"timeout", b"0", b"appendonly", b"no"],
    )
    for name in (
        "port",
        "bind",
        "timeout",
        "maxclients",
        "save",
        "appendonly",
        "requirepass",
        "tcp-keepalive",
        "proto-max-bulk-len",
    ):
        assert config(r, name), name
    assert isinstance(r3.do("CONFIG GET maxmemory"), Map)
    assert r.do("CONFIG GET") == arity("config|get")
    assert r.do("CONFIG WHAT") == Error("ERR unknown subcommand 'WHAT'. Try CONFIG HELP.")


@pytest.mark.flags()
def test_config_set_changes_what_may_be_changed(r):
    assert r.do("CONFIG SET timeout 100") == OK
    assert config(r, "timeout") == {b"timeout": b"100"}
    assert r.do("CONFIG SET maxmemory 100mb") == OK
    assert config(r, "maxmemory") == {b"maxmemory": b"104857600"}
    assert r.do("CONFIG SET maxmemory 0 timeout 0") == OK
    assert config(r, "maxmemory") == {b"maxmemory": b"0"}
    assert config(r, "timeout") == {b"timeout": b"0"}


@pytest.mark.flags()
def test_config_set_refuses_and_changes_nothing(r):
    assert r.do("CONFIG SET nosuch 1") == Error(
        "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"
    )
    assert r.do("CONFIG SET timeout x").text.startswith(
        "ERR CONFIG SET failed (possibly related to argument 'timeout') - "
    )
    assert r.do("CONFIG SET databases 3") == Error(
        "ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable"
        " config"
    )
    assert r.do("CONFIG SET timeout 5 nosuch 1") == Error(
        "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"
    )
    assert r.do("CONFIG SET timeout 5 timeout 6").text.startswith("ERR CONFIG SET failed")
    assert r.do("CONFIG SET timeout") == arity("config|set")
    assert config(r, "timeout") == {b"timeout": b"0"}
    assert config(r, "databases") == {b"databases": b"16"}


@pytest.mark.flags()
def test_config_set_requirepass_asks_newcomers(server, r):
    assert r.do("CONFIG SET requirepass s3cret") == OK
    assert r.do("PING") == Status("PONG")
    with server.connect() as newcomer:
        assert newcomer.do("PING") == Error("NOAUTH Authentication required.")
        assert newcomer.do("AUTH s3cret") == OK


@pytest.mark.flags()
def test_config_resetstat_and_rewrite(r):
    r.do("GET missing")
    assert int(r.info("stats")["keyspace_misses"]) >= 1
    assert r.do("CONFIG RESETSTAT") == OK
    assert r.info("stats")["keyspace_misses"] == "0"
    assert r.do("CONFIG REWRITE") == Error("ERR The server is running without a config file")


INFO_FIELDS = {
    "server": "redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds"
    " uptime_in_days executable multiplexing_api",
    "clients": "connected_clients blocked_clients maxclients",
    "memory": "used_memory used_memory_human used_memory_rss used_memory_rss_human used_memory_peak"
    " used_memory_peak_human maxmemory maxmemory_human maxmemory_policy"
    " total_system_memory mem_fragmentation_ratio",
    "persistence": "loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time"
    " rdb_last_bgsave_status aof_enabled",
    "stats": "total_connections_received total_commands_processed instantaneous_ops_per_sec"
    " total_net_input_bytes total_net_output_bytes rejected_connections expired_keys"
    " evicted_keys keyspace_hits keyspace_misses total_error_replies",
    "replication": "role connected_slaves master_replid master_repl_offset",
    "cpu": "used_cpu_sys used_cpu_user",
    "cluster": "cluster_enabled",
}


@pytest.mark.parametrize("section", INFO_FIELDS)
def test_info_has_the_fields_that_tools_read(r, section):
    missing = set(INFO_FIELDS[section].split()) - set(r.info(section))
    assert not missing
    text = r.call("INFO", section).decode()
    assert text.startswith(f"# {section.upper() if section == 'cpu' else section.capitalize()}\r\n")
    assert missing == set() and set(INFO_FIELDS[section].split()) <= set(r.info())


def test_info_says_what_clients_check_on_connect(r):
    info = r.info()
    version = info["redis_version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    if not REFERENCE:
        assert version.startswith("7.4.")
    assert info["redis_mode"] == "standalone"
    assert info["loading"] == "0"
    assert info["maxmemory_policy"] == "noeviction"
    assert info["role"] == "master"
    assert info["cluster_enabled"] == "0"
    assert info["uptime_in_days"] == "0"
    assert re.fullmatch(r"\d+(\.\d+)?[BKMGT]", info["used_memory_human"])
    # These make BullMQ take another path.
    assert "dragonfly_version" not in info and "valkey_version" not in info


def test_info_sections_can_be_chosen(r, r3):
    assert isinstance(r3.do("INFO server"), Verbatim)
    both = r.call("INFO", "server", "Memory")
    assert both.count(b"# ") == 2
    assert b"\r\n\r\n# Memory" in both
    assert r.do("INFO nosuch") == b""
    assert b"# Commandstats" not in r.do("INFO")
    for section in ("all", "everything", "commandstats"):
        assert b"cmdstat_info:calls=" in r.call("INFO", section) or section == "commandstats"
    r.do("GET k")
    line = r.info("commandstats")["cmdstat_get"]
    assert re.match(
        r"calls=\d+,usec=\d+,usec_per_call=[\d.]+,rejected_calls=\d+,failed_calls=\d+", line
    )


@pytest.mark.flags()
def test_info_counts(server, r):
    r.do("CONFIG RESETSTAT")
    r.do("SET k v")
    r.do("GET k")
    r.do("GET missing")
    r.do("NOSUCH")
    r.do("INCRBY k x")
    info = r.info("everything")
    assert info["keyspace_hits"] == "1"
    assert info["keyspace_misses"] == "1"
    assert info["total_error_replies"] == "2"
    assert info["errorstat_ERR"] == "count=2"
    assert info["db0"].startswith("keys=1,expires=0,avg_ttl=")
    assert int(info["total_commands_processed"]) >= 4
    r.do("EXPIRE k 100")
    assert r.info("keyspace")["db0"].startswith("keys=1,expires=1,avg_ttl=")
    before = int(r.info("clients")["connected_clients"])
    with server.connect() as other:
        other.do("PING")
        assert int(r.info("clients")["connected_clients"]) == before + 1
    wait_until(lambda: int(r.info("clients")["connected_clients"]) == before)
    r.do("SET e v PX 1")
    wait_until(lambda: r.do("GET e") is None)
    assert int(r.info("stats")["expired_keys"]) == 1


def test_used_memory_returns_after_a_flush(r):
    before = int(r.info("memory")["used_memory"])
    for i in range(100):
        r.call("SET", f"k{i}", "x" * 10000)
    filled = int(r.info("memory")["used_memory"])
    assert filled > before + 900_000
    r.do("FLUSHALL")
    wait_until(lambda: int(r.info("memory")["used_memory"]) < before + 300_000)


def test_time_and_lastsave(r):
    before = int(time.time())
    seconds, micros = r.do("TIME")
    assert before <= int(seconds) <= time.time() + 1
    assert 0 <= int(micros) < 1_000_000
    assert r.do("TIME x") == arity("time")
    assert isinstance(r.do("LASTSAVE"), int)


def test_lolwut_tells_the_version(r):
    for line in ("LOLWUT", "LOLWUT VERSION 99", "LOLWUT VERSION 99 a b"):
        assert b"Redis ver. " in r.do(line)
    assert r.do("LOLWUT VERSION x") == NOT_INT


def test_debug_sleep_populate_and_object(r):
    begin = time.monotonic()
    assert r.do("DEBUG SLEEP 0.05") == OK
    assert time.monotonic() - begin >= 0.05
    assert r.do("DEBUG POPULATE 1000") == OK
    assert r.do("DBSIZE") == 1000
    assert r.do("GET key:999") == b"value:999"
    assert r.do("DEBUG POPULATE 10 pre 20") == OK
    value = r.do("GET pre:3")
    assert len(value) == 20 and value.startswith(b"value:3")
    r.do("SET k v")
    assert isinstance(r.do("DEBUG OBJECT k"), Status)
    assert r.do("DEBUG OBJECT missing") == Error("ERR no such key")


def test_memory_usage(r):
    assert r.do("MEMORY USAGE missing") is None
    r.call("SET", "k", "x" * 10000)
    usage = r.do("MEMORY USAGE k")
    assert 10000 <= usage <= 14000
    r.do("SET n 1")
    assert 16 <= r.do("MEMORY USAGE n") <= 100
    assert r.do("MEMORY USAGE k SAMPLES 5") == usage
    assert r.do("MEMORY USAGE k WHAT") == SYNTAX
    assert r.do("MEMORY USAGE") == arity("memory|usage")
    assert r.do("MEMORY WHAT") == Error("ERR unknown subcommand 'WHAT'. Try MEMORY HELP.")


def test_memory_reports(r, r3):
    r.call("SET", "k", "x" * 10000)
    stats = r3.do("MEMORY STATS").dict()
    assert stats[b"keys.count"] == 1
    assert stats[b"peak.allocated"] >= stats[b"total.allocated"] > stats[b"startup.allocated"] > 0
    assert 10000 <= stats[b"dataset.bytes"] < stats[b"total.allocated"]
    assert stats[b"keys.bytes-per-key"] >= 10000
    assert 0 < stats[b"dataset.percentage"] <= 100
    assert 0 < stats[b"peak.percentage"] <= 100
    assert isinstance(r.do("MEMORY STATS"), list)
    assert r.do("MEMORY DOCTOR") and isinstance(r3.do("MEMORY DOCTOR"), Verbatim)
    assert r.do("MEMORY PURGE") == OK
    assert r.do("MEMORY PURGE x") == arity("memory|purge")
    assert r.do("GET k") == b"x" * 10000


@only_dragonfly("its texts are others")
def test_memory_doctor_has_nothing_to_say_of_a_nearly_idle_server(start_server):
    server = start_server(proactor_threads=4)
    with server.connect() as c:
        c.call("DEBUG", "POPULATE", 10, "big", 1_000_000)  # it is not too small to be looked at
        for _ in range(10):
            c.pipeline([("STRLEN", "big:1")] * 100)
            assert c.call("MEMORY", "DOCTOR") == b"No problems found.\n"


@only_dragonfly("it frees at once")
@pytest.mark.flags()
def test_memory_doctor_sees_a_high_peak(r):
    # Far more than what the process itself takes, also with a sanitizer.
    r.do("DEBUG POPULATE 200 big 1000000")
    assert r.do("DEL " + " ".join(f"big:{i}" for i in range(195))) == 195
    assert b"Peak" in r.do("MEMORY DOCTOR")
    assert r.do("DEBUG POPULATE 200 big 1000000") == OK
    assert b"Peak" not in r.do("MEMORY DOCTOR")


@pytest.mark.flags(max_bulk_len="2097152")
def test_strings_grow_up_to_the_limit_of_arguments(r):
    too_long = Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    assert r.call("SET", "k", "x" * 2097151) == OK
    assert r.do("APPEND k yy") == too_long
    assert r.do("SETRANGE k 2097151 yy") == too_long
    assert r.do("SETRANGE new 2097152 y") == too_long
    assert r.do("EXISTS new") == 0
    assert r.do("APPEND k y") == 2097152
    assert r.do("APPEND k y") == too_long
    assert r.do("STRLEN k") == 2097152
    assert r.do("CONFIG GET proto-max-bulk-len") == [b"proto-max-bulk-len", b"2097152"]


OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is more than that, and counts")
@pytest.mark.flags(maxmemory="20mb")
def test_writes_past_maxmemory_are_refused_and_reads_are_not(r):
    value = "x" * 10000
    for i in range(5000):
        reply = r.call("SET", f"k{i}", value)
        if reply != OK:
            break
    assert reply == OOM
    assert 500 < i < 2500
    assert r.do("CONFIG SET maxmemory 19mb") == OK  # the client's own buffers do not matter then
    assert r.do("GET k0") == value.encode()
    assert r.do("APPEND k0 x") == OOM
    assert r.do("INCR n") == OOM
    assert r.do("MSET a b") == OOM
    assert r.do("EXPIRE k0 100") == 1
    assert r.do("DBSIZE") == i
    assert r.call("DEL", *[f"k{j}" for j in range(i)]) == i
    wait_until(lambda: r.do("SET k v") == OK, what="room again")


def test_a_large_maxmemory_takes_units(start_server):
    for text, value in (("1gb", 1 << 30), ("512mb", 512 << 20), ("100000000", 100000000)):
        server = start_server(maxmemory=text)
        with server.connect() as r:
            assert config(r, "maxmemory") == {b"maxmemory": str(value).encode()}


@pytest.mark.parametrize("line", ["SHUTDOWN", "SHUTDOWN NOSAVE", "shutdown nosave force"])
def test_shutdown_ends_the_process_in_order(start_server, line):
    server = start_server()
    with server.connect() as other, server.connect() as r:
        other.do("SET k v")
        r.send((line + "\r\n").encode())
        assert r.read_until_closed() == b""
        assert other.read_until_closed() == b""
    server.wait_for_exit()


def test_shutdown_refuses_bad_arguments(r):
    assert r.do("SHUTDOWN WHAT") == SYNTAX
    assert r.do("SHUTDOWN SAVE NOSAVE") == SYNTAX
    assert r.do("SHUTDOWN ABORT") == Error("ERR No shutdown in progress.")


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@only_dragonfly("threads")
def test_any_number_of_threads_and_shards_serves(start_server, threads):
    for shards in sorted({1, threads, 2 * threads + 1}):
        server = start_server(proactor_threads=threads, num_shards=shards)
        with server.connect() as r:
            keys = [f"k{i}" for i in range(100)]
            assert r.call("MSET", *[x for k in keys for x in (k, k)]) == OK
            assert r.call("MGET", *keys) == [k.encode() for k in keys]
            assert r.do("DBSIZE") == 100
        server.stop()


@only_dragonfly("gflags")
def test_help_shows_our_flags_before_those_of_libraries():
    p = subprocess.run([BINARY, "--helpfull"], capture_output=True, text=True, timeout=60)
    text = p.stdout + p.stderr
    for flag in ("port", "bind", "proactor_threads", "num_shards", "maxmemory", "requirepass"):
        assert 0 <= text.find(f"-{flag}") < text.index("-logtostderr"), flag


@only_dragonfly("gflags")
def test_an_unknown_flag_stops_the_start_with_its_name():
    p = subprocess.run([BINARY, "--nosuchflag=1"], capture_output=True, text=True, timeout=60)
    assert p.returncode != 0
    assert "nosuchflag" in p.stderr + p.stdout
