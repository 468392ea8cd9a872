"""The pod that a question is about: amounts from a form, or a manifest."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.sentence import Sentence, sentence_of
from numaware.workload import manifest
from numaware.workload.manifest import Workload
from numaware.workload.pod import NANO, Container, Pod

Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
Scope = Literal["container", "pod"]
Amount = Annotated[
    str, msgspec.Meta(max_length=32, description="A Kubernetes quantity, such as 8, 500m or 96Gi")
]

_MOST = {"cpu": 1 << 16, "memory": 1 << 56, "gpu": 1 << 12}
GPU = "nvidia.com/gpu"


class Shape(msgspec.Struct, frozen=True, rename="camel"):
    """One Guaranteed container of these amounts."""

    cpu: Amount = "24"
    memory: Amount = "96Gi"
    gpu: Annotated[int, msgspec.Meta(ge=0, le=4096, description="How many devices of `gpuResource`")] = 2
    gpu_resource: Annotated[str, msgspec.Meta(max_length=253, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")] = GPU


def pod_of(shape: Shape) -> Pod:
    """The pod of a shape; `InputError` for amounts that are none."""
    amounts = {"cpu": _amount("cpu", shape.cpu), "memory": _amount("memory", shape.memory)}
    if shape.gpu:
        amounts[shape.gpu_resource] = shape.gpu * NANO
    resources = tuple(sorted((name, nano) for name, nano in amounts.items() if nano))
    return Pod("shape", uid="shape", containers=(Container("main", resources, resources),))


def _amount(name: str, text: str) -> int:
    try:
        nano = Quantity.parse(text).nano
    except ValueError as error:
        raise InputError(name, sentence_of(error), hint=Sentence("such as 8, 500m or 96Gi")) from None
    if not 0 <= nano <= _MOST[name] * NANO:
        raise InputError(name, Sentence("{amount} is beyond any machine", amount=printable(text, 40)))
    return nano


def workload_of(text: str) -> Workload:
    """The first pod, or pod template, of a manifest."""
    return manifest.first(text.encode(errors="replace"), "manifest")
