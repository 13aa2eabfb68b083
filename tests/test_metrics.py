# SPDX-License-Identifier: Apache-2.0
"""GET /metrics: what Prometheus reads, who may read it, and what is made of it in tools/grafana."""

import json
import os
import re
import shutil
import subprocess

import pytest

from harness.http import ask, basic
from harness.resp import OK, Error
from harness.server import (
    ROOT,
    free_port,
    look_while_it_loads,
    only_dragonfly,
    wait_blocked,
    wait_until,
)

pytestmark = [only_dragonfly("no HTTP"), pytest.mark.sanitized]

GRAFANA = os.path.join(ROOT, "tools", "grafana")


def samples(server, **options):
    """name{labels} -> value, as text."""
    status, headers, text = ask(server, "/metrics", **options)
    assert status == 200, text
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name[len("dragonfly_") :]] = value
    return found


def promtool(*args, text=None):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: tools/install_deps.sh test")
    p = subprocess.run(
        ["promtool", *args], input=text, capture_output=True, text=True, timeout=100
    )
    return p.returncode, p.stdout + p.stderr


def use_everything(r):
    """Commands of all kinds, so that each family has its samples."""
    for i in range(50):
        r.call("SET", f"k{i}", "v", *(["EX", "1000"] if i % 10 == 0 else []))
        r.call("GET", f"k{i}")
    r.call("GET", "missing")
    assert isinstance(r.call("INCR", "k1"), Error)
    assert isinstance(r.call("GET"), Error)
    assert r.call("EVAL", "return redis.call('GET', KEYS[1])", 1, "k1") == b"v"
    assert r.call("MSET", "a", 1, "b", 2, "c", 3, "d", 4) == OK
    r.call("SELECT", 3)
    r.call("SET", "k", "v")
    r.call("SELECT", 0)


@pytest.mark.threads
@pytest.mark.flags()
def test_it_says_what_info_says(server, r):
    use_everything(r)
    with server.connect() as blocked, server.connect() as subscribed:
        blocked.send_command("BLPOP", "nothing", 0)
        subscribed.call("SUBSCRIBE", "channel")
        wait_blocked(r, 1)
        before = int(r.info("server")["uptime_in_seconds"])
        found = samples(server)
        info = r.info("everything")
    for metric, field in {
        "blocked_clients": "blocked_clients",
        "pubsub_clients": "pubsub_clients",
        "max_clients": "maxclients",
        "memory_max_bytes": "maxmemory",
        "keyspace_hits_total": "keyspace_hits",
        "keyspace_misses_total": "keyspace_misses",
        "expired_keys_total": "expired_keys",
        "error_replies_total": "total_error_replies",
        "scripts_cached": "number_of_cached_scripts",
        "tx_queue_length": "tx_queue_length",
        "tx_waited_keys": "tx_waited_keys",
        'pubsub_topics{kind="channel"}': "pubsub_channels",
        "snapshot_unsaved_changes": "rdb_changes_since_last_save",
        "snapshot_last_save_timestamp_seconds": "rdb_last_save_time",
        "loading": "loading",
        "threads": "proactor_threads",
        "shards": "num_shards",
        'errors_total{code="WRONGTYPE"}': None,
        'script_runs_total{way="in_place"}': "script_in_place",
        'tx_commands_total{way="in_place"}': "local_commands",
    }.items():
        if field is not None:
            assert found[metric] == info[field], metric
    keys, expires = re.match(r"keys=(\d+),expires=(\d+)", info["db0"]).groups()
    assert found['db_keys{db="db0"}'] == keys and found['db_expiring_keys{db="db0"}'] == expires
    assert found['db_keys{db="db3"}'] == "1"
    calls = int(re.match(r"calls=(\d+)", info["cmdstat_get"]).group(1))
    assert int(found['command_calls_total{cmd="get"}']) == calls == 52
    assert found['command_failed_calls_total{cmd="incr"}'] == "1"
    assert found['command_rejected_calls_total{cmd="get"}'] == "1"
    assert before <= int(found["uptime_seconds"]) <= int(info["uptime_in_seconds"])
    assert found["start_time_seconds"] == samples(server)["start_time_seconds"]
    # What goes on changes these a little.
    for metric, field in {
        "connected_clients": "connected_clients",
        "memory_used_bytes": "used_memory",
    }.items():
        assert abs(int(found[metric]) - int(info[field])) <= 1 + int(info[field]) // 20, metric
    assert 0.5 < int(found["memory_rss_bytes"]) / int(info["used_memory_rss"]) < 2


@pytest.mark.threads
def test_parts_add_up_to_their_sums(server, r):
    use_everything(r)
    found = samples(server)

    def total(prefix):
        return sum(float(value) for name, value in found.items() if name.startswith(prefix))

    assert total("memory_kind_bytes{") == float(found["memory_used_bytes"])
    assert total("thread_commands_total{") == float(found["commands_total"])
    assert total("thread_clients{") == float(found["connected_clients"])
    assert total("shard_keys{") == total("db_keys{") > 50
    assert total("shard_used_bytes{") > 0
    assert total("shard_hits_total{") == float(found["keyspace_hits_total"])
    assert len([name for name in found if name.startswith("shard_keys{")]) == int(found["shards"])
    assert total("thread_cpu_seconds_total{") > 0
    buckets = [
        int(value) for name, value in found.items() if 'latency_seconds_bucket{cmd="get"' in name
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == int(found['command_latency_seconds_count{cmd="get"}']) > 0
    assert float(found['command_latency_seconds_sum{cmd="get"}']) > 0


@pytest.mark.flags()
def test_promtool_finds_nothing_wrong(server, r):
    use_everything(r)
    # Errors are named by their first word, which scripts choose.
    assert isinstance(r.call("EVAL", "return redis.error_reply('\\255\"\\\\ x')", 0), Error)
    code, output = promtool("check", "metrics", text=ask(server, "/metrics")[2])
    assert (code, output) == (0, "")
    assert promtool("check", "metrics", text="a_total{b=} 1\n")[0] != 0  # or would it?


@pytest.mark.flags(requirepass="s3cret")
def test_a_password_is_asked_for(server, r):
    status, headers, text = ask(server, "/metrics")
    assert status == 401 and headers["WWW-Authenticate"].startswith("Basic realm=")
    assert "dragonfly_" not in text
    for fields in (
        basic("default", "wrong"),
        basic("nobody", "s3cret"),
        basic("", ""),
        {"Authorization": "Bearer s3cret"},
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!!"},
        {"Authorization": "Basic czNjcmV0"},  # no colon
        {"Authorization": "Basic =="},
        {"Authorization": "Basic ===="},
    ):
        assert ask(server, "/metrics", headers=fields)[0] == 401, fields
    assert ask(server, "/metrics", headers=basic("default", "s3cret"))[0] == 200
    assert ask(server, "/metrics", headers=basic("", "s3cret"))[0] == 200  # as AUTH without a user
    assert ask(server, "/metrics")[0] == 401  # who was let in once
    log = [dict(zip(entry[::2], entry[1::2])) for entry in r.call("ACL", "LOG")]
    assert {(e[b"reason"], e[b"object"], e[b"username"]) for e in log} == {
        (b"auth", b"HTTP", b"default"),
        (b"auth", b"HTTP", b"nobody"),
    }


@pytest.mark.flags(requirepass="s3cret")
def test_users_need_the_permission_for_info(server, r):
    for user, rules in (
        ("scraper", "on >p +info"),
        ("writer", "on >p ~* +@all -info"),
        ("gone", "off >p +@all"),
        ("colon", "on >a:b +info"),
    ):
        assert r.call("ACL", "SETUSER", user, *rules.split()) == OK
    assert ask(server, "/metrics", headers=basic("scraper", "p"))[0] == 200
    assert ask(server, "/metrics", headers=basic("colon", "a:b"))[0] == 200
    status, headers, text = ask(server, "/metrics", headers=basic("writer", "p"))
    assert status == 403 and "'info'" in text and "dragonfly_" not in text
    assert ask(server, "/metrics", headers=basic("gone", "p"))[0] == 401
    assert b"writer" in [
        dict(zip(entry[::2], entry[1::2]))[b"username"] for entry in r.call("ACL", "LOG")
    ]


@pytest.mark.flags(requirepass="s3cret", metrics_nopass=True)
def test_the_password_may_be_left_out(server):
    assert "commands_total" in samples(server)
    assert "commands_total" in samples(server, headers=basic("default", "wrong"))
    assert ask(server, "/metrics", method="HEAD")[::2] == (200, "")


def test_the_default_user_decides_where_there_is_no_password(start_server):
    server = start_server(user="default on nopass ~* +@all -info")
    assert ask(server, "/metrics")[0] == 403
    server = start_server(user="default off\nscraper on >p +info")
    assert ask(server, "/metrics")[0] == 401
    assert ask(server, "/metrics", headers=basic("scraper", "p"))[0] == 200


def test_it_is_on_the_admin_port(start_server):
    port = free_port()
    server = start_server(admin_port=port, requirepass="s3cret", restricted_commands="info")
    # INFO itself is for operators then.
    assert ask(server, "/metrics", headers=basic("default", "s3cret"))[0] == 403
    assert ask(server, "/metrics", port=port)[0] == 401
    assert "commands_total" in samples(server, port=port, headers=basic("default", "s3cret"))
    port = free_port()
    server = start_server(admin_port=port, requirepass="s3cret", admin_nopass=True)
    assert "commands_total" in samples(server, port=port)
    assert ask(server, "/metrics")[0] == 401


def test_a_server_that_loads_has_metrics(start_server):
    server = start_server(dbfilename="dump", proactor_threads=2)
    seen = set()

    def look():
        while True:
            found = samples(server)
            seen.add(found["loading"])
            if found["loading"] == "0":
                return
            assert int(found["loading_size_bytes"]) >= int(found["loading_loaded_bytes"])

    look_while_it_loads(server, look, lambda: len(seen) == 2)
    assert seen == {"0", "1"}
    found = samples(server)
    assert found['db_keys{db="db0"}'] == "500000" and found["loading_size_bytes"] == "0"


def test_a_failed_snapshot_shows(start_server):
    server = start_server(save="1000000 1000000", dbfilename="dump")
    with server.connect() as r:
        assert samples(server)["snapshot_last_success"] == "1"
        data = os.path.join(server.dir, "data")
        os.mkdir(data)
        assert r.call("CONFIG", "SET", "dir", data) == OK
        os.rename(data, data + "-away")
        r.call("BGSAVE")
        wait_until(lambda: samples(server)["snapshot_last_success"] == "0", what="a failure")
        os.rename(data + "-away", data)
        assert r.call("SAVE") == OK
        found = samples(server)
        assert found["snapshot_last_success"] == "1" and found["snapshots_total"] == "1"
        assert int(found["snapshot_last_size_bytes"]) > 0


# --- tools/grafana ---

# What Prometheus itself adds to a histogram's name, or knows.
NAMES = re.compile(r"\b(dragonfly_[a-z_0-9]+)")


def metric_names(server):
    """Those of all samples, and of families without any yet."""
    text = ask(server, "/metrics")[2]
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names.update(name + part for part in parts)
    return names


def dashboard_expressions():
    with open(os.path.join(GRAFANA, "dashboard.json")) as f:
        dashboard = json.load(f)
    return [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]


def test_dashboard_and_alerts_use_metrics_that_there_are(server):
    there = metric_names(server)
    expressions = dashboard_expressions()
    assert len(expressions) > 30
    with open(os.path.join(GRAFANA, "alerts.yml")) as f:
        rules = f.read()
    used = set(NAMES.findall(rules)) | set(NAMES.findall("\n".join(expressions)))
    assert len(used) > 40
    assert used - there == set()


def test_the_dashboard_is_what_its_script_makes():
    made = subprocess.run(
        ["python3", os.path.join(GRAFANA, "make_dashboard.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    with open(os.path.join(GRAFANA, "dashboard.json")) as f:
        assert f.read() == made
    dashboard = json.loads(made)
    identities = [panel["id"] for panel in dashboard["panels"]]
    assert len(identities) == len(set(identities))
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"


def test_promtool_accepts_rules_configuration_and_expressions(tmp_path):
    code, output = promtool("check", "rules", os.path.join(GRAFANA, "alerts.yml"))
    assert code == 0, output
    code, output = promtool("check", "config", os.path.join(GRAFANA, "prometheus.yml"))
    assert code == 0, output
    # The dashboard's, as rules; Grafana fills in the interval.
    rules = tmp_path / "rules.yml"
    groups = [
        {"record": f"panel:{i}", "expr": expr.replace("$__rate_interval", "1m")}
        for i, expr in enumerate(dashboard_expressions())
    ]
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": groups}]}))
    code, output = promtool("check", "rules", str(rules))
    assert code == 0, output
    groups[0]["expr"] = "rate(x[1m]"
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": groups}]}))
    assert promtool("check", "rules", str(rules))[0] != 0
