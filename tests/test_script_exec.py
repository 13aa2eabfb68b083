# SPDX-License-Identifier: Apache-2.0
"""Scripts inside EXEC."""

import pytest

from harness.resp import OK
from harness.server import only_dragonfly

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]

KEYS = [f"spread:{i}" for i in range(8)]


@only_dragonfly("no such flag")
@pytest.mark.parametrize("call", ["'mset', unpack(KEYS)", "'dbsize'", "'set', 'x', 'y'"])
def test_an_exec_has_the_locks_of_its_scripts_whatever_their_flags(r, call):
    script = "#!lua flags=disable-atomicity\nreturn redis.call(%s)" % call
    keys = [x for key in KEYS for x in (key, "v")]
    replies = r.pipeline([
        ("MULTI",), ("SET", KEYS[0], "v"), ("EVAL", script, len(keys), *keys), ("EXEC",),
    ])
    assert replies[-1] == [OK, OK if "set" in call else 1]
