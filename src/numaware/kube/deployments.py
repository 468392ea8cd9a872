"""Deployments: how far their newest pods have come, and how to have all of them start anew.

A restart is what `kubectl rollout restart` does: another annotation on the pod template, which the controller answers with
new pods. Taking that annotation back is how it is undone: the controller then returns to the pods it had before.
"""

from __future__ import annotations

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Condition, Metadata, Reader, Wire, condition
from numaware.kube.resources import DEPLOYMENTS

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


class Rollout(msgspec.Struct, frozen=True):
    """A Deployment and its pods: how many there should be, are of the newest kind, are there at all, and are ready.

    `failed` is what the controller says when it has waited for the pods for longer than the Deployment allows.
    """

    generation: int
    observed: int
    wanted: int
    updated: int
    total: int
    available: int
    paused: bool
    failed: str
    restarted_at: str | None

    def done(self, generation: int) -> bool:
        """Whether all its pods are as this generation of it wants them, and ready."""
        return self.observed >= generation and self.updated == self.total == self.available == self.wanted

    def gave_up(self, generation: int) -> bool:
        """Whether the controller says that this will not come to be."""
        return self.observed >= generation and bool(self.failed)


async def read(client: Client, name: str, namespace: str) -> Rollout:
    """The Deployment as it is now."""
    return _decoded(await client.get(DEPLOYMENTS, name, namespace))


async def restart(client: Client, name: str, namespace: str, moment: str | None) -> Rollout:
    """Have its pods start anew, as of this moment; an earlier moment (None: never) goes back to the pods it had then."""
    annotations = {"annotations": {RESTARTED_AT: moment}}
    body = {"spec": {"template": {"metadata": annotations}}}
    return _decoded(await client.patch(DEPLOYMENTS, name, body, namespace))


class _TemplateMetadata(Wire):
    annotations: dict[str, str] | None = None


class _Template(Wire):
    metadata: _TemplateMetadata | None = None


class _Spec(Wire):
    template: _Template
    replicas: int | None = None
    paused: bool = False


class _Status(Wire):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] | None = None


class _Deployment(Wire):
    metadata: Metadata
    spec: _Spec
    status: _Status | None = None


_DEPLOYMENT = Reader("Deployment", _Deployment)


def _decoded(answer: bytes) -> Rollout:
    wire = _DEPLOYMENT.answered(answer)
    status = wire.status or _Status()
    metadata = wire.spec.template.metadata or _TemplateMetadata()
    progressing = condition(status.conditions, "Progressing")
    return Rollout(
        generation=wire.metadata.generation,
        observed=status.observed_generation,
        wanted=1 if wire.spec.replicas is None else wire.spec.replicas,
        updated=status.updated_replicas,
        total=status.replicas,
        available=status.available_replicas,
        paused=wire.spec.paused,
        failed=progressing.message or progressing.reason if progressing.status == "False" else "",
        restarted_at=(metadata.annotations or {}).get(RESTARTED_AT),
    )
