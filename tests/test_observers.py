# SPDX-License-Identifier: Apache-2.0
"""What watches a Redis watches this server: Prometheus' exporter for Redis, and Sentinel."""

import contextlib
import os
import shutil
import subprocess
import urllib.request

import pytest

from harness.resp import OK, RespSocket
from harness.server import Server, free_port, only_dragonfly, wait_until

pytestmark = only_dragonfly("it is what these programs are made for")

EXPORTER = shutil.which("prometheus-redis-exporter")
REDIS = shutil.which("redis-server")


@contextlib.contextmanager
def running(*command):
    """The process, with what it prints thrown away; ended at the end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def exported(server):
    """Samples of the exporter, name{labels} -> value."""
    port = free_port()
    with running(
        EXPORTER,
        f"-redis.addr=redis://127.0.0.1:{server.port}",
        f"-web.listen-address=127.0.0.1:{port}",
        "-include-system-metrics",
        "-export-client-list",
        "-check-streams=db0=stream",
        "-check-single-keys=db0=list",
        "-is-cluster=false",
    ):
        text = ""

        def has_answered():
            nonlocal text
            with contextlib.suppress(OSError):
                url = f"http://127.0.0.1:{port}/metrics"
                text = urllib.request.urlopen(url, timeout=30).read().decode()
            return "redis_up" in text

        wait_until(has_answered, what="the exporter's page")
    lines = [line for line in text.splitlines() if line.startswith("redis_")]
    return dict(line.rsplit(" ", 1) for line in lines)


def use(server):
    with server.connect() as r:
        assert r.call("CONFIG", "SET", "latency-monitor-threshold", 1) == OK
        r.do("DEBUG SLEEP 0.01")
        r.do("SET k v EX 1000")
        r.do("GET k")
        r.do("RPUSH list 1 2 3")
        r.do("XADD stream 1-1 a b")
        r.do("XGROUP CREATE stream group 0")
        r.do("XREADGROUP GROUP group consumer STREAMS stream >")
        r.do("GET list")  # an error


@pytest.mark.skipif(EXPORTER is None, reason="prometheus-redis-exporter is not installed")
@pytest.mark.skipif(REDIS is None, reason="there is no redis-server to compare with")
@pytest.mark.threads
@pytest.mark.flags()
def test_the_exporter_finds_what_it_finds_in_redis(server):
    use(server)
    ours = exported(server)
    reference = Server(reference=True)
    try:
        use(reference)
        theirs = exported(reference)
    finally:
        reference.stop()
    names = {sample.split("{")[0] for sample in ours}
    assert {sample.split("{")[0] for sample in theirs} - names == set()
    assert ours["redis_up"] == "1"
    assert ours['redis_exporter_last_scrape_error{err=""}'] == "0"
    for sample, value in theirs.items():
        # What the commands above have made, whatever the server is.
        if sample.startswith(("redis_stream_", "redis_key_size", "redis_db_keys")):
            if "idle" not in sample:
                assert (sample, ours.get(sample)) == (sample, value)


@pytest.mark.skipif(REDIS is None, reason="there is no redis-server, which is Sentinel, too")
@pytest.mark.threads
@pytest.mark.flags()
def test_sentinel_watches_it_and_sees_it_go(server, tmp_path):
    port = free_port()
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor main 127.0.0.1 {server.port} 2\n"
        "sentinel down-after-milliseconds main 1000\n"
    )
    with running(REDIS, os.fspath(settings), "--sentinel"):

        def master():
            try:
                with RespSocket(("127.0.0.1", port)) as sentinel:
                    flat = sentinel.do("SENTINEL MASTER main")
            except OSError:
                return {}
            return dict(zip(flat[::2], flat[1::2])) if isinstance(flat, list) else {}

        with server.connect() as r:
            run_id = r.info("server")["run_id"].encode()
            wait_until(lambda: master().get(b"runid") == run_id)
            assert master()[b"flags"] == b"master"
            assert master()[b"role-reported"] == b"master"
            wait_until(lambda: r.do("PUBSUB CHANNELS") == [b"__sentinel__:hello"])
            names = r.call("CLIENT", "LIST")
            assert b"name=sentinel-" in names
        server.stop()
        wait_until(lambda: b"s_down" in master()[b"flags"])
