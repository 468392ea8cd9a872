"""`numaware config`: kubelet configurations made for a machine, and what an upgrade would change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from numaware.cli.machine_input import check_version, existing, load_machine, named_machine
from numaware.cli.options import AsJson, option, optional, repeatable
from numaware.cli.output import deliver, write_json
from numaware.cli.tables import aligned
from numaware.diagnose.finding import Message
from numaware.diagnose.recommend.configuration import Purpose
from numaware.diagnose.recommend.configuration import recommend as work_out
from numaware.diagnose.render import kubelet_yaml
from numaware.diagnose.texts import Lang, say
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.machine.words import printable
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.rules import modelled_as, named_version

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


@app.command(name="upgrade-check")
def upgrade_check(
    node: Annotated[
        tuple[str, ...],
        repeatable(
            "A node's folder as for numaware explain, or / for this machine; repeatable for a pool.", "--node"
        ),
    ],
    *,
    to: Annotated[str, option("The release to upgrade to, such as v1.37.")],
    kubelet_version: Annotated[
        str, optional("The kubelet's version now, where the folder does not say it.")
    ] = "",
    pods: Annotated[
        Path | None, option("What kubectl get pods -A -o json printed, for the pods on the node.")
    ] = None,
    as_json: AsJson = False,
    lang: Annotated[Lang, option("The language of the answer: en or zh.")] = "en",
) -> int:
    """Say what an upgrade of a node's kubelet would change, before it is done.

    Whether it starts with this configuration and these state files, which
    running pods it would refuse, which options and gates are another than
    before, how its files change, and what it does otherwise from then on.

    Exit code: 0 it starts and keeps every pod, 1 it does not, 2 bad input.

    For example:

      numaware config upgrade-check --node / --to v1.37
      numaware config upgrade-check --node n1/ --node n2/ --to v1.36 --kubelet-version v1.31.4 --json
    """
    from numaware.cli.node_input import Options, load_node  # noqa: PLC0415 - the other command needs no node
    from numaware.diagnose.upgrade import upgrade_changes  # noqa: PLC0415

    check_version("--to", to)
    options = Options(version=kubelet_version, pods=pods)
    answers = [
        (loaded.name, loaded.node.kubelet.config.version, upgrade_changes(loaded.node, to))
        for loaded in (load_node(text, options) for text in node)
    ]
    if as_json:
        write_json(
            [
                {
                    "node": name,
                    "from": before,
                    "to": to,
                    "modelledAs": modelled_as(to) or None,
                    "changes": [
                        {
                            "area": one.area,
                            "subject": one.subject,
                            "breaks": one.breaks,
                            "text": say(one.text, lang),
                        }
                        for one in changes
                    ],
                }
                for name, before, changes in answers
            ],
            indent=2,
        )
    else:
        for name, before, changes in answers:
            sys.stdout.write(f"{name}: {before} -> {named_version(to)}\n")
            rows = [
                ("!" if one.breaks else "", one.area, one.subject, say(one.text, lang)) for one in changes
            ]
            sys.stdout.writelines(f"  {line}" for line in aligned(rows, gap=2))
    return int(any(one.breaks for _, _, changes in answers for one in changes))


def _machine(file: Path | None, text: str, root: Path | None) -> tuple[str, Machine]:
    """The machine, named in one of three ways, and what to call it."""
    if sum(map(bool, (file, text, root))) != 1:
        raise InputError("machine", "give one of FILE, --machine and --root", hint="--root / is this machine")
    if text:
        return printable(" ".join(text.split()), 120), named_machine(text)
    path = file or root or Path("/")
    machine = load_machine(path)
    return machine.product or path.resolve().name or "this machine", machine
