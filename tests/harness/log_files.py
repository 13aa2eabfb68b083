# SPDX-License-Identifier: Apache-2.0
"""Reads the append-only log of a server, ours or Redis': the commands of its incremental files."""

import os

PRIVATE_MARK = b"dragonfly:1:"


def manifest_path(directory):
    return os.path.join(directory, "appendonlydir", "appendonly.aof.manifest")


def incremental_files(directory):
    """Their paths, in the order in which they are loaded."""
    with open(manifest_path(directory)) as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    named = [dict(zip(words[::2], words[1::2], strict=True)) for words in lines]
    folder = os.path.dirname(manifest_path(directory))
    return [os.path.join(folder, words["file"]) for words in named if words["type"] == "i"]


def commands_in(data, at=0):
    """Each command as a list of words, without annotations and filler; a torn end is an error."""
    found = []
    while at < len(data):
        end = data.index(b"\n", at) + 1
        if data[at : at + 1] == b"#":
            at = end
            continue
        words, at = array_at(data, at)
        found.append(words)
    return found


def array_at(data, at):
    """(the array of strings that begins there, where it ends)"""
    assert data[at : at + 1] == b"*", (at, data[at : at + 40])
    end = data.index(b"\r\n", at)
    count, at, words = int(data[at + 1 : end]), end + 2, []
    for _ in range(count):
        end = data.index(b"\r\n", at)
        assert data[at : at + 1] == b"$", (at, data[at : at + 40])
        size, at = int(data[at + 1 : end]), end + 2
        words.append(data[at : at + size])
        assert data[at + size : at + size + 2] == b"\r\n", (at, size)
        at += size + 2
    return words, at


def logged_commands(directory):
    """Of all incremental files."""
    found = []
    for path in incremental_files(directory):
        with open(path, "rb") as f:
            found += commands_in(f.read())
    return found


def private_command(words):
    """The command that stands behind ECHO; None: it is none that hides one."""
    if len(words) != 2 or words[0] != b"ECHO" or not words[1].startswith(PRIVATE_MARK):
        return None
    return array_at(words[1], len(PRIVATE_MARK))[0]
