# SPDX-License-Identifier: Apache-2.0
"""redis-py from 50 threads: pipelines, transactions, its WATCH helper, locks, publish/subscribe and
blocking calls, as applications use them."""

import threading
from functools import partial

import pytest
import redis
from redis.exceptions import WatchError

from harness.server import PATIENCE_S, SANITIZED, wait_until
from harness.threads import run_all

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

THREADS = 20 if SANITIZED else 50
ROUNDS = 10


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server, request):
    """One client for all threads; its pool gives each thread a connection."""
    host, port = server.address
    with redis.Redis(
        host=host,
        port=port,
        protocol=request.param,
        socket_timeout=PATIENCE_S,
        decode_responses=True,
    ) as client:
        yield client


def in_threads(function, count=THREADS):
    """function(index) in each thread, all at once; raises what the first one raised."""
    barrier = threading.Barrier(count)

    def run(index):
        barrier.wait(timeout=PATIENCE_S)
        function(index)

    run_all([partial(run, index) for index in range(count)])


@pytest.mark.parametrize("transaction", [True, False], ids=["transaction", "plain"])
def test_pipelines_of_threads_on_keys_of_their_own(client, transaction):
    def work(index):
        for n in range(ROUNDS):
            keys = [f"{index}:{n}:{i}" for i in range(10)]
            with client.pipeline(transaction=transaction) as pipe:
                for i, key in enumerate(keys):
                    pipe.set(key, f"{index}.{n}.{i}")
                pipe.mget(keys)
                for key in keys:
                    pipe.append(key, "+").strlen(key)
                pipe.rpush(f"list:{index}", n).delete(*keys).exists(*keys)
                replies = pipe.execute()
            values = [f"{index}.{n}.{i}" for i in range(10)]
            assert replies[:10] == [True] * 10
            assert replies[10] == values
            lengths = [len(value) + 1 for value in values for _ in range(2)]
            assert replies[11:31] == lengths
            assert replies[31:] == [n + 1, 10, 0]

    in_threads(work)
    assert client.dbsize() == THREADS
    for index in range(THREADS):
        assert client.lrange(f"list:{index}", 0, -1) == [str(n) for n in range(ROUNDS)]


@pytest.mark.parametrize("transaction", [True, False], ids=["transaction", "plain"])
def test_pipelines_of_threads_on_shared_counters(client, transaction):
    counters = [f"counter:{i}" for i in range(8)]

    def work(index):
        seen = 0
        for _ in range(ROUNDS):
            with client.pipeline(transaction=transaction) as pipe:
                for counter in counters:
                    pipe.incr(counter)
                replies = pipe.execute()
            if transaction:  # all go up together, so they are equal
                assert len(set(replies)) == 1, replies
            assert replies[0] > seen
            seen = replies[0]

    in_threads(work)
    assert client.mget(counters) == [str(THREADS * ROUNDS)] * len(counters)


def test_an_error_in_a_transaction_stays_its_own(client):
    client.set("text", "x")

    def work(index):
        for n in range(ROUNDS):
            with client.pipeline() as pipe:
                pipe.incr("n").incr("text").incr("n").lpush("text", "y")
                replies = pipe.execute(raise_on_error=False)
            assert replies[2] == replies[0] + 1
            assert isinstance(replies[1], redis.ResponseError)
            assert "WRONGTYPE" in str(replies[3])
            with pytest.raises(redis.ResponseError, match="Command # 2 .*not an integer"):
                client.pipeline().incr("n").incr("text").execute()

    in_threads(work)
    assert client.get("n") == str(THREADS * ROUNDS * 3)


def test_the_watch_helper(client):
    """redis-py tries again when EXEC says that a key was touched."""
    rounds = 2
    in_all = [f"sum:{i}" for i in range(3)]
    client.mset({key: 0 for key in in_all})

    def work(index):
        def add(pipe):
            values = [int(v) for v in pipe.mget(in_all)]
            assert len(set(values)) == 1
            pipe.multi()
            for key, value in zip(in_all, values):
                pipe.set(key, value + 1)

        for _ in range(rounds):
            assert client.transaction(add, *in_all) == [True] * 3

    in_threads(work)
    assert client.mget(in_all) == [str(THREADS * rounds)] * 3


def test_watch_error_is_raised(client):
    def work(index):
        key = f"mine:{index}"
        with client.pipeline() as pipe:
            pipe.watch(key, "nobody's")
            assert pipe.get(key) is None
            client.set(key, "other")
            pipe.multi()
            pipe.set(key, "mine")
            with pytest.raises(WatchError):
                pipe.execute()
            pipe.watch(key)
            pipe.multi()
            pipe.set(key, "mine")
            assert pipe.execute() == [True]
        assert client.get(key) == "mine"

    in_threads(work)


def test_multi_and_exec_by_hand(client):
    def work(index):
        with client.client() as own:
            own.response_callbacks.clear()  # else SET has to be answered by OK
            for n in range(ROUNDS):
                assert own.execute_command("MULTI") == "OK"
                assert own.execute_command("SET", f"k{index}", n) == "QUEUED"
                assert own.execute_command("INCR", "shared") == "QUEUED"
                if n % 3 == 2:
                    assert own.execute_command("DISCARD") == "OK"
                else:
                    first, second = own.execute_command("EXEC")
                    assert first == "OK" and second >= 1
            with pytest.raises(redis.ResponseError, match="EXEC without MULTI"):
                own.execute_command("EXEC")

    in_threads(work)
    assert int(client.get("shared")) == THREADS * len([n for n in range(ROUNDS) if n % 3 != 2])


def test_publish_and_subscribe(client):
    """Each thread subscribes, all publish, and each sees every message, those of one publisher in
    their order; some are published by EXEC."""
    barrier = threading.Barrier(THREADS)
    count = 4

    def work(index):
        with client.pubsub(ignore_subscribe_messages=False) as pubsub:
            pubsub.subscribe("news")
            pubsub.psubscribe("pri*")
            for _ in range(2):
                assert pubsub.get_message(timeout=PATIENCE_S)["type"] in ("subscribe", "psubscribe")
            barrier.wait(timeout=PATIENCE_S)
            for n in range(count):
                if n % 2:
                    assert client.publish("news", f"{index} {n}") == THREADS
                else:
                    with client.pipeline() as pipe:
                        pipe.incr("published").publish("news", f"{index} {n}")
                        pipe.publish(f"private:{index}", n)
                        assert pipe.execute()[1:] == [THREADS, THREADS]
            seen = {}
            private = 0
            for _ in range(THREADS * (count + count // 2)):
                message = pubsub.get_message(timeout=PATIENCE_S)
                assert message is not None
                if message["type"] == "pmessage":
                    private += 1
                    continue
                publisher, n = message["data"].split()
                assert int(n) == seen.get(publisher, -1) + 1
                seen[publisher] = int(n)
            assert private == THREADS * (count // 2)
            assert seen == {str(i): count - 1 for i in range(THREADS)}

    in_threads(work)
    wait_until(lambda: client.pubsub_numsub("news") == [("news", 0)], what="all have left")


def test_locks_of_set_nx_and_watch(client):
    """The lock of applications: SET NX PX, and a release that looks whether it is one's own."""
    held = []

    def release(name, token):
        def delete(pipe):
            mine = pipe.get(name) == token
            pipe.multi()
            if mine:
                pipe.delete(name)

        return client.transaction(delete, name)

    def work(index):
        token = f"token:{index}"
        for _ in range(2):
            wait_until(
                lambda: client.set("lock", token, nx=True, px=600_000),
                what="the lock",
            )
            held.append(index)
            assert len(held) == 1
            held.remove(index)
            assert release("lock", token) == [1]

    in_threads(work, count=10)
    assert client.exists("lock") == 0


def test_workers_that_block(client):
    """Half of the threads push jobs, half wait for them; each job is done once."""
    workers = THREADS // 2
    jobs = workers * ROUNDS
    done = []

    def work(index):
        if index < workers:
            for n in range(ROUNDS):
                job = f"{index} {n}"
                if n % 3 == 0:
                    with client.pipeline() as pipe:
                        pipe.rpush("queue:low", job).incr("pushed").execute()
                else:
                    client.rpush("queue:high" if n % 3 == 1 else "queue:low", job)
            return
        while True:
            if index % 2:
                got = client.blpop(["queue:high", "queue:low"], timeout=60)
                job = got[1]
            else:
                job = client.blmove("queue:low", "active", 60)
            if job == "end":
                return
            done.append(job)
            if len(done) == jobs:  # each worker needs one, of the kind that all of them take
                client.rpush("queue:low", *["end"] * workers)

    in_threads(work, count=2 * workers)
    assert sorted(done) == sorted(f"{i} {n}" for i in range(workers) for n in range(ROUNDS))
    assert client.exists("queue:high", "queue:low") == 0


def test_blocking_calls_time_out_in_all_threads(client):
    def work(index):
        assert client.blpop([f"none:{index}", "none"], timeout=0.1) is None
        assert client.brpoplpush(f"none:{index}", "other", timeout=1) is None
        with client.pipeline() as pipe:  # in EXEC they do not wait
            pipe.blpop("none", timeout=0).blmove("none", "other", 0)
            assert pipe.execute() == [None, None]

    in_threads(work)
    assert client.dbsize() == 0
