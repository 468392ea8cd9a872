from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.nccl import read
from numaware.machine.topology import Link

SYSTEM = b"""<?xml version="1.0"?>
<!-- written by hand -->
<system version="1">
  <cpu numaid="0" affinity="00000000,000000ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="ffff:ff:01.0" class="0x060400" link_width="16">
      <pci busid="0000:3B:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:86:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:3b:00.0" count="9" tclass="0x030200"/>
          <nvlink target="0000:c4:00.0" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:3c:00.0" class="0x020700" vendor="0x15b3" device="0x1017">
        <nic>
          <net name="mlx5_0" dev="0" speed="100000"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="1"/>
    </nic>
  </cpu>
  <cpu numaid="1" affinity="00000001,00000000" arch="x86_64">
    <pci busid="0000:86:00.0" class="0x030200" vendor="0x10de" device="0x20b0">
      <gpu dev="1"><nvlink target="0000:3b:00.0" count="4" tclass="0x030200"/></gpu>
    </pci>
    <pci busid="0000:87:00.0" class="0x020000"/>
    <pci busid="0000:88:00.0"/>
  </cpu>
</system>
"""


def test_each_cpu_element_is_a_numa_node() -> None:
    machine = read(SYSTEM)
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, "0-7"), (1, "32")]
    assert {cpu.id: cpu.numa for cpu in machine.cpus}[32] == 1
    assert machine.architecture == "x86_64"
    assert machine.vendor is None


def test_pci_functions_have_ids_locality_and_the_bridge_above() -> None:
    functions = {function.address: function for function in read(SYSTEM).pci}
    gpu = functions["0000:3b:00.0"]
    assert (gpu.class_code, gpu.vendor, gpu.device, gpu.parent) == ("030200", "10de", "20b0", "ffff:ff:01.0")
    assert (gpu.numa, str(gpu.local_cpus)) == (0, "0-7")
    assert functions["0000:86:00.0"].parent is None
    assert functions["0000:88:00.0"].class_code == "000000"
    assert list(functions) == sorted(functions)


def test_gpus_and_nics_are_devices_and_nameless_ones_go_by_address() -> None:
    assert [(device.name, device.kind, device.pci, device.numa) for device in read(SYSTEM).devices] == [
        ("GPU0", "gpu", "0000:3b:00.0", 0),
        ("mlx5_0", "nic", "0000:3c:00.0", 0),
        ("eth0", "nic", None, 0),
        ("GPU1", "gpu", "0000:86:00.0", 1),
        ("0000:87:00.0", "nic", "0000:87:00.0", 1),
    ]


def test_nvlinks_between_gpus_are_links_and_those_to_switches_are_not() -> None:
    assert read(SYSTEM).links == (Link("GPU0", "GPU1", "NV4"),)


def test_ends_that_count_their_nvlinks_differently_are_told() -> None:
    machine = read(SYSTEM.replace(b'target="0000:3b:00.0" count="4"', b'target="0000:3b:00.0" count="5"'))
    assert machine.links == (Link("GPU0", "GPU1", "NV4"),)
    assert machine.warnings == ("GPU0 and GPU1 disagree on their number of NVLinks",)


def test_a_cpu_of_no_node_places_its_devices_by_cpus_only() -> None:
    machine = read(b'<system><cpu numaid="-1" affinity="f"><pci busid="0000:01:00.0"/></cpu></system>')
    assert (machine.numa, machine.cpus) == ((), ())
    assert (machine.pci[0].numa, str(machine.pci[0].local_cpus)) == (None, "0-3")


def test_of_several_hosts_the_first_is_taken() -> None:
    cpus = b"".join(
        b'<cpu host_hash="0x%d" numaid="%d" affinity="%d"/>' % (n // 2, n % 2, n) for n in range(4)
    )
    machine = read(b'<system version="2">' + cpus + b"</system>")
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, ""), (1, "0")]
    assert machine.warnings == ("the file describes 2 machines; only the first is taken",)


def test_what_is_listed_twice_is_told() -> None:
    twice = b"<system>" + b'<cpu numaid="0"><pci busid="0000:01:00.0"/></cpu>' * 2 + b"</system>"
    assert read(twice).warnings == (
        "NUMA node 0 is listed twice",
        "PCI function 0000:01:00.0 is listed twice",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"<topology/>",
        b"<system/>",
        b'<system><cpu numaid="zero"/></system>',
        b'<system><cpu numaid="70000"/></system>',
        b'<system><cpu numaid="0" affinity="xyz"/></system>',
        b'<system><cpu numaid="0"><pci busid="somewhere"/></cpu></system>',
        b'<!DOCTYPE s [<!ENTITY a "b">]><system><cpu numaid="0"/>&a;</system>',
        b"<system>" + b"<cpu>" * 500,
    ],
)
def test_what_is_not_such_a_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "topo.xml")
    assert caught.value.source == "topo.xml"
