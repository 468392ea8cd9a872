"""What is as it should be, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "aligned": Text(
        "{who} was admitted and is aligned on {nodes:nodes}",
        "[[Container {container}: ]]the merged hint is preferred, for {nodes:nodes}[[ ({merged})]]. Everything it asked for "
        "is there, and the pod was admitted.",
    ),
    "aligned/several": Text(
        "{who} was admitted on {nodes:nodes}, as few as it needs",
        "[[Container {container}: ]]the merged hint is preferred, for {nodes:nodes}[[ ({merged})]]. It asks for more than one "
        "NUMA node has, and the pod was admitted on as few as possible.",
    ),
    "aligned/by-socket": Text(
        "{who} was admitted and is aligned by socket: its CPUs are on {nodes:nodes}",
        "The CPU manager runs with align-by-socket: the merged hint is preferred[[ ({merged})]], and CPUs {cpus} may come from "
        "any NUMA node of its socket.",
    ),
    "healthy": Text("{what}", "{story}"),
    "healthy/pinned": Text(
        "{who} got CPUs {cpus} to itself",
        "The CPU manager gave[[ container {container}]] the exclusive CPUs {cpus}[[ ({requested:cpus} asked for)]][[, all on "
        "{nodes:nodes}]].",
    ),
    "healthy/started": Text(
        "the kubelet started[[ on {node}]]: {managers:managers}",
        "These resource managers started: {managers:managers}[[; CPUs {reserved} are reserved]][[; version {version}]].",
    ),
    "healthy/state": Text(
        "{file} is as a kubelet wrote it[[: policy {policy}]]",
        "The checksum fits the content; it holds {pods:pods}[[ with {exclusive:cpus} of their own]].[[ Shared CPUs: "
        "{sharedCpus}.]]",
    ),
}
