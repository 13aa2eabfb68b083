# SPDX-License-Identifier: Apache-2.0
"""The files for docker compose, as far as they can be tried without Docker: they are valid YAML,
and what they name is there."""

import glob
import os
import shutil
import subprocess

import pytest
import yaml

from harness.server import ROOT, only_dragonfly

pytestmark = only_dragonfly("files of ours")

FOLDER = os.path.join(ROOT, "docker")
FILES = sorted(glob.glob(os.path.join(FOLDER, "compose*.yml")))


def read(path):
    with open(path, encoding="utf-8") as f:
        return yaml.safe_load(f)


def merged(path):
    """With the server's, as the files' first lines say to start them."""
    both = {"services": {}, "volumes": {}, "configs": {}}
    for each in (os.path.join(FOLDER, "compose.yml"), path):
        for part, content in read(each).items():
            if part in both:
                both[part].update(content)
            else:
                assert part.startswith("x-"), part
    return both


@pytest.mark.parametrize("path", FILES, ids=os.path.basename)
def test_what_it_names_is_there(path):
    everything = merged(path)
    for name, service in everything["services"].items():
        for other in service.get("depends_on", []):
            assert other in everything["services"], name
        for config in service.get("configs", []):
            assert config["source"] in everything["configs"], name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert os.path.exists(os.path.join(FOLDER, source)), volume
            else:
                assert source in everything["volumes"], volume
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), port
        if "build" in service:
            build = service["build"]
            context = os.path.join(FOLDER, build["context"])
            assert os.path.exists(os.path.join(context, build["dockerfile"]))


def test_prometheus_takes_its_configuration(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: tools/install_deps.sh test")
    configs = merged(os.path.join(FOLDER, "compose.monitoring.yml"))["configs"]
    path = tmp_path / "prometheus.yml"
    path.write_text(configs["prometheus"]["content"], encoding="utf-8")
    shutil.copy(os.path.join(ROOT, "tools", "grafana", "alerts.yml"), tmp_path)
    p = subprocess.run(
        ["promtool", "check", "config", str(path)], capture_output=True, text=True, timeout=100
    )
    assert p.returncode == 0, p.stdout + p.stderr
    (job,) = yaml.safe_load(configs["prometheus"]["content"])["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["dragonfly:6379"]}]


def test_grafana_finds_the_dashboard_and_its_data():
    everything = merged(os.path.join(FOLDER, "compose.monitoring.yml"))
    grafana = everything["services"]["grafana"]
    content = {
        config["target"]: yaml.safe_load(everything["configs"][config["source"]]["content"])
        for config in grafana["configs"]
    }
    (source,) = content["/etc/grafana/provisioning/datasources/prometheus.yml"]["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["type"] == "prometheus"
    (provider,) = content["/etc/grafana/provisioning/dashboards/dragonfly.yml"]["providers"]
    mounts = [volume.split(":")[1] for volume in grafana["volumes"]]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home in mounts and home.startswith(provider["options"]["path"] + "/")
