from __future__ import annotations

import json
from typing import Any

import pytest

from numaware.errors import InputError
from numaware.machine import cadvisor
from numaware.machine.cadvisor import read
from numaware.machine.topology import HugePages
from support.invented_machines import numa_node

L1 = {"id": 0, "size": 32768, "type": "Data", "level": 1}
L3 = {"size": 1 << 25, "type": "Unified", "level": 3}


def core(number: int, threads: list[int], socket: int = 0, **more: Any) -> dict[str, Any]:
    return {"core_id": number, "thread_ids": threads, "caches": [L1], "socket_id": socket, **more}


def info(*nodes: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(
        {"num_cores": None, "memory_capacity": 1 << 34, "topology": list(nodes), **more}
    ).encode()


TWO_NODES = (
    {
        "node_id": 0,
        "memory": 1 << 33,
        "hugepages": [{"page_size": 1048576, "num_pages": 2}, {"page_size": 2048, "num_pages": 512}],
        "cores": [core(0, [4, 0]), core(1, [1, 5])],
        "caches": [{"id": 0, **L3}],
        "distances": [10, 21],
    },
    {
        "node_id": 4,
        "memory": 1 << 33,
        "hugepages": None,
        "cores": [core(0, [2, 6], 1, uncore_caches=[{"id": 7, **L3}]), core(1, [3, 7], 1)],
        "caches": None,
        "distances": [22, 10],
    },
)


def test_cores_become_cpus_with_siblings_socket_and_node() -> None:
    machine = read(info(*TWO_NODES))
    assert [(cpu.id, cpu.package, cpu.core, cpu.numa, str(cpu.siblings)) for cpu in machine.cpus[:4]] == [
        (0, 0, 0, 0, "0,4"),
        (1, 0, 1, 0, "1,5"),
        (2, 1, 0, 4, "2,6"),
        (3, 1, 1, 4, "3,7"),
    ]
    assert (machine.core_count, machine.memory_bytes) == (4, 1 << 34)


def test_nodes_have_memory_pages_and_distances_in_the_order_of_their_ids() -> None:
    machine = read(info(*reversed(TWO_NODES)))
    assert numa_node(machine, 0).hugepages == (HugePages(2 << 20, 512), HugePages(1 << 30, 2))
    assert numa_node(machine, 0).distances == ((0, 10), (4, 21))
    assert numa_node(machine, 4).distances == ((0, 22), (4, 10))
    assert [node.memory_bytes for node in machine.numa] == [1 << 33, 1 << 33]
    assert machine == read(info(*TWO_NODES))


def test_caches_belong_to_a_core_a_node_or_all_cores_with_their_id() -> None:
    split = [core(number, [number], 0, uncore_caches=[{"id": number // 2, **L3}]) for number in range(4)]
    machine = read(info({"node_id": 0, "cores": split}))
    assert [str(cache.cpus) for cache in machine.caches if cache.level == 3] == ["0-1", "2-3"]
    found = [(cache.level, str(cache.cpus)) for cache in read(info(*TWO_NODES)).caches]
    assert found == [(1, "0,4"), (1, "1,5"), (1, "2,6"), (1, "3,7"), (3, "0-1,4-5"), (3, "2,6")]


def test_the_same_cache_id_in_two_sockets_is_two_caches() -> None:
    cores = [core(0, [number], number, uncore_caches=[{"id": 0, **L3}]) for number in range(2)]
    machine = read(info({"node_id": 0, "cores": cores}))
    assert [str(cache.cpus) for cache in machine.caches if cache.level == 3] == ["0", "1"]


def test_a_shared_cache_without_id_is_left_out() -> None:
    machine = read(info({"node_id": 0, "cores": [core(0, [0], 0, uncore_caches=[L3])]}))
    assert [cache.level for cache in machine.caches] == [1]


def test_a_node_without_cores_has_no_cpus() -> None:
    far = {"node_id": 5, "memory": 1 << 30, "cores": None, "distances": [17, 28, 10]}
    near, other = ({**TWO_NODES[0], "distances": [10, 21, 17]}, {**TWO_NODES[1], "distances": [21, 10, 28]})
    node = numa_node(read(info(near, other, far)), 5)
    assert (str(node.cpus), str(node.nearest_cpus), node.memory_bytes) == ("", "0-1,4-5", 1 << 30)


def test_what_does_not_add_up_is_told() -> None:
    machine = read(info({**TWO_NODES[0], "distances": [10]}, TWO_NODES[1], num_cores=9))
    assert machine.warnings == (
        "num_cores is 9, but the topology lists 8 CPUs",
        "NUMA node 0 has 1 distances for 2 nodes",
    )
    assert numa_node(machine, 0).distances == ()


def test_a_machine_without_topology_has_memory_only() -> None:
    machine = read(b'{"topology": null, "memory_capacity": 5}')
    assert (machine.cpus, machine.numa, machine.memory_bytes) == ((), (), 5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"topology": 3}',
        info({"node_id": -1}),
        info({"node_id": 70000}),
        info({"node_id": 0}, {"node_id": 0}),
        info({"node_id": 0, "cores": [core(0, [99999])]}),
        info({"node_id": 0, "memory": -5}),
        b'{"topology": ' + b"[" * 100000,
    ],
)
def test_what_is_not_such_a_document_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "info.json")
    assert caught.value.source == "info.json"


def test_more_cores_than_any_kernel_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cadvisor, "MAX_CORES", 3)
    with pytest.raises(InputError, match="more than 3 cores"):
        read(info(*TWO_NODES))
