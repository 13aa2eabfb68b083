# SPDX-License-Identifier: Apache-2.0
"""BullMQ from npm, with all its scripts: the cases of tests/bullmq/cases, in each way to name
queues and with the flags that go with it. One node process runs all cases of a configuration.

BULLMQ_CASES=flow,retries   only these
"""

import json
import os
import subprocess
from dataclasses import dataclass, field

import pytest

from harness.npm import node_path
from harness.programs import run_cases
from harness.server import PATIENCE_S, ROOT, configuration_flags

pytestmark = [pytest.mark.threads]

FOLDER = os.path.join(ROOT, "tests", "bullmq")
# Of each wait in a case. A job takes some turns of node and of the server, each of which waits for
# a core: on two cores beside nine other busy processes 0.1 to 0.2 s.
DEADLINE_S = max(120, PATIENCE_S)


@dataclass
class Setup:
    flags: dict = field(default_factory=dict)
    prefix: str = "bull"
    braces: bool = False  # around each queue's name


SETUPS = {
    # As BullMQ comes: the server knows its prefix.
    "no-flags": Setup(),
    # A tag for each key, in all shards, and scripts that build names of keys.
    "other-prefix": Setup(prefix="app"),
    # All queues in one tag, and so in one shard.
    "prefix-in-braces": Setup({"lock_on_hashtags": True}, prefix="{bull}"),
    # A tag for each queue; flows reach from one to another.
    "queues-in-braces": Setup({"lock_on_hashtags": True}, braces=True),
    "undeclared-keys": Setup({"default_lua_flags": "allow-undeclared-keys"}, prefix="app:b"),
    # A tag for each queue, without braces.
    "locktag": Setup(
        {"lock_on_hashtags": True, "locktag_prefix": "bull", "locktag_delimiter": ":"}
    ),
}


def case_names(environment):
    listed = subprocess.run(
        ["node", "run.js", "--list"],
        cwd=FOLDER,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert listed.returncode == 0, listed.stderr
    return json.loads(listed.stdout)


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_bullmq(start_server, configuration, setup):
    environment = {"NODE_PATH": node_path("bullmq")}
    server = start_server(**configuration_flags(configuration), **setup.flags)
    chosen = os.environ.get("BULLMQ_CASES", "")
    cases = chosen.split(",") if chosen else case_names(environment)
    run = {"port": server.port, "prefix": setup.prefix, "braces": setup.braces, "cases": cases}
    passed = run_cases(
        ["node", "run.js", json.dumps(run)],
        FOLDER,
        timeout_s=2.2 * DEADLINE_S,  # a case has 2
        **environment,
        BULLMQ_DEADLINE_MS=str(DEADLINE_S * 1000),
    )
    assert sorted(passed) == sorted(cases)
