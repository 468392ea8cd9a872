from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from prometheus_client import generate_latest as plain_text
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from numaware.machine import synthetic
from numaware.machine.topology import HugePages, Machine
from numaware.node import podresources_pb2 as wire
from numaware.node.exporter.exporter import Exporter
from numaware.node.exporter.families import Exposition, Family
from numaware.node.podresources import PodResources
from numaware.node.troubles import Troubles
from numaware.twin.config import KubeletConfig
from numaware.web import serving, status_routes
from support import made_sysfs
from support.exported_metrics import CATALOGUE, DICTATED, SOMETIMES, named_in
from support.fake_podresources import FakePodResources
from support.made_cgroups import LAYOUTS, PAGE, Layout, add_pod

ROOT = Path(__file__).parents[2]
UID = "0b6e4d3a-59c5-4f0e-9a34-0c3f6f1f2a77"

Labels = frozenset[tuple[str, str]]


def machine() -> Machine:
    made = synthetic.read("2s x 1n x 4c x 2t +gpu@1 +nic@0 mem=8Gi")
    return replace(
        made,
        numa=tuple(replace(node, hugepages=(HugePages(2 << 20, 64, 16 + node.id),)) for node in made.numa),
    )


def samples(exporter: Exporter) -> dict[str, dict[Labels, float]]:
    """Name -> labels -> value, from what a scraper would read."""
    found: dict[str, dict[Labels, float]] = {}
    text = exporter.text(openmetrics=True).decode()
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call] # the library has no types
        for sample in family.samples:
            labels = frozenset((name, value) for name, value in sample.labels.items() if name != "node")
            assert sample.labels["node"] == "n1"
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def of(**labels: str) -> Labels:
    return frozenset(labels.items())


def trainer() -> wire.ListPodResourcesResponse:
    on_one = wire.TopologyInfo(nodes=[wire.NUMANode(ID=1)])
    gpu = wire.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["g"], topology=on_one)
    main = wire.ContainerResources(name="main", cpu_ids=[1, 2, 9, 10], devices=[gpu])
    return wire.ListPodResourcesResponse(
        pod_resources=[
            wire.PodResources(namespace="work", name="trainer", containers=[main]),
            wire.PodResources(namespace="work", name="web", containers=[wire.ContainerResources(name="c")]),
        ]
    )


def scrape(
    root: Path,
    look: Callable[[Exporter, FakePodResources, Troubles], Awaitable[None]],
    most_pods: int = 500,
) -> None:
    async def run() -> None:
        socket = root / "kubelet.sock"
        troubles = Troubles()
        async with FakePodResources(socket) as kubelet, PodResources(socket) as service:
            kubelet.say(trainer(), wire.AllocatableResourcesResponse(cpu_ids=range(1, 16)))
            exporter = Exporter(
                "n1",
                str(root),
                troubles,
                service=service,
                config=lambda: KubeletConfig(
                    topology_policy="restricted", cpu_policy="static", memory_policy="Static"
                ),
                most_pods=most_pods,
            )
            await exporter.prepare()
            await look(exporter, kubelet, troubles)

    asyncio.run(run())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_scrape_has_the_whole_catalogue_with_the_values_of_the_machine(
    tmp_path: Path, layout: Layout
) -> None:
    made = machine()
    made_sysfs.write(tmp_path, made)
    add_pod(
        tmp_path,
        layout,
        UID,
        "work",
        "trainer",
        {
            "anon": {0: 30, 1: 10},
            "file": {0: 30, 1: 30},
            "unevictable": {0: 1, 1: 0},
            "kernel_stack": {0: 5, 1: 5},
        },
    )

    async def look(exporter: Exporter, _: FakePodResources, troubles: Troubles) -> None:
        found = samples(exporter)
        assert found.keys() == CATALOGUE.keys()
        for name, values in found.items():
            assert {label for labels in values for label, _ in labels} == CATALOGUE[name], name
        assert found["numa_nodes"] == {of(): 2}
        for node in made.numa:
            numa = str(node.id)
            assert found["numa_node_cpus_count"][of(numa=numa)] == 8
            info = of(numa=numa, cpulist=str(node.cpus), socket=numa, kind="dram")
            assert found["numa_node_info"][info] == 1
            kernel = made_sysfs.meminfo(node)
            for name, key in (
                ("total", "MemTotal"),
                ("free", "MemFree"),
                ("used", "MemUsed"),
                ("slab", "Slab"),
            ):
                assert found[f"numa_node_memory_{name}_bytes"][of(numa=numa)] == kernel[key] * 1024
            assert found["numa_node_memory_filecache_bytes"][of(numa=numa)] == kernel["FilePages"] * 1024
            assert found["numa_node_memory_anon_bytes"][of(numa=numa)] == kernel["AnonPages"] * 1024
            parts = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
            available = sum(kernel[part] for part in parts) * 1024
            assert found["numa_node_memory_available_bytes"][of(numa=numa)] == available
            assert found["numa_node_hugepages"][of(numa=numa, size="2Mi")] == 64
            assert found["numa_node_hugepages_free"][of(numa=numa, size="2Mi")] == 16 + node.id
            counted = made_sysfs.numastat(node.id)
            for name, key in (("hit", "numa_hit"), ("miss", "numa_miss"), ("foreign", "numa_foreign")):
                assert found[f"numa_node_{name}_pages_total"][of(numa=numa)] == counted[key]
            assert found["numa_node_local_pages_total"][of(numa=numa)] == counted["local_node"]
            assert found["numa_node_other_pages_total"][of(numa=numa)] == counted["other_node"]
            assert found["numa_node_interleave_hit_pages_total"][of(numa=numa)] == counted["interleave_hit"]
            # CPU n has n + 1 seconds of user time, 2 (n + 1) of nice time and so on.
            seconds = sum(cpu + 1 for cpu in node.cpus)
            assert found["numa_node_cpu_seconds_total"][of(numa=numa, mode="user")] == seconds
            assert found["numa_node_cpu_seconds_total"][of(numa=numa, mode="steal")] == 8 * seconds
            # Idle and iowait are 4 and 5 of 36 parts.
            assert found["numa_node_cpu_usage_ratio"][of(numa=numa)] == pytest.approx(27 / 36)
        assert found["numa_node_distance"][of(numa="0", to="1")] == 21
        devices = {dict(labels)["class"]: dict(labels)["numa"] for labels in found["numa_node_device_info"]}
        assert devices == {"gpu": "1", "network": "0"}
        assert found["numa_node_cpus_exclusive"] == {of(numa="0"): 4, of(numa="1"): 0}
        assert found["numa_node_cpus_shared"] == {of(numa="0"): 4, of(numa="1"): 8}
        assert found["numa_node_cpus_allocatable"] == {of(numa="0"): 7, of(numa="1"): 8}
        assert found["numa_node_cpus_reserved"] == {of(numa="0"): 1, of(numa="1"): 0}
        place = {"namespace": "work", "pod": "trainer"}
        assert found["numa_pod_cpus"] == {of(numa="0", container="main", **place): 4}
        assert found["numa_pod_spread"] == {of(**place): 2}
        assert found["numa_pod_memory_bytes"][of(numa="0", type="anon", **place)] == 30 * PAGE
        assert found["numa_pod_memory_bytes"][of(numa="1", type="file", **place)] == 30 * PAGE
        assert len(found["numa_pod_memory_bytes"]) == 5, "none for the node without unevictable memory"
        assert found["numa_pod_remote_memory_ratio"] == {of(**place): 0.4}
        policy = of(policy="restricted", scope="container", cpu_manager="static", memory_manager="Static")
        assert found["numa_topology_policy_info"] == {policy: 1}
        assert set(found["numa_exporter_scrape_errors_total"].values()) == {0}
        assert troubles.current == {}

    scrape(tmp_path, look)


def test_usage_is_that_since_the_scrape_before(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, synthetic.read("1x1"))
    exporter = Exporter("n1", str(tmp_path), Troubles())
    (tmp_path / "proc/stat").write_text("cpu0 100 0 0 100 0 0 0 0 0 0\n")
    assert samples(exporter)["numa_node_cpu_usage_ratio"] == {of(numa="0"): 0.5}
    (tmp_path / "proc/stat").write_text("cpu0 110 0 0 190 0 0 0 0 0 0\n")
    assert samples(exporter)["numa_node_cpu_usage_ratio"] == {of(numa="0"): 0.1}


def test_a_kubelet_that_gives_no_answer_leaves_its_metrics_out_and_is_counted(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, machine())

    async def look(exporter: Exporter, kubelet: FakePodResources, troubles: Troubles) -> None:
        kubelet.problem = "not today"
        await exporter.prepare()
        found = samples(exporter)
        for name in ("numa_node_cpus_exclusive", "numa_node_cpus_shared", "numa_pod_cpus", "numa_pod_spread"):
            assert name not in found, "no answer is not zero"
        assert found["numa_node_cpus_count"][of(numa="0")] == 8
        assert found["numa_exporter_scrape_errors_total"][of(source="scrape")] == 1
        assert found["numa_exporter_trouble"] == {of(source="scrape", cause="refused"): 1}
        assert troubles.current["scrape"][0] == "refused"

    scrape(tmp_path, look)


def test_files_that_hold_garbage_are_left_out_and_counted(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, machine())
    (tmp_path / "sys/devices/system/node/node0/meminfo").write_bytes(b"\xff\x00garbage")
    (tmp_path / "sys/devices/system/node/node0/numastat").write_text("nonsense nonsense\n")
    (tmp_path / "proc/stat").write_text("cpu9999999999999999999999 1 2 3 4\n")

    async def look(exporter: Exporter, _: FakePodResources, troubles: Troubles) -> None:
        found = samples(exporter)
        assert found["numa_node_memory_total_bytes"].keys() == {of(numa="1")}
        assert found["numa_node_hit_pages_total"].keys() == {of(numa="1")}
        assert "numa_node_cpu_seconds_total" not in found
        assert found["numa_exporter_scrape_errors_total"][of(source="sysfs")] == 1
        cause, message = troubles.current["sysfs"]
        assert cause == "unreadable"
        assert "node0/meminfo" in message or "proc/stat" in message

    scrape(tmp_path, look)


def test_endings_of_names_mean_what_prometheus_takes_them_for(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, machine())

    async def look(exporter: Exporter, _: FakePodResources, __: Troubles) -> None:
        kinds = dict(re.findall(r"# TYPE (\w+) (\w+)", exporter.text(openmetrics=False).decode()))
        assert {name for name in kinds if name.endswith(("_count", "_sum", "_bucket"))} == DICTATED
        assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())

    scrape(tmp_path, look)


def test_no_machine_at_all_still_gets_an_answer(tmp_path: Path) -> None:
    troubles = Troubles()
    (tmp_path / "sys").mkdir()
    found = samples(Exporter("n1", str(tmp_path), troubles))
    assert found["numa_exporter_scrape_errors_total"][of(source="sysfs")] == 1
    assert "numa_nodes" not in found


def test_more_pods_than_allowed_are_left_out_and_counted(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, machine())
    for number in range(30):
        uid = f"{number:08x}-59c5-4f0e-9a34-0c3f6f1f2a77"
        add_pod(tmp_path, "v2-systemd", uid, "work", f"pod-{number:02}", {"anon": {0: 1, 1: 1}})

    async def look(exporter: Exporter, _: FakePodResources, __: Troubles) -> None:
        found = samples(exporter)
        assert len(found["numa_pod_memory_bytes"]) == 2 * 10
        assert found["numa_exporter_pods_left_out"] == {of(): 21}

    scrape(tmp_path, look, most_pods=10)


def test_a_pod_whose_name_nobody_knows_is_left_out(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, machine())
    add_pod(tmp_path, "v2-cgroupfs", UID, "work", "trainer", {"anon": {0: 1, 1: 1}})
    shutil.rmtree(tmp_path / "var/log/pods")

    async def look(exporter: Exporter, _: FakePodResources, __: Troubles) -> None:
        assert "numa_pod_memory_bytes" not in samples(exporter)

    scrape(tmp_path, look)


def test_only_who_bears_the_token_gets_metrics_and_openmetrics_is_spoken(tmp_path: Path) -> None:
    made_sysfs.write(tmp_path, machine())
    exporter = Exporter("n1", str(tmp_path), Troubles())

    async def run() -> None:
        routes = status_routes(exporter.text, str, prepare=exporter.prepare, token="secret")  # noqa: S106
        async with (
            serving(Starlette(routes=[*routes]), "127.0.0.1:0") as address,
            aiohttp.ClientSession(address) as session,
        ):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}):
                async with session.get("/metrics", headers=headers) as answer:
                    assert answer.status == 401
            allowed = {
                "Authorization": "Bearer secret",
                "Accept": "application/openmetrics-text; version=1.0.0",
            }
            async with session.get("/metrics", headers=allowed) as answer:
                assert answer.status == 200
                assert answer.headers["content-type"].startswith("application/openmetrics-text")
                text = await answer.text()
                assert text.endswith("# EOF\n")
            async with session.get("/healthz") as answer:
                assert answer.status == 200

    asyncio.run(run())


@pytest.mark.parametrize("name", ["alerts.yaml", "alerts_test.yaml", "grafana.json"])
def test_rules_and_dashboard_speak_of_metrics_that_exist(name: str) -> None:
    named = named_in(ROOT / "deploy/agent" / name)
    assert named
    assert named <= CATALOGUE.keys() | SOMETIMES.keys()


def test_the_documentation_names_every_metric() -> None:
    assert CATALOGUE.keys() | SOMETIMES.keys() <= named_in(ROOT / "docs/agent.md")


class Collected(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return [metric(family) for family in self._families]


def metric(family: Family) -> Metric:
    """The family as the client library has it."""
    labels = ("node", *family.labels)
    if family.kind == "info":
        infos = InfoMetricFamily(family.name, family.text, labels=labels)
        for values, _ in family.samples:
            infos.add_metric(("n1", *values), {})
        return infos
    made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    counted = made(family.name, family.text, labels=labels)
    for values, number in family.samples:
        counted.add_metric(("n1", *values), number)
    return counted


VALUES = st.floats() | st.integers(-(2**60), 2**60).map(float)
FAMILIES = st.lists(
    st.builds(
        lambda kind, name, rows: Family(
            kind,
            f"m_{name}",
            "What it is.",
            ("zone", "a"),
            [(values, 1.0 if kind == "info" else number) for values, number in rows.items()],
        ),
        st.sampled_from(["gauge", "counter", "info"]),
        st.integers(0, 99),
        st.dictionaries(st.tuples(st.text(max_size=5), st.text(max_size=5)), VALUES, max_size=4),
    ),
    max_size=4,
    unique_by=lambda family: family.name,
)


@given(st.lists(FAMILIES, min_size=1, max_size=3))
@settings(deadline=None)
def test_the_text_of_every_scrape_is_what_the_client_library_would_write(scrapes: list[list[Family]]) -> None:
    exposition = Exposition("n1")
    for families in scrapes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Collected(families))
        assert exposition.encode(families, openmetrics=False) == plain_text(registry)
        expected = generate_latest(registry)  # type: ignore[no-untyped-call] # the library has no types here
        assert exposition.encode(families, openmetrics=True) == expected
