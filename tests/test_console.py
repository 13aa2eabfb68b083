# SPDX-License-Identifier: Apache-2.0
"""The web console in a headless Chromium: what it shows, does, and does not do."""

import re
import threading

import pytest
from playwright.sync_api import expect, sync_playwright

from harness.browser import launch
from harness.http import ask
from harness.server import only_dragonfly, wait_until

expect.set_options(timeout=60_000)

pytestmark = [only_dragonfly("no console"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright, launch(playwright) as chromium:
        yield chromium


class Opened:
    """A page, what it has asked for, and what it has complained about."""

    def __init__(self, browser, server):
        self.url = "http://%s:%d/" % server.address
        self.page = browser.new_page()
        self.page.set_default_timeout(60_000)
        self.requests = []
        self.complaints = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self.on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def on_console(self, message):
        # Chromium itself reports each response like 401.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self):
        self.page.goto(self.url)
        return self.page

    def tab(self, name):
        self.page.click(f"nav button[data-tab={name}]")

    def close(self):
        self.page.close()
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(self.url)] == []


@pytest.fixture
def opened(browser, server):
    page = Opened(browser, server)
    yield page
    page.close()


@pytest.fixture
def load(server):
    """A client that is busy."""
    stop = threading.Event()

    def run():
        with server.connect() as c:
            while not stop.is_set():
                c.call("SET", "busy", "1")
                c.call("GET", "busy")
                c.call("GET", "absent")

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stop.set()
    thread.join()


def tile(page, title):
    return page.locator(".tile", has=page.get_by_text(title, exact=True)).locator("b")


def test_files_and_their_fields(server):
    for path, kind in (
        ("/", "text/html"),
        ("/console.js", "text/javascript"),
        ("/console.charts.js", "text/javascript"),
        ("/console.css", "text/css"),
        ("/console.svg", "image/svg+xml"),
    ):
        status, fields, text = ask(server, path)
        assert status == 200 and fields["Content-Type"].startswith(kind)
        policy = fields["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert fields["X-Content-Type-Options"] == "nosniff"
        assert int(fields["Content-Length"]) == len(text.encode()) > 300
        # Nothing of others, and nothing that the policy would forbid.
        assert re.findall(r"(?:src|href)=\"(?!/console\.)", text) == []
        assert re.findall(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z]+\.[a-z]", text) == []
        assert re.findall(r"\son[a-z]+=|innerHTML|<style|\seval\(", text) == []


def test_live_numbers(opened, load, r):
    for i in range(100):
        r.call("SET", f"key:{i}", "x" * 1000)
    page = opened.open()
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#server-facts")).to_contain_text("threads on")
    assert int(tile(page, "Keys").inner_text()) >= 100
    wait_until(lambda: page.evaluate("charts.ops.points.length") >= 3)
    points = page.evaluate("charts.ops.points.map(([ops]) => ops)")
    assert all(point > 10 for point in points)
    latencies = page.evaluate("charts.latency.points.at(-1)")
    assert 0 < latencies[0] <= latencies[1] <= latencies[2]
    hits = float(tile(page, "Hits").inner_text().split()[0])
    assert 40 < hits < 60
    kinds = page.locator("#memory-kinds li").all_inner_texts()
    assert any(kind.startswith("data ") for kind in kinds)
    # Parts of the bar are as wide as they say: the policy allows that.
    widths = page.evaluate("[...$('memory-bar').children].map((e) => e.offsetWidth)")
    assert sum(widths) > 100


def test_threads_and_shards(opened, load, r):
    page = opened.open()
    opened.tab("threads")
    threads = int(r.info("server")["proactor_threads"])
    rows = page.locator("#thread-table tr")
    expect(rows).to_have_count(threads + 1)
    expect(page.locator("#shard-table tr")).to_have_count(int(r.info("server")["num_shards"]) + 1)
    sums = "threadTable.rows.reduce((sum, t) => sum + t.{}, 0)"
    assert page.evaluate(sums.format("commands")) > 10
    assert page.evaluate(sums.format("clients")) >= 2


def test_commands_and_errors(opened, load, r):
    r.call("NOSUCH")
    page = opened.open()
    opened.tab("commands")
    row = page.locator("#command-table tr", has=page.locator("td", has_text=re.compile("^get$")))
    expect(row).to_have_count(1)
    assert page.evaluate("commandTable.rows.find((c) => c.name === 'get').calls") > 10
    expect(page.locator("#error-table")).to_contain_text("ERR")


@pytest.mark.flags(slowlog_log_slower_than=0)
def test_slow_commands_are_shown_as_text(opened, r):
    nasty = "<img src=x onerror=alert(1)>"
    r.call("SET", nasty, b"\xff\x00")
    page = opened.open()
    opened.tab("slow")
    expect(page.locator("#slow-table")).to_contain_text(f"SET {nasty}")
    expect(page.locator("#slow-table")).to_contain_text("\\xff\\x00")
    for title in ("Locks", "Held by", "Before: queue", "Then: send"):
        expect(page.locator("#slow-table")).to_contain_text(title)
    assert page.locator("#slow-table img").count() == 0


@pytest.mark.flags(lock_warning_ms=100)
def test_who_has_locks_for_long(opened, server, r):
    page = opened.open()
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#holders")).to_be_hidden()
    with server.connect() as holder:
        client_id = holder.call("CLIENT", "ID")
        holder.call("MULTI")
        holder.call("MSET", "a", 1, "b", 1, "c", 1, "d", 1)
        holder.call("DEBUG", "SLEEP", 100_000)
        holder.send_command("EXEC")
        row = page.locator("#holder-table tr", has_text="exec")
        expect(row).to_have_count(1)
        expect(row).to_contain_text(str(client_id))
        expect(row).to_contain_text("the time that it sleeps for since")
        assert r.call("CLIENT", "KILL", "ID", client_id) == 1
    expect(page.locator("#holders")).to_be_hidden()


def test_clients_blocked_and_killed(opened, server, r):
    victim = server.connect()
    victim.call("CLIENT", "SETNAME", "victim")
    victim.send_command("BLPOP", "queue:a", "queue:b", 0)
    page = opened.open()
    opened.tab("clients")
    expect(page.locator("#blocked-table")).to_contain_text("queue:a queue:b")
    page.fill("#client-filter", "VICTIM")
    expect(page.locator("#client-table tr")).to_have_count(2)
    row = page.locator("#client-table tr", has_text="victim")
    row.locator("button").click()
    expect(row.locator("button")).to_have_text("Really?")
    assert victim.sock.fileno() >= 0 and b"victim" in r.call("CLIENT", "LIST")
    row.locator("button").click()
    wait_until(lambda: b"victim" not in r.call("CLIENT", "LIST"))
    with pytest.raises((ConnectionError, OSError)):
        victim.read()
    expect(page.locator("#client-table")).to_contain_text("none")


def test_hot_keys(opened, load):
    page = opened.open()
    opened.tab("keys")
    page.click("#sample")
    expect(page.locator("#sample")).to_be_disabled()
    expect(page.locator("#key-table")).to_contain_text("busy")
    expect(page.locator("#sample")).to_be_enabled()
    assert page.evaluate("keyTable.rows[0].key") == "busy"
    assert 55 < page.evaluate("keyTable.rows[0].share") < 75


def test_command_line(opened, r):
    page = opened.open()
    opened.tab("box")
    output = page.locator("#output")

    def say(line):
        before = output.locator("> div").count()
        page.fill("#command", line)
        page.press("#command", "Enter")
        expect(output.locator("> div")).to_have_count(before + 2)
        return output.locator("> div").last.text_content()

    assert say('SET "a b" "<b>x</b>"') == '"OK"'
    assert r.call("GET", "a b") == b"<b>x</b>"
    assert say('GET "a b"') == '"<b>x</b>"'
    assert say("INCR n") == "(integer) 1"
    assert say("GET none") == "(nil)"
    assert say("NOSUCH").startswith("(error) ERR unknown command 'NOSUCH'")
    assert say("HSET h f 1") == "(integer) 1"
    assert say("HGETALL h") == '1# "f" => "1"'
    assert say("LRANGE none 0 -1") == "(empty array)"
    assert (
        say('EVAL "return {1,{2,3}}" 0') == "1) (integer) 1\n2) 1) (integer) 2\n   2) (integer) 3"
    )
    assert "# Server" in say("INFO server")
    assert "quotes are not balanced" in say('GET "a')
    assert "is not for HTTP" in say("SUBSCRIBE x")
    page.press("#command", "ArrowUp")
    page.press("#command", "ArrowUp")
    assert page.input_value("#command") == 'GET "a'
    assert output.locator("b").count() == 0


@pytest.mark.flags(requirepass="pässword")
def test_login(opened, server):
    page = opened.open()
    expect(page.locator("#login")).to_be_visible()
    expect(page.locator("#pages")).to_be_hidden()
    page.fill("#login input[name=password]", "wrong")
    page.click("#login button")
    expect(page.locator("#login-error")).to_have_text("the user or the password is wrong")
    page.fill("#login input[name=password]", "pässword")
    page.click("#login button")
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#login")).to_be_hidden()
    # Nothing of it is kept anywhere.
    kept = page.evaluate(
        "[document.cookie, localStorage.length, sessionStorage.length,"
        " $('login').elements.password.value]"
    )
    assert kept == ["", 0, 0, ""]
    page.click("#logout")
    expect(page.locator("#login")).to_be_visible()
    page.reload()
    expect(page.locator("#login")).to_be_visible()


@pytest.mark.flags(requirepass="p")
def test_a_user_with_few_rights_is_told(opened, server):
    with server.connect() as r:
        r.call("AUTH", "p")
        r.call("ACL", "SETUSER", "watcher", "on", ">w", "+info", "+get", "~*")
    page = opened.open()
    page.fill("#login input[name=user]", "watcher")
    page.fill("#login input[name=password]", "w")
    page.click("#login button")
    expect(page.locator("#state")).to_have_text("live")
    opened.tab("clients")
    expect(page.locator("#failure")).to_contain_text("NOPERM User")
    # A user that is gone has to log in anew.
    with server.connect() as r:
        r.call("AUTH", "p")
        r.call("ACL", "DELUSER", "watcher")
    expect(page.locator("#login")).to_be_visible()


def test_a_server_that_is_gone_and_back(opened):
    page = opened.open()
    expect(page.locator("#state")).to_have_text("live")
    page.context.set_offline(True)
    expect(page.locator("#state")).to_have_text("no connection")
    expect(page.locator("#failure")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#failure")).to_be_hidden()
