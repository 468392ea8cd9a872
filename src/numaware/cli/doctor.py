"""`numaware doctor`: a node or a cluster examined, read-only, the worst first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App
from msgspec.structs import replace

from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, look_at
from numaware.cli.machine_input import check_version
from numaware.cli.options import AsJson, flag, option, optional
from numaware.cli.output import deliver
from numaware.diagnose.doctor.check import Check, worst_first
from numaware.diagnose.doctor.node import examine
from numaware.diagnose.doctor.restart import restart_check, stopped_check
from numaware.diagnose.finding import Message, is_trouble
from numaware.diagnose.render import checkup
from numaware.diagnose.texts import Lang, label
from numaware.errors import InputError
from numaware.machine.drawing import terminal
from numaware.machine.tree import open_tree
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.node import Node

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
    restart_safe: Annotated[
        bool, flag("Only ask which running pods the kubelet would refuse if it were started again now.")
    ] = False,
    to: Annotated[
        str, optional("With --restart-safe: as a kubelet of this release, such as v1.37, would start.")
    ] = "",
    pods: Annotated[
        Path | None,
        option(
            "With --restart-safe: what kubectl get pods -A -o json printed, for pods of the node's files."
        ),
    ] = None,
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

    With --restart-safe it asks one thing only: a kubelet admits every pod
    anew when it starts; which of those that run now would it refuse, and
    why? --to asks the same of another release, before an upgrade. On a node
    it takes the files that numaware explain takes, and --pods; on a cluster
    all that is known of each node.

    Exit code: 0 in order (or unknown), 1 something was found, 2 bad input.

    For example:

      sudo numaware doctor
      numaware doctor --restart-safe --root node7/ --pods pods.json
      numaware doctor --restart-safe --to v1.37 --cluster
      numaware doctor --root node7/          # a copy of a node's files
      numaware doctor --json --kubelet-version v1.31.2
      numaware doctor --kubeconfig ~/.kube/prod
    """
    check_version("--kubelet-version", kubelet_version)
    if (to or pods) and not restart_safe:
        raise InputError("--to" if to else "--pods", "goes with --restart-safe only")
    if restart_safe:
        if to:
            check_version("--to", to)
        checks = _restarted(root, cluster, live, kubelet_version, pods, to)
        name = label(Message("check-restart-pods"), lang)
    elif cluster or live != USUAL_CLUSTER:
        name, checks = _cluster(live, lang)
    else:
        name, checks = examine(open_tree(root), kubelet_version)
    if as_json:
        deliver(checkup.as_json(name, checks, lang), None)
    else:
        room = terminal.reading_width(sys.stdout)
        terminal.write(list(checkup.page(name, checks, room, lang)), sys.stdout)
    return int(is_trouble(one for check in checks for one in check.findings))


def _restarted(
    root: Path, cluster: bool, live: ClusterOptions, version: str, pods: Path | None, to: str
) -> tuple[Check, ...]:
    from numaware.cli.node_input import WouldNotStartError  # noqa: PLC0415 - needed only now

    try:
        nodes = list(_nodes(root, cluster, live, version, pods))
    except WouldNotStartError as error:
        return (stopped_check(error.source, error.version, error.said),)
    return tuple(worst_first([restart_check(*one, to) for one in nodes]))


def _nodes(
    root: Path, cluster: bool, live: ClusterOptions, version: str, pods: Path | None
) -> Iterator[tuple[str, Node]]:
    """The nodes to ask: each of the cluster, or the one that the files are of."""
    if not (cluster or live != USUAL_CLUSTER):
        from numaware.cli.node_input import Options, load_node  # noqa: PLC0415 - needed only now

        loaded = load_node(
            str(root), Options(version="" if version == DEFAULT_VERSION else version, pods=pods)
        )
        yield loaded.name, loaded.node
        return
    cache, _ = look_at(live)
    created = {one.uid: one.created.isoformat() if one.created else "" for one in cache.pods}
    for name, member in sorted(cache.engine.cluster.by_name.items()):
        state = member.node.state
        ordered = dict(sorted(state.pods.items(), key=lambda item: created.get(item[0], "")))
        yield name, Node(member.node.kubelet, replace(state, pods=ordered))


def _cluster(options: ClusterOptions, lang: Lang) -> tuple[str, tuple[Check, ...]]:
    # Only who asks about a cluster pays for the wire.
    from numaware.cli.cluster_view import look  # noqa: PLC0415
    from numaware.diagnose.doctor.cluster import examine_cluster  # noqa: PLC0415

    view = look(options.kubeconfig, options.context)
    return label(Message("doctor-cluster", {"server": view.name}), lang), examine_cluster(view)
