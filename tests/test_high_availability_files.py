# SPDX-License-Identifier: Apache-2.0
"""What operators get for a primary, two replicas and three Sentinels: the chart, units, and
configuration files, as far as they can be tried without Kubernetes and systemd."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading

import pytest
import yaml

from harness.ports import free_port
from harness.resp import OK, Error, RespSocket
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


# Each option of values.yaml is here; numbers as in a file, where Helm reads them as floating point.
VALUES = {
    "default": {},
    "password": {
        "passwordSecret": "secret",
        "persistence": {"storageClass": "fast", "size": "3Gi"},
        "image": {"repository": "r.example:5000/d", "tag": "1.2", "pullPolicy": "Always"},
    },
    "more": {
        "replicas": 5,
        "antiAffinity": "soft",
        "networkPolicy": False,
        "terminationGracePeriodSeconds": 1_000_000,
    },
    "ports": {
        "server": {
            "port": 7000,
            "settings": {
                "maxmemory": 1073741824,
                "maxmemory-policy": "allkeys-lru",
                "appendonly": True,
                "list-max-listpack-size": -2,
                "save": "60 1000",
            },
            "resources": {"limits": {"memory": "1Gi"}},
        },
        "sentinel": {
            "image": "redis:7",
            "port": 27000,
            "name": "cache",
            "downAfterMs": 2_000_000,
            "failoverTimeoutMs": 3_000_000,
            "resources": {"limits": {"memory": "64Mi"}},
        },
    },
    "nodes": {
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "podAnnotations": {"a": "b", "prometheus.io/scrape": "false"},
    },
}

RELEASE, NAMESPACE = "cache", "data"
NAME = f"{RELEASE}-dragonfly"
DOMAIN = f"{NAME}-nodes.{NAMESPACE}.svc"


class UniqueKeys(yaml.SafeLoader):
    """yaml takes the last of two equal keys; Kubernetes refuses them."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


def render(tmp_path, values):
    """Objects by kind."""
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    text = helm("template", RELEASE, CHART, f"--namespace={NAMESPACE}", f"--values={path}")
    objects = {}
    for each in yaml.load_all(text, UniqueKeys):
        if each is not None:
            objects.setdefault(each["kind"], []).append(each)
    return objects


def in_effect(values):
    """With the defaults of those that are not there."""

    def merge(default, ours):
        if not isinstance(default, dict):
            return ours
        return {**default, **{k: merge(default.get(k), v) for k, v in ours.items()}}

    return merge(yaml.safe_load(read(CHART, "values.yaml")), values)


def test_helm_finds_nothing_wrong():
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_each_option_is_tried():
    def paths(values, before=()):
        for key, value in values.items():
            yield (*before, key)
            # What Kubernetes or the server defines ends an option.
            if isinstance(value, dict) and key not in ("settings", "resources"):
                yield from paths(value, (*before, key))

    tried = {path for values in VALUES.values() for path in paths(values)}
    assert set(paths(yaml.safe_load(read(CHART, "values.yaml")))) <= tried


@pytest.mark.parametrize("name", VALUES)
def test_the_chart_fits_together(tmp_path, name):
    objects = render(tmp_path, VALUES[name])
    values = in_effect(VALUES[name])
    versions = {
        "ConfigMap": "v1",
        "Service": "v1",
        "StatefulSet": "apps/v1",
        "PodDisruptionBudget": "policy/v1",
        "NetworkPolicy": "networking.k8s.io/v1",
    }
    if not values["networkPolicy"]:
        del versions["NetworkPolicy"]
    assert {(kind, o["apiVersion"]) for kind in objects for o in objects[kind]} == set(
        versions.items()
    )
    names = [(kind, o["metadata"]["name"]) for kind in objects for o in objects[kind]]
    assert len(names) == len(set(names))
    (pods,) = objects["StatefulSet"]
    template = pods["spec"]["template"]
    labels = template["metadata"]["labels"]
    selectors = [pods["spec"]["selector"]["matchLabels"]]
    selectors += [service["spec"]["selector"] for service in objects["Service"]]
    (budget,) = objects["PodDisruptionBudget"]
    selectors.append(budget["spec"]["selector"]["matchLabels"])
    for policy in objects.get("NetworkPolicy", []):
        selectors.append(policy["spec"]["podSelector"]["matchLabels"])
    affinity = template["spec"]["affinity"]["podAntiAffinity"]
    if values["antiAffinity"] == "hard":
        (rule,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    else:
        (rule,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        rule = rule["podAffinityTerm"]
    selectors.append(rule["labelSelector"]["matchLabels"])
    # All select the pods of this release, and none of another one.
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/instance"] == RELEASE
    assert pods["spec"]["replicas"] == values["replicas"]
    assert template["spec"]["enableServiceLinks"] is False

    ports = check_containers(objects, values)
    (scripts,) = objects["ConfigMap"]
    assert scripts["data"] == scripts_of(values)
    services = {service["metadata"]["name"]: service["spec"] for service in objects["Service"]}
    headless = services[pods["spec"]["serviceName"]]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
    assert set(services) == {NAME, f"{NAME}-nodes"}
    for service in services.values():
        for port in service["ports"]:
            assert port["port"] == ports[port["targetPort"]]
    for policy in objects.get("NetworkPolicy", []):
        assert {port["port"] for port in policy["spec"]["ingress"][0]["ports"]} == set(ports)

    annotations = template["metadata"]["annotations"]
    assert all(isinstance(text, str) for text in annotations.values())
    assert annotations["prometheus.io/port"] == str(values["server"]["port"])
    assert values["podAnnotations"].items() <= annotations.items()
    (claim,) = pods["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == values["persistence"]["size"]
    assert claim["spec"].get("storageClassName", "") == values["persistence"]["storageClass"]
    grace_s = template["spec"]["terminationGracePeriodSeconds"]
    assert grace_s == values["terminationGracePeriodSeconds"]
    assert template["spec"].get("nodeSelector", {}) == values["nodeSelector"]
    assert template["spec"].get("tolerations", []) == values["tolerations"]


def check_containers(objects, values):
    """Returns their ports by name."""
    (pods,) = objects["StatefulSet"]
    (scripts,) = objects["ConfigMap"]
    spec = pods["spec"]["template"]["spec"]
    (volume,) = spec["volumes"]
    assert volume["configMap"]["name"] == scripts["metadata"]["name"]
    volumes = {volume["name"]}
    volumes |= {claim["metadata"]["name"] for claim in pods["spec"]["volumeClaimTemplates"]}
    server, sentinel = spec["containers"]
    image = values["image"]
    tag = image["tag"] or yaml.safe_load(read(CHART, "Chart.yaml"))["appVersion"]
    assert server["image"] == f"{image['repository']}:{tag}"
    assert server["imagePullPolicy"] == image["pullPolicy"]
    assert sentinel["image"] == values["sentinel"]["image"]
    assert server["args"] == flags_of(values)
    for probe in ("startupProbe", "livenessProbe"):
        assert server[probe]["exec"]["command"] == ["dragonfly", "--healthcheck=live"]
    assert server["readinessProbe"]["exec"]["command"] == ["dragonfly", "--healthcheck=ready"]
    for probe in ("livenessProbe", "readinessProbe"):
        command = ["redis-cli", "-p", str(values["sentinel"]["port"]), "ping"]
        assert sentinel[probe]["exec"]["command"] == command
    ports = {}
    for container, part in ((server, "server"), (sentinel, "sentinel")):
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert set(mounts) == {"/data", "/scripts"}
        assert {mount["name"] for mount in mounts.values()} == volumes
        # Both have a file of their own in the one volume.
        assert mounts["/data"]["subPath"] == part
        shell, script = container["command"]
        assert shell == "bash"
        check_script(scripts["data"][script.removeprefix("/scripts/")])
        for sourced in re.findall(r"/scripts/(\S+)", scripts["data"][f"{part}.sh"]):
            check_script(scripts["data"][sourced])
        if part == "server":
            assert {"name": "DFLY_port", "value": str(values[part]["port"])} in container["env"]
        environment = {each["name"]: each.get("value") for each in container["env"]}
        assert environment["NAME"] == pods["metadata"]["name"] == NAME
        assert environment["DOMAIN"] == f"{pods['spec']['serviceName']}.{NAMESPACE}.svc" == DOMAIN
        sources = [each["valueFrom"] for each in container["env"] if "valueFrom" in each]
        secrets = {source["secretKeyRef"]["name"] for source in sources}
        assert secrets == ({values["passwordSecret"]} - {""})
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"] == values[part]["resources"]
        (port,) = container["ports"]
        assert port["containerPort"] == values[part]["port"]
        ports[port["name"]] = port["containerPort"]
    return ports


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


# --- What its pods run, without helm and Kubernetes ---


def scripts_of(values):
    """The scripts as helm writes them: test_the_chart_fits_together compares."""

    def result(match):
        expression = match[1].strip()
        if expression == "add (div (int .Values.replicas) 2) 1":
            return str(values["replicas"] // 2 + 1)
        path = re.fullmatch(r"(?:int64 )?\.Values\.([A-Za-z.]+)", expression)
        if path is None:
            return "0"  # the object's name and labels
        value = values
        for part in path[1].split("."):
            value = value[part]
        return str(value)

    text = re.sub(r"\{\{-?(.*?)\}\}", result, read(TEMPLATES, "configmap.yaml"))
    return yaml.safe_load(text)["data"]


def flags_of(values):
    """The server's arguments, as helm writes them."""

    def text(value):
        return str(value).lower() if isinstance(value, bool) else str(value)

    settings = sorted(values["server"]["settings"].items())
    return [f"--{name.replace('-', '_')}={text(value)}" for name, value in settings]


class Pod:
    """Its two programs, as its containers start them, but on 127.0.0.1 and in a folder. The pod
    with the number 0 has the name 127.0.0.1, and each other one localhost."""

    def __init__(self, folder, number=0, password=None, **values):
        self.folder = folder
        self.ports = {"server": free_port(), "sentinel": free_port()}
        self.values = in_effect(values)
        for part, port in self.ports.items():
            self.values[part]["port"] = port
        self.environment = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "NAME": NAME,
            "DOMAIN": DOMAIN,
            "HOSTNAME": f"{NAME}-{number}",
            "DFLY_port": str(self.ports["server"]),
        }
        if password is not None:
            names = ("DFLY_requirepass", "DFLY_masterauth", "PASSWORD")
            self.environment |= dict.fromkeys(names, password)
        for name in ("bin", "server", "sentinel", "scripts"):
            (folder / name).mkdir()
        (folder / "bin" / "dragonfly").symlink_to(BINARY)
        (folder / "bin" / "redis-sentinel").symlink_to(shutil.which("redis-server"))

    def without_server(self):
        """Its script ends where the server would start."""
        (self.folder / "bin" / "dragonfly").unlink()
        (self.folder / "bin" / "dragonfly").symlink_to(shutil.which("true"))

    def path(self, part):
        """Of the configuration that its script writes."""
        return self.folder / part / {"server": "node.conf", "sentinel": "sentinel.conf"}[part]

    def start(self, part, **others):
        scripts = scripts_of(self.values)
        here = {"/scripts/": f"{self.folder}/scripts/", "/data": f"{self.folder}/{part}"}
        here |= {"--bind=0.0.0.0": "--bind=127.0.0.1", "\ndir ": "\nbind 127.0.0.1\ndir "}
        here['echo "$NAME-$1.$DOMAIN"'] = "[[ $1 == 0 ]] && echo 127.0.0.1 || echo localhost"
        together = scripts["primary.sh"] + scripts[f"{part}.sh"]
        assert together.count('echo "$NAME-$1.$DOMAIN"') == 1
        assert together.count("--bind=") == (part == "server")
        assert together.count("\ndir ") == (part == "sentinel")
        for name in ("primary.sh", f"{part}.sh"):
            text = scripts[name]
            for there, ours in here.items():
                text = text.replace(there, ours)
            (self.folder / "scripts" / name).write_text(text)
        arguments = flags_of(self.values) if part == "server" else []
        line = ["bash", f"{self.folder}/scripts/{part}.sh", *arguments]
        return subprocess.Popen(line, env=self.environment, cwd=self.folder, **others)

    @contextlib.contextmanager
    def running(self, part):
        """A client of it."""
        with open(self.folder / f"{part}.log", "wb") as log:
            process = self.start(part, stdout=log, stderr=log)
        try:
            with wait_until(lambda: connected(process, self.ports[part]), what=part) as c:
                yield c
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
        assert process.returncode == 0

    def probe(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=100)
        return done.returncode == 0


SETTINGS = {"server": VALUES["ports"]["server"]}


def sentinel_facts(c):
    reply = c.call("SENTINEL", "MASTER", "mymaster")
    return dict(zip(reply[::2], reply[1::2]))


@pytest.mark.parametrize("values", [{}, SETTINGS], ids=["default", "settings"])
@pytest.mark.parametrize("password", [None, 'a "b\\ c&#'], ids=["open", "password"])
def test_a_pod_starts(tmp_path, values, password):
    pod = Pod(tmp_path, password=password, **values)
    live, ready = ["dragonfly", "--healthcheck=live"], ["dragonfly", "--healthcheck=ready"]
    asks = ["redis-cli", "-p", str(pod.ports["sentinel"]), "ping"]
    assert not pod.probe(*live) and not pod.probe(*asks)
    with pod.running("server") as r, pod.running("sentinel") as s:
        if password is not None:
            assert isinstance(r.call("PING"), Error)
            assert r.call("AUTH", password) == OK
        assert r.info("replication")["role"] == "master"
        for flag in flags_of(pod.values):
            name, _, text = flag.removeprefix("--").partition("=")
            expected = {"true": "yes", "256mb": "268435456"}.get(text, text)
            assert r.call("CONFIG", "GET", name.replace("_", "-"))[1] == expected.encode(), flag
        wait_until(lambda: pod.probe(*live) and pod.probe(*ready), what="the server's probes")
        wait_until(lambda: pod.probe(*asks), what="Sentinel's probe")
        # With a wrong password it would be `disconnected` or down.
        wait_until(lambda: sentinel_facts(s)[b"flags"] == b"master", what="a primary that is up")
        facts = sentinel_facts(s)
        assert (facts[b"ip"], facts[b"quorum"]) == (b"127.0.0.1", b"2")
        assert facts[b"port"] == b"%d" % pod.ports["server"]
        assert facts[b"down-after-milliseconds"] == b"5000"
        assert facts[b"failover-timeout"] == b"30000"
        # Sentinel has this done when the roles change.
        assert r.call("CONFIG", "REWRITE") == OK


def test_a_pod_of_an_upgrade_has_the_new_values(tmp_path):
    """What the programs have kept in their files stays, and what the chart says is new."""
    pod = Pod(tmp_path, password="old")
    with pod.running("server") as r, pod.running("sentinel") as s:
        assert r.call("AUTH", "old") == OK and r.call("CONFIG", "REWRITE") == OK
        assert "old" in pod.path("server").read_text()
        wait_until(lambda: sentinel_facts(s)[b"flags"] == b"master", what="a primary that is up")
        run_id = s.call("SENTINEL", "MYID")
    pod.values["replicas"] = 5
    pod.values["sentinel"]["downAfterMs"] = 7000
    pod.values["sentinel"]["failoverTimeoutMs"] = 70000
    pod.values["sentinel"]["port"] = pod.ports["sentinel"] = free_port()
    pod.environment |= dict.fromkeys(("DFLY_requirepass", "DFLY_masterauth", "PASSWORD"), "new")
    with pod.running("server") as r, pod.running("sentinel") as s:
        assert r.call("AUTH", "new") == OK
        wait_until(lambda: sentinel_facts(s)[b"flags"] == b"master", what="a primary that is up")
        facts = sentinel_facts(s)
        assert facts[b"quorum"] == b"3" and facts[b"down-after-milliseconds"] == b"7000"
        assert facts[b"failover-timeout"] == b"70000"
        assert s.call("SENTINEL", "MYID") == run_id


@contextlib.contextmanager
def answering(reply):
    """A port where each client gets this, and what they have asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked = []

    def answer():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                asked.append(connection.recv(1000))
                connection.sendall(reply)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


NAMES_0 = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n"
NAMES_1 = b"*2\r\n$9\r\nlocalhost\r\n$4\r\n6379\r\n"
OF_0, OF_1 = "replicaof 127.0.0.1 PORT\n", "replicaof localhost PORT\n"


@pytest.mark.parametrize(
    "number, reply, before, expected",
    [
        # The first start: nobody knows a primary, and it is the first pod.
        (0, None, None, ""),
        (1, None, None, OF_0),
        (1, b"*-1\r\n", None, OF_0),
        (1, b"-ERR no\r\n", None, OF_0),
        (1, b"", None, OF_0),
        # All pods start again: their files say it.
        (0, None, OF_1, OF_1),
        (1, None, "maxclients 77\n", "maxclients 77\n"),
        # The others know: this one was away for a failover, or was the replica that took over.
        (0, NAMES_1, "maxclients 77\n", "maxclients 77\n" + OF_1),
        (0, NAMES_0, OF_1, ""),
        (1, NAMES_0, "slaveof 10.0.0.7 6379\n", OF_0),
        # A password that CONFIG REWRITE has put there.
        (0, None, 'requirepass "x"\nmasterauth "x"\nmaxclients 77\n', "maxclients 77\n"),
    ],
)
def test_a_pod_finds_its_role(tmp_path, number, reply, before, expected):
    pod = Pod(tmp_path, number)
    port = str(pod.ports["server"])
    pod.without_server()
    if before is not None:
        pod.path("server").write_text(before.replace("PORT", port))
    with answering(reply or b"") as (sentinel_port, asked):
        if reply is not None:
            pod.values["sentinel"]["port"] = sentinel_port
        assert pod.start("server").wait(timeout=PATIENCE_S) == 0
    if reply is not None:
        assert asked[0] == b"SENTINEL GET-MASTER-ADDR-BY-NAME mymaster\r\n"
    assert pod.path("server").read_text() == expected.replace("PORT", port)


def test_a_pod_does_not_wait_for_a_node_that_is_gone(tmp_path):
    """A Sentinel that takes the connection and says nothing: the next one is asked."""
    pod = Pod(tmp_path, 2)
    with socket.create_server(("127.0.0.1", pod.ports["sentinel"])):
        pod.without_server()
        assert pod.start("server").wait(timeout=PATIENCE_S) == 0
    assert pod.path("server").read_text() == OF_0.replace("PORT", str(pod.ports["server"]))
