"""What somebody has of a cluster's DRA, from files: `kubectl get resourceslices,resourceclaims,deviceclasses -A -o yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from numaware.cli.file_input import read_file as bytes_of
from numaware.cli.node_input import LoadedNode
from numaware.sentence import Sentence
from numaware.workload.dra.known import DraObjects
from numaware.workload.dra.objects import DeviceSlice
from numaware.workload.dra.reading import read_file, scan
from numaware.workload.yamlfile import MAX_BYTES, documents


def dra_known(
    data: bytes, source: str, given: Sequence[Path], nodes: Sequence[LoadedNode]
) -> tuple[DraObjects, list[Sentence]]:
    """All that the files, the nodes' folders and the manifest itself tell, and what had to be assumed.

    Where one node is asked, and the slices are all of one node, that is the same node, whatever its folder is called.
    """
    found = scan(documents(data, source), source) if b"resource.k8s.io" in data else []
    for path in (*given, *(path for loaded in nodes for path in loaded.dra)):
        found += read_file(bytes_of(str(path), MAX_BYTES), str(path))
    known = DraObjects(found)
    if len(nodes) != 1 or len(known.nodes) != 1 or known.nodes[0] == nodes[0].name:
        return known, []
    name = nodes[0].name
    renamed = [replace(one, node=name) if isinstance(one, DeviceSlice) and one.node else one for one in found]
    note = Sentence("{name}: the slices of {node} are taken to be its own", name=name, node=known.nodes[0])
    return DraObjects(renamed), [note]
