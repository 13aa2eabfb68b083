# SPDX-License-Identifier: Apache-2.0
"""Three redis-sentinel (redis-server --sentinel) with a primary and two replicas of ours."""

import contextlib
import signal
import subprocess

import pytest
import redis
from redis.sentinel import Sentinel

from harness.certificates import Certificates
from harness.ports import free_port
from harness.resp import OK, Error, RespSocket
from harness.server import PATIENCE_S, REFERENCE, SANITIZED, wait_until, wait_until_loaded
from test_append_log import grow, small_disk  # noqa: F401

pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="it is about servers of ours"),
    pytest.mark.long,
]

NAME = "mymaster"
# A busy machine must not let a primary look dead that is not.
DOWN_AFTER_MS = 20_000 if SANITIZED else 5_000
# Two elections may fail before one succeeds.
FAILOVER_S = 3 * PATIENCE_S


@contextlib.contextmanager
def sentinels(directory, primary_port, certificates=None, count=3):
    """So many of them, which are killed at the end, and a client of redis-py that asks them. With
    certificates they, and their connections, speak nothing but TLS."""
    ports, processes = [free_port() for _ in range(count)], []
    for port in ports:
        path = directory / f"sentinel-{port}.conf"
        path.write_text(
            f"{port_lines(port, certificates)}"
            f"bind 127.0.0.1\ndir {directory}\nlogfile {directory}/{port}.log\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary_port} 2\n"
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {NAME} {DOWN_AFTER_MS}\n"
        )
        processes.append(subprocess.Popen(["redis-server", str(path), "--sentinel"]))
    try:
        keywords = {"socket_timeout": PATIENCE_S, **client_keywords(certificates)}
        addresses = [("127.0.0.1", port) for port in ports]
        client = Sentinel(addresses, sentinel_kwargs=keywords, **keywords)
        client.tls = certificates and certificates.client()
        wait_until(
            lambda: all(knows_all(port, client.tls, count) for port in ports), what="the sentinels"
        )
        yield client
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)


def port_lines(port, certificates):
    if certificates is None:
        return f"port {port}\n"
    return (
        f"port 0\ntls-port {port}\ntls-replication yes\n"
        f"tls-cert-file {certificates.crt('server')}\n"
        f"tls-key-file {certificates.key('server')}\n"
        f"tls-ca-cert-file {certificates.crt('ca')}\n"
    )


def client_keywords(certificates):
    """Of redis-py."""
    if certificates is None:
        return {}
    return {
        "ssl": True,
        "ssl_ca_certs": certificates.crt("ca"),
        "ssl_certfile": certificates.crt("client"),
        "ssl_keyfile": certificates.key("client"),
    }


def knows_all(port, tls, count):
    """It knows both replicas, and the other sentinels."""
    try:
        with RespSocket(("127.0.0.1", port), timeout=PATIENCE_S, tls=tls) as c:
            reply = c.call("SENTINEL", "MASTER", NAME)
            facts = dict(zip(reply[::2], reply[1::2]))
            return (
                facts[b"num-slaves"] == b"2"
                and facts[b"num-other-sentinels"] == b"%d" % (count - 1)
                and facts[b"flags"] == b"master"
            )
    except OSError:
        return False


def follows(server, primary):
    try:
        with server.connect() as c:
            info = c.info("replication")
    except OSError:  # Sentinel kills the clients of a server whose role it changes
        return False
    return (
        info["role"] == "slave"
        and info["master_port"] == str(primary.port)
        and info["master_link_status"] == "up"
    )


def start_three(start_server, certificates=None, **flags_of_primary):
    flags = {"proactor_threads": 2, "repl_diskless_sync_delay": 0}
    if certificates is not None:
        flags |= {"only_tls": True, "client_tls": certificates.client(), "tls_replication": True}
        flags |= certificates.flags()
    primary = start_server(**flags, **flags_of_primary)
    replicas = [start_server(**flags) for _ in range(2)]
    wait_until_loaded(primary)
    for server in replicas:
        with server.connect() as c:
            assert c.call("REPLICAOF", "127.0.0.1", primary.port) == OK
    wait_until(lambda: all(follows(server, primary) for server in replicas), what="the links")
    return [primary, *replicas]


@pytest.fixture
def three(start_server):
    return start_three(start_server)


def is_primary_at(client, ports):
    """The port of the primary that the sentinels name, if it is one of these and agrees."""
    try:
        host, port = client.discover_master(NAME)
        if port not in ports:
            return None
        with RespSocket((host, port), timeout=PATIENCE_S, tls=client.tls) as c:
            return port if c.info("replication")["role"] == "master" else None
    except (OSError, redis.RedisError):
        return None


def ask(server, *command):
    """Its reply. None: Sentinel, which does that when it changes a role, has killed the client."""
    try:
        with server.connect() as c:
            return c.call(*command)
    except OSError:
        return None


def await_reply(expected, server, *command):
    wait_until(lambda: ask(server, *command) == expected, timeout_s=FAILOVER_S, what=str(command))


def await_promotion(client, servers):
    """The one of them that is the primary now."""
    by_port = {server.port: server for server in servers}
    port = wait_until(
        lambda: is_primary_at(client, by_port), timeout_s=FAILOVER_S, what="a failover"
    )
    return by_port[port]


def await_links(servers, primary):
    wait_until(
        lambda: all(follows(server, primary) for server in servers),
        timeout_s=FAILOVER_S,
        what="the links",
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_replica_takes_the_place_of_a_primary_that_dies(start_server, tmp_path, tls):
    certificates = Certificates(tmp_path) if tls else None
    primary, *others = start_three(start_server, certificates)
    with sentinels(tmp_path, primary.port, certificates) as client:
        with primary.connect() as c:
            for i in range(100):
                assert c.call("SET", f"key{i}", i) == OK
            assert c.call("WAIT", 2, PATIENCE_S * 1000) == 2
        primary.kill()
        promoted = await_promotion(client, others)
        (other,) = (server for server in others if server is not promoted)
        await_links([other], promoted)
        await_reply(100, promoted, "DBSIZE")
        await_reply(OK, promoted, "SET", "after", "v")
        await_reply(b"v", other, "GET", "after")
        await_reply(b"99", other, "GET", "key99")
        # The old one comes back as a replica, without what it was.
        primary.start_again(keeps_port=True)
        await_links([primary, other], promoted)
        await_reply(b"v", primary, "GET", "after")


@pytest.mark.timeout(1800)
def test_a_failover_on_demand(start_server, tmp_path):
    three = start_three(start_server)
    primary, *others = three
    with sentinels(tmp_path, primary.port) as client:
        with primary.connect() as c:
            assert c.call("SET", "before", "v") == OK
            assert c.call("WAIT", 2, PATIENCE_S * 1000) == 2
        client.sentinels[0].execute_command("SENTINEL", "FAILOVER", NAME)
        promoted = await_promotion(client, others)
        rest = [server for server in three if server is not promoted]
        await_links(rest, promoted)

        def writes():
            """As a client of redis-py that asks Sentinel."""
            try:
                with client.master_for(NAME) as found:
                    return found.get("before") == b"v" and found.set("after", "w")
            except redis.RedisError:
                return False

        wait_until(writes, timeout_s=FAILOVER_S, what="a write")
        for server in rest:
            await_reply(b"w", server, "GET", "after")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("is_back", [True, False], ids=["old one is back", "old one is away"])
def test_the_new_primary_dies_too(three, tmp_path, is_back):
    first, *others = three
    with sentinels(tmp_path, first.port) as client:
        with first.connect() as c:
            assert c.call("SET", "key", "first") == OK
            assert c.call("WAIT", 2, PATIENCE_S * 1000) == 2
        first.kill()
        second = await_promotion(client, others)
        (other,) = (server for server in others if server is not second)
        rest = [other]
        if is_back:
            first.start_again(keeps_port=True)
            rest.append(first)
        await_links(rest, second)
        await_reply(OK, second, "SET", "key", "second")
        await_reply(len(rest), second, "WAIT", len(rest), PATIENCE_S * 1000)
        second.kill()
        third = await_promotion(client, rest)
        await_reply(b"second", third, "GET", "key")
        await_reply(OK, third, "SET", "key", "third")
        # All come back, also who has a value that is older than all others'.
        for server in three:
            if not server.is_alive():
                server.start_again(keeps_port=True)
        followers = [server for server in three if server is not third]
        await_links(followers, third)
        for server in three:
            await_reply(b"third", server, "GET", "key")
            await_reply(1, server, "DBSIZE")


@pytest.mark.timeout(1800)
def test_a_primary_whose_disk_is_full_is_replaced(small_disk, start_server, tmp_path):  # noqa: F811
    """It answers PING with an error, so Sentinel takes it for down."""
    three = start_three(start_server, appendonly="yes", dir=small_disk)
    primary, *others = three
    with sentinels(tmp_path, primary.port) as client:
        length = 0

        def is_refused():
            nonlocal length
            reply = ask(primary, "RPUSH", "list", "x" * 100_000)
            if isinstance(reply, int):
                length = reply
            return isinstance(reply, Error) and reply.text.startswith("MISCONF")

        wait_until(is_refused, what="a full disk")
        promoted = await_promotion(client, others)
        (other,) = (server for server in others if server is not promoted)
        await_links([other], promoted)
        # Nothing that was answered is lost, and nothing that was refused is there.
        for server in three:
            await_reply(length, server, "LLEN", "list")
        await_reply(OK, promoted, "SET", "after", "v")
        assert ask(primary, "SET", "after", "w") != OK
        grow(small_disk)
        await_links([primary, other], promoted)
        for server in three:
            await_reply(b"v", server, "GET", "after")
            await_reply(length, server, "LLEN", "list")
        # It is as good as the others again, with its log.
        wait_until_loaded(primary)
        assert ask(primary, "CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]
