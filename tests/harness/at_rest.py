# SPDX-License-Identifier: Apache-2.0
"""What a server still has when all clients have left: nothing that belonged to one of them."""

import os
import time

from .resp import OK
from .server import wait_until

GONE = (
    "blocked_clients",
    "tracking_clients",
    "pubsub_clients",
    "pubsub_channels",
    "pubsub_patterns",
    "pubsubshard_channels",
    "tracking_total_keys",
    "tracking_total_items",
    "tracking_total_prefixes",
    "watching_clients",
    "total_blocking_keys",
    "number_of_cached_scripts",
    "number_of_libraries",
    "tx_queue_length",
    "tx_watched_keys",
    "tx_waited_keys",
    "script_running",
    "lazyfree_pending_objects",
)


def threads_of(server):
    """All but those that come as they are needed: two for files, and the kernel's for io_uring,
    which are listed with the process's and end when idle."""
    names = []
    for task in os.listdir(f"/proc/{server.pid}/task"):
        try:
            with open(f"/proc/{server.pid}/task/{task}/comm") as f:
                names.append(f.read().strip())
        except (FileNotFoundError, ProcessLookupError):  # one of the kernel's that has just ended
            pass
    assert names.count("FileHelper") <= 2, names
    return [name for name in names if not name.startswith(("FileHelper", "iou-wrk"))]


def fibers(r):
    threads = [value for name, value in r.info("threads").items() if name.startswith("thread")]
    return sum(int(value.split("fibers=")[1]) for value in threads)


def at_rest(server, r):
    """Waits until nothing is left of anybody but `r`, whose connection is the only one. What the
    server uses then, in numbers that must not grow from one rest to the next."""
    wait_until(lambda: r.info("clients")["connected_clients"] == "1", what="clients leave")
    wait_until(lambda: r.info("persistence")["rdb_bgsave_in_progress"] == "0", what="BGSAVE")
    for command in (
        ("FLUSHALL",),
        ("SCRIPT", "FLUSH"),
        ("FUNCTION", "FLUSH"),
        ("SLOWLOG", "RESET"),
        ("CONFIG", "RESETSTAT"),
        ("ACL", "LOG", "RESET"),
    ):
        assert r.call(*command) == OK, command

    def left():
        info = r.info("everything")
        return {name: info[name] for name in GONE if info.get(name, "0") != "0"}

    try:
        wait_until(lambda: not left())
    except AssertionError:
        raise AssertionError(f"left behind: {left()}") from None
    # A FLUSHALL saves, if there are rules for that.
    wait_until(lambda: r.info("persistence")["rdb_bgsave_in_progress"] == "0", what="BGSAVE")
    assert r.call("MEMORY", "PURGE") == OK
    time.sleep(0.3)  # fibers that work in the background end by themselves
    return {
        "fibers": fibers(r),
        "descriptors": len(os.listdir(f"/proc/{server.pid}/fd")),
        "threads": len(threads_of(server)),
        "used": int(r.info("memory")["used_memory"]),
        "resident": server.rss_bytes(),
    }
