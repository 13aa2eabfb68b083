# SPDX-License-Identifier: Apache-2.0
"""What all tests of failovers have."""

import pytest

from harness.server import REFERENCE, SANITIZED

MARKS = [
    pytest.mark.skipif(REFERENCE, reason="it is about servers of ours"),
    pytest.mark.skipif(SANITIZED, reason="Sentinel takes a sanitized server for dead"),
    pytest.mark.timeout(1800),
    pytest.mark.long,
]
