# SPDX-License-Identifier: Apache-2.0
"""Each setting of redis-server 7.0 is known, and takes and refuses what it takes and refuses there.

Differences are in EXCEPTIONS, with their reasons: one that is none any more fails the test.
"""

import re
import subprocess
import tempfile

import pytest

from harness.resp import OK, Error
from harness.server import BINARY, Server, only_dragonfly

pytestmark = [only_dragonfly("both servers are asked")]

# What is tried for each, besides its own value.
VALUES = (
    "yes", "no", "x!", "", "-1", "0", "1", "7", "99", "1000", "70000", "2147483648", "1mb", "1gb",
    "99999999999999999999", "always", "1 2 3", "3 2 1", "a/b", "no one", "5%",
)
FAILED = "ERR CONFIG SET failed (possibly related to argument '{}') - {}"

# These would change how the test itself is connected, or they reach out of the server.
NOT_TRIED = {
    "bind": "its own tests are in test_ports.py",
    "port": "its own tests are in test_ports.py",
    "requirepass": "its own tests are in test_acl.py",
    "dir": "its own tests are in test_snapshots.py",
    "maxclients": "what is possible depends on ulimit -n",
    "maxmemory": "the reference evicts, and refuses writes, elsewhere",
    "maxmemory-clients": "it disconnects whoever is too large",
    "client-output-buffer-limit": "its own tests are in test_client_limits.py",
    "oom-score-adj": "the reference changes its process",
    "oom-score-adj-values": "the reference changes its process; test_the_three_scores has it",
}
for name in ("port", "cert-file", "key-file", "key-file-pass", "ca-cert-file", "ca-cert-dir",
             "dh-params-file", "protocols", "ciphers", "ciphersuites", "auth-clients",
             "prefer-server-ciphers", "session-caching", "session-cache-size",
             "session-cache-timeout"):
    NOT_TRIED["tls-" + name] = "its own tests are in test_tls.py"

# (setting, value): why ours answers otherwise.
PROMISES = "it would promise what is not there"
KEPT = "there it is cut to what the mechanism can do; here there is none, and it is kept"
NEEDS_FILES = "there it needs certificates"
EXCEPTIONS = {
    ("aof-use-rdb-preamble", "no"): PROMISES,
    **{("hz", v): KEPT for v in ("0", "1000", "70000")},
    **{("repl-backlog-size", v): KEPT for v in ("1", "7", "99", "1000")},
    **{
        (f"{who}-announce-ip", v): "no address: INFO would have lines of its own"
        for who in ("replica", "slave")
        for v in ("1 2 3", "3 2 1", "no one")
    },
    ("tls-cluster", "yes"): NEEDS_FILES,
    ("activedefrag", "yes"): "Debian's redis-server cannot",
    ("cluster-link-sendbuf-limit", "99999999999999999999"): "it is past 64 bits",
}
# Settings whose answers are others as a whole.
OTHERWISE = {
    "proto-max-bulk-len": "from 1 KB to 4 GB; there 1 MB and more",
    "cluster-announce-ip": "fixed at the start",
    "cluster-announce-port": "fixed at the start",
}

DEFAULTS_DIFFER = {
    "maxmemory": "80 % of the machine", "dir": "its own", "save": "the harness's",
    "activedefrag": "on", "active-defrag-ignore-bytes": "8 MB", "bind": "this machine only",
    "dbfilename": "files of our own", "port": "its own", "logfile": "its own", "pidfile": "",
    "tls-auth-clients": "as there are certificates of authorities, or not",
    "enable-debug-command": "the harness", "enable-protected-configs": "the harness",
}


@pytest.fixture(scope="module")
def servers():
    ours = Server(maxmemory="0", proactor_threads=2, num_shards=2)
    reference = Server(reference=True)
    yield ours, reference
    reference.stop()
    ours.stop()


def all_settings(r):
    flat = r.call("CONFIG", "GET", "*")
    return {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2])}


def test_all_names_are_known_with_their_defaults(servers):
    with servers[0].connect() as a, servers[1].connect() as b:
        ours, theirs = all_settings(a), all_settings(b)
    assert len(theirs) > 180
    assert set(theirs) - set(ours) == set()
    differ = {name for name, value in theirs.items() if ours[name] != value}
    assert differ - set(DEFAULTS_DIFFER) == set()
    # What 7.2 added.
    assert {"locale-collate", "set-max-listpack-entries", "set-max-listpack-value",
            "cluster-announce-human-nodename"} <= set(ours)


def answers(r, name):
    """Of each value: the error, or what CONFIG GET has then."""
    found = {}
    before = r.call("CONFIG", "GET", name)[1]
    for value in VALUES:
        reply = r.call("CONFIG", "SET", name, value)
        is_set = not isinstance(reply, Error)
        # 7.2 has one more loglevel, 8.6 two more policies.
        found[value] = (r.call("CONFIG", "GET", name)[1] if is_set
                        else reply.text.replace("warning, nothing", "warning")
                        .replace("volatile-lrm, ", "").replace("allkeys-lrm, ", ""))
    r.call("CONFIG", "SET", name, before)
    return found


def test_values_are_taken_as_there(servers):
    different = []
    with servers[0].connect() as a, servers[1].connect() as b:
        for name in sorted(all_settings(b)):
            if name in NOT_TRIED:
                continue
            ours, theirs = answers(a, name), answers(b, name)
            for value in VALUES:
                is_same = ours[value] == theirs[value]
                if is_same == ((name, value) in EXCEPTIONS) and name not in OTHERWISE:
                    different.append((name, value, ours[value], theirs[value]))
            if name in OTHERWISE and ours == theirs:
                different.append((name, "is no exception any more"))
    assert not different, "\n".join(map(str, different))


def test_what_would_promise_too_much(servers):
    with servers[0].connect() as r:
        for name, value, why in (
            ("aof-use-rdb-preamble", "no", "a base is always an RDB file"),
            ("locale-collate", "de_DE", "texts are compared byte by byte"),
        ):
            assert r.call("CONFIG", "SET", "hz", "50", name, value) == Error(
                FAILED.format(name, f"'{value}' would promise what is not there: {why}")
            )
            assert r.call("CONFIG", "GET", "hz")[1] == b"10"


def test_the_three_scores(servers):
    with servers[0].connect() as r:
        name = "oom-score-adj-values"
        assert r.call("CONFIG", "SET", name, "1 2 3") == OK
        assert r.call("CONFIG", "GET", name)[1] == b"1 2 3"
        assert r.call("CONFIG", "SET", name, "1 2") == Error(
            FAILED.format(name, "wrong number of arguments")
        )
        assert "between -2000 and 2000" in r.call("CONFIG", "SET", name, "1 2 2001").text
        assert r.call("CONFIG", "SET", name, "0 200 800") == OK


def test_rewrite_keeps_them(start_server):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("# mine\nhz 20\nslave-priority 9\nmasterauth 'a b'\nrepl-backlog-size 2mb\n")
        file.flush()
        values = {"hz": "30", "list-compress-depth": "2", "replica-priority": "8",
                  "appendfsync": "always", "cluster-announce-hostname": "h.example",
                  "oom-score-adj-values": "1 2 3", "repl-diskless-load": "swapdb",
                  "proc-title-template": "{title} {port}"}
        also = {"masterauth": "a b", "repl-backlog-size": "2097152", "slave-priority": "8",
                "min-replicas-to-write": "0", "io-threads": "3"}
        server = start_server(wrapper=[], proactor_threads=2, **{"io-threads": "3"})
        server.stop()
        line = server.command_line()
        server.command_line = lambda: [line[0], file.name, *server_line(line, server.port)]
        server.start_again()
        with server.connect() as r:
            assert r.call("CONFIG", "GET", "hz")[1] == b"20"
            for name, value in values.items():
                assert r.call("CONFIG", "SET", name, value) == OK
            assert r.call("CONFIG", "REWRITE") == OK
        server.stop()
        text = open(file.name).read()
        assert text.startswith("# mine\nhz 30\nslave-priority 8\n")
        assert "\noom-score-adj-values 1 2 3\n" in text
        server.start_again()
        with server.connect() as r:
            for name, value in {**values, **also}.items():
                assert r.call("CONFIG", "GET", name)[1].decode() == value, name


def test_a_rewritten_file_can_be_read_whatever_was_set(start_server, tmp_path):
    """Each setting has the largest number that CONFIG SET takes."""
    path = tmp_path / "redis.conf"
    path.write_text("")
    server = start_server(proactor_threads=2)
    server.stop()
    line = server.command_line()
    server.command_line = lambda: [line[0], str(path), *server_line(line, server.port)]
    server.start_again()
    changed = {}
    with server.connect() as r:
        for name in all_settings(r):
            if name in NOT_TRIED or "port" in name:
                continue
            for value in ("9223372036854775807", "4294967295", "2147483647", "65535", "1000"):
                if r.call("CONFIG", "SET", name, value) == OK:
                    changed[name] = value
                    break
        assert len(changed) > 40
        assert r.call("CONFIG", "REWRITE") == OK
    server.stop()
    server.start_again()
    with server.connect() as r:
        kept = all_settings(r)
        assert kept["cluster-node-timeout"] == "9223372036854775807"
        # Limits of ours that hold no more than 32 bits have their largest value.
        assert all(int(kept[name]) >= 1 << 30 or kept[name] == value
                   for name, value in changed.items())


def server_line(line, port):
    """The command line without what a file is to say, on another port."""
    return [re.sub(r"^--port=.*", f"--port={port}", word) for word in line[1:]]


def test_the_server_does_not_start_with_what_it_cannot_do(tmp_path):
    for text, why in (
        ("aof-use-rdb-preamble no", "a base is always an RDB file"),
        ("replicaof 127.0.0.1 x", "Invalid master port"),
        ("hz x", "argument couldn't be parsed into an integer"),
        ("appendfsync sometimes", "must be everysec, always or no"),
    ):
        path = tmp_path / "redis.conf"
        path.write_text(f"port 0\n{text}\n")
        done = subprocess.run([BINARY, str(path)], capture_output=True, text=True, timeout=60,
                              cwd=tmp_path)
        assert done.returncode == 1 and why in done.stdout + done.stderr, text
        assert f"redis.conf:2" in done.stdout + done.stderr


@only_dragonfly("it has --max_bulk_len")
def test_a_snapshot_is_loaded_whatever_the_longest_argument_is(start_server, tmp_path):
    server = start_server(dir=str(tmp_path), max_bulk_len="4mb")
    with server.connect() as r:
        r.call("SET", "k", b"x" * (1 << 21))
        r.call("SAVE")
    server.stop()
    server = start_server(dir=str(tmp_path), max_bulk_len="1mb")
    with server.connect() as r:
        assert r.call("STRLEN", "k") == 1 << 21
