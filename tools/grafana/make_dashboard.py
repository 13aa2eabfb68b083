#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes dashboard.json, for Grafana 10.

    tools/grafana/make_dashboard.py > tools/grafana/dashboard.json

Panels are lines below; what Grafana wants around each is written once here."""

import json

SELECTED = '{job=~"$job",instance=~"$instance"}'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

# (title, unit, [(expression, legend)], options); $S stands for the labels that select a server,
# and M(name) for a metric of it.
ROWS = [
    (
        "Overview",
        [
            ("Up", "bool_yes_no", [("up$S", "")], {"stat": True}),
            ("Uptime", "s", [("M(uptime_seconds)", "")], {"stat": True}),
            ("Keys", "short", [("sum(M(db_keys))", "")], {"stat": True}),
            ("Clients", "short", [("M(connected_clients)", "")], {"stat": True}),
            ("Used memory", "bytes", [("M(memory_used_bytes)", "")], {"stat": True}),
            (
                "Last snapshot",
                "bool_yes_no",
                [("M(snapshot_last_success)", "")],
                {"stat": True},
            ),
        ],
    ),
    (
        "Traffic",
        [
            ("Commands", "ops", [("rate(M(commands_total)[$__rate_interval])", "all")], {}),
            (
                "Commands by name",
                "ops",
                [
                    (
                        "topk(10, sum by (cmd) (rate(M(command_calls_total)[$__rate_interval])))",
                        "{{cmd}}",
                    )
                ],
                {"stack": True},
            ),
            (
                "Network",
                "Bps",
                [("rate(M(net_bytes_total)[$__rate_interval])", "{{direction}}")],
                {},
            ),
            (
                "Hit ratio",
                "percentunit",
                [
                    (
                        "rate(M(keyspace_hits_total)[$__rate_interval]) / "
                        "(rate(M(keyspace_hits_total)[$__rate_interval]) + "
                        "rate(M(keyspace_misses_total)[$__rate_interval]))",
                        "hits",
                    )
                ],
                {},
            ),
        ],
    ),
    (
        "Latency",
        [
            (
                "All commands",
                "s",
                [
                    (
                        f"histogram_quantile({q}, sum by (le) "
                        "(rate(M(command_latency_seconds_bucket)[$__rate_interval])))",
                        name,
                    )
                    for q, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))
                ],
                {"log": True},
            ),
            (
                "p99 by command",
                "s",
                [
                    (
                        "topk(10, histogram_quantile(0.99, sum by (cmd, le) "
                        "(rate(M(command_latency_seconds_bucket)[$__rate_interval]))))",
                        "{{cmd}}",
                    )
                ],
                {"log": True},
            ),
            (
                "Time spent by command",
                "percentunit",
                [
                    (
                        "topk(10, sum by (cmd) (rate(M(command_seconds_total)[$__rate_interval])))",
                        "{{cmd}}",
                    )
                ],
                {"stack": True},
            ),
            (
                "Errors",
                "ops",
                [
                    ("sum by (code) (rate(M(errors_total)[$__rate_interval]))", "{{code}}"),
                    ("rate(M(protocol_errors_total)[$__rate_interval])", "protocol"),
                ],
                {},
            ),
        ],
    ),
    (
        "Memory and keys",
        [
            (
                "Memory by kind",
                "bytes",
                [("M(memory_kind_bytes)", "{{kind}}")],
                {"stack": True},
            ),
            (
                "Used, resident, limit",
                "bytes",
                [
                    ("M(memory_used_bytes)", "used"),
                    ("M(memory_rss_bytes)", "resident"),
                    ("M(memory_max_bytes) > 0", "maxmemory"),
                ],
                {},
            ),
            (
                "Keys",
                "short",
                [("M(db_keys)", "{{db}}"), ("M(db_expiring_keys)", "{{db}} with TTL")],
                {},
            ),
            (
                "Keys that go",
                "ops",
                [
                    ("rate(M(expired_keys_total)[$__rate_interval])", "expired"),
                    ("rate(M(evicted_keys_total)[$__rate_interval])", "evicted"),
                ],
                {},
            ),
        ],
    ),
    (
        "Threads and shards",
        [
            (
                "Busy threads",
                "percentunit",
                [
                    (
                        "sum by (thread) (rate(M(thread_cpu_seconds_total)[$__rate_interval]))",
                        "thread {{thread}}",
                    )
                ],
                {"max": 1},
            ),
            (
                "Look-ups by shard",
                "ops",
                [
                    (
                        "rate(M(shard_hits_total)[$__rate_interval]) + "
                        "rate(M(shard_misses_total)[$__rate_interval])",
                        "shard {{shard}}",
                    )
                ],
                {},
            ),
            ("Data by shard", "bytes", [("M(shard_used_bytes)", "shard {{shard}}")], {}),
            ("Clients by thread", "short", [("M(thread_clients)", "thread {{thread}}")], {}),
        ],
    ),
    (
        "Clients",
        [
            (
                "Clients",
                "short",
                [
                    ("M(connected_clients)", "connected"),
                    ("M(blocked_clients)", "blocked"),
                    ("M(pubsub_clients)", "subscribed"),
                ],
                {},
            ),
            (
                "Connections",
                "ops",
                [
                    ("rate(M(connections_received_total)[$__rate_interval])", "accepted"),
                    ("rate(M(connections_rejected_total)[$__rate_interval])", "refused"),
                    ("rate(M(auth_timeouts_total)[$__rate_interval])", "not authenticated in time"),
                    (
                        "rate(M(client_ends_swept_total)[$__rate_interval])",
                        "ends that only a look has found",
                    ),
                    (
                        "sum(rate(M(tls_handshake_failures_total)[$__rate_interval]))",
                        "failed TLS handshakes",
                    ),
                ],
                {},
            ),
            (
                "Publish and subscribe",
                "short",
                [
                    (
                        "rate(M(pubsub_delivered_messages_total)[$__rate_interval])",
                        "messages a second",
                    ),
                    ("M(pubsub_topics)", "{{kind}}"),
                ],
                {},
            ),
        ],
    ),
    (
        "Transactions and scripts",
        [
            (
                "Ways of commands",
                "ops",
                [("rate(M(tx_commands_total)[$__rate_interval])", "{{way}}")],
                {"stack": True},
            ),
            (
                "Queues",
                "short",
                [
                    ("M(tx_queue_length)", "transactions"),
                    ("M(tx_waited_keys)", "keys waited for"),
                    ("M(tx_watched_keys)", "keys watched"),
                    ("M(tx_oldest_seconds)", "age of the oldest (s)"),
                ],
                {},
            ),
            (
                "Scripts",
                "ops",
                [
                    ("rate(M(script_runs_total)[$__rate_interval])", "{{way}}"),
                    ("rate(M(script_restarts_total)[$__rate_interval])", "started again"),
                ],
                {"stack": True},
            ),
            (
                "Snapshots",
                "short",
                [
                    ("M(snapshot_unsaved_changes)", "changes not saved"),
                    ("M(snapshot_last_duration_seconds)", "the last one took (s)"),
                ],
                {},
            ),
        ],
    ),
]


def expression(text):
    while "M(" in text:
        before, after = text.split("M(", 1)
        name, rest = after.split(")", 1)
        text = f"{before}dragonfly_{name}{SELECTED}{rest}"
    return text.replace("$S", SELECTED)


def panel(number, title, unit, queries, options, position):
    is_stat = options.get("stat", False)
    scale = {"type": "log", "log": 10} if options.get("log") else {"type": "linear"}
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 20 if options.get("stack") else 5,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if options.get("stack") else "none", "group": "A"},
        "scaleDistribution": scale,
    }
    defaults = {"unit": unit, "color": {"mode": "palette-classic"}}
    if not is_stat:
        defaults.update({"custom": custom} if options.get("log") else {"custom": custom, "min": 0})
    if "max" in options:
        defaults["max"] = options["max"]
    return {
        "id": number,
        "title": title,
        "type": "stat" if is_stat else "timeseries",
        "datasource": SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": (
            {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "value",
                "graphMode": "area",
            }
            if is_stat
            else {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        ),
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": SOURCE,
                "expr": expression(query),
                "legendFormat": legend or "__auto",
            }
            for i, (query, legend) in enumerate(queries)
        ],
    }


def variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def dashboard():
    jobs = "label_values(dragonfly_build_info, job)"
    instances = 'label_values(dragonfly_build_info{job=~"$job"}, instance)'
    panels = []
    y = 0
    for title, row in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "title": title,
                "type": "row",
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
            }
        )
        y += 1
        width, height = 24 // len(row), 4 if row[0][3].get("stat") else 8
        for i, (panel_title, unit, queries, options) in enumerate(row):
            position = {"x": i * width, "y": y, "w": width, "h": height}
            panels.append(panel(len(panels) + 1, panel_title, unit, queries, options, position))
        y += height
    return {
        "title": "Dragonfly",
        "uid": "dragonfly-server",
        "tags": ["dragonfly"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                    "current": {},
                },
                variable("job", "Job", jobs),
                variable("instance", "Server", instances),
            ]
        },
        "annotations": {"list": []},
        "panels": panels,
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
