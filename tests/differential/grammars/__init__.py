# SPDX-License-Identifier: Apache-2.0
"""One module for each family of commands; ../grammar.py says what is in them."""

from . import administration, hashes, keys, lists, sets, sorting, strings, zsets

FAMILIES = {
    module.__name__.rsplit(".", 1)[1]: module
    for module in (administration, hashes, keys, lists, sets, sorting, strings, zsets)
}
