# SPDX-License-Identifier: Apache-2.0
"""What replies that wait for replicas do not keep to yet; docs/replication.md says so."""

import os
import threading
import time

import pytest

from failover.failover import FAILOVER_S, Cluster
from failover.histories import await_whole
from harness.resp import OK, Status
from harness.server import PATIENCE_S, REFERENCE, SANITIZED, wait_until
from test_sync_replicas import await_epochs

pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="it is about servers of ours"),
    pytest.mark.skipif(SANITIZED, reason="Sentinel takes a sanitized server for dead"),
    pytest.mark.skipif(
        "DFLY_KNOWN_FAULTS" not in os.environ,
        reason="known to fail; DFLY_KNOWN_FAULTS=1 runs it",
    ),
    pytest.mark.timeout(1800),
]


class Writer(threading.Thread):
    """Stays at one server. Pushes 1, 2, 3, ... until its connection breaks."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.answered = {}  # number -> when it was sent

    def run(self):
        number = 0
        with self.server.connect(timeout=FAILOVER_S) as c:
            while True:
                number += 1
                sent = time.monotonic()
                try:
                    c.call("RPUSH", "numbers", number)
                except OSError:
                    return
                self.answered[number] = sent
                time.sleep(0.01)


def test_a_primary_that_was_replaced_answers_no_more_writes(tmp_path):
    """It is cut off with one replica; two others and the Sentinels are on the other side. What it
    is sent after the fence was shut must not be answered and lost, also when the cut is mended."""
    with Cluster(
        tmp_path,
        replicas=3,
        down_after_ms=5000,
        min_replicas_to_ack=1,
        ack_timeout=0,
        fence_without_sentinels=2,
        fence_ms=3000,
    ) as cluster:
        primary, kept = cluster.nodes[:2]
        wait_until(lambda: primary.replication()["fence_sentinels"] == "3", what="three Sentinels")
        writer = Writer(primary.server)
        writer.start()
        wait_until(lambda: writer.answered, what="an answer")
        kept.proxy.cut()
        primary.proxy.cut(spares=b"%d" % kept.port)
        wait_until(lambda: primary.replication()["is_fenced"] == "1", what="the fence")
        shut_at = time.monotonic()
        promoted = wait_until(
            lambda: (node := cluster.primary()) is not primary and node,
            timeout_s=FAILOVER_S,
            what="a failover",
        )
        # A Sentinel that is at it still would tell the kept one at once to follow the new one.
        wait_until(
            lambda: all(map(cluster.knows_all, cluster.sentinel_ports)),
            timeout_s=FAILOVER_S,
            what="the end of the failover",
        )
        primary.proxy.mend()
        kept.proxy.mend()
        promoted = await_whole(cluster)
        writer.join(FAILOVER_S)
        assert not writer.is_alive()
        there = set(map(int, promoted.ask("LRANGE", "numbers", 0, -1)))
    lost = [n for n, sent in writer.answered.items() if n not in there and sent > shut_at]
    assert lost == []


def test_ping_does_not_wait_behind_publish(start_server):
    """Sentinel publishes on the connection that it pings on."""
    server = start_server(proactor_threads=2, min_replicas_to_ack=1, ack_timeout=0)
    with server.connect(timeout=PATIENCE_S) as c, server.connect() as other:
        other.send_command("SET", "key", "value")
        await_epochs(c)
        assert c.call("PUBLISH", "__sentinel__:hello", "message") == 0
        assert c.call("PING") == Status("PONG")


def test_a_promoted_server_tells_nothing_that_its_end_would_lose(servers):
    """A read of what it had before waits for a replica, too."""
    flags = {"proactor_threads": 2, "min_replicas_to_ack": 2, "ack_timeout": 0}
    primary, replica = (servers(repl_diskless_sync_delay=0, **flags) for _ in range(2))
    with primary.connect() as c, replica.connect() as observer:
        assert observer.call("REPLICAOF", "127.0.0.1", primary.port) == OK
        c.send_command("SET", "key", "value")  # one replica is too few
        wait_until(lambda: observer.call("GET", "key") == b"value", what="the replica")
        primary.kill()
        assert observer.call("REPLICAOF", "NO", "ONE") == OK
        with replica.connect(timeout=2) as reader:
            reader.send_command("GET", "key")
            with pytest.raises(TimeoutError):
                reader.read()
