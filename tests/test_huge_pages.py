# SPDX-License-Identifier: Apache-2.0
"""Memory that is in use gets into huge pages, and stays as it is."""

import platform

import pytest

from harness.server import REFERENCE, SANITIZED, wait_until

MB = 1 << 20

pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="a flag of ours"),
    pytest.mark.skipif(SANITIZED, reason="sanitizers have an allocator of their own"),
    pytest.mark.skipif(
        tuple(map(int, platform.release().split(".")[:2])) < (6, 1),
        reason="older kernels have no MADV_COLLAPSE",
    ),
]


def huge_bytes(r):
    return int(r.info("memory")["huge_page_bytes"])


@pytest.mark.long
@pytest.mark.threads
@pytest.mark.flags(huge_pages="yes")
def test_memory_that_is_in_use_gets_into_huge_pages(server, r):
    for i in range(0, 64_000, 1000):
        r.call("MSET", *[word for k in range(i, i + 1000) for word in (f"k{k}", f"{k:01000}")])
    wait_until(lambda: huge_bytes(r) >= 32 * MB, what="huge pages")
    with open(f"/proc/{server.pid}/smaps_rollup") as rollup:
        lines = dict(line.split(":") for line in list(rollup)[1:])
    assert int(lines["AnonHugePages"].split()[0]) * 1024 >= 16 * MB
    for i in range(0, 64_000, 1000):
        got = r.call("MGET", *[f"k{k}" for k in range(i, i + 1000)])
        assert got == [f"{k:01000}".encode() for k in range(i, i + 1000)]
    # What is deleted leaves the process, huge or not.
    rss = int(r.info("memory")["used_memory_rss"])
    r.call("FLUSHALL", "SYNC")
    wait_until(lambda: int(r.info("memory")["used_memory_rss"]) < rss - 40 * MB, what="less memory")


@pytest.mark.flags()
def test_they_are_off_by_default(server, r):
    assert r.call("CONFIG", "GET", "huge_pages") == [b"huge_pages", b"no"]
    assert huge_bytes(r) == 0
