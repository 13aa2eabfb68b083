# SPDX-License-Identifier: Apache-2.0
"""A bank: money moves between 1,000 accounts over all shards, in each way that clients know, and
whoever looks sees the same sum at every moment."""

import random
import time
from functools import partial

import pytest

from harness.resp import OK, Error
from harness.seeds import new_seed
from harness.server import SANITIZED, wait_until
from harness.threads import run_all

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

ACCOUNTS = [f"account:{i}" for i in range(1000)]
START = 100
SUM = START * len(ACCOUNTS)
SECONDS = 1.0
ROUNDS_MIN = 5  # on a busy machine, too


def open_accounts(r):
    assert r.call("MSET", *[x for account in ACCOUNTS for x in (account, START)]) == OK


def together(server, seed, *loops):
    """Runs loop(connection, rng) repeatedly, each on a connection of its own; returns what each
    has done, as its own numbers added up. The first thing that one of them raised is raised."""
    stop = time.monotonic() + SECONDS
    totals = [0] * len(loops)
    raised = []

    def run(index):
        rng = random.Random(f"{seed} {index}")
        with server.connect() as c:
            rounds = 0
            while (time.monotonic() < stop or rounds < ROUNDS_MIN) and not raised:
                totals[index] += loops[index](c, rng)
                rounds += 1

    run_all([partial(run, index) for index in range(len(loops))], raised)
    return totals


@pytest.fixture
def seed():
    return new_seed()


def total(values):
    assert None not in values
    return sum(map(int, values))


def look_by_mget(c, rng):
    assert total(c.call("MGET", *ACCOUNTS)) == SUM
    return 0


def look_by_exec(c, rng):
    """GETs of all accounts in EXEC; they are spread over all shards."""
    accounts = ACCOUNTS[:]
    rng.shuffle(accounts)
    replies = c.pipeline([("MULTI",), *[("GET", account) for account in accounts], ("EXEC",)])
    assert total(replies[-1]) == SUM
    return 0


def look_by_exec_of_mgets(c, rng):
    accounts = ACCOUNTS[:]
    rng.shuffle(accounts)
    parts = [accounts[i : i + 100] for i in range(0, len(accounts), 100)]
    replies = c.pipeline([("MULTI",), *[("MGET", *part) for part in parts], ("EXEC",)])
    assert sum(total(part) for part in replies[-1]) == SUM
    return 0


def watched_transfer(accounts_of, write):
    """A loop of transfers with WATCH; counts those that took place."""

    def loop(c, rng):
        source, target = accounts_of(rng)
        c.call("WATCH", source, target)
        balance, other = map(int, c.call("MGET", source, target))
        amount = rng.randint(1, 20)
        if balance < amount:
            assert c.call("UNWATCH") == OK
            return 0
        assert c.call("MULTI") == OK
        for command in write(source, target, balance - amount, other + amount, amount):
            c.call(*command)
        return 0 if c.call("EXEC") is None else 1

    return loop


def any_two(rng):
    return rng.sample(ACCOUNTS, 2)


def two_of_few(rng):
    """Such that transfers meet often."""
    return rng.sample(ACCOUNTS[:6], 2)


def by_set(source, target, less, more, amount):
    return [("SET", source, less), ("SET", target, more)]


def by_mset(source, target, less, more, amount):
    return [("MSET", source, less, target, more)]


def by_counters(source, target, less, more, amount):
    return [("DECRBY", source, amount), ("PING",), ("INCRBY", target, amount)]


def check_end(r):
    assert total(r.call("MGET", *ACCOUNTS)) == SUM
    assert r.call("DBSIZE") == len(ACCOUNTS)


@pytest.mark.parametrize("write", [by_set, by_mset, by_counters])
def test_transfers_under_watch_keep_the_sum(server, r, seed, write):
    open_accounts(r)
    done = together(
        server,
        seed,
        watched_transfer(any_two, write),
        watched_transfer(any_two, write),
        watched_transfer(two_of_few, write),
        watched_transfer(two_of_few, write),
        look_by_mget,
        look_by_exec,
    )
    assert all(done[:4]), done
    check_end(r)


def test_transfers_without_watch_keep_the_sum(server, r, seed):
    """Counters need no WATCH, only that EXEC is one. Some of the EXECs have an error inside."""
    open_accounts(r)
    r.call("SET", "no number", "x")

    def transfer(c, rng):
        accounts = rng.sample(ACCOUNTS, 4)
        amounts = [rng.randint(-9, 9) for _ in accounts[:-1]]
        amounts.append(-sum(amounts))
        commands = [("INCRBY", account, n) for account, n in zip(accounts, amounts)]
        commands.insert(rng.randrange(5), ("INCR", "no number"))
        replies = c.pipeline([("MULTI",), *commands, ("EXEC",)])[-1]
        assert sum(isinstance(reply, Error) for reply in replies) == 1
        return 1

    done = together(
        server, seed, transfer, transfer, transfer, look_by_mget, look_by_exec_of_mgets
    )
    assert all(done[:3])
    r.call("DEL", "no number")
    check_end(r)


def test_accounts_that_are_renamed_and_moved_keep_the_sum(server, r, seed):
    """Accounts change their names under the eyes of readers who look at all names: each account is
    in one place at each moment. And transfers of all that is in a list of coins."""
    open_accounts(r)
    places = ACCOUNTS + ["place:0", "place:1", "place:2"]

    def rename(c, rng):
        source, place = rng.choice(ACCOUNTS[:20]), rng.choice(places[-3:])
        # Both ways in one EXEC: nobody sees a missing account, nor a lost one.
        replies = c.pipeline(
            [
                ("MULTI",),
                ("RENAMENX", source, place),
                ("INCRBY", place, 7),
                ("DECRBY", place, 7),
                ("RENAMENX", place, source),
                ("EXEC",),
            ]
        )[-1]
        assert replies[0] == 1 and replies[3] == 1, replies
        return 1

    def swap_two(c, rng):
        one, two = rng.sample(ACCOUNTS[:20], 2)
        place = rng.choice(places[-3:])
        replies = c.pipeline(
            [
                ("MULTI",),
                ("RENAME", one, place),
                ("RENAME", two, one),
                ("RENAME", place, two),
                ("EXEC",),
            ]
        )[-1]
        assert replies == [OK] * 3
        return 1

    def look(c, rng):
        values = [v for v in c.call("MGET", *places) if v is not None]
        assert len(values) == len(ACCOUNTS) and total(values) == SUM
        return 0

    done = together(
        server,
        seed,
        rename,
        swap_two,
        watched_transfer(two_of_few, by_mset),
        look,
        look_by_exec,
    )
    assert all(done[:2])
    check_end(r)


def test_one_token_under_rename_gives_the_right_to_write(server, r, seed):
    """Who can rename the token to a name of its own is alone, and moves money without WATCH."""
    open_accounts(r)
    assert r.call("SET", "token", "t") == OK

    def transfer(name):
        def loop(c, rng):
            if c.call("RENAME", "token", name) != OK:
                return 0
            source, target = rng.sample(ACCOUNTS, 2)
            balance, other = map(int, c.call("MGET", source, target))
            assert c.call("MSET", source, balance - 1, target, other + 1) == OK
            assert c.call("RENAMENX", name, "token") == 1
            return 1

        return loop

    done = together(server, seed, *[transfer(f"mine:{i}") for i in range(4)], look_by_mget)
    assert sum(done) >= 1
    assert r.call("DEL", "token") == 1
    check_end(r)


def clients_of(r):
    """Those of tests before may be among them."""
    return int(r.info("clients")["connected_clients"])


def test_clients_that_leave_in_the_middle_take_no_money_along(server, r, seed):
    """Connections end between WATCH and EXEC and during EXEC: all of a transfer, or nothing."""
    open_accounts(r)
    before = clients_of(r)

    def leave(c, rng):
        source, target = any_two(rng)
        with server.connect() as other:
            other.call("WATCH", source, target)
            other.send(b"*1\r\n$5\r\nMULTI\r\n")
            for command in (("DECRBY", source, 5), ("INCRBY", target, 5)):
                other.send_command(*command)
            if rng.random() < 0.7:
                other.send_command("EXEC")
            if rng.random() < 0.5:
                other.abort()
        return 1

    done = together(
        server,
        seed,
        leave,
        leave,
        watched_transfer(any_two, by_set),
        look_by_mget,
        look_by_exec_of_mgets,
    )
    assert all(done[:3])
    wait_until(lambda: clients_of(r) <= before, what="the others have left")
    check_end(r)
    # Nobody is locked out by who has gone.
    assert r.call("MSET", *[x for account in ACCOUNTS for x in (account, START)]) == OK
    assert watched_transfer(any_two, by_mset)(r, random.Random(seed)) == 1


@pytest.mark.skipif(
    SANITIZED,
    reason="it must see a wrong sum within its seconds; a sanitized server is many times slower",
)
def test_the_test_sees_a_bank_without_transactions(server, r, seed):
    """The readers are able to see a wrong sum: transfers of two commands are found out."""
    open_accounts(r)
    found = []

    def transfer(c, rng):
        source, target = any_two(rng)
        c.call("DECRBY", source, 5)
        c.call("INCRBY", target, 5)
        return 1

    def look(c, rng):
        if total(c.call("MGET", *ACCOUNTS)) != SUM:
            found.append(True)
        return 0

    together(server, seed, transfer, transfer, transfer, look, look)
    assert found
    check_end(r)
