# SPDX-License-Identifier: Apache-2.0
"""What operators get for a primary, two replicas and three Sentinels: the chart, units, and
configuration files, as far as they can be tried without Kubernetes and systemd."""

import os
import re
import shutil
import socket
import subprocess
import threading

import pytest
import yaml

from harness.ports import free_port
from harness.resp import RespSocket
from harness.server import BINARY, PATIENCE_S, ROOT, only_dragonfly, wait_until

pytestmark = only_dragonfly("files of ours")

UNITS = os.path.join(ROOT, "packaging", "high-availability")
CHART = os.path.join(ROOT, "packaging", "helm", "dragonfly")
TEMPLATES = os.path.join(CHART, "templates")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def connected(process, port):
    assert process.poll() is None
    try:
        return RespSocket(("127.0.0.1", port), timeout=PATIENCE_S)
    except OSError:
        return None


# --- Files for machines ---


def test_sentinel_takes_its_file(tmp_path):
    port = free_port()
    text = read(UNITS, "sentinel.conf")
    text = text.replace("port 26379", f"port {port}").replace("bind 0.0.0.0", "bind 127.0.0.1")
    path = tmp_path / "sentinel.conf"
    path.write_text(text)
    process = subprocess.Popen(
        ["redis-server", str(path), "--sentinel"], stdout=subprocess.DEVNULL, cwd=tmp_path
    )
    try:
        with wait_until(lambda: connected(process, port), what="Sentinel") as c:
            reply = c.call("SENTINEL", "MASTER", "mymaster")
            facts = dict(zip(reply[::2], reply[1::2]))
            assert facts[b"quorum"] == b"2" and facts[b"down-after-milliseconds"] == b"2000"
    finally:
        process.kill()
        process.wait()


def test_the_server_takes_its_file(tmp_path):
    port = free_port()
    (tmp_path / "node.conf").write_text(
        read(UNITS, "node.conf").replace("bind 0.0.0.0", "bind 127.0.0.1")
    )
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [BINARY, "node.conf", f"--port={port}", "--logtostderr"], cwd=tmp_path, stderr=log
        )
    try:
        with wait_until(lambda: connected(process, port), what="the server") as c:
            assert c.call("CONFIG", "GET", "appendfsync")[1] == b"always"
            assert c.call("CONFIG", "GET", "repl-backlog-size")[1] == b"268435456"
    finally:
        process.kill()
        process.wait()
    assert not re.findall(r".*node\.conf:\d+:.*", read(tmp_path, "log"))


def test_systemd_takes_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It wants the program to be there.
    text = read(UNITS, "dragonfly-sentinel.service")
    assert text.count("/usr/bin/redis-sentinel") == 1
    path = tmp_path / "dragonfly-sentinel.service"
    path.write_text(text.replace("/usr/bin/redis-sentinel", shutil.which("redis-server")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "dragonfly-sentinel.service" not in done.stderr, done.stderr


# --- The chart ---


def helm(*arguments):
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed: go install helm.sh/helm/v3/cmd/helm@v3.18.4")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


VALUES = [
    [],
    ["--set=passwordSecret=secret", "--set=persistence.storageClass=fast"],
    ["--set=replicas=5", "--set=antiAffinity=soft", "--set=networkPolicy=false"],
    ["--set=nodeSelector.disk=nvme", "--set=podAnnotations.a=b", "--set=tolerations[0].key=x"],
]


def test_helm_finds_nothing_wrong():
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


@pytest.mark.parametrize("values", VALUES, ids=str)
def test_the_chart_fits_together(values):
    text = helm("template", "cache", CHART, "--namespace=data", *values)
    objects = [o for o in yaml.safe_load_all(text) if o]
    by_kind = {}
    for each in objects:
        by_kind.setdefault(each["kind"], []).append(each)
    (pods,) = by_kind["StatefulSet"]
    labels = pods["spec"]["template"]["metadata"]["labels"]

    def selects(selector):
        return selector.items() <= labels.items()

    assert selects(pods["spec"]["selector"]["matchLabels"])
    services = {service["metadata"]["name"]: service for service in by_kind["Service"]}
    assert services[pods["spec"]["serviceName"]]["spec"]["clusterIP"] == "None"
    assert all(selects(service["spec"]["selector"]) for service in services.values())
    (budget,) = by_kind["PodDisruptionBudget"]
    assert selects(budget["spec"]["selector"]["matchLabels"])
    assert len(by_kind.get("NetworkPolicy", [])) == ("--set=networkPolicy=false" not in values)
    spec = pods["spec"]["template"]["spec"]
    server, sentinel = spec["containers"]
    (scripts,) = by_kind["ConfigMap"]
    mounted = {volume["name"] for volume in spec["volumes"]} | {"data"}
    assert spec["volumes"][0]["configMap"]["name"] == scripts["metadata"]["name"]
    for container in (server, sentinel):
        assert {mount["name"] for mount in container["volumeMounts"]} <= mounted
        script = container["command"][1].removeprefix("/scripts/")
        check_script(scripts["data"][script])
        environment = {each["name"] for each in container["env"]}
        assert {"NAME", "DOMAIN"} <= environment
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert "livenessProbe" in container and "readinessProbe" in container
    assert "--appendfsync=always" in server["args"]
    domain = {each["name"]: each.get("value") for each in server["env"]}["DOMAIN"]
    assert domain == pods["spec"]["serviceName"] + ".data.svc"
    majority = pods["spec"]["replicas"] // 2 + 1
    assert re.search(rf" 6379 {majority}\n", scripts["data"]["sentinel.sh"])


def check_script(text):
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, timeout=10)


def test_templates_use_values_that_there_are():
    values = yaml.safe_load(read(CHART, "values.yaml"))
    used = set()
    for name in os.listdir(TEMPLATES):
        used |= set(re.findall(r"\.Values\.([A-Za-z.]+)", read(TEMPLATES, name)))
    assert len(used) > 15
    for path in used:
        place = values
        for part in path.split("."):
            assert part in place, path
            place = place[part]


@pytest.mark.parametrize(
    "reply, expected",
    [
        (b"*2\r\n$7\r\nnode-1x\r\n$4\r\n6379\r\n", "node-1x"),
        (b"*-1\r\n", ""),
        (b"-ERR no\r\n", ""),
        (b"", ""),
    ],
)
def test_a_pod_asks_sentinel(reply, expected):
    """The script that the chart runs, with bash alone."""
    text = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "0", read(TEMPLATES, "configmap.yaml")))
    script = text["data"]["primary.sh"]
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    asked = []

    def answer():
        connection, _ = listener.accept()
        asked.append(connection.recv(1000))
        connection.sendall(reply)
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    script = script.replace('/dev/tcp/$1/0"', f'/dev/tcp/$1/{port}"')
    script += '\nPRIMARY=; ask 127.0.0.1 2>/dev/null || PRIMARY=; echo "[$PRIMARY]"\n'
    done = subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    thread.join()
    listener.close()
    assert done.stdout == f"[{expected}]\n", done.stderr
    assert asked[0].startswith(b"SENTINEL GET-MASTER-ADDR-BY-NAME ")
