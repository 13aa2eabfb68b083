# SPDX-License-Identifier: Apache-2.0
"""The fence, with Sentinels that are really cut off."""

import threading
import time

from failover.failover import FAILOVER_S, Cluster
from failover.marks import MARKS
from harness.server import wait_until

pytestmark = MARKS


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
        promoted = cluster.await_whole()
        writer.join(FAILOVER_S)
        assert not writer.is_alive()
        there = set(map(int, promoted.ask("LRANGE", "numbers", 0, -1)))
    lost = [n for n, sent in writer.answered.items() if n not in there and sent > shut_at]
    assert lost == []
