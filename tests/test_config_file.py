# SPDX-License-Identifier: Apache-2.0
"""What an operator gives the server: a configuration file, arguments, the environment; and what the
process does for the system: signals, log and pid files, the service manager, reports of crashes."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest

from harness.resp import OK, Error, RespSocket
from harness.server import BINARY, REFERENCE, ROOT, free_port, wait_until

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.alone,
    pytest.mark.skipif(REFERENCE, reason="it is about our command line and files"),
]

SANITIZED = bool(os.environ.get("DFLY_SANITIZED"))


def clean_environment(**more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DFLY_")}
    suppressions = os.path.join(ROOT, "tests", "harness", "tsan.supp")
    environment.setdefault("TSAN_OPTIONS", f"suppressions={suppressions}")
    return {**environment, **more}


class Process:
    def __init__(self, folder, *arguments, env=None, stdin=None):
        self.folder = folder
        self.log_path = folder / "stderr.log"
        self.port = free_port()
        arguments = [str(a).replace("PORT", str(self.port)) for a in arguments]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [BINARY, *arguments],
                cwd=folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                env=env or clean_environment(),
            )
        if stdin is not None:
            self.process.stdin.write(stdin.replace("PORT", str(self.port)).encode())
            self.process.stdin.close()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def connect(self):
        def is_there():
            assert self.process.poll() is None, self.log()
            try:
                RespSocket(("127.0.0.1", self.port)).close()
                return True
            except OSError:
                return False

        wait_until(is_there)
        return RespSocket(("127.0.0.1", self.port))

    def config(self, name):
        with self.connect() as c:
            return c.call("CONFIG", "GET", name)[1].decode()

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def run(tmp_path):
    started = []

    def start(*arguments, **options):
        started.append(Process(tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def refusal(folder, *arguments, **options):
    server = Process(folder, *arguments, **options)
    assert server.process.wait(60) == 1
    return server.log()


def test_a_configuration_file_and_arguments_after_it(run, tmp_path):
    (tmp_path / "redis.conf").write_text(
        "port 1\nmaxmemory 100mb\ntimeout 7\nhz 50\nnosuch 1\nsave 900 1\nsave 300 10\n"
    )
    server = run("redis.conf", "--port", "PORT", "--save", "", "--timeout", "9")
    assert server.config("maxmemory") == str(100 << 20)
    assert server.config("timeout") == "9"
    assert server.config("save") == ""
    log = server.log()
    assert "redis.conf:4: 'hz' has no effect" in log
    assert "redis.conf:5: 'nosuch' is unknown" in log
    assert server.stop() == 0


def test_the_configuration_file_of_debians_package(run, tmp_path):
    source = "/etc/redis/redis.conf"
    if not os.access(source, os.R_OK):
        pytest.skip("only root and redis may read Debian's redis.conf")
    changed = {"port": "PORT", "dir": str(tmp_path), "logfile": '""', "daemonize": "no",
               "pidfile": str(tmp_path / "pid")}
    lines = []
    for line in open(source):
        word = line.split(" ")[0]
        lines.append(f"{word} {changed[word]}\n" if word in changed else line)
    server = run("-", stdin="".join(lines))
    with server.connect() as c:
        assert c.call("SET", "k", "v") == OK
    assert server.config("databases") == "16"
    assert (tmp_path / "pid").read_text().strip() == str(server.process.pid)
    assert re.findall(r"'([^']*)' is unknown", server.log()) == []
    assert server.stop() == 0
    assert (tmp_path / "dump.rdb").read_bytes().startswith(b"REDIS")
    assert not (tmp_path / "pid").exists()


def test_the_environment(run):
    env = clean_environment(DFLY_timeout="11", DFLY_MAXCLIENTS="50", DFLY_nosuch="1")
    server = run("--port=PORT", "--save=", "--maxclients=60", env=env)
    assert server.config("timeout") == "11"
    assert server.config("maxclients") == "60"
    assert "DFLY_nosuch names no flag" in server.log()


@pytest.mark.parametrize("text, why", [
    ("port x", "redis.conf:1: 'x' is no value of 'port'"),
    ("port 70000", "--port: must be between 0 and 65535 (redis.conf:1)"),
    ("\nrequirepass \"x", "redis.conf:2: unbalanced quotes"),
    ("aof-use-rdb-preamble no", "'aof-use-rdb-preamble': 'no' would promise what is not there"),
    ("cluster-enabled yes", "'cluster-enabled' cannot be ignored"),
    ("include nosuch.conf", "cannot read the configuration file nosuch.conf"),
    ("loglevel loud", "'loud' is not debug"),
])
def test_wrong_files_keep_it_from_starting(tmp_path, text, why):
    (tmp_path / "redis.conf").write_text(text + "\n")
    assert why in refusal(tmp_path, "redis.conf")


def test_wrong_arguments_keep_it_from_starting(tmp_path):
    assert "no flag --nosuch" in refusal(tmp_path, "--nosuch", "1")
    assert "No such file" in refusal(tmp_path, "nosuch.conf")
    assert "cannot open the log file" in refusal(tmp_path, "--logfile", "no/such/folder")


def test_config_rewrite(run, tmp_path):
    path = tmp_path / "redis.conf"
    path.write_text("# mine\nport PORT\ntimeout 3 \n\nsave 900 1\nsave 300 10\n"
                    "user eve on nopass\n")
    path.chmod(0o640)
    server = Process(tmp_path, "--port=0")  # for its port only
    server.process.wait()
    path.write_text(path.read_text().replace("PORT", str(server.port)))
    server = run("redis.conf", "--maxclients", "77")
    server.port = int(path.read_text().split("port ")[1].split()[0])
    with server.connect() as c:
        c.call("CONFIG", "SET", "timeout", "5", "requirepass", "a b", "save", "60 1",
               "shutdown-on-sigint", "nosave now")
        c.call("ACL", "SETUSER", "alice", "on", "nopass", "~a*", "+get")
        c.call("ACL", "DELUSER", "eve")
        assert c.call("CONFIG", "REWRITE") == OK
        text = path.read_text()
        lines = text.splitlines()
        assert lines[0] == "# mine"
        assert "timeout 5" in lines and "save 60 1" in lines and 'requirepass "a b"' in lines
        assert 'shutdown-on-sigint "nosave now"' in lines
        assert re.findall("^save ", text, re.M) == ["save "]
        assert "maxclients 77" in lines and "eve" not in text
        assert "user alice on nopass sanitize-payload ~a* resetchannels -@all +get" in lines
        assert path.stat().st_mode & 0o777 == 0o640
        assert c.call("CONFIG", "REWRITE") == OK
        assert path.read_text() == text
    assert server.stop() == 0
    again = run("redis.conf")
    again.port = server.port
    with again.connect() as c:
        assert c.call("AUTH", "a b") == OK
        assert c.call("CONFIG", "GET", "maxclients")[1] == b"77"
        assert c.call("CONFIG", "GET", "shutdown-on-sigint")[1] == b"nosave now"
        assert c.call("CONFIG", "GET", "daemonize")[1] == b"no"
        assert c.call("ACL", "USERS") == [b"alice", b"default"]
        path.unlink()
        assert "Rewriting config file: No such file" in c.raw("CONFIG", "REWRITE").decode()


def test_policies_of_databases(run, tmp_path):
    path = tmp_path / "redis.conf"
    path.write_text("maxmemory-policy-db 5 noeviction\ndatabases 20\n"
                    "maxmemory-policy-db 0 volatile-ttl 19 allkeys-lru\n")
    server = run("redis.conf", "--port", "PORT")
    assert server.config("maxmemory-policy-db") == "0 volatile-ttl 5 noeviction 19 allkeys-lru"
    with server.connect() as c:
        name = "maxmemory-policy-db"
        assert c.call("CONFIG", "SET", name, "2 noeviction 3 allkeys-lrm") == OK
        assert c.call("CONFIG", "REWRITE") == OK
    lines = [line for line in path.read_text().splitlines() if "policy-db" in line]
    assert lines == ["maxmemory-policy-db 2 noeviction 3 allkeys-lrm"]
    assert server.stop() == 0
    again = run("redis.conf", "--port", "PORT")
    assert again.config("maxmemory-policy-db") == "2 noeviction 3 allkeys-lrm"
    with again.connect() as c:
        assert c.call("CONFIG", "SET", "maxmemory-policy-db", "") == OK
        assert c.call("CONFIG", "REWRITE") == OK
    assert "policy-db" not in path.read_text()
    assert again.stop() == 0
    path.write_text("maxmemory-policy-db 16 noeviction\n")
    refused = run("redis.conf", "--port", "PORT")
    assert refused.process.wait(60) == 1
    assert "--maxmemory_policy_db: '16' is no database: there are 0 to 15" in refused.log()


def test_config_rewrite_keeps_the_primary(run, tmp_path):
    """As Sentinel does it, in one transaction that also kills clients."""
    path = tmp_path / "redis.conf"
    nobody = free_port()
    path.write_text("save \"\"\n")

    def transact(server, *role):
        with server.connect() as c:
            for words in (["MULTI"], role, ["CONFIG", "REWRITE"],
                          ["CLIENT", "KILL", "TYPE", "normal"],
                          ["CLIENT", "KILL", "TYPE", "pubsub"]):  # fmt: skip
                assert not isinstance(c.call(*words), Error)
            assert c.call("EXEC")[:2] == [OK, OK]

    server = run("redis.conf", "--port", "PORT")
    transact(server, "SLAVEOF", "127.0.0.1", nobody)
    assert f"replicaof 127.0.0.1 {nobody}" in path.read_text().splitlines()
    assert server.stop() == 0
    again = run("redis.conf", "--port", "PORT")
    with again.connect() as c:
        assert c.info("replication")["master_port"] == str(nobody)
    transact(again, "SLAVEOF", "NO", "ONE")
    assert "replicaof" not in path.read_text()
    assert again.stop() == 0
    third = run("redis.conf", "--port", "PORT")
    with third.connect() as c:
        assert c.info("replication")["role"] == "master"


def test_config_rewrite_without_a_file(run):
    server = run("--port=PORT", "--save=")
    with server.connect() as c:
        assert c.raw("CONFIG", "REWRITE") == b"-ERR The server is running without a config file\r\n"


def test_settings_are_found_with_dashes_and_underscores(run):
    server = run("--port=PORT", "--save=", "--proactor_threads=2")
    assert server.config("proactor-threads") == "2"
    assert server.config("maxmemory_policy") == "noeviction"
    with server.connect() as c:
        assert c.call("CONFIG", "SET", "maxmemory_policy", "allkeys-lru",
                      "hash_max_listpack_entries", "7") == OK
        assert c.call("CONFIG", "GET", "maxmemory-policy")[1] == b"allkeys-lru"
        refused = c.raw("CONFIG", "SET", "timeout", "9", "maxclients", "0")
        assert refused.startswith(b"-ERR CONFIG SET failed")
        assert c.call("CONFIG", "GET", "timeout")[1] == b"0"


def test_names_of_files_are_meant_from_the_directory(run, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "users.acl").write_text("user eve on nopass\n")
    server = run("--port=PORT", "--dir", "data", "--aclfile", "users.acl", "--logfile", "my.log",
                 "--pidfile", "my.pid")
    with server.connect() as c:
        assert c.call("ACL", "USERS") == [b"default", b"eve"]
        assert c.call("CONFIG", "GET", "dir")[1].decode() == str(tmp_path / "data")
        c.call("SET", "k", "v")
    assert (tmp_path / "data" / "my.pid").exists()
    assert server.stop() == 0
    assert (tmp_path / "data" / "dump-summary.dfs").exists()
    assert (tmp_path / "data" / "my.log").exists()


def test_a_log_file_is_opened_again(run, tmp_path):
    server = run("--port=PORT", "--save=", "--logfile", "a.log")
    with server.connect() as c:
        path = tmp_path / "a.log"
        wait_until(lambda: "Ready to accept" in path.read_text())
        path.rename(tmp_path / "a.log.1")
        server.process.send_signal(signal.SIGHUP)
        wait_until(path.exists)
        assert c.call("PING").text == "PONG"
        c.send(b"POST / HTTP/1.1\r\n")  # makes a line
        wait_until(lambda: "possible security attack" in path.read_text())
        assert c.read_until_closed() == b""
    assert server.stop() == 0


def test_log_levels(run):
    server = run("--port=PORT", "--save=", "--loglevel", "warning")
    with server.connect() as c:
        assert "Ready to accept" not in server.log()
        assert c.call("CONFIG", "SET", "loglevel", "notice") == OK
        assert c.raw("CONFIG", "SET", "loglevel", "loud").startswith(b"-ERR CONFIG SET failed")
    server.stop()
    assert "stopping" in server.log()


def test_daemonize(tmp_path):
    server = Process(tmp_path, "--port=PORT", "--save=", "--daemonize", "yes", "--pidfile", "pid",
                     "--logfile", "d.log")
    assert server.process.wait(60) == 0
    pid_file = tmp_path / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    pid = int(pid_file.read_text())
    try:
        with RespSocket(("127.0.0.1", server.port)) as c:
            assert c.call("PING").text == "PONG"
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not pid_file.exists())
    assert "bye" in (tmp_path / "d.log").read_text()


def test_the_service_manager_is_told(run, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        manager.bind(str(tmp_path / "notify"))
        server = run("--port=PORT", "--save=",
                     env=clean_environment(NOTIFY_SOCKET=str(tmp_path / "notify")))
        told = []
        while "READY=1" not in "".join(told):
            told.append(manager.recv(4096).decode())
        assert told[0] == "STATUS=loading"
        server.process.send_signal(signal.SIGTERM)
        assert "STOPPING=1" in manager.recv(4096).decode()
        assert server.process.wait(60) == 0


@pytest.mark.skipif(SANITIZED, reason="sanitizers print reports of their own")
@pytest.mark.parametrize("how, number", [("segfault", signal.SIGSEGV), ("panic", signal.SIGABRT)])
@pytest.mark.parametrize("epoll", [False, True])
def test_a_crash_tells_where_it_was_and_what_ran(run, how, number, epoll):
    server = run("--port=PORT", "--save=", "--enable-debug-command", "yes",
                 *(["--force_epoll"] if epoll else []))
    with server.connect() as c:
        c.call("SET", "key", "secret")
        c.call("EVAL", "return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, "number", "42424242")
        c.send_command("DEBUG", how)
        assert c.read_until_closed() == b""
    assert server.process.wait(60) == -number
    log = server.log()
    assert f"crashed by {signal.Signals(number).name}" in log
    assert "dfly::(anonymous namespace)::Debug()" in log
    assert "the newest first: debug" in log and "incrby" in log
    report = log[log.index("***"):]
    assert "secret" not in report and "42424242" not in report


def test_the_health_check(run, tmp_path):
    def check(*arguments):
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60,
                              env=clean_environment())
        return done.returncode, done.stderr

    server = run("--port=PORT", "--save=", "--unixsocket", "s.sock")
    port = f"--port={server.port}"
    for kind in ("live", "ready"):
        status, said = check(f"--healthcheck={kind}", port)
        assert status == 1 and "Connection refused" in said or status == 0
    with server.connect():
        assert check("--healthcheck=live", port)[0] == 0
        assert check("--healthcheck", "ready", port)[0] == 0
        assert check("--healthcheck=ready", "--port=0", "--unixsocket",
                     str(tmp_path / "s.sock"))[0] == 0
    assert check("--healthcheck=maybe", port)[0] == 1
    server.stop()
    status, said = check("--healthcheck=live", port)
    assert status == 1 and "cannot connect" in said


def test_signals(run):
    server = run("--port=PORT", "--save=")
    with server.connect() as c:
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGCONT):
            server.process.send_signal(number)
        time.sleep(0.05)
        assert c.call("PING").text == "PONG"
    assert server.stop(signal.SIGINT) == 0


def test_the_page_of_all_settings_is_current():
    page = os.path.join(ROOT, "docs", "configuration.md")
    made = subprocess.run([BINARY, "--helpmarkdown"], capture_output=True, text=True, timeout=60,
                          env=clean_environment(), check=True).stdout
    assert made == open(page).read(), "dragonfly --helpmarkdown > docs/configuration.md"


def test_help_is_short_and_helpfull_is_long(tmp_path):
    def printed(*arguments):
        done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60,
                              env=clean_environment(), check=True)
        return done.stdout

    short = printed("--help")
    assert len(short.splitlines()) <= 60 and max(map(len, short.splitlines())) <= 100
    assert "--maxmemory " in short and "redis.conf" in short
    full = printed("--helpfull")
    assert len(full) > 5 * len(short) and "--hll_sparse_max_bytes" in full
    assert printed("--version") == printed("-v") and printed("-v").startswith("dragonfly v=")


def test_commands_are_renamed_or_taken_away(run, tmp_path):
    conf = tmp_path / "redis.conf"
    conf.write_text('port 0\nrename-command FLUSHALL badger\nrename-command KEYS ""\n'
                    "rename-command CONFIG cfg\nuser x on nopass ~* +flushall -keys\n")
    server = run(str(conf), "--port", "PORT")
    with server.connect() as c:
        total = c.call("COMMAND", "COUNT")
        for name in ("flushall", "keys", "config"):
            assert "unknown command" in c.call(name, "a").text
        assert c.call("SET", "k", "v") == OK
        assert c.call("BADGER") == OK
        assert c.call("EXISTS", "k") == 0
        assert c.call("BADGER", "a", "b", "c") == Error("ERR syntax error")
        assert c.call("CFG", "GET", "timeout") == [b"timeout", b"0"]
        assert c.call("CFG", "NOSUCH") == Error("ERR unknown subcommand 'NOSUCH'. Try CFG HELP.")
        assert c.call("COMMAND", "INFO", "badger", "flushall", "keys")[0][0] == b"flushall"
        assert c.call("COMMAND", "INFO", "flushall") == [None]
        assert c.call("SET", "k", "v") == OK
        assert c.call("EVAL", "return redis.call('badger')", 0) == OK
        assert "Unknown" in c.call("EVAL", "return redis.call('keys', '*')", 0).text
        assert b"cmdstat_flushall:calls=3" in c.call("INFO", "commandstats")
        # Users are told of commands by their names.
        assert c.call("ACL", "SETUSER", "x", "+keys") == OK
        assert "Unknown command" in c.call("ACL", "SETUSER", "x", "+badger").text
        assert c.call("AUTH", "x", "") == OK
        assert c.call("BADGER") == OK
        assert "NOPERM" in c.call("CFG", "GET", "timeout").text
    assert server.stop() == 0
    assert total > 100


@pytest.mark.parametrize("words, why", [
    ("nosuch x", "No such command in rename-command"),
    ("get set", "Target command name already exists"),
    ("get a b", "is more than two words"),
])
def test_renames_that_cannot_be(tmp_path, words, why):
    (tmp_path / "redis.conf").write_text(f"rename-command {words}\n")
    assert why in refusal(tmp_path, "redis.conf", "--port", "PORT")
