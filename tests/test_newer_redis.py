# SPDX-License-Identifier: Apache-2.0
"""Files of Redis 8.6 to 8.10, which nobody here has: made by what librdb (MIT licence,
github.com/redis/librdb, src/lib/parser.c) tells of their form."""

import struct

import pytest

from harness.resp import OK
from harness.server import ServerFailed, only_dragonfly

pytestmark = [only_dragonfly("they are newer")]

NAMES, END = b"\xf2", b"\xff"
STREAM_4, STREAM_5, ARRAY, TEMPLATE_LISTPACK, TEMPLATE_LISTPACK_REF, TEMPLATE, TEMPLATE_REF = (
    bytes([number]) for number in range(26, 33))


def text(data):
    assert len(data) < 64
    return bytes([len(data)]) + data


def texts(*all_of_them):
    return b"".join(map(text, all_of_them))


def listpack(*entries):
    packed = b""
    for entry in entries:
        coded = bytes([entry]) if isinstance(entry, int) else bytes([0x80 | len(entry)]) + entry
        packed += coded + bytes([len(coded)])
    return struct.pack("<IH", len(packed) + 7, len(entries)) + packed + b"\xff"


def stream_id(ms, seq):
    return struct.pack(">QQ", ms, seq)


# Of two entries, 5-1 and 5-2. One is pending with a consumer, and one was given back.
NODES = b"\x01" + text(stream_id(5, 1)) + text(listpack(
    2, 0, 1, b"f", 0, 2, 0, 0, b"v", 4, 2, 0, 1, b"w", 4))
COUNTERS = b"\x02" + b"\x05\x02" + b"\x05\x01" + b"\x00\x00" + b"\x02"
CONSUMER = b"\x01" + text(b"me") + struct.pack("<qq", 7, 8) + b"\x01" + stream_id(5, 1)
GROUP = (b"\x01" + text(b"group") + b"\x05\x02\x02\x02"
         + stream_id(5, 1) + struct.pack("<q", 9) + b"\x01"
         + stream_id(5, 2) + struct.pack("<q", 10) + b"\x03" + CONSUMER)
GIVEN_BACK = b"\x01" + stream_id(5, 2)
PRODUCERS = b"\x0a\x40\x64\x01" + text(b"p") + b"\x01" + text(b"id") + b"\x05\x01" + b"\x01\x00"


def write(path, *parts, version=15):
    path.write_bytes(b"REDIS%04d" % version + b"\xfe\x00" + b"".join(parts) + END + bytes(8))


@pytest.fixture
def load(start_server, tmp_path):
    def load_parts(*parts):
        write(tmp_path / "dump.rdb", *parts)
        return start_server(dir=str(tmp_path), dbfilename="dump.rdb")

    return load_parts


def test_hashes_whose_names_stand_in_front(load):
    server = load(
        NAMES, b"\x00\x02", texts(b"b", b"aa"), NAMES, b"\x05\x01", text(b"only"),
        TEMPLATE_REF, text(b"array"), b"\x00", texts(b"1", b"two"),
        TEMPLATE_LISTPACK_REF, text(b"packed"), text(listpack(0, b"x", 7)),
        TEMPLATE_LISTPACK_REF, text(b"other"), text(listpack(5, b"y")),
        b"\xfc", struct.pack("<q", 4_000_000_000_000),
        TEMPLATE_REF, text(b"due"), b"\x05", text(b"z"),
        TEMPLATE_LISTPACK, text(b"own"), b"\x00", text(listpack(b"b", b"aa")),
        text(listpack(9, b"x", b"y")),
        TEMPLATE, text(b"own-array"), b"\x01\x02", texts(b"b", b"aa"), texts(b"x", b"y"),
        b"\x00", text(b"last"), text(b"v"))
    with server.connect() as r:
        assert r.call("DBSIZE") == 7
        assert r.call("HGETALL", "array") == [b"b", b"1", b"aa", b"two"]
        assert r.call("HGETALL", "packed") == [b"b", b"x", b"aa", b"7"]
        assert r.call("HGETALL", "other") == [b"only", b"y"]
        assert r.call("HGETALL", "due") == [b"only", b"z"]
        assert r.call("PEXPIRETIME", "due") == 4_000_000_000_000
        for key in ("own", "own-array"):
            assert r.call("HGETALL", key) == [b"b", b"x", b"aa", b"y"]
        assert r.call("GET", "last") == b"v"


@pytest.mark.parametrize("group, type_number", [
    (GROUP + GIVEN_BACK, STREAM_5),
    (GROUP.replace(CONSUMER, CONSUMER[:-17] + b"\x02" + stream_id(5, 1) + stream_id(5, 2)),
     STREAM_4),
], ids=["8.8", "8.6"])
def test_streams(load, group, type_number):
    server = load(type_number, text(b"s"), NODES, COUNTERS, group, PRODUCERS,
                  b"\x00", text(b"last"), text(b"v"))
    with server.connect() as r:
        assert r.call("XRANGE", "s", "-", "+") == [[b"5-1", [b"f", b"v"]], [b"5-2", [b"f", b"w"]]]
        pending = r.call("XPENDING", "s", "group", "-", "+", "10")
        owner = b"" if type_number == STREAM_5 else b"me"
        assert [[e[0], e[1], e[3]] for e in pending] == [[b"5-1", b"me", 1], [b"5-2", owner, 3]]
        assert r.call("XCLAIM", "s", "group", "you", "0", "5-2", "JUSTID") == [b"5-2"]
        assert r.call("GET", "last") == b"v"
        assert r.call("XACK", "s", "group", "5-2") == 1
        assert r.call("XNACK", "s", "group", "FAIL", "IDS", 1, "5-2", "FORCE") == 1
        info = r.call("XINFO", "STREAM", "s")
        assert info[14:24] == [b"idmp-duration", 10, b"idmp-maxsize", 100, b"pids-tracked", 0,
                               b"iids-tracked", 0, b"iids-added", 1]  # it was long ago
        # It is saved with all of it, and is whole.
        payload = r.call("DUMP", "s")
        assert r.call("RESTORE", "copy", "0", payload) == OK
        assert r.call("XPENDING", "copy", "group")[0] == 2


@pytest.mark.parametrize("parts, why", [
    ((ARRAY, text(b"k"), b"\x01\x00"), "an array of Redis 8.8 or later"),
    ((TEMPLATE_REF, text(b"k"), b"\x00", text(b"v")), "a hash whose fields have no names"),
    ((NAMES, b"\x00\x01", text(b"a"), TEMPLATE_LISTPACK_REF, text(b"k"),
      text(listpack(0, b"v", b"too many"))), "a hash whose fields have no names"),
    ((NAMES, b"\x00\x01", text(b"a"), NAMES, b"\x00\x01", text(b"b")), "a length is wrong"),
])
def test_what_cannot_be_read_is_told(load, parts, why):
    with pytest.raises(ServerFailed, match=why):
        load(*parts)
