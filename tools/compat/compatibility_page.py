#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/compatibility.md: what there is, Redis' own tests, and every command with its state.

    build/venv/bin/python tools/compat/compatibility_page.py > docs/compatibility.md

What there is, in short: in_short.md beside this file, written by hand.

The tests: what tools/compat/redis_tcl.sh --record wrote into tests/compat/redis_tcl.results, and
the reasons in redis_tcl.skip beside it.

The commands: starts redis-server 7.0 and our server. What there is comes from redis-server's own
COMMAND DOCS. A command is here if COMMAND INFO knows it; an option is, if a call with it that
redis-server takes is taken, too: the calls are made from the descriptions of the arguments. Names
are compared, not what is answered; tests/differential does that. Commands that redis-server 7.0
does not know come from our COMMAND DOCS.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))

from harness.resp import Error  # noqa: E402
from harness.server import Server  # noqa: E402

# Calls of these end, block or reconfigure the server or the client that makes them.
NOT_CALLED = {
    "shutdown", "debug", "monitor", "psync", "sync", "replicaof", "slaveof", "failover", "save",
    "bgsave", "bgrewriteaof", "quit", "reset", "migrate", "replconf", "pfselftest", "pfdebug",
    "subscribe", "psubscribe", "ssubscribe", "client|kill", "client|pause", "client|reply",
    "acl|load", "acl|save", "acl|deluser", "config|rewrite", "script|debug", "restore-asking",
}
REASONS = {
    "replication": ("psync", "sync", "replicaof", "slaveof", "failover", "replconf"),
    "several servers": ("migrate", "restore-asking"),
    "modules": ("module|load", "module|loadex", "module|unload"),
    "Redis' own tests": ("pfselftest",),
    "a debugger of scripts": ("script|debug",),
}
# They are there to answer that it cannot be done.
ONLY_ERRORS = REASONS["modules"]
NAMED_EXAMPLES = {"numkeys": "1", "encoding": "u8", "protover": "3"}
EXAMPLES = {"integer": "1", "double": "0.01", "pattern": "*", "unix-time": "2000000000"}


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "text") and not isinstance(value, Error):
        return value.text
    return [plain(item) for item in value] if isinstance(value, list) else value


def as_dict(flat):
    return dict(zip(flat[::2], flat[1::2]))


def docs_of(connection):
    """{full name: (group, since, arguments)} of all commands, without containers."""
    rows = {}

    def add(name, flat):
        facts = as_dict(flat)
        subcommands = as_dict(facts.get("subcommands", []))
        for each, its in subcommands.items():
            add(each, its)
        if not subcommands:
            arguments = [argument(each) for each in facts.get("arguments", [])]
            rows[name] = (facts["group"], facts["since"], arguments)

    def argument(flat):
        facts = as_dict(flat)
        facts["arguments"] = [argument(each) for each in facts.get("arguments", [])]
        facts["flags"] = facts.get("flags", [])
        return facts

    for name, facts in as_dict(plain(connection.call("COMMAND", "DOCS"))).items():
        add(name, facts)
    return rows


def tokens(arguments):
    """Each once, in order."""
    found = []
    for argument in arguments:
        if argument.get("token", "") not in ("", *found):
            found.append(argument["token"])
        found += [token for token in tokens(argument["arguments"]) if token not in found]
    return found


def call_with(arguments, wanted):
    """Words of a call that has the token `wanted`, and of options nothing else."""
    words = []
    for argument in arguments:
        has_it = wanted in tokens([argument])
        if "optional" in argument["flags"] and not has_it:
            continue
        if argument.get("token"):
            words.append(argument["token"])
        inner = argument["arguments"]
        if argument["type"] == "pure-token":
            continue
        if argument["type"] == "oneof":
            chosen = [each for each in inner if wanted in tokens([each])] or inner
            words += call_with([{**chosen[0], "flags": []}], wanted)
        elif argument["type"] == "block":
            words += call_with(inner, wanted)
        elif argument["name"] in NAMED_EXAMPLES:
            words.append(NAMED_EXAMPLES[argument["name"]])
        else:
            words.append(EXAMPLES.get(argument["type"], "k" if argument["type"] == "key" else "a"))
    return words


def is_refused(reply):
    """Not for what the keys hold, but for how it is written."""
    if not isinstance(reply, Error):
        return False
    text = reply.text.lower()
    return any(word in text for word in ("syntax", "unknown", "wrong number", "unsupported",
                                         "unrecognized", "not supported"))


def missing_options(name, arguments, ours, theirs):
    missing = []
    for token in tokens(arguments):
        call = [*name.split("|"), *call_with(arguments, token)]
        replies = []
        for connection in (theirs, ours):
            connection.call("FLUSHALL")
            replies.append(connection.call(*call))
            connection.call("RESET")  # HELLO, CLIENT TRACKING
        if is_refused(replies[1]) and not is_refused(replies[0]):
            missing.append(token)
    return missing


def reason(name):
    for why, names in REASONS.items():
        if name in names or name.split("|")[0] in names:
            return why
    return "several servers" if name.startswith("cluster|") else ""


def rows_of(ours, theirs):
    known = docs_of(theirs)
    for name in sorted(known, key=lambda name: (known[name][0], name)):
        group, since, arguments = known[name]
        is_here = name not in ONLY_ERRORS and ours.call("COMMAND", "INFO", name)[0] is not None
        missing = []
        if is_here and name not in NOT_CALLED:
            missing = missing_options(name, arguments, ours, theirs)
        yield group, name, since, is_here, tokens(arguments), missing


def cell(text):
    return text.replace("|", "\\|")


def read_lines(name):
    with open(os.path.join(ROOT, "tests", "compat", name), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]


def in_short():
    with open(os.path.join(HERE, "in_short.md"), encoding="utf-8") as file:
        return file.read().splitlines()


def suite():
    """Of Redis' own tests."""
    results = [line.split() for line in read_lines("redis_tcl.results")]
    skips = [line.split(" | ") for line in read_lines("redis_tcl.skip") if " | " in line]
    passed = sum(int(row[1]) for row in results)
    skipped = sum(int(row[2]) for row in results)
    out = [
        "## Redis' own tests",
        "",
        f"Of the tests of redis 7.0 in these {len(results)} files {passed} pass, none fails and "
        f"{skipped} are skipped, each with its reason below.",
        "[testing.md](testing.md#the-redis-projects-own-tests) tells how they are run.",
        "",
        "| file | passed | skipped |",
        "| --- | --- | --- |",
    ]
    out += [f"| {unit} | {ok} | {skip if skip != '0' else ''} |" for unit, ok, skip in results]
    out += [
        "",
        "What is skipped. A name in slashes is a pattern.",
        "",
        "| file | test | why |",
        "| --- | --- | --- |",
    ]
    for unit, name, why in skips:
        out.append(f"| {unit} | {cell(name)} | {cell(why)} |")
    return out


def later_rows(ours, theirs):
    """Commands that redis-server 7.0 does not know: (group, name, since, options)."""
    known = docs_of(theirs)
    mine = docs_of(ours)
    for name in sorted(set(mine) - set(known), key=lambda name: (mine[name][0], name)):
        group, since, arguments = mine[name]
        yield group, name, since, tokens(arguments)


def page(rows, later):
    rows = list(rows)
    here = [row for row in rows if row[3]]
    out = [
        "# Compatibility",
        "",
        "This page is made by `tools/compat/compatibility_page.py` from `COMMAND DOCS` and from "
        "what Redis' own tests said; a test checks that it",
        "is current. Where replies differ on purpose is in [differences.md](differences.md).",
        "",
        *in_short(),
        "",
        *suite(),
        "",
        "## Commands",
        "",
        f"Of the {len(rows)} commands and subcommands of redis-server 7.0 {len(here)} are here. "
        "Options that are missing are struck through. What",
        "is answered is compared by `tests/differential`, and by the tests above.",
    ]
    group = None
    for its_group, name, since, is_here, options, missing in rows:
        if its_group != group:
            group = its_group
            out += ["", f"### {group}", "", "| command | since | here | options |",
                    "| --- | --- | --- | --- |"]
        state = "yes" if is_here else "no"
        if not is_here and reason(name):
            state = f"no: for {reason(name)}"
        shown = [f"~~{cell(each)}~~" if each in missing else f"`{cell(each)}`" for each in options]
        out.append(f"| {name.replace('|', ' ').upper()} | {since} | {state} | {' '.join(shown)} |")
    out += ["", "## Commands that 7.0 does not have", "",
            "| command | group | since | options |", "| --- | --- | --- | --- |"]
    for group, name, since, options in later:
        shown = " ".join(f"`{cell(each)}`" for each in options)
        out.append(f"| {name.replace('|', ' ').upper()} | {group} | {since} | {shown} |")
    return "\n".join(out) + "\n"


def main():
    theirs, ours = Server(reference=True), Server(reference=False, proactor_threads=2)
    try:
        with theirs.connect() as their_connection, ours.connect() as our_connection:
            both = our_connection, their_connection
            sys.stdout.write(page(rows_of(*both), later_rows(*both)))
    finally:
        theirs.stop()
        ours.stop()


if __name__ == "__main__":
    main()
