# SPDX-License-Identifier: Apache-2.0
"""In what the replies of two correct servers may differ. Everything else is compared byte for byte.

  RANDOMKEY, OBJECT IDLETIME, TIME, INFO, CLIENT INFO  random, or about the process
  SCAN's cursor and order, KEYS' order                 the table's own; compared as sets elsewhere
  order of fields and members, what a random one is    the table's own; sorted, or counted
  floating point numbers of sorted sets                7.0 prints 17 digits, 7.2 as few as possible
  OBJECT ENCODING of collections                       short sets are listpacks since 7.2
  HELLO that fails after SETNAME                       has set the name there, as 7.2 does not
  relative deadlines                                   two servers, two clocks; absolute ones are
                                                       compared
  times in XINFO and XPENDING                          two clocks; 'inactive' and 'active-time' are
                                                       of 7.2
  XREAD with too few ids                               7.2 has the command's name in the error
  DUMP                                                 the other one can read it: tests/test_dump.py
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """One reply: its kind, the line or the data, and what is in it if it is an aggregate."""

    kind: bytes
    data: bytes
    items: tuple = ()


AGGREGATES = b"*~%>"


def parse(raw, at=0):
    """(the reply that begins there, where it ends)"""
    end = raw.index(b"\r\n", at)
    kind, line, at = raw[at : at + 1], raw[at + 1 : end], end + 2
    if kind in b"$=" and line != b"-1":
        return Node(kind, raw[at : at + int(line)]), at + int(line) + 2
    if kind not in AGGREGATES or line == b"-1":
        return Node(kind, line), at
    items = []
    for _ in range(int(line) * (2 if kind == b"%" else 1)):
        item, at = parse(raw, at)
        items.append(item)
    return Node(kind, b"", tuple(items)), at


def as_set(node):
    return Node(node.kind, b"%d" % len(node.items), tuple(sorted(node.items, key=repr)))


def as_count(node):
    """How many, but not which."""
    return Node(node.kind, b"%d" % len(node.items) if node.items else b"")


def with_numbers(node):
    """Numbers with a fraction or an exponent by value, not by their digits."""
    if node.items:
        return Node(node.kind, node.data, tuple(map(with_numbers, node.items)))
    if node.kind in b"$," and re.fullmatch(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", node.data):
        return Node(node.kind, repr(float(node.data) + 0.0).encode())  # zero has no sign
    return node


def collection_scan(words, node):
    if words[-2:] != [b"COUNT", b"10000"] or words[2] != b"0":
        return Node(node.kind, b"a page")
    return Node(node.kind, b"", (node.items[0], as_set(with_numbers(node.items[1]))))


def scan(_words, node):
    return Node(node.kind, b"a page")


VERSION = re.compile(rb"\d+\.\d+\.\d+")


def hello(_words, node):
    data = tuple(
        Node(item.kind, b"") if item.kind == b":" or VERSION.match(item.data) else item
        for item in node.items
    )
    return Node(node.kind, b"", data)


def object_command(words, node):
    if words[1:2] in ([b"IDLETIME"], [b"REFCOUNT"]) and node.kind == b":":
        return Node(node.kind, b"")  # a small integer's REFCOUNT is INT_MAX, but its COPY's is 1
    if words[1:2] == [b"ENCODING"] and node.data in (b"listpack", b"quicklist", b"hashtable"):
        return Node(node.kind, b"a collection")
    if words[1:2] == [b"ENCODING"] and node.data == b"skiplist" and words[2][:1] != b"Z":
        return Node(node.kind, b"a collection")  # SORT unpacks it there
    return node


def is_absolute(deadline_ms):
    """Whether a key has it from EXPIREAT and its like: words.py has those, a few seconds' worth."""
    return 33_177_117_420_000 <= deadline_ms < 33_177_117_423_000


def deadline(words, node):
    unit_ms = 1 if words[0].startswith(b"P") else 1000
    if node.kind == b":" and int(node.data) > 0 and not is_absolute(int(node.data) * unit_ms):
        return Node(node.kind, b"relative")
    return node


TIMES = (b"idle", b"inactive", b"seen-time", b"active-time")
# Of XINFO STREAM, and of its groups in full, since 8.6 and 8.8.
LATER_STREAM_FIELDS = (
    *(b"idmp-duration", b"idmp-maxsize", b"pids-tracked", b"iids-tracked", b"iids-added"),
    *(b"iids-duplicates", b"nacked-count"),
)


def without_times(_words, node):
    """Names and values, without those of times; and no time of delivery among pending entries."""
    if node.kind == b":" and int(node.data) > 10**11:
        return Node(node.kind, b"a time")
    kept, at = [], 0
    while at < len(node.items):
        if node.items[at].kind == b"$" and node.items[at].data in (*TIMES, *LATER_STREAM_FIELDS):
            at += 2
            continue
        kept.append(without_times(_words, node.items[at]))
        at += 1
    return Node(node.kind, node.data, tuple(kept))


def pending(words, node):
    """With a range: id, consumer, idle time, deliveries of each."""
    if len(words) <= 3:
        return node
    entries = (Node(e.kind, b"", (*e.items[:2], *e.items[3:])) for e in node.items)
    return Node(node.kind, node.data, tuple(entries))


def dump(_words, node):
    return Node(node.kind, b"" if node.data == b"-1" else b"a payload")


def error(node):
    """XREAD and XREADGROUP with too few ids: 7.2 says which of them it was."""
    return Node(node.kind, b"" if node.data.startswith(b"ERR Unbalanced") else node.data)


def client(words, node):
    return Node(node.kind, b"") if words[1:2] == [b"LIST"] and node.kind in b"$=" else node


def config(words, node):
    if words[1:2] != [b"GET"]:
        return node
    return Node(node.kind, b"") if b"*" in words else as_set(node)


def sort(words, node):
    return as_set(node) if b"ALPHA" in words else node


ANY_ORDER = {
    *[b"KEYS", b"HGETALL", b"HKEYS", b"HVALS", b"SMEMBERS", b"SINTER", b"SUNION", b"SDIFF"],
    *[b"SPOP"],
}
ANY_CHOICE = {b"HRANDFIELD", b"SRANDMEMBER", b"ZRANDMEMBER"}
BY_NAME = {
    b"SCAN": scan,
    b"SORT": sort,
    b"SORT_RO": sort,
    b"SSCAN": collection_scan,
    b"HSCAN": collection_scan,
    b"ZSCAN": collection_scan,
    b"EXPIRETIME": deadline,
    b"PEXPIRETIME": deadline,
    b"HELLO": hello,
    b"OBJECT": object_command,
    b"CLIENT": client,
    b"CONFIG": config,
    b"XINFO": without_times,
    b"XPENDING": pending,
    b"DUMP": dump,
}


def comparable(command, node):
    """The part of a reply in which two correct servers agree."""
    if node.kind == b"-":
        return error(node)
    words = [word.upper() for word in command]
    name = words[0]
    if name in ANY_ORDER:
        return as_set(node)
    if name in ANY_CHOICE:
        return as_count(node)
    if name in BY_NAME and (node.items or node.kind not in AGGREGATES):
        return BY_NAME[name](words, node)
    if b"Z" in name[:2]:
        return with_numbers(node)
    return node


def agree(command, ours, reference):
    """Of raw replies."""
    if ours == reference:
        return True
    ours, reference = parse(ours)[0], parse(reference)[0]
    return comparable(command, ours) == comparable(command, reference)


def agree_all(commands, ours, reference):
    """Of the replies of EXEC to these commands."""
    if ours == reference:
        return True
    ours, reference = parse(ours)[0], parse(reference)[0]
    if ours.kind != reference.kind or len(ours.items) != len(reference.items):
        return False
    if len(ours.items) != len(commands):
        return ours == reference
    return all(
        comparable(command, a) == comparable(command, b)
        for command, a, b in zip(commands, ours.items, reference.items)
    )


def is_compared_loosely(command):
    """Whether correct servers may answer it with different bytes."""
    names = (b"HELLO", b"CLIENT", b"OBJECT", b"CONFIG", b"EXPIRETIME", b"PEXPIRETIME", b"DUMP")
    names += (b"XINFO", b"XPENDING", b"XREAD", b"XREADGROUP")
    probe = Node(b"*", b"", (Node(b":", b"1"), Node(b"$", b"0.10")))
    return command[0].upper() in names or comparable(command, probe) != probe
