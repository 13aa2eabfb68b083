# SPDX-License-Identifier: Apache-2.0
"""Scripts as well-known libraries send them: locks, limits, queues, invalidation of caches. Each is
written here after what its library is known to do. Most build names of keys that they do not
declare, from arguments or from what they read; that has to work without any flag, with the keys on
any thread, and as one step for everybody else."""

import json
import random
import time
from functools import partial

import pytest
import redis
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

from harness.server import PATIENCE_S
from harness.threads import run_all

pytestmark = [pytest.mark.threads]


@pytest.fixture
def client(server):
    with redis.Redis(port=server.port, decode_responses=True) as c:
        yield c


def together(server, *functions):
    """Runs function(client) in threads, each with a client of its own."""

    def run(function):
        with redis.Redis(port=server.port, decode_responses=True) as c:
            function(c)

    run_all([partial(run, function) for function in functions])


def until(condition):
    """True again and again, until the condition holds; fails at the deadline."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "timeout"
        yield True


# Locks.

REDLOCK_RELEASE = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end
"""

REDLOCK_EXTEND = """
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("pexpire", KEYS[1], ARGV[2])
"""


def test_redlock_is_released_and_extended_by_its_owner_only(client):
    assert client.set("resource", "mine", nx=True, px=30000)
    assert client.set("resource", "theirs", nx=True, px=30000) is None
    assert client.eval(REDLOCK_EXTEND, 1, "resource", "theirs", 90000) == 0
    assert client.pttl("resource") <= 30000
    assert client.eval(REDLOCK_EXTEND, 1, "resource", "mine", 90000) == 1
    assert 30000 < client.pttl("resource") <= 90000
    assert client.eval(REDLOCK_RELEASE, 1, "resource", "theirs") == 0
    assert client.get("resource") == "mine"
    assert client.eval(REDLOCK_RELEASE, 1, "resource", "mine") == 1
    assert client.eval(REDLOCK_RELEASE, 1, "resource", "mine") == 0


def test_redlock_on_several_resources_is_all_or_nothing(client):
    """Newer ones lock a set of resources by one script over all keys."""
    script = """
    for i, key in ipairs(KEYS) do
        if redis.call("exists", key) == 1 then return 0 end
    end
    for i, key in ipairs(KEYS) do
        redis.call("set", key, ARGV[1], "PX", ARGV[2])
    end
    return #KEYS
    """
    acquire = client.register_script(script)
    keys = [f"resource:{i}" for i in range(5)]
    assert acquire(keys=keys, args=["a", 30000]) == 5
    assert acquire(keys=["other", keys[3]], args=["b", 30000]) == 0
    assert client.exists("other") == 0
    assert [client.get(key) for key in keys] == ["a"] * 5


def test_redis_py_lock(client):
    lock = client.lock("lock", timeout=100)
    assert lock.acquire()
    assert not client.lock("lock").acquire(blocking=False)
    assert lock.extend(100)
    assert client.ttl("lock") > 150
    assert lock.reacquire()
    assert client.ttl("lock") <= 100
    stranger = client.lock("lock", timeout=100)
    for step in (stranger.release, lambda: stranger.extend(5), stranger.reacquire):
        stranger.local.token = b"guessed"
        with pytest.raises(LockNotOwnedError):
            step()
    lock.release()
    assert client.get("lock") is None
    with pytest.raises(LockError):
        lock.release()


def test_redis_py_lock_excludes(server, client):
    """A counter that is read and written in two steps under a lock."""

    def add(c):
        for _ in range(25):
            with c.lock("lock", timeout=60, sleep=0.001, blocking_timeout=60):
                c.set("counter", int(c.get("counter") or 0) + 1)

    together(server, add, add, add, add)
    assert client.get("counter") == "100"


# Limits.

FIXED_WINDOW = """
local current = redis.call("INCR", KEYS[1])
if tonumber(current) == 1 then
    redis.call("EXPIRE", KEYS[1], ARGV[1])
end
local ttl = redis.call("PTTL", KEYS[1])
return {current, ttl}
"""

SLIDING_WINDOW = """
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", "(" .. (now - window))
local count = redis.call("ZCARD", KEYS[1])
if count >= limit then
    local oldest = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")
    return {0, limit - count, tostring(oldest[2] + window - now)}
end
redis.call("ZADD", KEYS[1], now, ARGV[4])
redis.call("PEXPIRE", KEYS[1], window)
return {1, limit - count - 1, "0"}
"""

TOKEN_BUCKET = """
redis.replicate_commands()
local rate, capacity, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call("HMGET", KEYS[1], "tokens", "at")
local tokens = tonumber(bucket[1]) or capacity
local at = tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= wanted
if allowed then tokens = tokens - wanted end
redis.call("HSET", KEYS[1], "tokens", tokens, "at", now)
redis.call("EXPIRE", KEYS[1], math.ceil(capacity / rate * 2))
return {allowed and 1 or 0, tostring(tokens)}
"""


def test_fixed_window_counts_and_expires(client):
    counts = [client.eval(FIXED_WINDOW, 1, "rate:user:1", 100) for _ in range(5)]
    assert [count for count, _ in counts] == [1, 2, 3, 4, 5]
    assert all(0 < ttl <= 100_000 for _, ttl in counts)


def test_sliding_window_forgets_what_is_old(client):
    allow = client.register_script(SLIDING_WINDOW)
    calls = [(1000, [1, 2, "0"]), (1010, [1, 1, "0"]), (1020.5, [1, 0, "0"])]
    for now, expected in calls:
        assert allow(keys=["w"], args=[now, 100, 3, f"id{now}"]) == expected
    assert allow(keys=["w"], args=[1030, 100, 3, "x"]) == [0, 0, "70"]
    assert allow(keys=["w"], args=[1030.5, 100, 3, "x"]) == [0, 0, "69.5"]
    assert allow(keys=["w"], args=[1101, 100, 3, "y"]) == [1, 0, "0"]  # 1000 is out
    assert client.zrange("w", 0, -1) == ["id1010", "id1020.5", "y"]


def test_limits_admit_no_more_than_they_say(server, client):
    admitted = []

    def ask(c):
        window = c.register_script(SLIDING_WINDOW)
        bucket = c.register_script(TOKEN_BUCKET)
        for i in range(50):
            args = [time.time() * 1000, 60000, 20, f"{id(c)}:{i}"]
            admitted.append(("window", window(keys=["w"], args=args)[0]))
            # A token in a thousand seconds: none comes meanwhile.
            admitted.append(("bucket", bucket(keys=["b"], args=[0.001, 30, 1])[0]))

    together(server, ask, ask, ask, ask)
    assert admitted.count(("window", 1)) == 20
    assert admitted.count(("bucket", 1)) == 30
    assert client.zcard("w") == 20
    assert 0 <= float(client.hget("b", "tokens")) < 1
    assert client.ttl("b") > 0


# asynq: each task is a hash; its name is built from an argument and an id that was popped.

ASYNQ_ENQUEUE = """
if redis.call("EXISTS", KEYS[1]) == 1 then return 0 end
redis.call("HSET", KEYS[1], "msg", ARGV[1], "state", "pending", "pending_since", ARGV[3])
redis.call("LPUSH", KEYS[2], ARGV[2])
return 1
"""

ASYNQ_DEQUEUE = """
if redis.call("EXISTS", KEYS[2]) == 0 then
    local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[3])
    if id then
        local key = ARGV[2] .. id
        redis.call("HSET", key, "state", "active")
        redis.call("HDEL", key, "pending_since")
        redis.call("ZADD", KEYS[4], ARGV[1], id)
        return redis.call("HGET", key, "msg")
    end
end
return nil
"""

ASYNQ_DONE = """
if redis.call("LREM", KEYS[1], 0, ARGV[1]) == 0 then return redis.error_reply("NOT FOUND") end
if redis.call("ZREM", KEYS[2], ARGV[1]) == 0 then return redis.error_reply("NOT FOUND") end
if redis.call("DEL", KEYS[3]) == 0 then return redis.error_reply("NOT FOUND") end
local n = redis.call("INCR", KEYS[4])
if tonumber(n) == 1 then redis.call("EXPIREAT", KEYS[4], ARGV[2]) end
return redis.status_reply("OK")
"""

# What is due goes from the scheduled set to the list, at most 100 at a time.
ASYNQ_FORWARD = """
local ids = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", ARGV[1], "LIMIT", 0, 100)
for _, id in ipairs(ids) do
    local key = ARGV[2] .. id
    local group = redis.call("HGET", key, "group")
    if group and group ~= "" then
        redis.call("ZADD", ARGV[4] .. group, ARGV[1], id)
        redis.call("HSET", key, "state", "aggregating")
    else
        redis.call("LPUSH", KEYS[2], id)
        redis.call("HSET", key, "state", "pending", "pending_since", ARGV[3])
    end
    redis.call("ZREM", KEYS[1], id)
end
return table.getn(ids)
"""


class Asynq:
    def __init__(self, client, prefix="asynq:{default}:"):
        self.client = client
        self.prefix = prefix
        names = ["pending", "paused", "active", "lease", "scheduled", "processed"]
        self.keys = {name: prefix + name for name in names}
        scripts = [ASYNQ_ENQUEUE, ASYNQ_DEQUEUE, ASYNQ_DONE, ASYNQ_FORWARD]
        register = client.register_script
        self._enqueue, self._dequeue, self._done, self._forward = map(register, scripts)

    def task(self, task_id):
        return f"{self.prefix}t:{task_id}"

    def enqueue(self, task_id, message):
        keys = [self.task(task_id), self.keys["pending"]]
        return self._enqueue(keys=keys, args=[message, task_id, 1])

    def dequeue(self):
        keys = [self.keys[name] for name in ("pending", "paused", "active", "lease")]
        return self._dequeue(keys=keys, args=[2_000_000_000, self.prefix + "t:"])

    def done(self, task_id):
        keys = [self.keys["active"], self.keys["lease"], self.task(task_id)]
        return self._done(keys=[*keys, self.keys["processed"]], args=[task_id, 4_000_000_000])

    def forward(self, now):
        keys = [self.keys["scheduled"], self.keys["pending"]]
        return self._forward(keys=keys, args=[now, self.prefix + "t:", 2, self.prefix + "g:"])


@pytest.mark.parametrize("prefix", ["asynq:{default}:", "asynq:default:"])
def test_asynq_takes_tasks_whose_keys_it_builds(client, prefix):
    queue = Asynq(client, prefix)
    assert queue.enqueue("a", "message a") == 1
    assert queue.enqueue("a", "again") == 0
    assert queue.enqueue("b", "message b") == 1
    client.set(queue.keys["paused"], 1)
    assert queue.dequeue() is None
    client.delete(queue.keys["paused"])
    assert queue.dequeue() == "message a"
    assert client.hgetall(queue.task("a")) == {"msg": "message a", "state": "active"}
    assert client.zscore(queue.keys["lease"], "a") == 2_000_000_000
    assert queue.dequeue() == "message b"
    assert queue.dequeue() is None
    assert queue.done("a") == "OK"
    assert client.exists(queue.task("a")) == 0
    with pytest.raises(ResponseError, match="NOT FOUND"):
        queue.done("a")
    assert client.get(queue.keys["processed"]) == "1"

    for i in range(150):
        client.hset(queue.task(f"s{i}"), mapping={"msg": f"m{i}", "state": "scheduled"})
        if i % 10 == 0:
            client.hset(queue.task(f"s{i}"), "group", "tens")
    client.zadd(queue.keys["scheduled"], {f"s{i}": i for i in range(150)})
    assert [queue.forward(139) for _ in range(3)] == [100, 40, 0]
    assert client.zcard(queue.keys["scheduled"]) == 10
    assert client.llen(queue.keys["pending"]) == 126
    assert client.zcard(prefix + "g:tens") == 14
    assert client.hget(queue.task("s10"), "state") == "aggregating"
    assert client.hget(queue.task("s11"), "pending_since") == "2"


@pytest.mark.parametrize("prefix", ["asynq:{default}:", "asynq:default:"])
def test_asynq_gives_each_task_once(server, client, prefix):
    total = 300
    taken = []

    def produce(c):
        for i in range(total):
            assert Asynq.enqueue(queues[id(c)], i, f"{i}") == 1

    def consume(c):
        for _ in until(lambda: len(taken) >= total):
            message = queues[id(c)].dequeue()
            if message is not None:
                taken.append(int(message))
                assert queues[id(c)].done(message) == "OK"

    queues = {}

    def with_queue(function):
        def run(c):
            queues[id(c)] = Asynq(c, prefix)
            function(c)

        return run

    together(server, *map(with_queue, [produce, consume, consume, consume]))
    assert sorted(taken) == list(range(total))
    assert client.keys("*") == [prefix + "processed"]


# sidekiq-unique-jobs: a digest of a job's arguments, and keys that hang on it.

UNIQUE_LOCK = """
local digest, job = KEYS[1], ARGV[1]
local queued, primed, locked, info = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local digests, limit, ttl, now = KEYS[6], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call("HEXISTS", locked, job) == 1 then return job end
if redis.call("HLEN", locked) >= limit then return redis.call("HKEYS", locked)[1] end
redis.call("ZADD", digests, now, digest)
redis.call("HSET", locked, job, now)
redis.call("LREM", queued, -1, job)
redis.call("LREM", primed, 1, job)
redis.call("SET", digest, job)
redis.call("SET", info, cjson.encode({limit = limit, at = now, jobs = {job}}))
if ttl > 0 then
    for _, key in pairs({digest, locked, info}) do redis.call("PEXPIRE", key, ttl) end
end
return job
"""

UNIQUE_UNLOCK = """
local digest, locked, info = KEYS[1], KEYS[1] .. ":LOCKED", KEYS[1] .. ":INFO"
if redis.call("HDEL", locked, ARGV[1]) == 0 then return nil end
if redis.call("HLEN", locked) == 0 then
    redis.call("UNLINK", digest, info, locked)
    redis.call("ZREM", KEYS[2], digest)
end
redis.call("LPUSH", digest .. ":QUEUED", "1")
redis.call("PEXPIRE", digest .. ":QUEUED", 5000)
return ARGV[1]
"""

# The reaper: digests whose job is in no queue. It finds queues and digests by what it reads.
UNIQUE_REAP = """
local function queued(digest)
    for _, queue in ipairs(redis.call("SMEMBERS", "queues")) do
        for _, text in ipairs(redis.call("LRANGE", "queue:" .. queue, 0, -1)) do
            if string.find(text, digest, 1, true) then return true end
        end
    end
    return false
end
local reaped = {}
for _, digest in ipairs(redis.call("ZREVRANGE", KEYS[1], 0, tonumber(ARGV[1]) - 1)) do
    if not queued(digest) then
        local keys = {digest}
        for _, part in ipairs({"QUEUED", "PRIMED", "LOCKED", "INFO"}) do
            table.insert(keys, digest .. ":" .. part)
        end
        redis.call("UNLINK", unpack(keys))
        redis.call("ZREM", KEYS[1], digest)
        table.insert(reaped, digest)
    end
end
table.sort(reaped)
return reaped
"""


def unique_keys(digest):
    parts = [digest, *[f"{digest}:{part}" for part in ("QUEUED", "PRIMED", "LOCKED", "INFO")]]
    return [*parts, "uniquejobs:digests"]


def test_unique_jobs_lock_unlock_and_reap(client):
    lock, unlock, reap = map(client.register_script, [UNIQUE_LOCK, UNIQUE_UNLOCK, UNIQUE_REAP])
    digests = [f"uniquejobs:{i:032x}" for i in range(20)]
    for n, digest in enumerate(digests):
        assert lock(keys=unique_keys(digest), args=["job1", 1, 60000, n]) == "job1"
    assert lock(keys=unique_keys(digests[0]), args=["job1", 1, 60000, 5]) == "job1"
    assert lock(keys=unique_keys(digests[0]), args=["job2", 1, 60000, 5]) == "job1"
    assert json.loads(client.get(digests[1] + ":INFO")) == {"limit": 1, "at": 1, "jobs": ["job1"]}
    assert 0 < client.pttl(digests[1] + ":LOCKED") <= 60000
    assert client.zcard("uniquejobs:digests") == 20

    assert unlock(keys=[digests[0], "uniquejobs:digests"], args=["job2"]) is None
    assert unlock(keys=[digests[0], "uniquejobs:digests"], args=["job1"]) == "job1"
    assert client.keys(digests[0] + "*") == [digests[0] + ":QUEUED"]
    assert lock(keys=unique_keys(digests[0]), args=["job2", 1, 0, 100]) == "job2"

    client.sadd("queues", "default", "low")
    client.rpush("queue:default", json.dumps({"jid": "1", "unique_digest": digests[3]}))
    client.rpush("queue:low", json.dumps({"jid": "2", "unique_digest": digests[7]}))
    reaped = reap(keys=["uniquejobs:digests"], args=[1000])
    assert reaped == sorted(set(digests) - {digests[3], digests[7]})
    assert client.zrange("uniquejobs:digests", 0, -1) == [digests[3], digests[7]]
    left = {key for key in client.keys("uniquejobs:*") if key != "uniquejobs:digests"}
    assert {key.split(":")[1] for key in left} == {digests[i].split(":")[1] for i in (3, 7)}


# django-cacheops: the keys of cached results are members of sets, whose names come from the fields
# of a changed row. Not one key is declared.

CACHE_STORE = """
local prefix, key, timeout = ARGV[1], ARGV[2], tonumber(ARGV[4])
redis.call("SETEX", prefix .. key, timeout, ARGV[3])
for table_name, conditions in pairs(cjson.decode(ARGV[5])) do
    for _, conj in ipairs(conditions) do
        local fields, values = {}, {}
        for field, value in pairs(conj) do table.insert(fields, field) end
        table.sort(fields)
        for _, field in ipairs(fields) do
            table.insert(values, field .. "=" .. tostring(conj[field]))
        end
        redis.call("SADD", prefix .. "schemes:" .. table_name, table.concat(fields, ","))
        local conj_key = prefix .. "conj:" .. table_name .. ":" .. table.concat(values, "&")
        redis.call("SADD", conj_key, key)
        redis.call("EXPIRE", conj_key, timeout + 10)
    end
end
return true
"""

CACHE_INVALIDATE = """
local prefix, table_name, row = ARGV[1], ARGV[2], cjson.decode(ARGV[3])
local conj_keys = {}
for _, scheme in ipairs(redis.call("SMEMBERS", prefix .. "schemes:" .. table_name)) do
    local parts = {}
    for field in string.gmatch(scheme, "[^,]+") do
        table.insert(parts, field .. "=" .. tostring(row[field]))
    end
    table.insert(conj_keys, prefix .. "conj:" .. table_name .. ":" .. table.concat(parts, "&"))
end
if next(conj_keys) == nil then return 0 end
local keys = redis.call("SUNION", unpack(conj_keys))
for i = 1, #keys, 500 do
    local names = {}
    for j = i, math.min(i + 499, #keys) do table.insert(names, prefix .. keys[j]) end
    redis.call("UNLINK", unpack(names))
end
redis.call("UNLINK", unpack(conj_keys))
return #keys
"""


def store(cache, key, value, **tables):
    return cache(args=["c:", key, value, 1000, json.dumps(tables)])


def test_cacheops_invalidates_what_a_row_had_a_part_in(client):
    cache, drop = map(client.register_script, [CACHE_STORE, CACHE_INVALIDATE])
    assert drop(args=["c:", "post", json.dumps({"id": 1})]) == 0
    for i in range(700):
        assert store(cache, f"by-author:{i}", i, post=[{"author": i % 2, "public": True}]) == 1
    store(cache, "post:1", "one", post=[{"id": 1}])
    store(cache, "post:2", "two", post=[{"id": 2}], user=[{"id": 9}])
    store(cache, "all", "all", post=[{}])
    assert client.smembers("c:schemes:post") == {"", "id", "author,public"}
    row = {"id": 2, "author": 1, "public": True, "title": "x"}
    assert drop(args=["c:", "post", json.dumps(row)]) == 352
    assert client.get("c:post:1") == "one"
    assert client.mget("c:post:2", "c:all", "c:by-author:1", "c:by-author:699") == [None] * 4
    assert client.get("c:by-author:698") == "698"
    assert drop(args=["c:", "post", json.dumps(row)]) == 0
    assert drop(args=["c:", "user", json.dumps({"id": 9})]) == 1


def test_cacheops_never_leaves_a_result_behind(server, client):
    """Whoever stores and whoever invalidates run at the same time; each result that is there in the
    end is in the sets by which the next invalidation will find it."""

    def write(c, seed):
        cache = c.register_script(CACHE_STORE)
        rng = random.Random(seed)
        for _ in range(150):
            n = rng.randrange(30)
            store(cache, f"result:{n}", n, post=[{"id": n % 10}, {"tag": n % 3}])

    def invalidate(c, seed):
        drop = c.register_script(CACHE_INVALIDATE)
        rng = random.Random(seed)
        for _ in range(100):
            n = rng.randrange(30)
            drop(args=["c:", "post", json.dumps({"id": n % 10, "tag": n % 3})])

    writers = [partial(write, seed=seed) for seed in (1, 2)]
    droppers = [partial(invalidate, seed=seed) for seed in (3, 4)]
    together(server, *writers, *droppers)
    drop = client.register_script(CACHE_INVALIDATE)
    for n in range(30):
        drop(args=["c:", "post", json.dumps({"id": n % 10, "tag": n % 3})])
    assert client.keys("c:result:*") == []
    assert client.keys("*") == ["c:schemes:post"]


# Laravel: a job moves from a list to a sorted set of what is reserved, with one attempt more.

LARAVEL_PUSH = """
redis.call("rpush", KEYS[1], ARGV[1])
redis.call("rpush", KEYS[2], 1)
"""

LARAVEL_POP = """
local job = redis.call("lpop", KEYS[1])
local reserved = false
if job ~= false then
    reserved = cjson.decode(job)
    reserved["attempts"] = reserved["attempts"] + 1
    reserved = cjson.encode(reserved)
    redis.call("zadd", KEYS[2], ARGV[1], reserved)
    redis.call("lpop", KEYS[3])
end
return {job, reserved}
"""

LARAVEL_MIGRATE = """
local due = redis.call("zrangebyscore", KEYS[1], "-inf", ARGV[1], "limit", 0, ARGV[2])
if next(due) ~= nil then
    redis.call("zremrangebyrank", KEYS[1], 0, #due - 1)
    for i = 1, #due, 100 do
        redis.call("rpush", KEYS[2], unpack(due, i, math.min(i + 99, #due)))
        for j = i, math.min(i + 99, #due) do redis.call("rpush", KEYS[3], 1) end
    end
end
return due
"""

LARAVEL_RELEASE = """
redis.call("zrem", KEYS[2], ARGV[1])
redis.call("zadd", KEYS[1], ARGV[2], ARGV[1])
return true
"""

LARAVEL_SIZE = """
return redis.call("llen", KEYS[1]) + redis.call("zcard", KEYS[2]) + redis.call("zcard", KEYS[3])
"""


class Laravel:
    def __init__(self, client):
        self.client = client
        queue = "queues:default"
        self.queue, self.notify = queue, queue + ":notify"
        self.delayed, self.reserved = queue + ":delayed", queue + ":reserved"
        self._pop = client.register_script(LARAVEL_POP)
        self._migrate = client.register_script(LARAVEL_MIGRATE)

    def push(self, job_id):
        job = json.dumps({"id": job_id, "attempts": 0})
        return self.client.eval(LARAVEL_PUSH, 2, self.queue, self.notify, job)

    def pop(self, retry_at):
        return self._pop(keys=[self.queue, self.reserved, self.notify], args=[retry_at])

    def migrate(self, source, now, limit=-1):
        return self._migrate(keys=[source, self.queue, self.notify], args=[now, limit])

    def release(self, job, at):
        return self.client.eval(LARAVEL_RELEASE, 2, self.delayed, self.reserved, job, at)

    def size(self):
        return self.client.eval(LARAVEL_SIZE, 3, self.queue, self.delayed, self.reserved)


def test_laravel_pops_releases_and_migrates(client):
    queue = Laravel(client)
    assert queue.pop(100) == [None, None]
    for i in range(250):
        assert queue.push(i) is None
    assert queue.size() == 250
    job, reserved = queue.pop(100)
    assert json.loads(job) == {"id": 0, "attempts": 0}
    assert json.loads(reserved) == {"id": 0, "attempts": 1}
    assert client.zscore(queue.reserved, reserved) == 100
    assert queue.release(reserved, 50) == 1
    assert (client.zcard(queue.delayed), client.zcard(queue.reserved)) == (1, 0)
    assert queue.migrate(queue.delayed, 49) == []
    assert queue.migrate(queue.delayed, 50) == [reserved]
    assert client.lindex(queue.queue, -1) == reserved
    popped = [json.loads(queue.pop(100 + i)[1]) for i in range(250)]
    assert [job["id"] for job in popped] == [*range(1, 250), 0]
    assert popped[-1]["attempts"] == 2
    assert client.exists(queue.notify) == 0
    assert len(queue.migrate(queue.reserved, 1000, limit=30)) == 30
    assert len(queue.migrate(queue.reserved, 1000)) == 220  # more than one RPUSH
    assert (client.llen(queue.queue), client.llen(queue.notify)) == (250, 250)
    assert queue.size() == 250


def test_laravel_loses_no_job_among_workers(server, client):
    """Workers pop and release; every job comes to each of its three attempts exactly once, and the
    size, which counts three keys, is never anything but what is left."""
    total = 60
    done = []
    sizes = set()

    def work(c):
        queue = Laravel(c)
        for _ in until(lambda: len(done) >= 3 * total):
            queue.migrate(queue.delayed, 10)
            job, reserved = queue.pop(20)
            if job is None:
                continue
            content = json.loads(reserved)
            done.append((content["id"], content["attempts"]))
            if content["attempts"] < 3:
                queue.release(reserved, 10)

    def look(c):
        queue = Laravel(c)
        sizes.add(queue.size())
        for _ in until(lambda: len(done) >= 3 * total):
            sizes.add(queue.size())

    for i in range(total):
        Laravel(client).push(i)
    together(server, work, work, work, look)
    assert sorted(done) == [(i, attempt) for i in range(total) for attempt in (1, 2, 3)]
    assert sizes == {total}
    assert client.zcard("queues:default:reserved") == total
