# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a running server, connections to it, and the verdict on how it ended."""

import os
import shutil

import pytest

from harness.server import (
    BINARY,
    REFERENCE,
    Server,
    ServerFailed,
    configuration_flags,
    configuration_names,
)


def pytest_sessionstart():
    if not REFERENCE and not os.access(BINARY, os.X_OK):
        pytest.exit(f"no server at {BINARY}: build it, or set DFLY_BINARY", returncode=3)


def pytest_generate_tests(metafunc):
    if "configuration" in metafunc.fixturenames:
        # A test's own mark comes before its file's.
        marks = [mark.name for mark in metafunc.definition.iter_markers()]
        which = next((name for name in marks if name in ("matrix", "threads")), None)
        metafunc.parametrize("configuration", configuration_names(which), scope="session")
    if "configuration_of_pair" in metafunc.fixturenames:
        # The engine cannot change a reply that both servers are asked for.
        names = configuration_names("threads")
        metafunc.parametrize("configuration_of_pair", names, scope="module")


def pytest_itemcollected(item):
    if parameter_of(item, "threads") == 1:  # a server of one thread
        item.add_marker("alone")


@pytest.hookimpl(trylast=True)  # behind -m, which takes some away
def pytest_collection_modifyitems(items):
    # Tests of one configuration in a row: one shared server after the other, not four at once.
    items.sort(key=lambda item: str(parameter_of(item, "configuration")))
    # xdist cuts the list into a part for each process. Each part begins with long tests: one that
    # began last would run beside an idle core.
    parts = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    long = [item for item in items if item.get_closest_marker("long")]
    short = [item for item in items if not item.get_closest_marker("long")]
    ordered = []
    for part in range(parts):
        ordered += long[part::parts]
        end = len(items) * (part + 1) // parts
        while short and len(ordered) < end:
            ordered.append(short.pop(0))
    assert len(ordered) == len(items)
    items[:] = ordered


def parameter_of(item, name):
    callspec = getattr(item, "callspec", None)
    return callspec and callspec.params.get(name)


class SharedServers:
    """One server for each configuration, reused by the tests that do not change it."""

    def __init__(self):
        self.by_name = {}
        self.failed_starts = 0

    def get(self, name):
        server = self.by_name.get(name)
        if server is None or not server.is_alive():
            self.stop_all()
            try:
                server = self.by_name[name] = Server(**configuration_flags(name))
            except ServerFailed as e:
                self.failed_starts += 1
                if self.failed_starts >= 3:  # hundreds of tests would each wait for it
                    pytest.exit(f"the server does not start: {e}", returncode=3)
                raise
            self.failed_starts = 0
        return server

    def drop(self, server):
        """After a failure: the next test gets a new server, and this one's end is not judged."""
        self.by_name = {name: s for name, s in self.by_name.items() if s is not server}
        server.kill()

    def stop_all(self):
        servers, self.by_name = list(self.by_name.values()), {}
        for server in servers:
            if server.is_alive():
                server.stop()
                shutil.rmtree(server.dir, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Shows the logs of the test's server and of the newest ones below a failure, and lets the
    fixtures know that there was one."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        item.call_failed = True
        own = item.funcargs.get("server")
        for server in {own, *Server.newest} - {None}:
            if os.path.exists(server.log_path):
                report.sections.append((f"end of {server.log_path}", server.log_tail()))


@pytest.fixture(scope="session")
def shared_servers():
    servers = SharedServers()
    yield servers
    servers.stop_all()


@pytest.fixture
def start_server():
    """A factory; every server it made is stopped and judged when the test ends."""
    started = []

    def start(**options):
        server = Server(**options)
        started.append(server)
        return server

    yield start
    failures = []
    for server in started:
        try:
            if not server.is_alive() and server.process.returncode == 0:
                server.check_log()  # the test itself ended it, properly
            else:
                server.stop()
            shutil.rmtree(server.dir, ignore_errors=True)
        except AssertionError as e:
            failures.append(str(e))
    assert not failures, "\n".join(failures)


@pytest.fixture
def servers():
    """A factory for tests that kill: servers that are left at the end are stopped and judged."""
    made = []

    def make(**options):
        made.append(Server(**options))
        return made[-1]

    yield make
    for server in made:
        if server.is_alive():
            server.stop()
        shutil.rmtree(server.dir, ignore_errors=True)


def remove_users(connection):
    """SETUSER of a name that another test has left adds to that user's permissions."""
    for user in connection.call("ACL", "USERS"):
        if user != b"default":
            connection.call("ACL", "DELUSER", user)


@pytest.fixture
def server(request, configuration, shared_servers, start_server):
    """The server under test, with empty databases and no users but "default". With the marker
    `flags` it is the test's own."""
    marker = request.node.get_closest_marker("flags")
    if marker is not None:
        yield start_server(**{**configuration_flags(configuration), **marker.kwargs})
        return
    server = shared_servers.get(configuration)
    with server.connect() as r:
        r.call("FLUSHALL")
        remove_users(r)
    yield server
    try:
        server.assert_healthy()
    except AssertionError:
        shared_servers.drop(server)
        raise
    if getattr(request.node, "call_failed", False):
        shared_servers.drop(server)


@pytest.fixture(scope="module")
def pair(configuration_of_pair):
    """Ours and redis-server, side by side, for the tests of one file."""
    # As redis-server has it by default.
    ours = Server(maxmemory="0", **configuration_flags(configuration_of_pair))
    reference = Server(reference=True)
    yield ours, reference
    reference.stop()
    ours.stop()
    for server in (ours, reference):
        shutil.rmtree(server.dir, ignore_errors=True)


@pytest.fixture
def r(server):
    """A RESP2 connection."""
    with server.connect() as connection:
        yield connection


@pytest.fixture
def r3(server):
    """A RESP3 connection."""
    with server.connect(resp3=True) as connection:
        yield connection


@pytest.fixture
def connect(server):
    """Makes connections that are closed at the end."""
    made = []

    def connect_one():
        made.append(server.connect())
        return made[-1]

    yield connect_one
    for connection in made:
        connection.close()
