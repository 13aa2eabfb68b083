# SPDX-License-Identifier: Apache-2.0
"""Some failovers of failover.py, one of each kind. DFLY_FAILOVERS=200 for more."""

import os
import random

from failover.failover import FAULTS, Cluster, report, run_one
from failover.marks import MARKS
from harness.seeds import new_seed

pytestmark = MARKS


def test_after_a_failover_all_have_the_same(tmp_path):
    """Replication is asynchronous here, so what was answered last may be lost: it is only told."""
    rng = random.Random(new_seed())
    outcomes = []
    with Cluster(tmp_path) as cluster:
        for i in range(int(os.environ.get("DFLY_FAILOVERS", 5))):
            outcomes.append(run_one(cluster, rng, FAULTS[i % len(FAULTS)], i))
    report(outcomes)
    assert all(outcome.answered > 0 for outcome in outcomes)
