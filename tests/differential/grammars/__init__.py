# SPDX-License-Identifier: Apache-2.0
"""One module for each family of commands; ../grammar.py says what is in them."""

from . import administration, bitmaps, dump, geo, hashes, hyperloglog, keys
from . import lists, sets, sorting, streams, strings, zsets

FAMILIES = {
    module.__name__.rsplit(".", 1)[1]: module
    for module in (
        *[administration, bitmaps, dump, geo, hashes, hyperloglog, keys],
        *[lists, sets, sorting, streams, strings, zsets],
    )
}
