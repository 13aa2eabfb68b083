# SPDX-License-Identifier: Apache-2.0
"""The arguments of COMMAND DOCS: those of redis-server, for every command that both have."""

import pytest

from harness.server import only_dragonfly

# They take arguments that no form can tell: any subcommand, or none that is worth a name.
WITHOUT = {"debug", "pfselftest", "monitor", "lolwut", "memory|doctor", "latency|doctor"}

# 7.0 does not tell the arguments of these.
SINCE_7_2 = {"command|getkeys", "command|getkeysandflags"}


def is_known(argument):
    """To redis-server 7.0. Of Valkey's versions, which it has since 2024, the first is 8.0."""
    major, minor = argument.get(b"since", b"1.0").split(b".")[:2]
    return (int(major), int(minor)) < (7, 4)


def known_arguments(arguments):
    """Without those that came later, at any depth."""
    known = []
    for flat in arguments:
        argument = dict(zip(flat[::2], flat[1::2]))
        if is_known(argument):
            if b"arguments" in argument:
                argument[b"arguments"] = known_arguments(argument[b"arguments"])
            known.append([word for pair in argument.items() for word in pair])
    return known


def docs(connection):
    """Full name -> its fields."""
    flat = {}

    def walk(reply):
        for name, fields in zip(reply[::2], reply[1::2]):
            flat[name.decode()] = its = dict(zip(fields[::2], fields[1::2]))
            walk(its.get(b"subcommands", []))

    walk(connection.call("COMMAND", "DOCS"))
    return flat


@pytest.fixture
def both(pair):
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        yield ours, reference


def test_arguments_are_those_of_redis_server(both):
    ours, reference = map(docs, both)
    common = [name for name in ours if name in reference]
    assert len(common) > 300
    for name in common:
        if name not in SINCE_7_2:
            got = known_arguments(ours[name].get(b"arguments", []))
            assert got == reference[name].get(b"arguments", []), name


@only_dragonfly("it does not have them")
def test_arguments_of_redis_8_are_told(both):
    arguments = docs(both[0])["set"][b"arguments"]
    condition = next(flat for flat in arguments if b"condition" in flat)
    condition = dict(zip(condition[::2], condition[1::2]))
    names = [flat[1] for flat in condition[b"arguments"]]
    assert names == [b"nx", b"xx", b"ifeq-value", b"ifne-value", b"ifdeq-digest", b"ifdne-digest"]
    assert b"8.4.0" in condition[b"arguments"][2]


def test_every_command_with_arguments_tells_them(both):
    ours, reference = both
    known = docs(reference)

    def missing(rows, of_docs):
        for row in rows:
            name, arity, subcommands = row[0].decode(), row[1], row[9]
            words = 2 if "|" in name else 1
            if arity != words and not subcommands and b"arguments" not in of_docs[name]:
                yield name
            yield from missing(subcommands, of_docs)

    without = {name for name in missing(ours.call("COMMAND"), docs(ours)) if name not in known}
    assert without <= WITHOUT, without


def test_in_resp3_an_argument_is_a_map(both):
    for connection in both:
        connection.call("HELLO", "3")
        raw = connection.raw("COMMAND", "DOCS", "GETDEL")
        connection.call("HELLO", "2")
        assert raw.endswith(
            b"$9\r\narguments\r\n*1\r\n%3\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n"
            b"$14\r\nkey_spec_index\r\n:0\r\n"
        )
