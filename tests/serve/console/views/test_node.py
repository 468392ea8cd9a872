"""One node in full: what the picture of the machine is drawn from."""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import LabWorld, lab_cluster
from numaware.serve.listing import zone_rows
from numaware.twin.config import KubeletConfig
from numaware.twin.hardware import DeviceLink, Hardware
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.workload.pod import NANO, Container, Pod
from support.console_world import client, get

GPU = "nvidia.com/gpu"


def view(hardware: Hardware) -> Any:
    spec = lab_cluster()
    node = msgspec.structs.replace(spec.nodes[0], hardware=hardware)
    world = LabWorld(0, spec=msgspec.structs.replace(spec, nodes=(node,)))
    answer = client(Console(world, lambda: world.now)).get(f"/api/v1/nodes/{node.name}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def machine(line: str = "") -> Machine:
    return synthetic.read(f"2s x 32c x 2t {line} mem=512Gi")


def test_links_say_for_every_two_devices_how_close_they_are() -> None:
    node = get("/api/v1/nodes/gpu-0")
    rows, devices = node["links"], node["devices"]
    assert len(rows) == len(devices) == 8
    for one, row in enumerate(rows):
        for other, word in enumerate(row):
            beside = devices[one]["numa"] == devices[other]["numa"]
            # In pairs behind one switch.
            close = "PIX" if one // 2 == other // 2 else "NODE" if beside else "SYS"
            assert word == ("X" if one == other else close)
            assert word == rows[other][one]


def test_without_a_link_the_numa_nodes_of_two_devices_say_how_close_they_are() -> None:
    resource = plugin_resource(GPU, {"a": (0,), "b": (0,), "c": (1,), "d": ()})
    hardware = hardware_of(machine(), [resource])
    link = DeviceLink((GPU, "a"), (GPU, "b"), "NV12")
    assert view(msgspec.structs.replace(hardware, links=(link,)))["links"] == [
        ["X", "NV12", "SYS", ""],
        ["NV12", "X", "SYS", ""],
        ["SYS", "SYS", "X", ""],
        ["", "", "", "X"],
    ]
    assert view(hardware)["links"][0] == ["X", "NODE", "SYS", ""]


def test_more_devices_than_a_table_can_show_have_none() -> None:
    resource = plugin_resource("example.com/vf", {f"vf-{number:02}": (0,) for number in range(33)})
    found = view(hardware_of(machine(), [resource]))
    assert (len(found["devices"]), found["links"]) == (33, [])


def test_a_cache_that_nobody_told_of_is_not_made_up() -> None:
    made = machine()
    told = view(hardware_of(made))
    assert {cache for _, _, cache in told["numa"][1]["cores"]} == {1}
    assert told["caches"] == [32 << 20, 32 << 20]
    untold = view(hardware_of(msgspec.structs.replace(made, caches=())))["numa"][1]["cores"]
    assert {cache for _, _, cache in untold} == {None}


def test_what_is_free_has_two_names_and_each_is_one_number_everywhere() -> None:
    """The list said what is free to pin, the node's page what is not requested, and both called it free."""
    world = LabWorld(0)
    sharing = Pod("web", uid="web", containers=(Container("main", (("cpu", 2 * NANO),)),))
    assert world.cluster.bind(sharing, world.cluster.members[0].name).admitted
    api = client(Console(world, lambda: world.now))
    apart = 0
    for summary in api.get("/api/v1/nodes").json()["items"]:
        member = world.cluster.by_name[summary["name"]]
        page = api.get(f"/api/v1/nodes/{member.name}").json()
        assert page["summary"] == summary
        pinned = summary["freeToPinCpus"]
        assert pinned == sum(len(CpuSet.parse(numa["freeToPinCpus"])) for numa in page["numa"])
        assert pinned == sum(strip[8] for strip in summary["numa"])
        # What `numaware nodes` prints.
        zones = zone_rows(member)
        if member.node.kubelet.cpus:
            assert pinned == sum(zone.free_to_pin["cpu"] for zone in zones)
        for name, count in summary["freeToPinDevices"].items():
            assert count == sum(zone.free_to_pin[name] for zone in zones)
        assert summary["notRequestedCpus"] == member.not_requested["cpu"] // 1000
        assert summary["notRequestedMemory"] == member.not_requested["memory"]
        apart += pinned != summary["notRequestedCpus"]
    assert apart


def answer_of(config: KubeletConfig, *pods: Pod) -> Any:
    """The view of a node of the lab with this kubelet, on which these pods were admitted."""
    spec = lab_cluster()
    hardware = hardware_of(synthetic.read("1s x 1n x 8c x 2t mem=64Gi"), [])
    node = msgspec.structs.replace(spec.nodes[0], hardware=hardware, config=config)
    world = LabWorld(0, spec=msgspec.structs.replace(spec, nodes=(node,)))
    for pod in pods:
        assert world.cluster.bind(pod, node.name).admitted
    return client(Console(world, lambda: world.now)).get(f"/api/v1/nodes/{node.name}").json()


def test_a_release_that_nobody_recorded_is_said_beside_its_version() -> None:
    assert answer_of(KubeletConfig(version="v1.38.0"))["kubelet"]["version"] == "v1.38.0 (modelled as v1.37)"


def test_a_pod_that_the_kubelet_would_refuse_after_a_restart_is_marked_with_its_words() -> None:
    config = KubeletConfig(
        version="v1.36.4",
        cpu_policy="static",
        reserved_cpus="0,8",
        cpu_options=(("full-pcpus-only", "true"),),
    )

    def pod(name: str, cpus: int) -> Pod:
        amounts = (("cpu", cpus * NANO), ("memory", NANO << 30))
        return Pod(name, uid=name, containers=(Container("main", amounts, amounts),))

    told = {one["uid"]: one["lostAtRestart"] for one in answer_of(config, pod("a", 2), pod("b", 10))["pods"]}
    assert told["a"] == ""
    assert told["b"].startswith("SMTAlignmentError: SMT Alignment Error: not enough free physical CPUs")
