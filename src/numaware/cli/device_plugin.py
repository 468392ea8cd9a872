"""`numaware device-plugin`: the options of the device plugin, what it would offer, and its start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from numaware.cli.agent import import_plain_logs
from numaware.cli.file_input import read_file
from numaware.cli.live_input import LogFormat, run_until_signal
from numaware.cli.options import AsJson, flag, option, optional
from numaware.cli.output import complain, write_json
from numaware.cli.tables import table
from numaware.errors import InputError
from numaware.node.device_plugin.config import Config, read
from numaware.node.device_plugin.inventory import Resource, Survey, take_stock
from numaware.node.device_plugin.surveyor import Surveyor
from numaware.workload.yamlfile import MAX_BYTES

app = App(name="device-plugin", usage="Usage: numaware device-plugin --config FILE [OPTIONS]")


@app.default
def device_plugin(
    *,
    config: Annotated[Path, option("Which devices become which resource (YAML).")],
    show: Annotated[bool, flag("Say what would be offered, and end.")] = False,
    as_json: AsJson = False,
    root: Annotated[
        Path, option("Where the node's / is; with --show also a capture of another machine.")
    ] = Path("/"),
    device_plugins: Annotated[
        Path | None,
        optional(
            "The kubelet's folder of plugins; var/lib/kubelet/device-plugins below --root if not given."
        ),
    ] = None,
    nvml: Annotated[
        bool,
        Parameter(
            negative="--no-nvml", help="Ask NVIDIA's library about GPUs, where numaware[nvidia] is installed."
        ),
    ] = True,
    seconds: Annotated[float, option("How often to look whether all devices are still there.")] = 5.0,
    listen: Annotated[str, option("Where /metrics, /healthz and /readyz are.")] = ":9202",
    metrics: Annotated[bool, Parameter(negative="--no-metrics", help="Answer Prometheus.")] = True,
    log: LogFormat = "text",
) -> int:
    """Offer devices of this node to the kubelet, with the NUMA node of each.

    GPUs, PCI devices and SR-IOV functions become resources that pods ask for
    (vendor.example/nic: 1). Each device carries the NUMA node that the kernel
    gives it, slices of a GPU (MIG) that of their GPU; one without is offered
    without. Of several the closest are preferred: same NUMA node, then PCIe,
    then NVLink. Shared devices (replicas) are spread.

    The file takes the flags of NVIDIA's device plugin as they are:

      version: v1
      flags:
        migStrategy: none
        plugin: {passDeviceSpecs: true}
      resources:
        - name: nvidia.com/gpu
          gpus: {vendor: nvidia}
        - name: vendor.example/vf
          sriov: {vendor: "15b3", driver: vfio-pci}

    Exit code with --show: 0 there are devices, 1 there are none, 2 bad input.

    For example:

      numaware device-plugin --config plugin.yaml --show
      numaware device-plugin --config plugin.yaml --show --json --root capture.tar.gz
      numaware device-plugin --config plugin.yaml --root /host --log json
    """
    wanted = read(read_file(config, MAX_BYTES), str(config))
    if not 0.1 <= seconds <= 3600:
        raise InputError("--seconds", f"{seconds:g} is outside 0.1 to 3600")
    if show:
        return _show(wanted, str(root), nvml=nvml, as_json=as_json)
    if as_json:
        raise InputError("--json", "goes with --show")
    import_plain_logs()
    from numaware.node.device_plugin.plugin import PluginOptions, run_plugin  # noqa: PLC0415 - only now is gRPC needed
    from numaware.serve import logs  # noqa: PLC0415

    logs.set_up(log)
    folder = device_plugins or root / "var/lib/kubelet/device-plugins"
    options = PluginOptions(wanted, folder, str(root), nvml, listen if metrics else None, seconds)
    run_until_signal(run_plugin(options))
    return 0


def _show(config: Config, root: str, *, nvml: bool, as_json: bool) -> int:
    """What would be offered."""
    surveyor = Surveyor(config, root, nvml=nvml)
    try:
        survey = surveyor.look()
        stock = take_stock(config, survey)
    finally:
        surveyor.close()
    devices = [(resource, name, unit) for resource in stock.values() for name, unit in resource.ids()]
    if as_json:
        write_json(_facts(surveyor.source, survey, list(stock.values())), indent=2)
    elif devices:
        rows = [
            (
                resource.name,
                name,
                "-" if unit.numa is None else str(unit.numa),
                unit.address,
                unit.driver or "-",
                ", ".join(unit.nodes) or "-",
            )
            for resource, name, unit in devices
        ]
        sys.stdout.writelines(table(("RESOURCE", "DEVICE", "NUMA", "PCI", "DRIVER", "DEVICE NODES"), rows))
    else:
        sys.stdout.write("no device of this machine is taken\n")
    if survey.driver_problem:
        complain(survey.driver_problem)
    nowhere = sum(unit.numa is None for resource in stock.values() for unit in resource.units.values())
    if nowhere:
        complain(f"of {nowhere} devices the kernel knows no NUMA node (-1): the kubelet will not align them")
    return int(not devices)


def _facts(source: str, survey: Survey, resources: list[Resource]) -> dict[str, Any]:
    return {
        "gpusFrom": source,
        "resources": [
            {
                "name": resource.name,
                "replicas": resource.rule.replicas,
                "devices": [
                    {
                        "id": unit.id,
                        "address": unit.address,
                        "numa": unit.numa,
                        "driver": unit.driver,
                        "deviceNodes": unit.nodes,
                        "index": unit.index or None,
                    }
                    for unit in resource.units.values()
                ],
            }
            for resource in resources
        ],
        "nvlinks": [
            {"a": min(pair), "b": max(pair), "links": links}
            for pair, links in sorted(survey.nvlinks.items(), key=lambda item: sorted(item[0]))
        ],
    }
