"""Looks at the machine for the device plugin: sysfs for all devices, NVIDIA's driver for what only it knows.

One look reads some files per PCI function; it blocks, so the plugin takes it in a thread.
"""

from __future__ import annotations

from threading import Lock

import msgspec

from numaware.machine import sysfs
from numaware.machine.nvidia_driver import DriverGpu, read_gpus, read_mig_nodes
from numaware.machine.sysfs.device_nodes import read_device_nodes
from numaware.machine.sysfs.pci import read_pci
from numaware.machine.sysfs.source import Source
from numaware.machine.topology import Machine
from numaware.machine.tree import Tree, open_tree
from numaware.node.device_plugin.config import NVIDIA, Config
from numaware.node.device_plugin.health import Fault
from numaware.node.device_plugin.inventory import NVIDIA_DRIVERS, Gpu, Survey
from numaware.node.device_plugin.nvml import Linked, Nvml, NvmlError, load

# Those that all GPUs share; a container needs each that is there.
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


class Surveyor:
    """Looks again and again at one machine; NUMA nodes are read once, as they do not come and go."""

    def __init__(self, config: Config, root: str = "/", *, nvml: bool = True) -> None:
        self._config = config
        self._root = root
        self._module = load() if nvml and _may_take_nvidia(config) else None
        self._nvml: Nvml | None = None
        self._by_nvml = False
        # Nothing is closed while another thread waits for what it tells.
        self._in_use = Lock()
        self._first: Machine | None = None

    def look(self) -> Survey:
        """What is there now."""
        tree = open_tree(self._root)
        if self._first is None:
            self._first = sysfs.read(tree)
        source = Source(tree)
        machine = msgspec.structs.replace(self._first, pci=read_pci(source), devices=())
        selectors = [rule.selector for rule in self._config.resources]
        taken = [function for function in machine.pci if any(one.takes(function) for one in selectors)]
        nodes = {function.address: read_device_nodes(source, function) for function in taken}
        try:
            linked, problem = self._driver(machine, source), ""
        except NvmlError as error:
            linked, problem = Linked({}, {}), str(error)
            self._let_go()
        dev_root = self._dev_root(tree)
        control = tuple(path for path in _CONTROL if tree.exists(f"{dev_root}{path}".lstrip("/")))
        return Survey(machine, nodes, linked.gpus, linked.nvlinks, control, dev_root, problem)

    def faults(self) -> list[Fault]:
        """Critical errors of GPUs since the last call; waits a second for them where there is a driver to ask."""
        with self._in_use:
            return list(self._nvml.faults()) if self._nvml else []

    @property
    def source(self) -> str:
        """Who tells of NVIDIA's GPUs."""
        return "nvml" if self._by_nvml else "sysfs"

    def close(self) -> None:
        if self._nvml:
            self._nvml.close()

    def _let_go(self) -> None:
        """A driver that was loaded anew answers only who begins anew, too."""
        with self._in_use:
            if self._nvml:
                self._nvml.close()
                self._nvml = None

    def _driver(self, machine: Machine, source: Source) -> Linked:
        """All that NVML says; without it, each NVIDIA GPU of sysfs with what the driver writes into /proc."""
        listed = read_gpus(source)
        if self._module is not None and self._nvml is None:
            self._nvml = self._open(listed)
            self._by_nvml = self._by_nvml or self._nvml is not None
        if self._nvml is not None:
            return self._nvml.gpus(read_mig_nodes(source))
        gpus = [
            function.address
            for function in machine.pci
            if function.vendor == NVIDIA
            and function.class_code[:2] in ("03", "12")
            and function.virtual_function_of is None
            and function.driver in NVIDIA_DRIVERS
        ]
        return Linked({address: _gpu(index, listed.get(address)) for index, address in enumerate(gpus)}, {})

    def _open(self, listed: dict[str, DriverGpu]) -> Nvml | None:
        try:
            return Nvml(self._module, self._config.flags.nvidia_driver_root)
        except NvmlError:
            # Without a driver there is nothing for it to work with, which is no fault of this node; unless there was one, which
            # has given the GPUs their names.
            if listed or self._by_nvml:
                raise
            return None

    def _dev_root(self, tree: Tree) -> str:
        """Where the host has the driver's device nodes: below its root, if it brings a /dev of its own."""
        root = self._config.flags.nvidia_driver_root
        return root if tree.exists(f"{root}/dev/nvidiactl".lstrip("/")) else "/"


def driver_problem(config: Config, survey: Survey) -> str:
    """What is wrong with NVIDIA's driver, if its GPUs are asked for by name; "" where nothing is."""
    named = any(rule.gpus is not None and NVIDIA in rule.selector.vendors for rule in config.resources)
    if survey.driver_problem or not named:
        return survey.driver_problem
    return "" if survey.gpus else "this node has no GPU of NVIDIA"


def _may_take_nvidia(config: Config) -> bool:
    rules = [rule.selector for rule in config.resources if rule.gpus is not None]
    return any(not selector.vendors or NVIDIA in selector.vendors for selector in rules)


def _gpu(index: int, listed: DriverGpu | None) -> Gpu:
    minor = listed.minor if listed and listed.minor is not None else index
    return Gpu(index, listed.uuid if listed else "", (f"/dev/nvidia{minor}",))
