# SPDX-License-Identifier: Apache-2.0
"""Real clients: redis-py (own parser, hiredis, asyncio), redis-cli, redis-benchmark, ioredis."""

import asyncio
import os
import shutil
import subprocess

import pytest
import redis
import redis.asyncio

from harness.npm import node_path
from harness.server import ROOT, SANITIZED

pytestmark = [pytest.mark.matrix]


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


@pytest.fixture(params=[2, 3])
def client(request, server):
    c = redis.Redis(
        host="127.0.0.1",
        port=server.port,
        protocol=request.param,
        socket_timeout=60,
        client_name="tester",
    )
    yield c
    c.close()


@pytest.mark.sanitized
def test_redis_py_basics(client):
    assert client.ping()
    assert client.set("k", "v", ex=100)
    assert client.get("k") == b"v"
    assert client.get("missing") is None
    assert 0 < client.ttl("k") <= 100
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", get=True) == b"v"
    assert client.incrby("n", 5) == 5
    assert client.incrbyfloat("f", 1.5) == 1.5
    assert client.mset({"a": 1, "b": 2})
    assert client.mget("a", "b", "missing") == [b"1", b"2", None]
    assert client.type("k") == b"string"
    assert sorted(client.scan_iter(match="?")) == [b"a", b"b", b"f", b"k", b"n"]
    assert client.delete("a", "b", "zzz") == 2
    assert client.dbsize() == 3
    assert client.client_getname() in ("tester", b"tester")
    assert client.config_get("timeout") == {"timeout": "0"}
    assert client.info()["redis_mode"] == "standalone"
    assert client.time()[0] > 1_600_000_000
    assert client.echo("x") == b"x"
    assert client.memory_usage("k") > 0
    assert client.object("encoding", "n") == b"int"
    assert client.flushall()


@pytest.mark.sanitized
def test_redis_py_maps_errors(client):
    client.set("k", "text")
    with pytest.raises(redis.ResponseError, match="value is not an integer or out of range"):
        client.incr("k")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCH")
    with pytest.raises(redis.ResponseError, match="wrong number of arguments for 'get' command"):
        client.execute_command("GET")


@pytest.mark.sanitized
def test_redis_py_pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"k{i}", i)
            pipe.get(f"k{i}")
        replies = pipe.execute()
    assert replies[1::2] == [str(i).encode() for i in range(1000)]
    assert replies[::2] == [True] * 1000


def test_redis_py_client_commands(client):
    listed = client.client_list()
    assert any(c["name"] == "tester" for c in listed)
    assert client.client_id() in [int(c["id"]) for c in listed]
    assert client.client_info()["name"] == "tester"
    assert client.command_count() == len(client.command())


@pytest.mark.flags(requirepass="s3cret")
def test_redis_py_passwords(server):
    good = redis.Redis(port=server.port, password="s3cret")
    assert good.ping()
    good.close()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=server.port, password="wrong", retry=None).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=server.port, retry=None).ping()


@pytest.mark.sanitized
@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_asyncio(server, protocol):
    async def run():
        client = redis.asyncio.Redis(port=server.port, protocol=protocol, max_connections=300)
        await asyncio.gather(*[client.set(f"k{i}", i) for i in range(200)])
        values = await asyncio.gather(*[client.get(f"k{i}") for i in range(200)])
        assert values == [str(i).encode() for i in range(200)]
        await client.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_with_its_own_parser(server, protocol):
    from redis._parsers import _RESP2Parser, _RESP3Parser

    pool = redis.ConnectionPool(
        port=server.port,
        protocol=protocol,
        parser_class=_RESP3Parser if protocol == 3 else _RESP2Parser,
    )
    client = redis.Redis(connection_pool=pool)
    client.set("k", b"\r\n" * 1000)
    assert client.get("k") == b"\r\n" * 1000
    assert client.info("server")["redis_mode"] == "standalone"
    client.close()


def run_tool(*args, stdin=None, timeout=60, **environment):
    env = {**os.environ, **environment}
    p = subprocess.run(args, input=stdin, capture_output=True, text=True, timeout=timeout, env=env)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


@needs("redis-cli")
def test_redis_cli(server):
    cli = ["redis-cli", "-p", str(server.port)]
    assert run_tool(*cli, "SET", "k", "v") == "OK\n"
    assert run_tool(*cli, "GET", "k") == "v\n"
    assert run_tool(*cli, "-3", "GET", "missing") == "\n"
    assert run_tool(*cli, "--no-raw", "GET", "missing") == "(nil)\n"
    assert run_tool(*cli, stdin="SET a 1\nINCR a\nGET a\n") == "OK\n2\n2\n"
    assert "redis_version" in run_tool(*cli, "INFO", "server")
    assert run_tool(*cli, "--scan", "--pattern", "?").split() in (["a", "k"], ["k", "a"])
    piped = "".join(f"SET p{i} {i}\r\n" for i in range(10000))
    assert "errors: 0, replies: 10000" in run_tool(*cli, "--pipe", stdin=piped)
    assert run_tool(*cli, "DBSIZE") == "10002\n"
    # A terminal session asks for COMMAND DOCS to complete and hint.
    assert "summary" in run_tool(*cli, "COMMAND", "DOCS", "get")


@needs("redis-benchmark")
def test_redis_benchmark(server):
    count = "1000" if SANITIZED else "10000"
    common = ["redis-benchmark", "-p", str(server.port), "-n", count, "-q"]
    for extra in (
        ["-t", "get,set,incr,mset"],
        ["-t", "get,set", "-P", "16", "-r", "1000"],
        ["-t", "ping", "-c", "200"],
        ["-t", "set", "-d", "10000", "-c", "5"],
    ):
        output = run_tool(*common, *extra)
        assert "requests per second" in output
        assert "rror" not in output, output


def test_ioredis(server):
    program = os.path.join(ROOT, "tests", "node", "basics.js")
    run_tool("node", program, str(server.port), NODE_PATH=node_path("node"))
