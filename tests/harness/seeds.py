# SPDX-License-Identifier: Apache-2.0
"""The seed of tests that draw at random: of the test's name, so that a run is the same run
everywhere, unless DFLY_SEED says otherwise.

DFLY_SEED=n         replays a seed
DFLY_SEED=random    explores: another seed for each test
"""

import os
import random
import zlib


def new_seed():
    """Printed, so that a failure shows it."""
    given = os.environ.get("DFLY_SEED")
    if given is None:
        seed = zlib.crc32(os.environ["PYTEST_CURRENT_TEST"].split(" ")[0].encode())
    else:
        seed = random.SystemRandom().randrange(1 << 32) if given == "random" else int(given)
    print(f"DFLY_SEED={seed}")
    return seed


def new_rng():
    return random.Random(new_seed())
