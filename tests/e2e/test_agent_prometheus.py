"""A real Prometheus scrapes the agent of a real kubelet, and has every series with the right value."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from e2e.control_plane import free_port
from e2e.kubelet_beside_twin import SideBySide, container, pod
from e2e.program import Program, eventually
from e2e.real_kubelet import RealKubelet
from e2e.real_prometheus import DEPLOY, TOKEN, Prometheus
from numaware.machine import synthetic
from numaware.machine.topology import HugePages
from numaware.serve.metrics import Metrics
from support import made_sysfs
from support.exported_metrics import CATALOGUE, DICTATED
from support.made_cgroups import PAGE, add_pod

pytestmark = pytest.mark.e2e


class Scene:
    def __init__(self, kubelet: RealKubelet, prometheus: Prometheus, agent_port: int) -> None:
        self.kubelet = kubelet
        self.prometheus = prometheus
        self.agent_port = agent_port


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    machine = synthetic.read("2s x 1n x 14c +gpu@1 +nic@0 mem=32Gi")
    machine = replace(
        machine,
        numa=tuple(
            replace(node, hugepages=(HugePages(2 << 20, 128, 100 + node.id),)) for node in machine.numa
        ),
    )
    config = {
        "topologyManagerPolicy": "restricted",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-1",
    }
    port = free_port()
    with RealKubelet(folder / "node", machine, config, {"nvidia.com/gpu": {"gpu-0": (1,)}}) as kubelet:
        side = SideBySide(kubelet)
        side.wait_for_devices()
        side.add(pod("near", container("main", {"cpu": "4", "memory": "1Gi"})))
        amounts = {"cpu": "6", "memory": "1Gi", "nvidia.com/gpu": "1"}
        side.add(pod("far", container("main", amounts)))
        # There is no container, so its memory is made up: on node 1 with its CPUs, and a quarter on node 0.
        far = f"far-{kubelet.name}"
        memory = {"anon": {0: 100, 1: 200}, "file": {0: 0, 1: 100}, "unevictable": {0: 0, 1: 0}}
        add_pod(kubelet.made, "v2-systemd", side.running[far], "default", far, memory)
        token = folder / "token"
        token.write_text(TOKEN)
        agent = Program(
            "agent",
            [
                Path(sys.executable).with_name("numaware"),
                "agent",
                "--node=worker-7",
                "--no-publish",
                f"--root={kubelet.made}",
                f"--kubelet-root={kubelet.root}",
                f"--kubelet-config={kubelet.config_file}",
                f"--listen=127.0.0.1:{port}",
                f"--token-file={token}",
            ],
            folder / "agent.log",
        )
        prometheus = Prometheus(folder, f"127.0.0.1:{port}")
        with agent, prometheus.program:
            eventually(
                lambda: prometheus.query("numa_nodes"),
                "Prometheus has scraped",
                alive=prometheus.program,
            )
            yield Scene(kubelet, prometheus, port)


def test_prometheus_has_the_whole_catalogue_with_its_labels(scene: Scene) -> None:
    for name, labels in CATALOGUE.items():
        found = scene.prometheus.query(name)
        assert found, name
        told = {key for series in found for key in series["metric"]}
        assert told - {"__name__", "instance", "job"} == labels | {"node"}, name
        assert {series["metric"]["node"] for series in found} == {"worker-7"}


def test_prometheus_has_the_values_of_the_made_machine(scene: Scene) -> None:
    value = scene.prometheus.value
    assert value("numa_nodes") == 2
    for node in scene.kubelet.machine().numa:
        here = f'{{numa="{node.id}"}}'
        kernel = made_sysfs.meminfo(node)
        counted = made_sysfs.numastat(node.id)
        assert value(f"numa_node_cpus_count{here}") == 14
        assert value(f"numa_node_memory_total_bytes{here}") == kernel["MemTotal"] * 1024
        assert value(f"numa_node_memory_free_bytes{here}") == kernel["MemFree"] * 1024
        assert value(f"numa_node_hit_pages_total{here}") == counted["numa_hit"]
        assert value(f"numa_node_other_pages_total{here}") == counted["other_node"]
        assert value(f"numa_node_hugepages_free{here}") == 100 + node.id
        seconds = sum(cpu + 1 for cpu in node.cpus)
        assert value(f'numa_node_cpu_seconds_total{{numa="{node.id}",mode="user"}}') == seconds
    assert value('numa_node_distance{numa="1",to="0"}') == 21
    assert value('numa_node_device_info{class="gpu",numa="1"}') == 1


def test_prometheus_has_what_the_kubelet_handed_out(scene: Scene) -> None:
    value = scene.prometheus.value
    assert [value(f'numa_node_cpus_reserved{{numa="{node}"}}') for node in (0, 1)] == [2, 0]
    assert [value(f'numa_node_cpus_allocatable{{numa="{node}"}}') for node in (0, 1)] == [12, 14]
    assert [value(f'numa_node_cpus_exclusive{{numa="{node}"}}') for node in (0, 1)] == [4, 6]
    assert [value(f'numa_node_cpus_shared{{numa="{node}"}}') for node in (0, 1)] == [10, 8]
    assert value(f'numa_pod_cpus{{pod="near-{scene.kubelet.name}",numa="0"}}') == 4
    far = f'pod="far-{scene.kubelet.name}"'
    assert value(f'numa_pod_cpus{{{far},numa="1",container="main"}}') == 6
    assert value(f"numa_pod_spread{{{far}}}") == 1
    assert value(f'numa_pod_memory_bytes{{{far},numa="1",type="anon"}}') == 200 * PAGE
    assert value(f"numa_pod_remote_memory_ratio{{{far}}}") == 0.25
    assert value('numa_topology_policy_info{policy="restricted",scope="container"}') == 1


def test_a_target_that_asks_for_a_token_is_up_with_it_only(scene: Scene) -> None:
    assert scene.prometheus.value('up{job="numaware-agent"}') == 1


def test_the_shipped_alert_rules_run_in_prometheus_and_notice_remote_memory(scene: Scene) -> None:
    def pending() -> bool:
        found = scene.prometheus.query('ALERTS{alertname="NumaPodMemoryRemote"}')
        return bool(found) and found[0]["metric"]["pod"] == f"far-{scene.kubelet.name}"

    eventually(pending, "the alert is pending", 20, scene.prometheus.program)


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "prometheus.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_is_happy_with_what_is_shipped(command: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *command], cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_has_nothing_to_say_of_our_metrics_but_of_the_name_that_openfuyao_has_given(
    scene: Scene,
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", scene.agent_port, timeout=10)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    of_the_agent = connection.getresponse().read()
    connection.close()
    of_the_scheduler = generate_latest(Metrics().registry)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=of_the_agent + of_the_scheduler,
        capture_output=True,
        check=False,
    )
    said = (checked.stdout + checked.stderr).decode().splitlines()
    assert {line.partition(" ")[0] for line in said} == DICTATED, said
