"""What is as it should be, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "aligned": Text(
        "{who} was admitted and is aligned on {nodes:nodes}",
        "Container {container} got a preferred hint for {nodes:nodes}[[ ({merged})]]: everything it asked for is there, "
        "and the pod was admitted.",
    ),
    "aligned/several": Text(
        "{who} was admitted on {nodes:nodes}, as few as it needs",
        "Container {container} got a preferred hint for {nodes:nodes}[[ ({merged})]]: it asks for more than one NUMA node "
        "has, and the pod was admitted on as few as possible.",
    ),
    "healthy": Text("{what}", "{story}"),
    "healthy/pinned": Text(
        "{who} got CPUs {cpus} to itself",
        "The CPU manager gave container {container} the exclusive CPUs {cpus}[[ ({requested:cpus} asked for)]][[, all on "
        "{nodes:nodes}]].",
    ),
    "healthy/started": Text(
        "the kubelet started[[ on {node}]]: {managers:managers}",
        "The resource managers started with {managers:managers}[[; the Topology Manager with policy {policy}]]"
        "[[; CPUs {reserved} are reserved]].",
    ),
    "healthy/state": Text(
        "{file} is as a kubelet wrote it[[: policy {policy}]]",
        "The checksum fits the content; it holds {pods:pods}[[ with {exclusive:cpus} of their own]].[[ Shared CPUs: "
        "{sharedCpus}.]]",
    ),
}
