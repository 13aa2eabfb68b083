# SPDX-License-Identifier: Apache-2.0
"""The web console in a headless Chromium: what it shows, does, and does not do."""

import contextlib
import re
import threading

import pytest
from playwright.sync_api import expect, sync_playwright

from harness.browser import launch
from harness.http import ask
from harness.nodes import follow, role
from harness.ports import free_port
from harness.resp import OK
from harness.server import only_dragonfly, stopped, wait_until

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
        ("/console.replicas.js", "text/javascript"),
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


def test_quotas(opened, server, r):
    page = opened.open()
    opened.tab("clients")
    expect(page.locator("#quotas")).to_be_hidden()
    text = "user <b> commands 10 bytes 1kb db 3 connections 5 memory 1mb"
    assert r.call("CONFIG", "SET", "quota", text) == OK
    try:
        with server.connect() as c:
            c.call("SELECT", 3)
            user = page.locator("#quota-table tr", has_text="user <b>")
            expect(user.locator("td")).to_have_text(
                ["user <b>", "10/s", "1.0 KiB/s", "0", "0 B", "0", "0", "0"]
            )
            database = page.locator("#quota-table tr", has_text="db 3")
            expect(database).to_contain_text("1 of 5")
            expect(database).to_contain_text("of 1.0 MiB")
    finally:
        assert r.call("CONFIG", "SET", "quota", "") == OK
    expect(page.locator("#quotas")).to_be_hidden()


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


# --- The tree of replicas ---

TREE_TITLES = ["Server", "Role", "State", "Offset", "Behind", "Last message", "Connected for"]


class Tree:
    """The tree of replicas on a server's page."""

    def __init__(self, page):
        self.page = page

    def rows(self):
        """What it shows at one moment: its cells by title, for each line."""
        rows = "[...$('replica-table').rows]"
        table = self.page.evaluate(f"{rows}.map((r) => [...r.cells].map((c) => c.textContent))")
        assert not table or table[0] == TREE_TITLES
        return [dict(zip(TREE_TITLES, cells)) for cells in table[1:]]

    def await_lines(self, *expected):
        """Until it has these lines and no others: what line() makes."""

        def is_so():
            rows = self.rows()
            return len(rows) == len(expected) and all(
                re.fullmatch(pattern, row[title])
                for row, line in zip(rows, expected)
                for title, pattern in line.items()
            )

        try:
            wait_until(is_so)
        except AssertionError as e:
            raise AssertionError(self.rows(), expected) from e

    def bad(self):
        return self.page.locator("#replica-table .bad").count()


def line(depth, name, state, **others):
    """Patterns of cells by title; of the others the title in small letters."""
    indent = "" if depth == 0 else "\xa0" * 3 * (depth - 1) + "└─\xa0"
    cells = {"Server": re.escape(indent + name), "State": state}
    return cells | {k.capitalize().replace("_", " "): pattern for k, pattern in others.items()}


def other(node):
    return f"127.0.0.1:{node.port}"


def own(node):
    return f"port {node.port}"


@pytest.fixture
def node(start_server):
    """A factory: a client of a server, which has its port."""
    with contextlib.ExitStack() as stack:

        def start(**flags):
            server = start_server(**{"repl_diskless_sync_delay": 0, **flags})
            c = stack.enter_context(server.connect())
            c.port, c.server = server.port, server
            return c

        yield start


@pytest.fixture
def tree_of(browser):
    """A factory: what a server's page shows of its replicas."""
    with contextlib.ExitStack() as stack:

        def show(node):
            opened = stack.enter_context(contextlib.closing(Opened(browser, node.server)))
            page = opened.open()
            opened.tab("replicas")
            return Tree(page)

        yield show


AGO = r"\d+ (s|min) ago"
FOR = r"\d+ (s|min)"


def test_the_tree_of_a_chain(node, tree_of):
    top, middle, bottom = node(), node(), node()
    trees = [tree_of(each) for each in (top, middle, bottom)]
    for each, tree in zip((top, middle, bottom), trees):
        tree.await_lines(line(0, own(each), "primary", role="this server", behind="–"))
        expect(tree.page.locator("#replica-note")).to_contain_text("There is no stream")
    follow(middle, top)
    follow(bottom, middle)
    assert top.call("SET", "k", "v") == OK
    follows = {"behind": "0 B", "last_message": AGO, "connected_for": FOR, "role": "replica"}
    primary = {"role": "its primary", "last_message": AGO, "connected_for": "–"}
    reads = r"replica, read-only"
    trees[0].await_lines(
        line(0, own(top), "primary"), line(1, other(middle), "online", **follows)
    )
    trees[1].await_lines(
        line(0, other(top), "link up", **primary),
        line(1, own(middle), reads, role="this server", behind="0 B"),
        line(2, other(bottom), "online", **follows),
    )
    trees[2].await_lines(
        line(0, other(middle), "link up", **primary), line(1, own(bottom), reads, behind="0 B")
    )
    assert [tree.bad() for tree in trees] == [0, 0, 0]
    # One stream for all of them, and one offset once nothing is under way.
    for tree in trees:
        expect(tree.page.locator("#replica-note")).to_contain_text(role(top)["master_replid"])
        wait_until(
            lambda: {row["Offset"] for row in tree.rows()} == {role(top)["master_repl_offset"]}
        )
    assert bottom.call("REPLICAOF", "NO", "ONE") == OK
    trees[1].await_lines(line(0, other(top), "link up"), line(1, own(middle), reads))
    trees[2].await_lines(line(0, own(bottom), "primary"))


def test_the_tree_has_links_that_are_down(node, tree_of):
    top, middle, bottom = node(), node(), node()
    follow(middle, top)
    follow(bottom, middle)
    tree = tree_of(middle)
    tree.await_lines({"State": "link up"}, {}, {"State": "online"})
    top.server.stop()
    tree.await_lines(
        line(0, other(top), "link down for " + FOR, last_message="–"),
        line(1, own(middle), "replica, read-only"),
        line(2, other(bottom), "online", behind="0 B"),
    )
    assert tree.bad() == 1
    never = node(replicaof=f"127.0.0.1 {free_port()}")
    tree_of(never).await_lines(
        {"State": "link down, it never was up", "Offset": "0", "Last message": "–"},
        line(1, own(never), "replica, read-only", offset="0"),
    )


def test_the_tree_has_replicas_that_are_behind(node, tree_of):
    top = node(repl_timeout=3600)
    replica = node()
    follow(replica, top)
    tree = tree_of(top)
    tree.await_lines(line(0, own(top), "primary"), line(1, other(replica), "online", behind="0 B"))
    with stopped(replica.server.process):
        assert top.call("SET", "k", "x" * 100_000) == OK
        tree.await_lines(
            {}, line(1, other(replica), "online", behind=r"\d+\.\d KiB", last_message=r"[^0].* ago")
        )
    tree.await_lines({}, line(1, other(replica), "online", behind="0 B"))


def test_the_tree_has_replicas_that_take_a_copy(node, tree_of):
    top = node(repl_diskless_sync_delay=3600)
    replica = node(replicaof=f"127.0.0.1 {top.port}")
    tree = tree_of(top)
    waits = line(1, other(replica), "takes a copy", behind="–", offset="–", connected_for=FOR)
    tree.await_lines(line(0, own(top), "primary"), waits)
    assert tree.bad() == 1


def test_the_tree_has_states_that_are_rare(node, tree_of):
    page = tree_of(node()).page

    def lines(**info):
        base = {"role": "master", "tcp_port": "7", "master_failover_state": "no-failover"}
        rows = page.evaluate("(info) => replicationRows(info)", base | info)
        return [(row["name"], row["state"], row["is_bad"]) for row in rows]

    assert lines(is_fenced="1") == [
        ("port 7", "fenced: writes are not answered, too few Sentinels are heard", True)
    ]
    assert lines(master_failover_state="waiting-for-sync") == [
        ("port 7", "FAILOVER: waiting-for-sync", False)
    ]
    copies = {"role": "slave", "master_host": "::1", "master_port": "8"}
    copies |= {"master_link_status": "down", "master_sync_in_progress": "1"}
    copies |= {"master_sync_read_bytes": "2048", "slave0": "ip=h,port=9,state=online,offset=0"}
    for total, text in (("0", "2.0 KiB"), ("4096", "2.0 KiB of 4.0 KiB")):
        assert lines(**copies, master_sync_total_bytes=total) == [
            ("[::1]:8", f"link down: a copy comes, {text}", True),
            ("port 7", "replica, takes writes", False),
            ("h:9", "online", False),
        ]
