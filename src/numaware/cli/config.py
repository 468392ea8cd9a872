"""`numaware config`: kubelet configurations made for a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from numaware.cli.machine_input import check_version, existing, load_machine, named_machine
from numaware.cli.options import AsJson, option, optional
from numaware.cli.output import deliver
from numaware.diagnose.finding import Message
from numaware.diagnose.recommend.configuration import Purpose
from numaware.diagnose.recommend.configuration import recommend as work_out
from numaware.diagnose.render import kubelet_yaml
from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.machine.words import printable
from numaware.twin.config import DEFAULT_VERSION

# `--version` is the kubelet's here.
app = App(name="config", help="Kubelet configurations made for a machine.", version_flags=[])


@app.command
def recommend(
    file: Annotated[
        Path | None, Parameter(name="FILE", help="A capture of the machine, or its topology in JSON.")
    ] = None,
    /,
    *,
    workload: Annotated[
        Purpose, option("What the machine is for: ai-training, inference, latency, database or mixed.")
    ],
    machine: Annotated[
        str, optional("The machine in short form, such as '2s x 1n x 16c x 2t +gpu@0,1'.")
    ] = "",
    root: Annotated[
        Path | None, option("Where /sys and /proc of the machine are; / is this machine.")
    ] = None,
    version: Annotated[str, option("The kubelet's version; what it lacks is left out.")] = DEFAULT_VERSION,
    output: Annotated[
        Path | None, Parameter(alias="-o", help="The file to write; standard output otherwise.")
    ] = None,
    as_json: AsJson = False,
    lang: Annotated[Lang, option("The language of the comments: en or zh.")] = "en",
) -> int:
    """Write a KubeletConfiguration for a machine and what it is there for, each line explained.

    CPUs are reserved as whole cores, by NUMA node and where the devices are;
    reserved memory is split over the NUMA nodes and adds up exactly, which
    the kubelet insists on; policies, scope and options follow from the
    workload; what the kubelet's version does not have is left out.

    The file was tried before it is shown: the twin of this kubelet starts
    with it and admits a pod of the kind it is for.

    Exit code: 0 written, 2 bad input.

    For example:

      numaware config recommend --workload ai-training --root /
      numaware config recommend --workload latency node7.tar.gz -o kubelet-config.yaml
      numaware config recommend --workload inference --machine '2s x 1n x 16c x 2t +gpu@0,1' --version v1.31
    """
    check_version("--version", version)
    name, subject = _machine(file, machine, root)
    try:
        advice = work_out(subject, workload, version)
    except InputError as error:
        raise InputError(name, error.problem, hint=error.hint) from None
    if machine and existing(machine) is None and synthetic.assumes_memory(machine):
        assumed = Message("recommend-memory-assumed", {"size": synthetic.ASSUMED_MEMORY})
        advice = advice._replace(notes=(*advice.notes, assumed))
    if as_json:
        deliver(kubelet_yaml.as_json(advice, name, lang), output)
    else:
        deliver(kubelet_yaml.render(advice, name, lang).encode(), output)
    return 0


def _machine(file: Path | None, text: str, root: Path | None) -> tuple[str, Machine]:
    """The machine, named in one of three ways, and what to call it."""
    if sum(map(bool, (file, text, root))) != 1:
        raise InputError("machine", "give one of FILE, --machine and --root", hint="--root / is this machine")
    if text:
        return printable(" ".join(text.split()), 120), named_machine(text)
    path = file or root or Path("/")
    machine = load_machine(path)
    return machine.product or path.resolve().name or "this machine", machine
