# SPDX-License-Identifier: Apache-2.0
"""Threads of a test, whose asserts count."""

import threading


def run_all(functions, raised=None):
    """Runs each in a thread of its own, waits for all, and raises the first thing that one of them
    raised. They may look at `raised`, a list, to end early."""
    raised = [] if raised is None else raised

    def run(function):
        try:
            function()
        except BaseException as e:  # also of asserts
            raised.append(e)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
