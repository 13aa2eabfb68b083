# SPDX-License-Identifier: Apache-2.0
"""What a program does with redis-py. PORT, and CLUSTER_PORT if there is one."""

import os
import threading

import redis

PORT = int(os.environ["PORT"])
CLUSTER_PORT = os.environ.get("CLUSTER_PORT")


def plain(r):
    assert r.set("s", "1") and r.get("s") == "1" and r.incr("s") == 2
    r.hset("h", mapping={"a": "1", "b": "2"})
    assert r.hgetall("h") == {"a": "1", "b": "2"}
    r.zadd("z", {"m": 1.5, "n": 2})
    assert [tuple(row) for row in r.zrange("z", 0, -1, withscores=True)] == [("m", 1.5), ("n", 2)]
    for i in range(300):
        r.sadd("set", i)
    assert len(set(r.sscan_iter("set", count=10))) == 300
    assert len(list(r.scan_iter(match="s*"))) == 2
    entry = r.xadd("x", {"f": "v"})
    assert r.xrange("x") == [(entry, {"f": "v"})]
    r.xgroup_create("x", "g", id="0")
    assert r.xreadgroup("g", "c", {"x": ">"}, count=1) is not None
    assert r.xack("x", "g", entry) == 1


def pipelines(r):
    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set(f"p{i}", i)
            p.get(f"p{i}")
        replies = p.execute()
    assert replies[1::2] == [str(i) for i in range(1000)]


def transactions(r):
    r.set("n", 1)
    with r.pipeline() as p:
        p.watch("n")
        value = int(p.get("n"))
        p.multi()
        p.set("n", value + 1)
        assert p.execute() == [True]
        p.watch("n")
        r.set("n", 100)
        p.multi()
        p.set("n", 0)
        try:
            p.execute()
            raise AssertionError("it was changed")
        except redis.WatchError:
            pass
    assert r.get("n") == "100"


def pubsub(r):
    p = r.pubsub()
    p.subscribe("news")
    p.psubscribe("n*")
    kinds = [p.get_message(timeout=10)["type"] for _ in range(2)]
    assert kinds == ["subscribe", "psubscribe"], kinds
    for i in range(50):
        assert r.publish("news", i) == 2
    got = [p.get_message(timeout=10) for _ in range(100)]
    assert sorted(m["type"] for m in got) == ["message"] * 50 + ["pmessage"] * 50
    assert [m["data"] for m in got if m["type"] == "message"] == [str(i) for i in range(50)]
    p.close()


def scripts(r):
    r.script_flush()
    add = r.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add(keys=["counter"], args=[5]) == 5 and add(keys=["counter"], args=[5]) == 10
    r.function_load("#!lua name=l\nredis.register_function('f', function(k, a) return a[1] end)",
                    replace=True)
    assert r.fcall("f", 0, "hello") == "hello"


def blocking(r):
    def push():
        other = redis.Redis(port=PORT)
        other.rpush("queue", "a", "b")
        other.close()

    thread = threading.Thread(target=push)
    thread.start()
    assert r.blpop(["empty", "queue"], timeout=10) in (["queue", "a"], ("queue", "a"))
    assert r.blmove("queue", "done", 10, "LEFT", "RIGHT") == "b"
    thread.join()
    assert r.blpop(["empty"], timeout=0.05) is None


def cache():
    r = redis.Redis(port=PORT, protocol=3, cache_config=redis.cache.CacheConfig())
    other = redis.Redis(port=PORT)
    other.set("cached", "1")
    assert r.get("cached") == b"1" and r.get_cache().size == 1
    other.set("cached", "2")
    for _ in range(1000):
        if r.get("cached") == b"2":
            break
    assert r.get("cached") == b"2"
    r.close()
    other.close()


def cluster():
    r = redis.RedisCluster(host="127.0.0.1", port=int(CLUSTER_PORT), decode_responses=True)
    for i in range(200):
        assert r.set(f"c{i}", i)
    assert [r.get(f"c{i}") for i in range(200)] == [str(i) for i in range(200)]
    with r.pipeline() as p:
        for i in range(200):
            p.get(f"c{i}")
        assert p.execute() == [str(i) for i in range(200)]
    r.mset_nonatomic({"{t}a": "1", "{t}b": "2"})
    assert r.mget("{t}a", "{t}b") == ["1", "2"]
    assert r.eval("return redis.call('get', KEYS[1])", 1, "{t}a") == "1"
    r.close()


for protocol in (2, 3):
    client = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
    client.flushall()
    for step in (plain, pipelines, transactions, pubsub, scripts, blocking):
        step(client)
    client.close()
if not os.environ.get("REFERENCE"):
    cache()  # it wants Redis 7.4
if CLUSTER_PORT:
    cluster()
