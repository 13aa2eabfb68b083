# SPDX-License-Identifier: Apache-2.0
"""What another client does meanwhile, and whether a command gives way at all."""

import contextlib
import threading


@contextlib.contextmanager
def incrementing(client, key):
    """`client` sends INCRs of the key, one after another, in a thread of its own."""
    is_done = threading.Event()

    def count():
        while not is_done.is_set():
            client.call("INCR", key)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def hops(client, *line):
    """Those of a command. None: it is one step."""

    def count():
        info = client.info("transaction")
        return int(info["tx_hops_at_head"]) + int(info["tx_hops_ahead"])

    before = count()
    client.call(*line)
    return count() - before
