# SPDX-License-Identifier: Apache-2.0
"""The files of a server's snapshot (dump*)."""

import os


def names_of(server):
    return sorted(name for name in os.listdir(server.dir) if name.startswith("dump"))


def take(server):
    """What is in them, by name."""
    files = {}
    for name in names_of(server):
        with open(os.path.join(server.dir, name), "rb") as file:
            files[name] = file.read()
    return files


def put_back(server, files):
    """These in place of those that are there. The server does not run."""
    for name in names_of(server):
        os.remove(os.path.join(server.dir, name))
    for name, data in files.items():
        with open(os.path.join(server.dir, name), "wb") as file:
            file.write(data)
