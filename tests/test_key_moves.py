# SPDX-License-Identifier: Apache-2.0
"""RENAME, RENAMENX, COPY, MOVE, SWAPDB and the moves between lists, over several shards, among
clients that look on; and the tags that decide which keys are in one shard."""

import subprocess
import time
from functools import partial

import pytest

from harness.resp import OK, Error
from harness.server import BINARY, SANITIZED, only_dragonfly
from harness.threads import run_all

pytestmark = pytest.mark.sanitized

KEYS = [f"t{i}" for i in range(6)]
SECONDS = 0.4


def together(server, *loops):
    """Runs loop(connection, n) for n = 0, 1, ... on connections of their own, and returns the first
    thing that one of them raised."""
    stop = time.monotonic() + SECONDS

    def run(loop):
        with server.connect() as c:
            n = 0
            while time.monotonic() < stop or n < 10:  # so many on a busy machine, too
                loop(c, n)
                n += 1

    run_all([partial(run, loop) for loop in loops])


def test_a_value_that_is_renamed_is_always_seen_exactly_once(server, r):
    r.call("SET", KEYS[0], "token")

    def rename(shift):
        def loop(c, n):
            for source in KEYS:
                target = KEYS[(n + shift) % len(KEYS)]
                reply = c.call("RENAME" if n % 2 else "RENAMENX", source, target)
                assert reply in (OK, 0, 1) or reply == Error("ERR no such key")

        return loop

    def look(c, n):
        assert [v for v in c.call("MGET", *KEYS) if v is not None] == [b"token"]
        assert c.call("EXISTS", *KEYS) == 1

    together(server, rename(1), rename(3), look, look)


def test_an_element_that_moves_between_lists_is_always_in_one(server, r):
    r.call("RPUSH", KEYS[0], "element")

    def move(shift):
        def loop(c, n):
            for source in KEYS:
                c.call("LMOVE", source, KEYS[(n + shift) % len(KEYS)], "LEFT", "RIGHT")

        return loop

    def look(c, n):
        assert c.call("EXISTS", *KEYS) == 1

    together(server, move(1), move(2), look)
    assert r.call("LMPOP", len(KEYS), *KEYS, "LEFT")[1] == [b"element"]
    assert r.call("LMPOP", len(KEYS), *KEYS, "LEFT") is None


def test_swapdb_is_seen_at_once_in_all_shards(server, r):
    for db in (0, 1):
        r.call("SELECT", db)
        r.call("MSET", *[x for key in KEYS for x in (key, f"of {db}")])
    r.call("SELECT", 0)

    def swap(c, n):
        assert c.call("SWAPDB", 0, 1) == OK

    def look(c, n):
        c.call("SELECT", n % 2)
        values = c.call("MGET", *KEYS)
        assert len(set(values)) == 1 and values[0] in (b"of 0", b"of 1")

    together(server, swap, look, look)


def test_a_copy_is_of_one_moment(server, r):
    r.call("MSET", "a", "0", "b", "0")

    def write(c, n):
        c.call("MSET", "a", n, "b", n)

    def copy(c, n):
        assert c.call("COPY", *(("a", "b") if n % 2 else ("b", "a")), "REPLACE") == 1

    def look(c, n):
        a, b = c.call("MGET", "a", "b")
        assert a == b

    together(server, write, copy, look)


def test_many_sizes_go_there_and_back_and_leave_no_memory(r):
    r.call("FLUSHALL")
    sizes = [1, 13, 14, 100, 5000, 70_000] + ([] if SANITIZED else [3_000_000])
    for size in sizes:
        r.call("SET", "s", "x" * size)
        r.call("RPUSH", "l", *["y" * min(size, 9000)] * 40)
        for i in range(12):
            assert r.call("RENAME", "s" if i == 0 else f"s{i - 1}", f"s{i}") == OK
            assert r.call("RENAME", "l" if i == 0 else f"l{i - 1}", f"l{i}") == OK
            assert r.call("COPY", f"l{i}", f"c{i}") == 1
        assert r.call("STRLEN", "s11") == size
        assert r.call("LRANGE", "l11", 0, -1) == [b"y" * min(size, 9000)] * 40
        assert r.call("LRANGE", "c3", 0, -1) == r.call("LRANGE", "l11", 0, -1)
        assert r.call("DEL", "s11", "l11", *[f"c{i}" for i in range(12)]) == 14
    assert r.call("DBSIZE") == 0


@only_dragonfly("bytes are counted exactly")
def test_what_was_moved_is_counted_where_it_is(r):
    r.call("FLUSHALL")
    for i in range(50):
        r.call("SET", f"from{i}", "x" * 5000)
    before = int(r.info("memory")["used_memory_dataset"])
    for i in range(50):
        r.call("RENAME", f"from{i}", f"goes{i}")
    after = int(r.info("memory")["used_memory_dataset"])
    assert abs(after - before) < 50_000  # tables of another shape
    r.call("FLUSHALL")
    assert int(r.info("memory")["used_memory_dataset"]) < 50_000


# --- Tags ---


@only_dragonfly("flags of ours")
@pytest.mark.parametrize("locks", ["true", "false"])
def test_keys_of_one_queue_are_in_one_shard_without_braces(start_server, locks):
    server = start_server(
        proactor_threads=4,
        num_shards=7,
        lock_on_hashtags=locks,
        locktag_prefix="bull",
        locktag_delimiter=":",
    )
    with server.connect() as r:

        def coordinated():
            return int(r.info("dispatch")["coordinated_commands"])

        before = coordinated()
        for queue in range(20):
            keys = [f"bull:q{queue}:{part}" for part in ("id", "wait", "active", "1")]
            assert r.call("MSET", *[x for key in keys for x in (key, "v")]) == OK
            assert r.call("RENAME", keys[0], f"bull:q{queue}:new") == OK
            assert r.call("RENAME", f"bull:q{queue}:new", f"{{q{queue}}}new") == OK
        between = coordinated()
        r.call("MGET", *[f"bull:q{queue}:wait" for queue in range(20)])
        assert coordinated() - between > between - before
        assert r.call("CONFIG", "GET", "locktag_delimiter") == [b"locktag_delimiter", b":"]
        assert r.call("CONFIG", "GET", "lock_on_hashtags")[1] == (
            b"yes" if locks == "true" else b"no"
        )


@only_dragonfly("flags of ours")
@pytest.mark.parametrize(
    "flags, wrong",
    [
        (["--locktag_prefix=b", "--locktag_delimiter=::"], "--locktag_delimiter: must be one"),
        (["--locktag_prefix=b", "--locktag_delimiter={"], "--locktag_delimiter: must be one"),
        (
            ["--locktag_prefix=", "--locktag_skip_n_end_delimiters=2"],
            "--locktag_skip_n_end_delimiters: needs",
        ),
        (["--lock_on_hashtags=perhaps"], "lock_on_hashtags"),
    ],
)
def test_tags_that_make_no_sense_stop_the_start(flags, wrong):
    p = subprocess.run([BINARY, *flags], capture_output=True, text=True, timeout=60)
    assert p.returncode != 0
    assert wrong in p.stderr
