"""`numaware doctor`: a node or a cluster examined, read-only, the worst first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App

from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions
from numaware.cli.machine_input import check_version
from numaware.cli.options import AsJson, flag, option
from numaware.cli.output import deliver
from numaware.diagnose.doctor.check import Check
from numaware.diagnose.doctor.node import examine
from numaware.diagnose.finding import Message, is_trouble
from numaware.diagnose.render import checkup
from numaware.diagnose.texts import Lang, label
from numaware.machine.drawing import terminal
from numaware.machine.tree import open_tree
from numaware.twin.config import DEFAULT_VERSION

app = App(name="doctor", usage="Usage: numaware doctor [--root PATH | --cluster] [OPTIONS]")


@app.default
def doctor(
    *,
    root: Annotated[
        Path, option("The root of the node: / for this one, a folder, or an archive of one.")
    ] = Path("/"),
    cluster: Annotated[bool, flag("Examine the cluster of the kubeconfig instead.")] = False,
    live: ClusterOptions = USUAL_CLUSTER,
    kubelet_version: Annotated[
        str, option("The kubelet's version, such as v1.31.2; files do not tell it.")
    ] = DEFAULT_VERSION,
    as_json: AsJson = False,
    lang: Annotated[Lang, option("The language of the answer: en or zh.")] = "en",
) -> int:
    """Examine a node or a cluster, read-only: what is wrong, worst first, on one screen.

    On a node it looks at the machine (/sys), the kubelet's process, configuration and
    flags, its state files (checksums, policies, entries of pods that are
    gone), whether the kubelet would take them back at a restart, the
    PodResources socket, device plugins, NRI in containerd or CRI-O, control
    groups, and services that work against the kubelet. Nothing is run and
    nothing is written. Run it as root, or what may not be read is unknown.

    With --cluster, --kubeconfig or --context it looks at a cluster: which
    components run, are missing or old; the policies of each node pool;
    whether what is published of the nodes is there and of now; and what is
    wrong with the configurations that kubelets report.

    Exit code: 0 in order (or unknown), 1 something was found, 2 bad input.

    For example:

      sudo numaware doctor
      numaware doctor --root node7/          # a copy of a node's files
      numaware doctor --json --kubelet-version v1.31.2
      numaware doctor --kubeconfig ~/.kube/prod
    """
    check_version("--kubelet-version", kubelet_version)
    if cluster or live != USUAL_CLUSTER:
        name, checks = _cluster(live, lang)
    else:
        name, checks = examine(open_tree(root), kubelet_version)
    if as_json:
        deliver(checkup.as_json(name, checks, lang), None)
    else:
        room = terminal.reading_width(sys.stdout)
        terminal.write(list(checkup.page(name, checks, room, lang)), sys.stdout)
    return int(is_trouble(one for check in checks for one in check.findings))


def _cluster(options: ClusterOptions, lang: Lang) -> tuple[str, tuple[Check, ...]]:
    # Only who asks about a cluster pays for the wire.
    from numaware.cli.cluster_view import look  # noqa: PLC0415
    from numaware.diagnose.doctor.cluster import examine_cluster  # noqa: PLC0415

    view = look(options.kubeconfig, options.context)
    return label(Message("doctor-cluster", {"server": view.name}), lang), examine_cluster(view)
