# SPDX-License-Identifier: Apache-2.0
"""LATENCY: events, their history, histograms of commands."""

import pytest

from harness.resp import Error, OK, encode
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.threads, pytest.mark.sanitized]


@pytest.fixture
def monitored(r):
    assert r.call("CONFIG", "SET", "latency-monitor-threshold", "10") == OK
    r.call("LATENCY", "RESET")
    yield r
    r.call("CONFIG", "SET", "latency-monitor-threshold", "0")
    r.call("LATENCY", "RESET")


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))


def be_slow(r):
    """Keeps a thread busy for 30 ms or more, also on a fast machine."""
    r.call("EVAL", "local t = {} for i = 1, 10000000 do t[i % 1000] = i end", "1", "k")


def test_slow_commands_are_an_event(monitored):
    be_slow(monitored)
    (event,) = [e for e in monitored.call("LATENCY", "LATEST") if e[0] == b"command"]
    assert len(event) == 4 and event[2] >= 10 and event[3] >= event[2]
    history = monitored.call("LATENCY", "HISTORY", "command")
    assert [event[1], event[2]] in history  # on a busy machine others may be slow, too
    graph = monitored.call("LATENCY", "GRAPH", "command")
    assert graph.startswith(b"command - high ") and b"(all time high " in graph
    assert b"command" in monitored.call("LATENCY", "DOCTOR")
    monitored.call("CONFIG", "SET", "latency-monitor-threshold", "1000000")
    assert monitored.call("LATENCY", "RESET", "nosuch") == 0
    assert monitored.call("LATENCY", "RESET", "command", "nosuch") == 1
    assert monitored.call("LATENCY", "HISTORY", "command") == []


@only_dragonfly("an event of ours")
def test_a_busy_event_loop_is_an_event(monitored, server):
    """Each command is short, but a thread has many of them at once."""
    writers = [server.connect() for _ in range(4)]
    load = b"".join(encode("SETRANGE", f"k{i % 64}", str(i % 1000), "x") for i in range(20_000))

    def is_noted():
        for writer in writers:
            writer.send(load)
        for writer in writers:
            for _ in range(20_000):
                writer.read_line()
        return [e for e in monitored.call("LATENCY", "LATEST") if e[0] == b"event-loop"]

    (event,) = wait_until(is_noted)
    for writer in writers:
        writer.close()
    assert event[2] >= 10 and event[3] >= event[2]
    assert monitored.call("LATENCY", "HISTORY", "event-loop")
    assert b"event-loop" in monitored.call("LATENCY", "DOCTOR")


def test_nothing_is_noted_while_it_is_off(r):
    r.call("CONFIG", "SET", "latency-monitor-threshold", "0")
    r.call("LATENCY", "RESET")
    be_slow(r)
    assert r.call("LATENCY", "LATEST") == []
    assert b"latency-monitor-threshold" in r.call("LATENCY", "DOCTOR")


def test_histograms_count_each_call(r):
    r.call("CONFIG", "RESETSTAT")
    for i in range(30):
        r.call("SET", f"k{i}", "v")
    r.call("CLIENT", "ID")
    found = pairs(r.call("LATENCY", "HISTOGRAM", "set", "client", "get", "nosuch"))
    assert set(found) == {b"set", b"client|id"}
    histogram = pairs(found[b"set"])
    assert histogram[b"calls"] == 30
    counts = pairs(histogram[b"histogram_usec"])
    assert list(counts) == sorted(counts) and list(counts.values()) == sorted(counts.values())
    assert max(counts.values()) == 30
    assert set(pairs(r.call("LATENCY", "HISTOGRAM"))) >= {b"set", b"client|id", b"config|resetstat"}


def test_percentiles_are_those_that_were_asked_for(r):
    r.call("CONFIG", "RESETSTAT")
    r.call("SET", "a", "1")
    line = "latency_percentiles_usec_set:p50="
    assert line in r.call("INFO", "latencystats").decode()
    assert "Latencystats" not in r.call("INFO").decode()
    name = "latency-tracking-info-percentiles"
    assert r.call("CONFIG", "SET", name, "0 100") == OK
    shown = r.call("INFO", "latencystats").decode()
    assert "latency_percentiles_usec_set:p0=" in shown and ",p100=" in shown
    for bad in ("x", "101", "-1"):
        assert isinstance(r.call("CONFIG", "SET", name, bad), Error)
    assert r.call("CONFIG", "SET", name, "50 99 99.9") == OK


def test_tracking_can_be_switched_off(r):
    assert r.call("CONFIG", "SET", "latency-tracking", "no") == OK
    try:
        r.call("CONFIG", "RESETSTAT")
        r.call("SET", "a", "1")
        assert r.call("LATENCY", "HISTOGRAM", "set") == []
        assert "cmdstat_set:calls=1," in r.call("INFO", "commandstats").decode()
    finally:
        r.call("CONFIG", "SET", "latency-tracking", "yes")


def test_errors(r):
    assert r.call("LATENCY", "GRAPH", "nosuch") == Error(
        "ERR No samples available for event 'nosuch'"
    )
    assert r.call("LATENCY", "HISTORY", "nosuch") == []
    assert r.call("LATENCY", "LATEST", "x") == Error(
        "ERR wrong number of arguments for 'latency|latest' command"
    )


@only_dragonfly("the advice is ours")
def test_the_doctor_names_what_to_look_at(monitored):
    assert b"since the monitor is on" in monitored.call("LATENCY", "DOCTOR")
    be_slow(monitored)
    assert b"SLOWLOG EXPLAIN" in monitored.call("LATENCY", "DOCTOR")
