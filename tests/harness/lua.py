# SPDX-License-Identifier: Apache-2.0
"""What tests of Lua scripts have in common."""

import contextlib
import hashlib

from harness.resp import Error, Map
from harness.server import REFERENCE

# Keys on several shards, if there are several.
SPREAD = [f"spread:{i}" for i in range(8)]


def sha1(script):
    return hashlib.sha1(script.encode()).hexdigest()


def counters(r):
    """INFO's counters of scripts, as numbers."""
    return {
        name.removeprefix("script_"): int(value)
        for name, value in r.info("transaction").items()
        if name.startswith("script_")
    }


@contextlib.contextmanager
def counted(r, **expected):
    """What is done inside moves these counters by so much."""
    before = counters(r)
    yield
    after = counters(r)
    assert {name: after[name] - before[name] for name in expected} == expected


def learned(r, script):
    """What SCRIPT LIST knows of it."""
    for row in r.call("SCRIPT", "LIST"):
        row = row.dict() if isinstance(row, Map) else dict(zip(row[::2], row[1::2]))
        if row[b"sha"] == sha1(script).encode():
            return {name.decode(): value for name, value in row.items()}
    raise AssertionError("SCRIPT LIST does not know it")


def assert_error(reply, *parts):
    assert isinstance(reply, Error), reply
    for part in parts:
        assert part in reply.text


def threads_of(server):
    return 1 if REFERENCE else server.flags["proactor_threads"]
