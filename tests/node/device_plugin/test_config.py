from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.node.device_plugin.config import NVIDIA, Config, read
from support.shared_data import shared

WHOLE = b"""
version: v1
flags:
  migStrategy: mixed
  failOnInitError: false
  nvidiaDriverRoot: /run/nvidia/driver
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: index
resources:
  - name: nvidia.com/gpu
    gpus: {vendor: NVIDIA}
    replicas: 4
  - name: vendor.example/nic
    pci: {vendor: ["15b3", "8086"], class: "0200", driver: mlx5_core}
    env: NICS
    deviceNodes: false
    devices: [/dev/vhost-net]
    mounts: [{hostPath: /opt/nic, containerPath: /nic}]
    cdi: vendor.example/nic
  - name: vendor.example/vf
    sriov: {of: "0000:3B:00.0", driver: vfio-pci}
"""


def test_every_key_is_read() -> None:
    config = read(WHOLE, "plugin.yaml")
    flags = config.flags
    assert (flags.mig_strategy, flags.fail_on_init_error, flags.nvidia_driver_root) == (
        "mixed",
        False,
        "/run/nvidia/driver",
    )
    assert flags.plugin.list_strategies == ("envvar", "cdi-cri")
    assert (flags.plugin.pass_device_specs, flags.plugin.device_id_strategy) == (True, "index")
    gpu, nic, function = config.resources
    assert (gpu.selector.kind, gpu.selector.vendors, gpu.replicas) == ("gpu", (NVIDIA,), 4)
    assert nic.selector.vendors == ("15b3", "8086")
    assert (nic.selector.classes, nic.selector.drivers) == (("0200",), ("mlx5_core",))
    assert (nic.env, nic.device_nodes, nic.devices) == ("NICS", False, ("/dev/vhost-net",))
    assert function.selector.physical == ("0000:3b:00.0",)


def test_a_file_of_nvidias_plugin_is_enough_and_means_its_gpus() -> None:
    config = read(b"version: v1\nflags: {migStrategy: none}\n", "plugin.yaml")
    assert config == Config()
    (rule,) = config.resources
    assert (rule.name, rule.selector.vendors) == ("nvidia.com/gpu", (NVIDIA,))


def test_the_published_example_with_the_flags_of_nvidias_plugin_is_taken() -> None:
    (text,) = list(shared("seeds").glob("002_*"))
    guide = text.read_text(encoding="utf-8")
    begin = guide.index("    version: v1\n")
    block = guide[begin : guide.index("```", begin)]
    config = read("\n".join(line[4:] for line in block.splitlines()).encode(), "config.yaml")
    assert config == Config()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "p: is no configuration of the device plugin"),
        ("- a", "p: is no configuration of the device plugin"),
        ("a: 1\n---\nb: 1", "p: is no configuration of the device plugin"),
        ("version: v2", "p:1: version: Invalid enum value 'v2' (known: v1)"),
        ("resources: []", "p:1: 0 resources are not 1 to 64"),
        ("resource: []", "p:1: 'resource' is no key (known: version, flags, resources)"),
        (
            "flags:\n  plugin:\n    passDeviceSpec: true",
            (
                "p:3: flags.plugin: 'passDeviceSpec' is no key"
                " (known: passDeviceSpecs, deviceListStrategy, deviceIDStrategy)"
            ),
        ),
        (
            "flags: {migStrategy: all}",
            "p:1: flags.migStrategy: Invalid enum value 'all' (known: none, single, mixed)",
        ),
        ("flags:\n  failOnInitError: 1", "p:2: flags.failOnInitError: Expected bool, got int"),
        ("flags: {nvidiaDriverRoot: run}", "p:1: nvidiaDriverRoot is no absolute path"),
        ("flags: {plugin: {deviceListStrategy: []}}", "p:1: deviceListStrategy is empty (such as envvar)"),
        (
            "flags: {plugin: {deviceListStrategy: [cdi]}}",
            (
                "p:1: flags.plugin.deviceListStrategy[0]: Invalid enum value 'cdi'"
                " (known: envvar, volume-mounts, cdi-annotations, cdi-cri)"
            ),
        ),
        ("resources:\n- gpus: {}", "p:2: resources[0]: Object missing required field name"),
        (
            "resources:\n- {name: gpu, gpus: {}}",
            "p:2: gpu: is no name of a resource (such as vendor.example/nic)",
        ),
        (
            "resources:\n- {name: kubernetes.io/gpu, gpus: {}}",
            "p:2: kubernetes.io/gpu: kubernetes.io is not yours to name resources in",
        ),
        ("resources:\n- {name: a.b/c}", "p:2: a.b/c: needs exactly one of gpus, pci and sriov"),
        (
            'resources:\n- {name: a.b/c, gpus: {}, pci: {class: "02"}}',
            "p:2: a.b/c: needs exactly one of gpus, pci and sriov",
        ),
        (
            "resources:\n- name: a.b/c\n  pci: {}",
            "p:3: a.b/c: pci: {} would take every device (name some of vendor, device, class, driver, address)",
        ),
        (
            "resources:\n- name: a.b/c\n  pci:\n    vendor: 8086",
            (
                'p:4: resources[0].pci.vendor: Expected str | array, got int (put it in quotes, as in vendor: "8086";'
                " YAML takes it for a number otherwise)"
            ),
        ),
        (
            'resources:\n- name: a.b/c\n  pci: {vendor: "808"}',
            "p:3: a.b/c: pci.vendor: '808' is not 4 hexadecimal digits",
        ),
        (
            'resources:\n- name: a.b/c\n  pci: {class: "0"}',
            "p:3: a.b/c: pci.class: '0' is not 2 to 6 hexadecimal digits",
        ),
        (
            'resources:\n- name: a.b/c\n  sriov: {of: "3b:00.0"}',
            "p:3: a.b/c: sriov.of: '3b:00.0' is no PCI address, such as 0000:3b:00.0",
        ),
        (
            'resources:\n- name: a.b/c\n  pci: {driver: "a b"}',
            "p:3: a.b/c: pci.driver: 'a b' is no name of a driver",
        ),
        ("resources:\n- {name: a.b/c, gpus: {}, replicas: 0}", "p:2: a.b/c: replicas is 0, not 1 to 1000"),
        ("resources:\n- {name: a.b/c, gpus: {}, env: A-B}", "p:2: a.b/c: env is no name of a variable"),
        (
            "resources:\n- {name: a.b/c, gpus: {}, cdi: x}",
            "p:2: a.b/c: cdi is no kind of CDI devices (such as vendor.example/nic)",
        ),
        (
            "resources:\n- {name: a.b/c, gpus: {}, devices: [/etc/shadow]}",
            "p:2: a.b/c: devices: '/etc/shadow' is no path below /dev",
        ),
        (
            "resources:\n- {name: a.b/c, gpus: {}, mounts: [{hostPath: x}]}",
            "p:2: a.b/c: mounts: 'x' is no absolute path",
        ),
        (
            "resources:\n- {name: a.b/c, gpus: {vendor: amd}}\n- {name: a.b/c, gpus: {vendor: intel}}",
            "p:3: a.b/c is there twice",
        ),
        (
            "flags: {migStrategy: mixed}\nresources:\n- {name: nvidia.com/mig-1g, gpus: {}}",
            "p:3: nvidia.com/mig-1g is the name of a MIG resource, which migStrategy mixed makes itself",
        ),
        (
            'resources:\n- {name: a.b/c, pci: {vendor: "8086"}}\n- {name: a.b/d, pci: {class: "02"}}',
            (
                "p:3: a.b/c and a.b/d can take the same device"
                " (let them differ in vendor, device, class, driver or address)"
            ),
        ),
    ],
)
def test_what_is_wrong_is_told_once_with_its_line(text: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        read(text.encode(), "p")
    assert str(error.value).startswith(told)
    assert str(error.value) == told or told.endswith("plugin")
