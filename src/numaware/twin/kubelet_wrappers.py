"""Where platforms keep kubelet settings inside documents of their own.

OpenShift's MachineConfig carries whole files as data URLs. Cluster tools (eksctl, GKE, Talos, MicroShift) keep a piece of a
KubeletConfiguration under a key of a few well-known names; k3s and RKE2 list flags.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from numaware.twin import kubelet_fields
from numaware.workload.yamlfile import MAX_BYTES, Node

# Under these keys a mapping is a piece of a KubeletConfiguration, whoever wrote the document around it.
_PIECES = ("kubeletConfig", "kubeletConfiguration", "kubeletExtraConfig")
_TALOS_PIECE = "extraConfig"
# MicroShift keeps one at the top of its own file. An exporter has a key of this name too, with two settings for itself.
_MICROSHIFT_PIECE = "kubelet"
_EXPORTERS = {"topologyManagerPolicy", "topologyManagerScope"}


def machine_config_files(node: Node) -> Iterator[Node]:
    """The texts of the files that a MachineConfig writes."""
    for file in node.get("spec", "config", "storage", "files").items:
        source = file.get("contents", "source")
        if source.text is None or not source.text.startswith("data:"):
            continue
        head, comma, body = source.text.partition(",")
        try:
            data = base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
            if file.get("contents", "compression").text == "gzip":
                data = zlib.decompressobj(wbits=31).decompress(data, MAX_BYTES)
        except (binascii.Error, ValueError, zlib.error):
            continue
        if comma:
            yield Node(data.decode(errors="replace"), source.line)


def pieces(node: Node) -> Iterator[Node]:
    """Mappings below a document that are pieces of a KubeletConfiguration."""
    # An alias may lead to one mapping by many ways; each is walked once.
    seen = set()
    stack = [(node, "")]
    while stack:
        here, name = stack.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        below = []
        for key, child in here.mapping.items():
            is_piece = (
                key in _PIECES
                or (key == _TALOS_PIECE and name == "kubelet")
                or (key == _MICROSHIFT_PIECE and here is node and not child.mapping.keys() <= _EXPORTERS)
                or (key == "config" and here is node and node.get("kind").text == "KubeletConfig")
            )
            if is_piece and any(field in kubelet_fields.KNOWN for field in child.mapping):
                yield child
            elif isinstance(child.value, dict | list):
                below.append((child, key))
        below += [(item, name) for item in here.items]
        stack.extend(reversed(below))


def listed_flags(node: Node) -> list[tuple[str, str]]:
    """`kubelet-arg` of k3s and RKE2: a list of `name=value`, with or without dashes before it."""
    given = [item.text for item in node.get("kubelet-arg").items if item.text is not None]
    pairs = [text.lstrip("-").partition("=") for text in given]
    return [(name.strip(), value.strip()) for name, _, value in pairs]
