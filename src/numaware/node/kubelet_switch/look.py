"""What a plan is made from, read at the edge: the machine, the kubelet's files and, where there is one, the API server."""

from __future__ import annotations

from pathlib import Path

from numaware.diagnose.doctor.node_root import NodeRoot
from numaware.errors import InputError
from numaware.kube.errors import ApiError
from numaware.machine import sysfs
from numaware.machine.tree import open_tree
from numaware.node.kubelet_files import KubeletFiles
from numaware.node.kubelet_switch.cluster import ClusterNode
from numaware.node.kubelet_switch.place import Place, recognise
from numaware.node.kubelet_switch.plan import Situation
from numaware.sentence import Sentence
from numaware.twin.config import DEFAULT_VERSION


def place_of(root: Path, *, unit: str = "", config: str = "", kubelet_root: str = "") -> Place:
    """Where the kubelet of the node with this root is configured."""
    return recognise(NodeRoot(open_tree(root)), unit=unit, config=config, kubelet_root=kubelet_root)


async def look(
    root: Path, place: Place, cluster: ClusterNode | None, version: str = "", machine_root: Path | None = None
) -> Situation:
    """The node as it is now; `version` is asked of the API server if it is not given."""
    machine = sysfs.read(open_tree(machine_root or root))
    folder = root / place.kubelet_root.lstrip("/")
    files = KubeletFiles(folder).state()
    if cluster is None:
        return Situation(place, machine, files, version or DEFAULT_VERSION)
    try:
        live, pods = await cluster.read(), await cluster.pods()
    except ApiError as error:
        raise InputError(
            f"node {cluster.name}",
            Sentence("the API server does not tell of it: {problem}", problem=str(error)),
            hint=Sentence("--node names the Node, --kubeconfig an account that may read it"),
        ) from None
    return Situation(
        place, machine, files, version or live.kubelet_version, cluster.name, tuple(pods), live.unschedulable
    )
