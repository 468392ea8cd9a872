"""Discovery and exporter on a real kernel with several NUMA nodes, compared with what QEMU was told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.qemu_machine import Machine, between, boot

pytestmark = pytest.mark.e2e

MACHINES = {
    "two sockets": Machine(2, 2, 2, (512, 768), ((10, 21), (21, 10)), cards=(1,)),
    "four nodes": Machine(
        4,
        2,
        1,
        (512, 384, 512, 384),
        ((10, 12, 21, 22), (12, 10, 22, 21), (21, 22, 10, 12), (22, 21, 12, 10)),
        cards=(1, 3),
    ),
}
POD = "0b6e4d3a-59c5-4f0e-9a34-0c3f6f1f2a77"
FAR_MIB = 32
# A control group as a kubelet makes them for pods, whose memory has to come from NUMA node 1.
SCRIPT = f"""
mount -t cgroup2 none /sys/fs/cgroup
echo "+memory +cpuset" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/kubepods
echo "+memory +cpuset" >/sys/fs/cgroup/kubepods/cgroup.subtree_control
mkdir /sys/fs/cgroup/kubepods/pod{POD}
echo 1 >/sys/fs/cgroup/kubepods/pod{POD}/cpuset.mems
mkdir -p /far /var/log/pods/work_far_{POD}
mount -t tmpfs none /far
sh -c 'echo $$ >/sys/fs/cgroup/kubepods/pod{POD}/cgroup.procs; exec dd if=/dev/zero of=/far/file bs=1M count={FAR_MIB}'
echo TOPOLOGY
run topology show --json
echo
echo END-OF-TOPOLOGY
run agent --no-publish --node guest --listen 127.0.0.1:9201 >/tmp/agent.log 2>&1 &
until wget -q -O /tmp/metrics http://127.0.0.1:9201/metrics; do
  kill -0 $! || {{ cat /tmp/agent.log; break; }}
  sleep 1
done
echo METRICS
cat /tmp/metrics
echo END-OF-METRICS
"""


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_what_qemu_was_told_is_what_is_found(name: str, tmp_path: Path) -> None:
    machine = MACHINES[name]
    said = boot(machine, SCRIPT, tmp_path)
    nodes = range(len(machine.memory_mib))

    found = msgspec.json.decode(between(said, "TOPOLOGY", "END-OF-TOPOLOGY"))
    assert found["cpuCount"] == machine.cpus
    assert found["coreCount"] == machine.sockets * machine.cores
    assert len(found["packages"]) == machine.sockets
    assert [node["cpus"] for node in found["numa"]] == [
        f"{machine.cpus_of(node)[0]}-{machine.cpus_of(node)[-1]}" for node in nodes
    ]
    for node in found["numa"]:
        row = machine.distances[node["id"]]
        assert node["distances"] == {str(other): distance for other, distance in enumerate(row)}
        # The kernel keeps some of it for itself, firmware too.
        told = machine.memory_mib[node["id"]] << 20
        assert 0.7 * told < node["memoryBytes"] <= told
    for cpu in found["cpus"]:
        first = cpu["id"] - cpu["id"] % machine.threads
        siblings = f"{first}-{first + machine.threads - 1}" if machine.threads > 1 else str(first)
        assert cpu["siblings"] == siblings
    cards = sorted(card["numa"] for card in found["pci"] if card["class"] == "020000")
    assert cards == sorted(machine.cards)

    text = between(said, "METRICS", "END-OF-METRICS")
    samples = {
        (sample.name, frozenset(sample.labels.items()) - {("node", "guest")}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(metric: str, **labels: str) -> float:
        return float(samples[metric, frozenset(labels.items())])

    assert value("numa_nodes") == len(nodes)
    for node in nodes:
        here = {"numa": str(node)}
        assert value("numa_node_cpus_count", **here) == len(machine.cpus_of(node))
        assert value("numa_node_memory_total_bytes", **here) == found["numa"][node]["memoryBytes"]
        assert 0 < value("numa_node_memory_free_bytes", **here) < found["numa"][node]["memoryBytes"]
        assert value("numa_node_hit_pages_total", **here) > 0
        assert value("numa_node_cpu_seconds_total", mode="idle", **here) > 0
        for other, distance in enumerate(machine.distances[node]):
            assert value("numa_node_distance", to=str(other), **here) == distance
    far = {"namespace": "work", "pod": "far", "type": "file"}
    assert value("numa_pod_memory_bytes", numa="1", **far) >= FAR_MIB << 20
    assert ("numa_pod_memory_bytes", frozenset({"numa": "0", **far}.items())) not in samples
    devices = sorted(dict(labels)["numa"] for metric, labels in samples if metric == "numa_node_device_info")
    assert devices == [str(node) for node in sorted(machine.cards)]
