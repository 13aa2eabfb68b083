# SPDX-License-Identifier: Apache-2.0
"""Notifications of fields of hashes, of Redis 8.8: notify-keyspace-events with S, T, I, V."""

import contextlib

import pytest

from harness.resp import OK, Error
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, pytest.mark.sanitized, only_dragonfly("they came with 8.8")]

FAR_MS = "9999999999999"
# Between shards events have no order.
KEY, END = "{t}h", "{t}end"


@contextlib.contextmanager
def heard(server, r, letters):
    """Yields a function: what was published since it was called last, as (channel, message)."""
    r.do("FLUSHALL")
    assert r.call("CONFIG", "SET", "notify-keyspace-events", letters) == OK
    with server.connect() as c:
        c.call("PSUBSCRIBE", "__*")
        c.call("SUBSCRIBE", END)

        def messages():
            assert r.call("PUBLISH", END, "x") == 1
            got = []
            while (message := c.read())[-2] != END.encode():
                got.append((message[-2].decode(), message[-1].decode()))
            return got

        try:
            yield messages
        finally:
            r.call("CONFIG", "SET", "notify-keyspace-events", "")


def waited_for(messages, count):
    got = []

    def all_of_them():
        got.extend(messages())
        return len(got) >= count

    wait_until(all_of_them, what=f"{count} messages")
    return got


# Commands, and what "T" tells: (event, fields).
COMMANDS = [
    ("HSET h a 1 b 2 a 3", [("hset", "a b a")]),
    ("HSET h a 1", [("hset", "a")]),
    ("HMSET h c 3 d 4", [("hset", "c d")]),
    ("HSETNX h e 5", [("hset", "e")]),
    ("HSETNX h e 6", []),
    ("HINCRBY h n 5", [("hincrby", "n")]),
    ("HINCRBYFLOAT h n 1.5", [("hincrbyfloat", "n")]),
    ("HINCRBY h n 1", Error("ERR hash value is not an integer")),
    ("HDEL h none e c e", [("hdel", "e c")]),
    ("HDEL h none", []),
    ("HEXPIRE h 1000 FIELDS 3 a none b", [("hexpire", "a b")]),
    ("HEXPIRE h 1 GT FIELDS 1 a", []),
    (f"HPEXPIREAT h {FAR_MS} NX FIELDS 3 a b d", [("hexpire", "d")]),
    ("HPERSIST h FIELDS 3 a n none", [("hpersist", "a")]),
    ("HGETEX h FIELDS 2 a b", []),
    ("HGETEX h EX 1000 FIELDS 3 a none d", [("hexpire", "a d")]),
    ("HGETEX h PERSIST FIELDS 3 a n b", [("hpersist", "a b")]),
    ("HSETEX h FIELDS 2 x 1 y 2", [("hset", "x y")]),
    ("HSETEX h EX 1000 FIELDS 2 x 1 z 2", [("hset", "x z"), ("hexpire", "x z")]),
    ("HSETEX h PXAT 1 FIELDS 2 x 1 none 2", [("hdel", "x")]),
    ("HSETEX h FNX FIELDS 2 y 1 new 2", []),
    ("HEXPIREAT h 1 FIELDS 2 y none", [("hdel", "y")]),
    ("FIELDEXPIRE h 1000 a none", [("hexpire", "a")]),
    ("HGETEX h PXAT 1 FIELDS 1 a", [("hdel", "a")]),
    ("HGETDEL h FIELDS 3 b none d", [("hdel", "b d")]),
    ("HGET h n", []),
    ("SET s v", []),
    ("SADDEX set 1000 a", []),
    ("COPY h h2", []),
    ("DEL h", []),
    ("HSET h a 1", [("hset", "a")]),
    ("HDEL h a", [("hdel", "a")]),
]


def listed(fields):
    return ",".join(f"{len(field)}:{field}" for field in fields.split())


def test_which_fields_commands_have_changed(server, r):
    with heard(server, r, "hSTIV") as messages:
        for command, expected in COMMANDS:
            name, key, *rest = command.split()
            reply = r.call(name, "{t}" + key, *(word.replace("h2", "{t}h2") for word in rest))
            if isinstance(expected, Error):
                assert reply == expected
                expected = []
            else:
                assert not isinstance(reply, Error)
            told = []
            for event, fields in expected:
                told += [("__subkeyspace@0__:{t}h", f"{event}|{listed(fields)}"),
                         (f"__subkeyevent@0__:{event}", f"4:{KEY}|{listed(fields)}"),
                         *((f"__subkeyspaceitem@0__:{KEY}\n{field}", event)
                           for field in fields.split()),
                         (f"__subkeyspaceevent@0__:{event}|{KEY}", listed(fields))]
            assert waited_for(messages, len(told)) == told, command


@pytest.mark.parametrize("letters, prefixes", [
    ("hS", ["subkeyspace"]), ("hT", ["subkeyevent"]), ("AI", ["subkeyspaceitem"]),
    ("hV", ["subkeyspaceevent"]), ("hK", ["keyspace"]), ("hKE", ["keyspace", "keyevent"]),
    ("KhS", ["keyspace", "subkeyspace"]), ("hTE", ["keyevent", "subkeyevent"]),
    ("S", ["subkeyspace"]), ("KEV", ["subkeyspaceevent"]),
    ("STIV", ["subkeyspace", "subkeyevent", "subkeyspaceitem", "subkeyspaceevent"]), ("nSTIV", []),
    ("gSTIV", []), ("h", []), ("A", []), ("KEgS", [])])
def test_each_letter_is_for_itself(server, r, letters, prefixes):
    with heard(server, r, letters) as messages:
        r.do("HSET {t}h f v")
        got = waited_for(messages, len(prefixes))
        assert [channel[2:channel.index("@")] for channel, _ in got] == prefixes
        shown = r.do("CONFIG GET notify-keyspace-events")[1].decode()
        assert sorted(shown) == sorted(letters)


def test_letters_come_back_in_one_order(r):
    for letters, shown in (("VITS", "STIV"), ("AVKETnm", "AnKEmTV"), ("STIVKEA", "AKESTIV")):
        r.call("CONFIG", "SET", "notify-keyspace-events", letters)
        assert r.do("CONFIG GET notify-keyspace-events")[1].decode() == shown
    r.call("CONFIG", "SET", "notify-keyspace-events", "")


def test_the_last_field_goes_before_its_key(server, r):
    with heard(server, r, "hgKT") as messages:
        r.do("HSET {t}h f v")
        r.do("HDEL {t}h f")
        assert waited_for(messages, 5) == [
            ("__keyspace@0__:{t}h", "hset"), ("__subkeyevent@0__:hset", "4:{t}h|1:f"),
            ("__keyspace@0__:{t}h", "hdel"), ("__subkeyevent@0__:hdel", "4:{t}h|1:f"),
            ("__keyspace@0__:{t}h", "del")]


@pytest.mark.parametrize("keeps", [True, False], ids=["some stay", "all go"])
@pytest.mark.parametrize("looks", [True, False], ids=["for a command", "by themselves"])
def test_fields_that_expire(server, r, keeps, looks):
    with heard(server, r, "xghKST") as messages:
        r.do("HSET {t}h a 1 bb 2 c 3")
        if not keeps:
            r.do("HDEL {t}h c")
        waited_for(messages, 3 if keeps else 6)
        r.do("HPEXPIRE {t}h 20 FIELDS 2 a bb")
        if looks:
            wait_until(lambda: r.do("HLEN {t}h") == (1 if keeps else 0), what="they are due")
        count = 3 + 3 * 1 + (0 if keeps else 1)
        got = waited_for(messages, count)
        # Both at once, or one after the other.
        told = [text.split("|", 1)[1].split(",") for channel, text in got
                if channel == "__subkeyevent@0__:hexpired"]
        assert sorted(sum(told, [])) == ["1:a", "2:bb"]
        events = [text for channel, text in got if channel == "__keyspace@0__:{t}h"]
        assert events[0] == "hexpire" and set(events[1:]) == ({"hexpired"} if keeps
                                                             else {"hexpired", "del"})
        assert sum(channel == "__subkeyspace@0__:{t}h" and text.startswith("hexpired|")
                   for channel, text in got) == len(told)


def test_bytes_of_keys_and_fields(server, r):
    with heard(server, r, "hSTIV") as messages:
        key, field, other = "{t}|:,\r\n", "f,1:x|", ""
        r.call("HSET", key, field, "v", other, "w")
        got = waited_for(messages, 3)
        assert got == [
            (f"__subkeyspace@0__:{key}", "hset|6:f,1:x|,0:"),
            ("__subkeyevent@0__:hset", f"8:{key}|6:f,1:x|,0:"),
            # A key with a line feed has no channels of its fields.
            (f"__subkeyspaceevent@0__:hset|{key}", "6:f,1:x|,0:")]


@pytest.mark.parametrize("way", ["EXEC", "script", "database"])
def test_from_wherever_the_change_comes(server, r, way):
    with heard(server, r, "hT") as messages:
        if way == "EXEC":
            r.do("MULTI")
            r.do("HSET {t}h f v")
            r.do("SET {t}other v")
            r.do("EXEC")
        elif way == "script":
            r.call("EVAL", "return redis.call('HSET', KEYS[1], 'f', 'v')", 1, KEY)
        else:
            r.do("SELECT 3")
            r.do("HSET {t}h f v")
            r.do("SELECT 0")
        number = 3 if way == "database" else 0
        assert waited_for(messages, 1) == [(f"__subkeyevent@{number}__:hset", "4:{t}h|1:f")]
    r.do("FLUSHALL")


def test_large_hashes(server, r):
    with heard(server, r, "hT") as messages:
        names = [f"field{i:04}" for i in range(3000)]
        r.call("HSET", KEY, *(word for name in names for word in (name, "v")))
        assert waited_for(messages, 1) == [
            ("__subkeyevent@0__:hset", "4:{t}h|" + listed(" ".join(names)))]
        r.call("HDEL", KEY, *names[::2])
        assert waited_for(messages, 1)[0][1] == "4:{t}h|" + listed(" ".join(names[::2]))
        r.call("HPEXPIRE", KEY, 1, "FIELDS", len(names[1::2]), *names[1::2])
        told = []

        def all_expired():
            for channel, text in messages():
                if channel == "__subkeyevent@0__:hexpired":
                    told.extend(text.split("|", 1)[1].split(","))
            return len(told) >= 1500

        wait_until(all_expired, what="the end of the fields")
        assert sorted(told) == [f"9:{name}" for name in names[1::2]]


@pytest.mark.parametrize("rest", [0, 1], ids=["all go", "one stays"])
def test_a_large_hash_expires_in_portions(server, r, rest):
    with heard(server, r, "T") as messages:
        names = [f"field{i:04}" for i in range(3000)]
        r.call("HSET", KEY, *(word for name in names for word in (name, "v")))
        waited_for(messages, 1)
        r.call("HPEXPIRE", KEY, 1, "FIELDS", len(names) - rest, *names[rest:])
        told = []

        def all_expired():
            for channel, text in messages():
                if channel == "__subkeyevent@0__:hexpired":
                    told.append(text.split("|", 1)[1].split(","))
            return sum(map(len, told)) >= len(names) - rest

        wait_until(all_expired, what="the end of the fields")
        assert sorted(sum(told, [])) == [f"9:{name}" for name in names[rest:]]
        assert max(map(len, told)) <= 256
        assert r.do("HLEN {t}h") == rest
