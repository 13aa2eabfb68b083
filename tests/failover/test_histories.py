# SPDX-License-Identifier: Apache-2.0
"""What clients saw during failovers with synchronous replicas is linearizable (histories.py tells
what that means for reads at an old primary). DFLY_FAILOVERS=40 for more."""

import copy
import os

import pytest

from failover.failover import Cluster
from failover.histories import (
    FOREVER,
    History,
    Judge,
    Operation,
    check,
    clean_runs,
    record,
    synchronous_cluster,
)
from failover.marks import MARKS
from harness.porcupine import build_checker
from harness.seeds import new_rng

pytestmark = MARKS

# The first two differ most: a process that is gone, and an old primary that clients still reach.
FAULTS = ("kill", "split", "stop", "cut")


@pytest.fixture(scope="module")
def checker():
    return build_checker()


def test_histories_of_failovers_are_linearizable(checker, tmp_path):
    rng = new_rng()
    judge = Judge(checker, tmp_path)
    with synchronous_cluster(tmp_path, 1) as cluster:
        count = int(os.environ.get("DFLY_FAILOVERS", 2))
        for i, run in enumerate(clean_runs(cluster, rng, FAULTS, count)):
            facts = judge.judge(run)
            print(f"{i}: {run.fault}, {facts}, {run.errors}", flush=True)
            assert judge.bad == []
            assert facts["linearizable"] > 0
            # Then nothing was changed in the histories, and so all reads were new.
            assert run.fault != "kill" or facts["stale"] == 0
    judge.report()


def test_servers_that_lose_writes_are_found_out(checker, tmp_path):
    """Replies do not wait for replicas here. What clients write at an old primary that is cut off
    is answered, and lost."""
    with Cluster(tmp_path) as cluster:
        run = record(cluster, new_rng(), "split", 0, is_synchronous=False)
    run.keep_answers_of_the_old(10)
    found, _ = check(checker, run.write(tmp_path, "lost"), tmp_path)
    print(found, run.errors)
    assert found["NOT LINEARIZABLE"] > 0


class Script:
    """A history of operations one after another."""

    def __init__(self):
        self.history = History("one-key", "")
        self.now = 0

    def add(self, reply, *args, port=1):
        operation = Operation(0, list(args))
        operation.port, operation.reply = port, reply
        operation.called, operation.returned = self.now + 1, self.now + 2
        self.now += 10
        self.history.operations.append(operation)
        return operation


def verdict(checker, tmp_path, history, **old):
    path = str(tmp_path / "history.jsonl")
    history.write(path, **old)
    found, _ = check(checker, [path], tmp_path)
    return next(name for name, count in found.items() if count)


def good_script():
    script = Script()
    script.add("+OK", "SET", "k0", "a")
    script.add("$a", "GET", "k0")
    script.add(":2", "APPEND", "k0", "b")
    script.add("$ab", "GET", "k0")
    script.add(":1", "INCR", "k1")
    script.add(":3", "INCRBY", "k1", "2")
    script.add("$3", "GET", "k1")
    script.add(":2", "RPUSH", "k2", "x", "y")
    script.add("$x", "LPOP", "k2")
    script.add("[$y]", "LRANGE", "k2", "0", "-1")
    script.add(":1", "DEL", "k2")
    script.add("[]", "LRANGE", "k2", "0", "-1")
    return script


def test_each_write_that_is_taken_out_is_missed(checker, tmp_path):
    script = good_script()
    assert verdict(checker, tmp_path, script.history) == "linearizable"
    for i, operation in enumerate(script.history.operations):
        if operation.is_read():
            continue
        shorter = History("one-key", "")
        shorter.operations = script.history.operations[:i] + script.history.operations[i + 1 :]
        assert verdict(checker, tmp_path, shorter) == "NOT LINEARIZABLE", operation.args
        # Without its reply it may have been carried out.
        unknown = copy.deepcopy(script.history)
        unknown.operations[i].reply = "?"
        unknown.operations[i].returned = FOREVER
        assert verdict(checker, tmp_path, unknown) == "linearizable", operation.args


def test_an_answered_write_that_is_lost_is_missed(checker, tmp_path):
    script = good_script()
    write = script.add("+OK", "SET", "k0", "lost")
    script.add("$ab", "GET", "k0", port=2)
    assert verdict(checker, tmp_path, script.history) == "NOT LINEARIZABLE"
    write.reply = "?"
    assert verdict(checker, tmp_path, script.history) == "linearizable"


def test_what_the_old_primary_tells(checker, tmp_path):
    """A late read there may be as old as the fault, and not older; reads elsewhere may not."""
    script = good_script()
    lost_at = script.now
    script.add("+OK", "SET", "k0", "new", port=2)
    late = script.add("$ab", "GET", "k0", port=1)
    old = {"old_port": 1, "lost_at": lost_at}
    assert verdict(checker, tmp_path, script.history) == "NOT LINEARIZABLE"
    assert verdict(checker, tmp_path, script.history, **old) == "linearizable"
    late.port = 2
    assert verdict(checker, tmp_path, script.history, **old) == "NOT LINEARIZABLE"
    late.port, late.reply = 1, "$a"
    assert verdict(checker, tmp_path, script.history, **old) == "NOT LINEARIZABLE"
