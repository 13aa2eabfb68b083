# SPDX-License-Identifier: Apache-2.0
"""HELP of commands that have subcommands: each line that names one is that of redis-server. What
is told about them is in our words."""

import pytest

from harness.server import only_dragonfly

pytestmark = [only_dragonfly("both servers are asked")]

CONTAINERS = """ACL CLIENT COMMAND CONFIG FUNCTION LATENCY MEMORY MODULE OBJECT PUBSUB SCRIPT
SLOWLOG XGROUP XINFO""".split()
MISSING = {"SCRIPT": {"DEBUG (YES|SYNC|NO)"}}
# CLIENT's two of 7.2, and what is our own.
OURS = {
    "CLIENT": {"BLOCKED", "HOTKEYS <milliseconds> [<count>]", "NO-TOUCH (ON|OFF)",
               "SETINFO <option> <value>"},
    "SCRIPT": {"FLAGS <sha1> [<flag> ...]", "LATENCY", "LIST"},
    "SLOWLOG": {"EXPLAIN [<count>]"},
}


def names(server, container):
    with server.connect() as c:
        lines = [line.text for line in c.call(container, "HELP")]
    assert lines[-2] == "HELP"
    return [line for line in lines if not line.startswith("    ")]


@pytest.mark.parametrize("container", CONTAINERS)
def test_help_names_what_redis_server_names(pair, container):
    ours, expected = (names(server, container) for server in pair)
    assert ours[0] == expected[0]
    assert set(expected) - set(ours) == MISSING.get(container, set())
    assert set(ours) - set(expected) == OURS.get(container, set())
