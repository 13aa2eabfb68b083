# SPDX-License-Identifier: Apache-2.0
"""--cluster_mode=emulated: what cluster clients ask for, and that they work against one server."""

import pytest
import redis
from redis.cluster import ClusterNode, RedisCluster

from harness.resp import OK, Error, Map
from harness.server import only_dragonfly

pytestmark = [pytest.mark.sanitized]

DISABLED = Error("ERR This instance has cluster support disabled")


def test_without_a_cluster_every_question_is_an_error(server):
    with server.connect() as c:
        for line in ("CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES",
                     "CLUSTER MYID", "CLUSTER KEYSLOT a", "CLUSTER COUNTKEYSINSLOT 1",
                     "CLUSTER GETKEYSINSLOT 1 1", "CLUSTER RESET", "CLUSTER LINKS",
                     "CLUSTER REPLICAS x", "READONLY", "READWRITE", "ASKING"):
            assert c.do(line) == DISABLED, line
        assert c.info("cluster")["cluster_enabled"] == "0"
        assert c.info("server")["redis_mode"] == "standalone"


@only_dragonfly("came with Valkey 9.1")
def test_clusterscan_needs_a_cluster(server):
    with server.connect() as c:
        for line in ("CLUSTERSCAN 0", "CLUSTERSCAN x y"):
            assert c.do(line) == DISABLED


@pytest.fixture(params=[1, 4])
def cluster(request, start_server):
    return start_server(proactor_threads=request.param, cluster_mode="emulated")


@only_dragonfly("a cluster needs several servers")
class TestEmulated:
    def test_the_node_has_all_slots(self, cluster):
        with cluster.connect() as c:
            node = c.do("CLUSTER MYID")
            assert len(node) == 40
            assert c.do("CLUSTER SLOTS") == [[0, 16383, [b"127.0.0.1", cluster.port, node, []]]]
            [shard] = c.do("CLUSTER SHARDS")
            assert shard[:2] == [b"slots", [0, 16383]]
            assert c.do("CLUSTER NODES").decode().split() == [
                node.decode(), f"127.0.0.1:{cluster.port}@{cluster.port + 10000}", "myself,master",
                "-", "0", "0", "1", "connected", "0-16383"]
            assert b"cluster_state:ok\r\n" in c.do("CLUSTER INFO")
            assert c.info("cluster")["cluster_enabled"] == "1"
            assert c.info("server")["redis_mode"] == "cluster"
            assert c.do("CONFIG GET cluster-enabled") == [b"cluster-enabled", b"yes"]
            for word in ("READONLY", "READWRITE", "ASKING"):
                assert c.do(word) == OK
            assert c.do("CLUSTER LINKS") == []
            assert c.do(f"CLUSTER REPLICAS {node.decode()}") == []
            assert c.do("CLUSTER REPLICAS x") == Error("ERR Unknown node x")
            assert dict(zip(*[iter(c.do("HELLO 2"))] * 2))[b"mode"] == b"cluster"
        with cluster.connect(resp3=True) as c:
            assert isinstance(c.do("CLUSTER SHARDS")[0], Map)

    def test_keys_of_slots(self, cluster):
        with cluster.connect() as c:
            assert c.do("CLUSTER KEYSLOT a") == 15495
            assert c.do("CLUSTER KEYSLOT x{a}y") == 15495
            assert c.do("CLUSTER KEYSLOT a{}b") == 13694
            keys = sorted(f"{{a}}{i}".encode() for i in range(3000))
            for key in keys:
                c.call("SET", key, "v")
            for i in range(500):
                c.call("SET", f"other{i}", "v")
            assert c.do("CLUSTER COUNTKEYSINSLOT 15495") == 3000
            assert sorted(c.do("CLUSTER GETKEYSINSLOT 15495 10000")) == keys
            some = c.do("CLUSTER GETKEYSINSLOT 15495 7")
            assert len(set(some)) == 7 and set(some) <= set(keys)
            assert c.do("CLUSTER GETKEYSINSLOT 15495 0") == []
            assert c.do("CLUSTER COUNTKEYSINSLOT 1") == 0
            assert c.do("CLUSTER COUNTKEYSINSLOT 16384") == Error("ERR Invalid slot")
            assert c.do("CLUSTER GETKEYSINSLOT 1 -1") == Error("ERR Invalid slot or number of keys")
            assert c.do("CLUSTER COUNTKEYSINSLOT x") == Error(
                "ERR value is not an integer or out of range")

    def walk(self, c, *options, cursor=b"0"):
        """The keys that a whole walk finds, and the cursors it came by."""
        keys, cursors = [], []
        while True:
            cursor, some = c.call("CLUSTERSCAN", cursor, *options)
            keys += some
            if cursor == b"0":
                return keys, cursors
            cursors.append(cursor)

    def test_clusterscan(self, cluster):
        with cluster.connect() as c:
            assert c.do("CLUSTERSCAN 0") == [b"0-{06S}-0", []]
            assert c.do("CLUSTERSCAN 0-{06S}-0") == [b"0", []]
            names = sorted(f"k{i}".encode() for i in range(3000))
            for name in names:
                c.call("SET", name, "v")
            c.do("LPUSH {06S}list 1")
            c.do("SET {06S}one 1")
            names += [b"{06S}list", b"{06S}one"]
            found, cursors = self.walk(c)
            assert sorted(found) == sorted(names) and len(cursors) > 100
            found, cursors = self.walk(c, "COUNT", 5000)
            assert sorted(found) == sorted(names) and cursors == [b"0-{06S}-0"]
            assert self.walk(c, "COUNT", 100, "TYPE", "list")[0] == [b"{06S}list"]
            assert set(self.walk(c, "MATCH", "k1?")[0]) == {f"k1{i}".encode() for i in range(10)}

    def test_clusterscan_of_a_slot(self, cluster):
        with cluster.connect() as c:
            for i in range(3000):
                c.call("SET", f"k{i}", "v")
                c.call("SET", f"{{a}}{i}", "v")
            slot = c.do("CLUSTER KEYSLOT a")
            wanted = sorted(f"{{a}}{i}".encode() for i in range(3000))
            cursor, keys = c.call("CLUSTERSCAN", 0, "SLOT", slot)
            assert keys == [] and c.call("CLUSTER", "KEYSLOT", cursor) == slot
            found, cursors = self.walk(c, "SLOT", slot, cursor=cursor)
            assert sorted(found) == wanted and len(cursors) > 30
            assert all(c.call("CLUSTER", "KEYSLOT", cursor) == slot for cursor in cursors)
            # Without SLOT it is this slot and those behind it.
            found, _ = self.walk(c, cursor=cursor)
            behind = [key for key in (f"k{i}".encode() for i in range(3000))
                      if c.call("CLUSTER", "KEYSLOT", key) >= slot]
            assert 0 < len(behind) < 3000
            assert sorted(found) == sorted(wanted + behind)
            assert self.walk(c, "SLOT", 1)[0] == []

    def test_a_clusterscan_of_another_run_begins_again(self, cluster):
        with cluster.connect() as c:
            for i in range(100):
                c.call("SET", f"k{i}", "v")
            cursor, some = c.do("CLUSTERSCAN 0-{06S}-0")
            fingerprint, rest = cursor.split(b"-", 1)
            assert fingerprint != b"0" and len(some) < 100
            _, others = c.call("CLUSTERSCAN", cursor, "COUNT", 1000)
            assert len(others) + len(some) == 100
            _, others = c.call("CLUSTERSCAN", b"x" + fingerprint + b"-" + rest, "COUNT", 1000)
            assert len(others) == 100

    @pytest.mark.parametrize(
        "line, error",
        [
            # As Valkey 9.1.2 words them.
            *((f"CLUSTERSCAN {cursor}", "ERR Invalid cursor")
              for cursor in ("abc", "''", "5", "00", "{06S}", "0-{06S}-x", "0-{06S}-",
                             "0-{06S}-0-1", "0-{06S}--1", "0-{06S}-99999999999999999999")),
            ("CLUSTERSCAN 0-{Qi}-0 SLOT 0", "ERR Cursor slot mismatch with SLOT argument"),
            ("CLUSTERSCAN 0 SLOT 1 SLOT 1", "ERR SLOT option can only be specified once"),
            *((f"CLUSTERSCAN 0 SLOT {slot}", "ERR Invalid or out of range slot")
              for slot in ("16384", "-1", "x")),
            ("CLUSTERSCAN 0-{06S}-0 COUNT 0", "ERR syntax error"),
            ("CLUSTERSCAN 0-{06S}-0 COUNT x", "ERR value is not an integer or out of range"),
            ("CLUSTERSCAN 0-{06S}-0 SLOT", "ERR syntax error"),
            ("CLUSTERSCAN 0-{06S}-0 foo bar", "ERR syntax error"),
        ],
    )
    def test_errors_of_clusterscan(self, cluster, line, error):
        with cluster.connect() as c:
            assert c.do(line) == Error(error)

    def test_reset(self, cluster):
        with cluster.connect() as c:
            assert c.do("CLUSTER RESET") == OK
            assert c.do("CLUSTER RESET HARD") == OK
            assert c.do("CLUSTER RESET X") == Error("ERR syntax error")
            c.do("SET k v")
            assert c.do("CLUSTER RESET SOFT").text.startswith("ERR CLUSTER RESET can't be called")
            assert c.do("GET k") == b"v"

    def test_redis_py(self, cluster):
        node = ClusterNode("127.0.0.1", cluster.port)
        with RedisCluster(startup_nodes=[node], decode_responses=True) as r:
            assert r.mset_nonatomic({f"k{i}": i for i in range(100)})
            assert r.mget_nonatomic([f"k{i}" for i in range(100)]) == [str(i) for i in range(100)]
            with r.pipeline() as p:
                for i in range(100):
                    p.incr(f"n{i % 10}")
                assert p.execute()[-1] == 10
            assert r.eval("return redis.call('incr', KEYS[1])", 1, "n0") == 11
            assert r.set("{k}1", 1) and r.rename("{k}1", "{k}2")
            assert r.cluster_keyslot("foo") == 12182
            assert r.get("{k}2") == "1"
            subscriber = r.pubsub()
            subscriber.subscribe("c")
            assert subscriber.get_message(timeout=30)["type"] == "subscribe"
            assert r.publish("c", "m") == 1
            assert subscriber.get_message(timeout=30)["data"] == "m"
            subscriber.close()
            assert r.dbsize() == 111

    def test_what_clients_are_told_can_be_set(self, start_server):
        server = start_server(cluster_mode="emulated", cluster_announce_ip="10.1.2.3",
                              cluster_announce_port=7777)
        with server.connect() as c:
            assert c.do("CLUSTER SLOTS")[0][2][:2] == [b"10.1.2.3", 7777]


def test_a_client_of_a_cluster_is_told_that_there_is_none(server):
    with pytest.raises(redis.exceptions.RedisClusterException):
        RedisCluster(host="127.0.0.1", port=server.port)
