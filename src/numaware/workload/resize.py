"""A pod that is being resized in place: what its kubelet has given it, and what a scheduler has to count until that is over.

`spec` says what the pod is to have, `status` what its kubelet has promised it (`allocatedResources`) and what its containers
run with (`resources`). Called by `kube/pods.py` for pods whose status says something else than their spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numaware.workload.pod import Container, Pod, Resources
from numaware.workload.qos import qos_class, requested_in_all


class Standing(msgspec.Struct, frozen=True):
    """What one container, or the pod as a whole, was promised and runs with; None where the status does not say."""

    promised: Resources | None = None
    actual: Resources | None = None


NO_STANDING = Standing()


def in_resize(pod: Pod, containers: Mapping[str, Standing], whole: Standing, *, infeasible: bool) -> Pod:
    """The pod with what its kubelet holds for it; what counts beyond that is `resizing`.

    KUBE-SCHEDULER: the largest of the three counts for each resource, and not what was asked for once the kubelet has
    said that it will never be given (determineContainerReqs).
    """

    def held(container: Container, standing: Standing) -> Resources:
        given = standing.actual if standing.promised is None else standing.promised
        return container.requests if given is None else _over(container.requests, given)

    def counted(container: Container, standing: Standing) -> Resources:
        given = [one for one in (standing.promised, standing.actual) if one is not None]
        if not given:
            return container.requests
        return _largest(given if infeasible else [container.requests, *given])

    def changed(of: Iterable[Container], *, counts: bool) -> tuple[Container, ...]:
        rule = counted if counts else held
        return tuple(
            msgspec.structs.replace(one, requests=rule(one, containers.get(one.name, NO_STANDING)))
            for one in of
        )

    standing = msgspec.structs.replace(
        pod,
        # The class never changes with a resize, and would be read off amounts of different moments.
        qos=qos_class(pod),
        containers=changed(pod.containers, counts=False),
        init_containers=changed(pod.init_containers, counts=False),
    )
    own = [one for one in (whole.promised, whole.actual) if one is not None] if pod.pod_level else []
    most = msgspec.structs.replace(
        pod,
        containers=changed(pod.containers, counts=True),
        init_containers=changed(pod.init_containers, counts=True),
        pod_requests=_largest([pod.pod_requests, *own]) if own else pod.pod_requests,
    )
    base = requested_in_all(standing)
    more = {name: nano - base.get(name, 0) for name, nano in requested_in_all(most).items()}
    return msgspec.structs.replace(
        standing, resizing=tuple(sorted((name, nano) for name, nano in more.items() if nano > 0))
    )


def _over(requests: Resources, given: Resources) -> Resources:
    return tuple(sorted({**dict(requests), **dict(given)}.items()))


def _largest(parts: Iterable[Resources]) -> Resources:
    most: dict[str, int] = {}
    for part in parts:
        for name, nano in part:
            most[name] = max(nano, most.get(name, 0))
    return tuple(sorted(most.items()))
