# SPDX-License-Identifier: Apache-2.0
"""A crowd of clients with bad manners (chaos.py): each of them is answered, the server lives, and
when all have left nothing of them is left.

DFLY_CHAOS_SECONDS=3600 makes it long; docs/testing.md."""

import os

import pytest

from chaos.chaos import Crowd, calm
from harness.at_rest import at_rest
from harness.seeds import new_seed
from harness.server import SANITIZED, configuration_flags, only_dragonfly, wait_until

SECONDS = float(os.environ.get("DFLY_CHAOS_SECONDS", "0"))
PHASES = 3
PHASE_S = SECONDS / PHASES if SECONDS else 6.0
MB = 1 << 20

pytestmark = [
    only_dragonfly("its fibers and its memory by kind"),
    pytest.mark.matrix,
    pytest.mark.sanitized,
    pytest.mark.timeout(SECONDS * 2 + 1200),
]


@pytest.mark.long
def test_a_crowd_is_answered_and_leaves_nothing(start_server, configuration):
    server = start_server(
        **configuration_flags(configuration),
        save="3600 1",
        migrate_connections=True,
    )
    seed = new_seed()
    rests = []
    for phase in range(PHASES):
        crowd = Crowd(server.address, seed + phase, patience_s=120.0 if SANITIZED else 20.0)
        crowd.run(PHASE_S)
        server.assert_healthy()
        print(f"{crowd.acts} acts, {crowd.closed_by_server} closed, {crowd.pauses} pauses")
        assert crowd.acts > 100, "the crowd did nothing"
        with server.connect() as r:
            calm(r)
            rests.append(at_rest(server, r))
        print(rests[-1], flush=True)
    # In the first phase threads are started, stacks are kept, tables grow.
    first, last = rests[0], rests[-1]
    for name in ("descriptors", "threads"):
        assert last[name] <= first[name], rests
    # Some are kept for the next script: as many as have run at a time.
    assert last["fibers"] <= first["fibers"] + 64, rests
    assert last["used"] <= first["used"] * 1.2 + 4 * MB, rests
