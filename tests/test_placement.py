# SPDX-License-Identifier: Apache-2.0
"""Where tags are placed (--shard_round_robin_prefix) and where connections run."""

import pytest

from harness.resp import OK
from harness.server import REFERENCE

pytestmark = pytest.mark.skipif(REFERENCE, reason="redis-server has no shards")

THREADS = 4


def placed(r):
    return int(r.info("dispatch")["placed_tags"])


def test_tags_with_the_prefix_get_one_shard_after_another(start_server):
    server = start_server(proactor_threads=THREADS, shard_round_robin_prefix="q")
    with server.connect() as r, server.connect() as other:
        order = [3, 7, 0, 5, 1, 6, 2, 4]
        for queue in order:
            assert r.call("RPUSH", "bull:{q%d}:wait" % queue, "job") == 1
        assert placed(r) == len(order)
        for index, queue in enumerate(order):
            for key in ("bull:{q%d}:wait", "{q%d}", "q%d", "bull:{q%d}:id"):
                assert other.call("DEBUG", "SHARD", key % queue) == index % THREADS
            assert other.call("BRPOP", "bull:{q%d}:wait" % queue, 0)[1] == b"job"
        assert placed(r) == len(order)


def test_other_keys_and_channels_go_by_their_hash(start_server):
    server = start_server(proactor_threads=THREADS, shard_round_robin_prefix="q")
    with server.connect() as r, server.connect() as subscriber:
        shards = {r.call("DEBUG", "SHARD", f"other{i}") for i in range(100)}
        assert shards == set(range(THREADS))
        subscriber.call("SUBSCRIBE", "q1")
        assert r.call("PUBLISH", "q1", "message") == 1
        assert subscriber.read() == [b"message", b"q1", b"message"]
        assert placed(r) == 0


def test_past_the_limit_tags_go_by_their_hash(start_server):
    server = start_server(
        proactor_threads=THREADS, shard_round_robin_prefix="q", shard_round_robin_max=3
    )
    with server.connect() as r:
        for i in range(100):
            assert r.call("SET", f"q{i}", i) == OK
        assert placed(r) == 3
        assert [r.call("DEBUG", "SHARD", f"q{i}") for i in range(3)] == [0, 1, 2]
        assert len({r.call("DEBUG", "SHARD", f"q{i}") for i in range(3, 100)}) == THREADS
        assert r.call("MGET", *(f"q{i}" for i in range(100))) == [b"%d" % i for i in range(100)]
