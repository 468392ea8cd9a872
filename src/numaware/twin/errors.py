"""How the kubelet says no: to a configuration, to a pod, or by crashing."""

from __future__ import annotations


class StartError(Exception):
    """The kubelet refuses to start; `stage` is the manager that said so."""

    def __init__(self, stage: str, message: str) -> None:
        self.stage = stage
        self.message = message
        super().__init__(f"{stage}: {message}")


class AdmissionError(Exception):
    """A manager refuses a container; becomes the reason and message of the pod's failure.

    `resource` is what could not be given (cpu, memory, a device resource); empty when hints did not agree.
    """

    def __init__(self, reason: str, message: str, resource: str = "") -> None:
        self.reason = reason
        self.message = message
        self.resource = resource
        super().__init__(message)


class KubeletPanic(Exception):  # noqa: N818 - it is what Go calls it
    """The kubelet's own code would crash on this input, with this run-time error."""


class EndlessLoop(KubeletPanic):
    """It would not crash but never come back: from dealing CPUs over NUMA nodes."""


def unexpected(error: str, resource: str) -> AdmissionError:
    """An error without a reason of its own, as the kubelet words it."""
    message = f"Allocate failed due to {error}, which is unexpected"
    return AdmissionError("UnexpectedAdmissionError", message, resource)


def smt_alignment(problem: str) -> AdmissionError:
    """A refusal of `full-pcpus-only`."""
    return AdmissionError("SMTAlignmentError", f"SMT Alignment Error: {problem}", "cpu")


def topology_affinity(*, own: bool = False, by_pod: bool = False) -> AdmissionError:
    """The Topology Manager's one message for every cause; it has others for pods whose `own` resources are handed out."""
    message = "Resources cannot be allocated with Topology locality"
    if own:
        # KUBELET: it says "Pod Scope" of either scope (PodLevelTopologyAffinityError).
        where = "under pod-scope topology manager" if by_pod else "with a container-level topology manager"
        message = f"Pod Scope pod with pod-level resources failed admission {where}"
    return AdmissionError("TopologyAffinityError", message)


def empty_shared_pool(problem: str, resource: str) -> AdmissionError:
    """A refusal of a pod whose exclusive containers leave nothing of the pod's own resources to the others."""
    return AdmissionError("EmptyPodSharedPoolError", f"pod rejected, {problem}", resource)
