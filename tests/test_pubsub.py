# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe: exact replies in RESP2 and RESP3, who receives what in which order, and
what happens to who does not read. The schedules of one thread are in
src/server/schedules/pubsub_test.cc."""

import random
import select
import threading
import time

import pytest

from harness.resp import OK, Error, Push, Status, Verbatim, arity, encode
from harness.seeds import new_seed
from harness.server import PATIENCE_S, SANITIZED, Server, only_dragonfly, wait_until

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

IN_CONTEXT = (
    "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
    "allowed in this context"
)


def refused(command):
    return Error(IN_CONTEXT.format(command))


def read_n(connection, count):
    return [connection.read() for _ in range(count)]


def replies(connection, count, *args):
    connection.send_command(*args)
    return read_n(connection, count)


def text(reply):
    return reply.text if isinstance(reply, Verbatim) else reply.decode()


def client_line(connection, **filters):
    """The fields of the only client that CLIENT LIST shows with these values."""
    lines = text(connection.call("CLIENT", "LIST")).splitlines()
    found = [dict(field.split("=", 1) for field in line.split(" ")) for line in lines]
    found = [c for c in found if all(c[k] == v for k, v in filters.items())]
    assert len(found) == 1, found
    return found[0]


# --- Replies ---


def test_subscribe_confirms_each_channel_with_the_number_of_subscriptions(r):
    assert replies(r, 3, "SUBSCRIBE", "a", "b", "a") == [
        [b"subscribe", b"a", 1],
        [b"subscribe", b"b", 2],
        [b"subscribe", b"a", 2],
    ]
    assert replies(r, 2, "PSUBSCRIBE", "p*", "a") == [
        [b"psubscribe", b"p*", 3],
        [b"psubscribe", b"a", 4],
    ]
    # Shard channels are counted on their own.
    assert replies(r, 1, "SSUBSCRIBE", "a") == [[b"ssubscribe", b"a", 1]]
    assert replies(r, 2, "UNSUBSCRIBE", "a", "none") == [
        [b"unsubscribe", b"a", 3],
        [b"unsubscribe", b"none", 3],
    ]
    assert replies(r, 1, "SUNSUBSCRIBE", "a") == [[b"sunsubscribe", b"a", 0]]
    assert replies(r, 1, "PUNSUBSCRIBE", "p*") == [[b"punsubscribe", b"p*", 2]]


def test_exact_bytes_in_both_protocols(r, r3):
    assert r.raw("SUBSCRIBE", "ch") == b"*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"
    assert r3.raw("SUBSCRIBE", "ch") == b">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"
    r.raw("PSUBSCRIBE", "c?")
    r3.raw("PSUBSCRIBE", "c?")
    r3.raw("SSUBSCRIBE", "ch")
    r.raw("SSUBSCRIBE", "ch")
    r3.send_command("PING")
    assert r3.read_raw() == b"+PONG\r\n"
    assert r.raw("UNSUBSCRIBE", "x") == b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:2\r\n"


def test_messages_in_both_protocols(server, r, r3):
    for connection in (r, r3):
        replies(connection, 1, "SUBSCRIBE", "ch")
        replies(connection, 1, "PSUBSCRIBE", "c?")
        replies(connection, 1, "SSUBSCRIBE", "ch")
    with server.connect() as publisher:
        assert publisher.call("PUBLISH", "ch", "hello") == 4
        assert publisher.call("SPUBLISH", "ch", "shard") == 2
    for connection, first in ((r, b"*"), (r3, b">")):
        assert connection.read_raw() == first + b"3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n"
        assert (
            connection.read_raw()
            == first + b"4\r\n$8\r\npmessage\r\n$2\r\nc?\r\n$2\r\nch\r\n$5\r\nhello\r\n"
        )
        assert (
            connection.read_raw() == first + b"3\r\n$8\r\nsmessage\r\n$2\r\nch\r\n$5\r\nshard\r\n"
        )


@pytest.mark.parametrize("kind", ["", "p", "s"])
def test_unsubscribe_from_all(r, r3, kind):
    word = (kind + "unsubscribe").encode()
    assert r.raw(kind + "unsubscribe") == b"*3\r\n$%d\r\n%s\r\n$-1\r\n:0\r\n" % (len(word), word)
    assert r3.raw(kind + "unsubscribe") == b">3\r\n$%d\r\n%s\r\n_\r\n:0\r\n" % (len(word), word)
    replies(r, 3, kind + "subscribe", "a", "b", "c")
    got = replies(r, 3, kind + "unsubscribe")
    assert {reply[1] for reply in got} == {b"a", b"b", b"c"}
    assert [reply[2] for reply in got] == [2, 1, 0]
    assert r.call("GET", "x") is None


def test_unsubscribe_from_all_of_one_kind_leaves_the_others(r):
    replies(r, 2, "SUBSCRIBE", "a", "b")
    replies(r, 1, "PSUBSCRIBE", "p*")
    replies(r, 1, "SSUBSCRIBE", "s")
    assert [reply[2] for reply in replies(r, 2, "UNSUBSCRIBE")] == [2, 1]
    assert r.call("UNSUBSCRIBE") == [b"unsubscribe", None, 1]
    assert r.call("PUNSUBSCRIBE") == [b"punsubscribe", b"p*", 0]
    assert r.call("GET", "x") == refused("get")
    assert r.call("SUNSUBSCRIBE") == [b"sunsubscribe", b"s", 0]
    assert r.call("GET", "x") is None


def test_wrong_arity(r):
    for name in ("subscribe", "psubscribe", "ssubscribe", "publish", "spublish", "pubsub"):
        assert r.call(name) == arity(name)
    assert r.call("PUBLISH", "a", "b", "c") == arity("publish")
    assert r.call("SPUBLISH", "a") == arity("spublish")
    assert r.call("PUBSUB", "NUMPAT", "a") == arity("pubsub|numpat")
    assert r.call("PUBSUB", "NOPE") == Error("ERR unknown subcommand 'NOPE'. Try PUBSUB HELP.")
    for name in ("channels", "SHARDCHANNELS"):
        assert r.call("PUBSUB", name, "a", "b") == Error(
            f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
        )


# --- RESP2's subscriber mode ---


@pytest.mark.parametrize("kind", ["subscribe", "psubscribe", "ssubscribe"])
def test_a_resp2_subscriber_may_do_little_else(r, kind):
    replies(r, 1, kind, "a")
    assert r.call("GET", "a") == refused("get")
    assert r.call("CONFIG", "GET", "x") == refused("config|get")
    assert r.call("CLIENT", "ID") == refused("client|id")
    assert r.call("HELLO", "3") == refused("hello")
    assert r.call("PUBLISH", "a", "x") == refused("publish")
    assert r.call("MGET", "a", "b", "c", "d") == refused("mget")
    # What is wrong anyway is told first.
    assert r.call("GET") == arity("get")
    assert r.call("CLIENT", "NOPE") == Error("ERR unknown subcommand 'NOPE'. Try CLIENT HELP.")
    assert r.call("NOPE").text.startswith("ERR unknown command 'NOPE'")
    assert r.call("PING") == [b"pong", b""]
    assert r.call("PING", "x") == [b"pong", b"x"]
    assert r.call("PING", "x", "y") == arity("ping")
    r.send_command("QUIT")
    assert r.read() == OK
    with pytest.raises(ConnectionError):
        r.read()


def test_a_resp2_subscriber_that_left_all_is_as_before(r):
    got = r.pipeline(
        [
            ("SET", "k", "v"),
            ("SUBSCRIBE", "a"),
            ("GET", "k"),
            ("UNSUBSCRIBE", "a"),
            ("GET", "k"),
            ("PING",),
        ]
    )
    assert got == [
        OK,
        [b"subscribe", b"a", 1],
        refused("get"),
        [b"unsubscribe", b"a", 0],
        b"v",
        Status("PONG"),
    ]


def test_a_resp3_subscriber_may_do_anything(r3):
    replies(r3, 1, "SUBSCRIBE", "a")
    assert r3.call("SET", "k", "v") == OK
    assert r3.call("GET", "k") == b"v"
    assert r3.call("PING") == Status("PONG")
    assert r3.call("PING", "x") == b"x"


def test_a_resp3_subscriber_that_goes_back_to_resp2_is_in_its_mode(r3):
    replies(r3, 1, "SUBSCRIBE", "a")
    r3.call("HELLO", "2")
    assert r3.call("HELLO", "3") == refused("hello")
    assert r3.call("PING") == [b"pong", b""]
    assert r3.call("UNSUBSCRIBE") == [b"unsubscribe", b"a", 0]
    assert r3.call("GET", "x") is None


def test_reset_leaves_everything(server, r, r3):
    with server.connect() as other:
        for connection in (r, r3):
            replies(connection, 2, "SUBSCRIBE", "a", "b")
            replies(connection, 1, "PSUBSCRIBE", "*")
            replies(connection, 1, "SSUBSCRIBE", "s")
            assert connection.call("RESET") == Status("RESET")
            assert connection.call("PING") == Status("PONG")
            assert connection.call("GET", "x") is None
            assert other.call("PUBLISH", "a", "x") == 0
            assert other.call("SPUBLISH", "s", "x") == 0
            assert other.call("PUBSUB", "NUMPAT") == 0
            assert other.call("PUBSUB", "CHANNELS") == []
            # Nothing late comes, and it may subscribe again.
            assert replies(connection, 1, "SUBSCRIBE", "a")[0] is not None
            assert other.call("PUBLISH", "a", "x") == 1
            assert connection.read() == [b"message", b"a", b"x"]
            replies(connection, 1, "UNSUBSCRIBE")


def test_client_reply_off_does_not_stop_messages(server, r3):
    r3.send_command("CLIENT", "REPLY", "OFF")
    assert replies(r3, 1, "SUBSCRIBE", "a") == [Push((b"subscribe", b"a", 1))]
    with server.connect() as publisher:
        assert publisher.call("PUBLISH", "a", "x") == 1
    assert r3.read() == Push((b"message", b"a", b"x"))
    r3.send_command("PING")
    assert replies(r3, 1, "UNSUBSCRIBE", "a") == [Push((b"unsubscribe", b"a", 0))]
    assert r3.call("CLIENT", "REPLY", "ON") == OK
    r3.send_command("CLIENT", "REPLY", "SKIP")
    assert replies(r3, 1, "SUBSCRIBE", "a") == [Push((b"subscribe", b"a", 1))]
    assert r3.call("PING") == Status("PONG")


# --- PUBLISH and PUBSUB ---


def test_publish_counts_each_subscription_that_matches(server, r):
    with server.connect() as one, server.connect() as two:
        replies(one, 1, "SUBSCRIBE", "news.a")
        replies(one, 3, "PSUBSCRIBE", "news.*", "n*", "x*")
        replies(two, 1, "PSUBSCRIBE", "news.?")
        assert r.call("PUBLISH", "news.a", "1") == 4
        assert r.call("PUBLISH", "news.bb", "2") == 2
        assert r.call("PUBLISH", "other", "3") == 0
        assert r.call("SPUBLISH", "news.a", "4") == 0
        assert one.read() == [b"message", b"news.a", b"1"]
        assert sorted(read_n(one, 2)) == [
            [b"pmessage", b"n*", b"news.a", b"1"],
            [b"pmessage", b"news.*", b"news.a", b"1"],
        ]
        assert sorted(read_n(one, 2))[0] == [b"pmessage", b"n*", b"news.bb", b"2"]
        assert two.read() == [b"pmessage", b"news.?", b"news.a", b"1"]
    wait_until(lambda: r.call("PUBLISH", "news.a", "x") == 0, what="they are gone")


def test_pubsub_tells_who_is_there(server, r):
    assert r.call("PUBSUB", "CHANNELS") == []
    assert r.call("PUBSUB", "NUMSUB") == []
    assert r.call("PUBSUB", "NUMPAT") == 0
    with server.connect() as one, server.connect() as two:
        replies(one, 2, "SUBSCRIBE", "a1", "b1")
        replies(two, 2, "SUBSCRIBE", "a1", "a2")
        replies(one, 2, "PSUBSCRIBE", "p*", "q*")
        replies(two, 1, "PSUBSCRIBE", "p*")
        replies(one, 1, "SSUBSCRIBE", "s1")
        assert sorted(r.call("PUBSUB", "CHANNELS")) == [b"a1", b"a2", b"b1"]
        assert sorted(r.call("PUBSUB", "CHANNELS", "a*")) == [b"a1", b"a2"]
        assert r.call("PUBSUB", "NUMSUB", "a1", "nope", "b1", "s1") == [
            b"a1",
            2,
            b"nope",
            0,
            b"b1",
            1,
            b"s1",
            0,
        ]
        assert r.call("PUBSUB", "NUMPAT") == 2
        assert r.call("PUBSUB", "SHARDCHANNELS") == [b"s1"]
        assert r.call("PUBSUB", "SHARDCHANNELS", "x*") == []
        assert r.call("PUBSUB", "SHARDNUMSUB", "s1", "a1") == [b"s1", 1, b"a1", 0]
        info = r.info("stats")
        assert (info["pubsub_channels"], info["pubsub_patterns"]) == ("3", "2")
        assert info["pubsubshard_channels"] == "1"
        replies(one, 1, "PUNSUBSCRIBE", "p*")
        assert r.call("PUBSUB", "NUMPAT") == 2
        replies(two, 1, "PUNSUBSCRIBE", "p*")
        assert r.call("PUBSUB", "NUMPAT") == 1
    wait_until(lambda: r.call("PUBSUB", "CHANNELS") == [], what="disconnected ones are forgotten")
    wait_until(lambda: r.call("PUBSUB", "NUMPAT") == 0, what="patterns too")
    assert r.call("PUBSUB", "SHARDCHANNELS") == []


def test_pubsub_help(r):
    lines = r.call("PUBSUB", "HELP")
    assert lines[0].text.startswith("PUBSUB <subcommand>")
    assert Status("NUMPAT") in lines


def test_client_list_and_kill_know_subscribers(server, r):
    with server.connect() as one, server.connect() as two:
        replies(one, 2, "SUBSCRIBE", "a", "b")
        replies(one, 1, "PSUBSCRIBE", "c")
        replies(two, 3, "SSUBSCRIBE", "d", "e", "f")
        line = client_line(r, sub="2")
        assert (line["psub"], line["ssub"], line["flags"]) == ("1", "0", "P")
        line = client_line(r, ssub="3")
        assert (line["sub"], line["psub"], line["flags"]) == ("0", "0", "P")
        assert text(r.call("CLIENT", "LIST", "TYPE", "pubsub")).count("\n") == 2
        assert text(r.call("CLIENT", "LIST", "TYPE", "normal")).count("\n") == 1
        assert r.call("CLIENT", "KILL", "TYPE", "pubsub") == 2
        for connection in (one, two):
            with pytest.raises(ConnectionError):
                connection.read()
        wait_until(lambda: r.call("PUBLISH", "a", "x") == 0, what="the killed are gone")
        assert r.call("PING") == Status("PONG")


@only_dragonfly("pubsub_clients came later")
def test_info_counts_clients_that_are_subscribed(server, r):
    assert r.info("clients")["pubsub_clients"] == "0"
    with server.connect() as one:
        replies(one, 1, "SUBSCRIBE", "a")
        replies(one, 1, "PSUBSCRIBE", "a")
        assert r.info("clients")["pubsub_clients"] == "1"
        replies(one, 1, "UNSUBSCRIBE")
        assert r.info("clients")["pubsub_clients"] == "1"
        replies(one, 1, "PUNSUBSCRIBE")
        assert r.info("clients")["pubsub_clients"] == "0"


def test_command_getkeys_takes_no_channel_for_a_key(r):
    none = Error("ERR The command has no key arguments")
    assert r.call("COMMAND", "GETKEYS", "PUBLISH", "a", "b") == none
    assert r.call("COMMAND", "GETKEYS", "SPUBLISH", "a", "b") == none


# --- Names and sizes ---


def test_names_may_be_anything(server, r):
    names = [b"", b"\0\xff\r\n", b"{tag}x", b" ", "é".encode(), b"n" * 1_000_000]
    with server.connect() as publisher:
        for name in names:
            assert replies(r, 1, "SUBSCRIBE", name)[0][1] == name
            assert replies(r, 1, "SSUBSCRIBE", name)[0][1] == name
            assert publisher.call("PUBLISH", name, b"m" + name) == 1
            assert r.read() == [b"message", name, b"m" + name]
            assert publisher.call("SPUBLISH", name, b"") == 1
            assert r.read() == [b"smessage", name, b""]
        assert set(publisher.call("PUBSUB", "CHANNELS")) == set(names)
        assert len(replies(r, len(names), "UNSUBSCRIBE")) == len(names)


@pytest.mark.parametrize(
    "pattern, yes, no",
    [
        (b"*", [b"a", b"\0"], []),
        (b"", [b""], [b"a"]),
        (b"h?llo", [b"hello", b"h\0llo"], [b"hllo"]),
        (b"h[ae]llo", [b"hello", b"hallo"], [b"hillo"]),
        (b"h[^e]llo", [b"hallo"], [b"hello"]),
        (b"h[a-b]llo", [b"hallo"], [b"hcllo"]),
        (b"a\\*", [b"a*"], [b"ab"]),
        (b"a*b*c", [b"abc", b"axxbyyc"], [b"abcd"]),
    ],
)
def test_patterns(server, r, pattern, yes, no):
    replies(r, 1, "PSUBSCRIBE", pattern)
    with server.connect() as publisher:
        for channel in yes:
            assert publisher.call("PUBLISH", channel, "m") == 1
            assert r.read() == [b"pmessage", pattern, channel, b"m"]
        for channel in no:
            assert publisher.call("PUBLISH", channel, "m") == 0


def test_many_channels_in_one_command_and_one_by_one(server, r):
    names = [b"c%d" % i for i in range(1000)]
    got = replies(r, 1000, "SUBSCRIBE", *names)
    assert got == [[b"subscribe", name, i + 1] for i, name in enumerate(names)]
    with server.connect() as publisher:
        assert publisher.pipeline([("PUBLISH", name, name) for name in names]) == [1] * 1000
        assert sorted(m[2] for m in read_n(r, 1000)) == sorted(names)
        r.send(b"".join(encode("UNSUBSCRIBE", name) for name in names))
        assert read_n(r, 1000) == [
            [b"unsubscribe", name, 999 - i] for i, name in enumerate(names)
        ]
        assert publisher.pipeline([("PUBLISH", name, name) for name in names]) == [0] * 1000
        assert publisher.call("PUBSUB", "CHANNELS") == []


def test_large_messages(server, r):
    replies(r, 1, "SUBSCRIBE", "a")
    with server.connect() as publisher:
        for size in (10_000, 300_000, 5_000_000):
            assert publisher.call("PUBLISH", "a", b"x" * size) == 1
            assert len(r.read()[2]) == size


# --- Order ---


def test_messages_come_between_replies_never_in_them(server, r3):
    """A subscriber that pipelines commands of all kinds while it gets messages."""
    replies(r3, 1, "SUBSCRIBE", "a")
    replies(r3, 1, "PSUBSCRIBE", "a*")
    value = b"v" * 3000
    names = [b"k%d" % i for i in range(8)]
    with server.connect() as publisher:
        publisher.pipeline([("SET", name, value) for name in names])
        rounds, got, expected = 40, [], []
        for i in range(rounds):
            commands = [("GET", name) for name in names] + [("MGET", *names), ("PING",)]
            publisher.send(b"".join(encode("PUBLISH", "a", i * 10 + n) for n in range(10)))
            r3.send(b"".join(encode(*c) for c in commands))
            expected += [value] * 8 + [[value] * 8, Status("PONG")]
        assert read_n(publisher, rounds * 10) == [2] * rounds * 10
        for _ in range(len(expected) + rounds * 20):
            got.append(r3.read())
    assert [reply for reply in got if not isinstance(reply, Push)] == expected
    messages = [reply.items for reply in got if isinstance(reply, Push)]
    numbers = [b"%d" % i for i in range(rounds * 10)]
    assert [m[2] for m in messages if m[0] == b"message"] == numbers
    assert [m[3] for m in messages if m[0] == b"pmessage"] == numbers


@only_dragonfly("7.0 pushes the message ahead of the reply; later versions behind it, as ours")
def test_who_publishes_to_itself_gets_the_reply_first(r3):
    for i in range(20):
        replies(r3, 1, "SUBSCRIBE", f"ch{i}")
        assert r3.call("PUBLISH", f"ch{i}", "x") == 1
        assert r3.read() == Push((b"message", b"ch%d" % i, b"x"))


def test_all_subscribers_of_a_channel_see_one_order(server, r):
    subscribers = [server.connect() for _ in range(6)]
    publishers = [server.connect() for _ in range(4)]
    each = 100 if SANITIZED else 400
    for i, subscriber in enumerate(subscribers):
        if i % 3 == 2:
            replies(subscriber, 1, "PSUBSCRIBE", "on?")
        else:
            replies(subscriber, 1, "SUBSCRIBE", "one")
    for start in range(0, each, 50):
        for number, publisher in enumerate(publishers):
            numbers = range(start, start + 50)
            publisher.send(b"".join(encode("PUBLISH", "one", f"{number}:{i}") for i in numbers))
    for publisher in publishers:
        assert read_n(publisher, each) == [len(subscribers)] * each
    seen = [[m[-1] for m in read_n(s, each * len(publishers))] for s in subscribers]
    assert all(order == seen[0] for order in seen)
    for number in range(len(publishers)):  # and what one publisher sent keeps its order
        own = [m for m in seen[0] if m.startswith(b"%d:" % number)]
        assert own == [b"%d:%d" % (number, i) for i in range(each)]
    for connection in subscribers + publishers:
        connection.close()


def test_a_confirmed_subscription_is_known_to_every_publisher(server):
    """...and a confirmed end of it, too: no sleep in between, whatever the threads."""
    publishers = [server.connect() for _ in range(4)]
    subscribers = [server.connect() for _ in range(3)]
    for i in range(60):
        channel = f"ch{i}"
        pattern = f"ch{i}*"
        for n, subscriber in enumerate(subscribers):
            replies(subscriber, 1, "SUBSCRIBE", channel)
            replies(subscriber, 1, "PSUBSCRIBE", pattern)
            assert publishers[i % 4].call("PUBLISH", channel, "x") == 2 * (n + 1)
        for n, subscriber in enumerate(subscribers):
            assert len(read_n(subscriber, 2 * (len(subscribers) - n))) > 0
            replies(subscriber, 1, "UNSUBSCRIBE", channel)
            replies(subscriber, 1, "PUNSUBSCRIBE", pattern)
            left = 2 * (len(subscribers) - n - 1)
            assert publishers[(i + n) % 4].call("PUBLISH", f"other{i}", "x") == 0
            assert publishers[(i + n + 1) % 4].call("PUBSUB", "NUMSUB", channel)[1] == left // 2
    for connection in publishers + subscribers:
        connection.close()


def test_what_publish_counts_is_what_arrives_while_others_come_and_go(server):
    """Subscribers churn while publishers publish; in the end the sums are equal. A message that
    arrived was counted, and a message that was counted has arrived."""
    seed = new_seed()
    rounds = 40 if SANITIZED else 200
    counted, received, errors = [0] * 2, [0] * 4, []

    def publish(number):
        chance = random.Random(seed + number)
        with server.connect() as connection:
            for _ in range(rounds):
                batch = [("PUBLISH", f"c{chance.randrange(3)}", "m") for _ in range(20)]
                counted[number] += sum(connection.pipeline(batch))

    def subscribe(number):
        """Each message has to come while it is subscribed, as the client sees it."""
        chance = random.Random(seed + 100 + number)
        active = set()
        try:
            with server.connect(resp3=number % 2 == 1) as connection:
                for _ in range(rounds * 3):
                    kind, name = chance.choice(
                        [("", f"c{chance.randrange(3)}"), ("p", f"c[{chance.randrange(3)}]")]
                    )
                    word = kind + chance.choice(["subscribe", "unsubscribe"])
                    connection.send_command(word, name)
                    while True:
                        reply = connection.read()
                        items = reply.items if isinstance(reply, Push) else reply
                        if items[0] in (b"message", b"pmessage"):
                            assert (items[0], items[1]) in active, (items, active)
                            received[number] += 1
                            continue
                        assert items[0] == word.encode(), (items, word)
                        key = (kind.encode() + b"message", name.encode())
                        (active.discard if "un" in word else active.add)(key)
                        assert items[2] == len(active), (items, active)
                        break
                for word in ("UNSUBSCRIBE", "PUNSUBSCRIBE"):
                    left = sum(1 for key in active if (key[0] == b"pmessage") == (word[0] == "P"))
                    connection.send_command(word)
                    while left >= 0:
                        reply = connection.read()
                        items = reply.items if isinstance(reply, Push) else reply
                        if items[0] in (b"message", b"pmessage"):
                            received[number] += 1
                            continue
                        left -= 1
                        if left <= 0:
                            break
        except Exception as e:  # noqa: BLE001 - told by the main thread
            errors.append(f"subscriber {number}: {e!r}")

    threads = [threading.Thread(target=publish, args=(i,)) for i in range(2)]
    threads += [threading.Thread(target=subscribe, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert sum(counted) == sum(received), (counted, received)


def test_subscribers_that_vanish_do_no_harm(server, r):
    count = 60
    come_before = int(r.info("stats")["total_connections_received"])
    for i in range(count):
        connection = server.connect()
        connection.send_command("SUBSCRIBE", *[f"c{n}" for n in range(i % 7 + 1)])
        connection.send_command("PSUBSCRIBE", "c*", "d*")
        r.pipeline([("PUBLISH", f"c{n}", "x" * 100) for n in range(7)])
        if i % 3 == 0:
            connection.abort()
        elif i % 3 == 1:
            connection.read()
            connection.close()
        else:
            connection.send_command("QUIT")
            connection.close()
    # Else the last one may not have come yet.
    come = str(come_before + count)
    wait_until(lambda: r.info("stats")["total_connections_received"] == come, what="all came")
    wait_until(lambda: r.info("clients")["connected_clients"] == "1", what="all have left")
    wait_until(lambda: r.call("PUBSUB", "CHANNELS") == [], what="all channels are gone")
    wait_until(lambda: r.call("PUBSUB", "NUMPAT") == 0, what="all patterns are gone")
    assert r.call("PUBLISH", "c0", "x") == 0


def test_a_silent_subscriber_is_not_timed_out(start_server):
    server = start_server(timeout=1)
    with server.connect() as subscriber, server.connect() as other:
        replies(subscriber, 1, "SUBSCRIBE", "a")
        with pytest.raises(ConnectionError):  # who is not subscribed is
            other.read()
        with server.connect() as publisher:
            assert publisher.call("PUBLISH", "a", "x") == 1
        assert subscriber.read() == [b"message", b"a", b"x"]


# --- Who does not wait for the confirmation ---


def answering(connections):
    return [c for c in connections if select.select([c.sock], [], [], 0)[0]]


@only_dragonfly("DEBUG STALL is ours")
def test_a_subscription_does_not_wait_for_the_one_before():
    """A thread stands still that owns some of the channels; the others are listened to."""
    server = Server(proactor_threads=2, num_shards=2)
    try:
        connections = [server.connect() for _ in range(100)]
        assert connections[0].call("DEBUG", "STALL", 1, 1000) == OK
        wait_until(lambda: "thread 1 stands still" in server.log(), what="it")
        for c in connections:
            c.send_command("PING")
        wait_until(lambda: len(answering(connections)) >= 30, what="clients of thread 0")
        subscriber, *publishers = answering(connections)[:30]
        for c in (subscriber, *publishers):
            assert c.read() == Status("PONG")
        channels = {c: f"c{i}" for i, c in enumerate(publishers)}
        for c, channel in channels.items():
            c.send_command("PUBLISH", channel, "nobody hears it")
        known = wait_until(lambda: answering(publishers), what="a channel of thread 0")[0]
        assert known.read() == 0
        # Those of thread 1 are before it, if only by the name that the process' seed puts there.
        order = sorted(channels.values(), key=lambda name: name == channels[known])
        subscriber.send(b"".join(encode("SUBSCRIBE", channel) for channel in order))
        wait_until(lambda: known.call("PUBLISH", channels[known], "x") == 1, what="a subscriber")
    finally:
        server.kill()


def test_who_sends_subscribe_first_hears_what_is_published_for_it(server):
    """As Celery does it: the confirmations are not read, and another connection sends the task."""
    with (
        server.connect() as subscriber,
        server.connect() as client,
        server.connect() as worker,
    ):
        for n in range(10):
            names = [f"{n}-{i}" for i in range(20)]
            for name in names:
                subscriber.send_command("SUBSCRIBE", name)
            # The last confirmation: all that was sent before it is carried out.
            confirmed = 0
            while confirmed < len(names):
                confirmed += subscriber.read()[0] == b"subscribe"
            for name in names:
                client.call("LPUSH", "queue", name)
                task = worker.call("BRPOP", "queue", 0)[1]
                assert worker.call("PUBLISH", task, task) == 1
                subscriber.send_command("UNSUBSCRIBE", task)
            # Each message comes before the confirmation that ends its subscription.
            got = [subscriber.read() for _ in range(2 * len(names))]
            for name in names:
                mine = [reply[0] for reply in got if reply[1] == name.encode()]
                assert mine == [b"message", b"unsubscribe"]


# --- Who does not read ---


@only_dragonfly("it may lose what was answered before")
@pytest.mark.flags(client_output_buffer_limit="pubsub 1mb 0 0")
def test_a_subscriber_that_does_not_read_is_disconnected(server, r):
    with server.connect() as reader, server.connect(rcvbuf=4096) as slow:
        for connection in (reader, slow):
            replies(connection, 1, "SUBSCRIBE", "a")
        message = b"x" * 10_000
        for i in range(3000):
            receivers = r.call("PUBLISH", "a", message)
            assert reader.read()[2] == message
            if receivers == 1:
                break
        assert receivers == 1, "the slow one is still there"
        assert i > 50  # it had its megabyte
        info = r.info("stats")
        assert info["client_output_buffer_limit_disconnections"] == "1"
        assert r.call("PUBLISH", "a", "still here") == 1
        assert reader.read()[2] == b"still here"
    wait_until(lambda: server.log().count("client-output-buffer-limit pubsub") == 1)
    assert r.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 0 0") == OK
    with server.connect() as reader:
        replies(reader, 1, "SUBSCRIBE", "a")
        wait_until(lambda: r.call("PUBSUB", "NUMSUB", "a")[1] == 1, what="the first one is gone")
        # As in Redis, one message above the limit is enough.
        assert r.call("PUBLISH", "a", b"x" * 1_000_000) == 1
        with pytest.raises(ConnectionError):
            while True:
                reader.read()


@only_dragonfly("about our memory")
@pytest.mark.flags(client_output_buffer_limit="pubsub 4mb 0 0")
def test_memory_stays_bounded_when_nobody_reads(server, r):
    """Publishers that do not wait, subscribers that do not read."""
    before = server.rss_bytes()
    batch = encode("PUBLISH", "a", b"x" * 2000) * 2000
    for _ in range(5):
        slow = [server.connect(rcvbuf=4096) for _ in range(4)]
        for connection in slow:
            replies(connection, 1, "SUBSCRIBE", "a")
        for _ in range(4):
            r.send(batch)
            read_n(r, 2000)
        for connection in slow:
            connection.close()
    if not SANITIZED:
        assert server.rss_bytes() - before < 150 << 20
    assert int(r.info("stats")["client_output_buffer_limit_disconnections"]) > 0


@only_dragonfly("about our memory")
def test_a_flood_to_a_reader_is_no_leak(server, r):
    count = 20_000 if SANITIZED else 200_000
    with server.connect() as reader:
        replies(reader, 1, "SUBSCRIBE", "a")

        def drain(messages):
            left = messages * len(encode("message", "a", b"x" * 32))
            while left > 0:
                left -= len(reader.sock.recv(1 << 16))
            assert left == 0

        def flood():
            batch = encode("PUBLISH", "a", b"x" * 32) * 1000
            thread = threading.Thread(target=drain, args=(count,))
            thread.start()
            for _ in range(count // 1000):
                r.send(batch)
                assert read_n(r, 1000) == [1] * 1000
            thread.join()

        flood()
        after_first = server.rss_bytes()
        flood()
        flood()
        if not SANITIZED:
            assert server.rss_bytes() - after_first < 20 << 20


# --- A client library ---


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py(server, protocol):
    redis = pytest.importorskip("redis")
    client = redis.Redis(port=server.port, protocol=protocol)
    pubsub = client.pubsub()
    deadline = time.monotonic() + PATIENCE_S

    def next_message():
        while time.monotonic() < deadline:
            message = pubsub.get_message(timeout=0.2)
            if message is not None:
                return message["type"], message["channel"], message["data"]
        raise AssertionError("no message")

    heard = []
    pubsub.subscribe("a", b=heard.append)
    assert [next_message() for _ in range(2)] == [
        ("subscribe", b"a", 1),
        ("subscribe", b"b", 2),
    ]
    pubsub.psubscribe("b*")
    assert next_message() == ("psubscribe", b"b*", 3)
    assert client.publish("a", "1") == 1
    assert next_message() == ("message", b"a", b"1")
    assert client.publish("b", "2") == 2
    assert next_message() == ("pmessage", b"b", b"2")
    assert heard[0]["data"] == b"2"
    pubsub.ping()
    assert next_message()[0] == "pong"
    pubsub.unsubscribe()
    assert {next_message()[1] for _ in range(2)} == {b"a", b"b"}
    pubsub.punsubscribe()
    assert next_message() == ("punsubscribe", b"b*", 0)
    assert client.pubsub_numpat() == 0
    pubsub.close()
    client.close()


@only_dragonfly("counters of ours")
def test_delivered_messages_are_counted(server, r):
    before = int(r.info("dispatch")["pubsub_delivered"])
    with server.connect() as one, server.connect() as two:
        for connection in (one, two):
            replies(connection, 1, "SUBSCRIBE", "a")
        for _ in range(5):
            r.call("PUBLISH", "a", "m")
        for connection in (one, two):
            read_n(connection, 5)
    assert int(r.info("dispatch")["pubsub_delivered"]) - before == 10
