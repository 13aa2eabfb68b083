# SPDX-License-Identifier: Apache-2.0
"""Random commands that came behind redis-server 7.0, against ours and a Valkey 9.1. The replies
must be equal, but for what an error says: many of these commands are Redis 8's as well, and ours
say what that says, in its order (docs/differences.md).

DFLY_SEED=n replays a failure, DFLY_DIFF_COMMANDS=n changes the length.
"""

import collections
import shutil

import pytest

from harness.seeds import new_rng
from harness.server import Server, configuration_flags, only_dragonfly
from harness.valkey import Valkey

from . import newer
from .grammar import Grammar
from .pair import Pair, data_set, report
from .test_replies import COMMANDS, timeout_s

pytestmark = [
    pytest.mark.sanitized,
    pytest.mark.alone,
    only_dragonfly("it has none of these commands"),
]


class NewerPair(Pair):
    def __init__(self, *args):
        super().__init__(*args)
        self.replies = collections.defaultdict(collections.Counter)  # of ours, by command

    def _agree(self, command, ours, reference):
        self.replies[command[0].upper()]["error" if ours.startswith(b"-") else "other"] += 1
        if ours.startswith(b"-") and reference.startswith(b"-"):
            return True
        return super()._agree(command, ours, reference)


@pytest.fixture(scope="module")
def servers(configuration_of_pair):
    ours = Server(maxmemory="0", **configuration_flags(configuration_of_pair))
    with Valkey() as reference:
        yield ours, reference
    ours.stop()
    shutil.rmtree(ours.dir, ignore_errors=True)


@pytest.mark.timeout(timeout_s(COMMANDS))
@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_equal_those_of_valkey(servers, protocol):
    grammar = Grammar(new_rng(), modules={"newer": newer})
    history = []
    with NewerPair(servers, protocol == 3) as both:
        while len(history) < COMMANDS // 3:
            batch = [grammar.well_formed() for _ in range(50)]
            history += batch
            different = both.first_difference(batch)
            if different:
                beginning = history[: len(history) - len(batch) + different[0] + 1]
                found = report(servers, protocol == 3, beginning, grammar.allows, NewerPair)
                pytest.fail(f"{beginning[-1]}"[:300] + f"\n{found}")
        # Most of them did something: errors are not compared.
        for name, count in both.replies.items():
            if count.total() >= 100:
                assert count["other"] * 2 > count["error"], f"{name}: {count}"
    ours, reference = (server.connect() for server in servers)
    with ours, reference:
        assert data_set(ours, 0) == data_set(reference, 0)
