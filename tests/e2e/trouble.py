"""A burst of pods in the middle of which something goes wrong, and what is asked of the cluster afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from e2e import load
from e2e.api import Object
from e2e.audit import audit, phases
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon
from e2e.program import eventually
from e2e.proxy import FaultyProxy, is_bind
from numaware.simulate.clusters import NodeSpec

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/numaware/leases/numaware-scheduler"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"

# As full as the whole load is, with as much to spare.
_NODES, _PODS = 40, 360
# Binds take this long, so that there is a middle of the burst for things to go wrong in.
_SLOWLY = 0.25
_PATIENCE = 300.0


class Scene:
    """Nodes, a way to the API server that can fail, and our programs on it. Leaves the cluster empty."""

    def __init__(self, plane: ControlPlane, fakes: FakeNodes, proxy: FaultyProxy) -> None:
        self.plane = plane
        self.api = plane.api()
        self.fakes = fakes
        self.proxy = proxy
        self.sent = 0
        self.daemons: list[Daemon] = []

    # What runs

    def start(self, verb: str = "scheduler", *flags: str, name: str = "") -> Daemon:
        """One of our programs, behind the proxy."""
        daemon = Daemon(self.plane, verb, *flags, name=name, url=self.proxy.url)
        daemon.start()
        self.daemons.append(daemon)
        return daemon

    def start_two(self) -> tuple[Daemon, Daemon]:
        """Two schedulers: the one that leads, and the one that waits to."""
        self.start(name="one"), self.start(name="other")
        for daemon in self.daemons:
            daemon.wait_ready()
        leader = eventually(self.leader, "somebody leads", 60)
        (follower,) = set(self.daemons) - {leader}
        return leader, follower

    def leader(self) -> Daemon | None:
        """Who schedules at the moment."""
        alive = [daemon for daemon in self.daemons if daemon.running]
        return next((daemon for daemon in alive if daemon.metrics()["numaware_leader"] == 1), None)

    def supervise(self) -> None:
        """Start again what has ended, as whatever runs it in a cluster does."""
        for daemon in self.daemons:
            if not daemon.running:
                daemon.start()

    # Pods

    def burst(
        self,
        count: int = _PODS,
        *,
        delay: float = _SLOWLY,
        scheduler: str = "numaware",
        seed: int = 1,
        prefix: str = "p",
    ) -> None:
        """Many pods at once, to be bound slowly enough for trouble to come in between."""
        self.proxy.delay(delay, is_bind)
        self.api.create_all(PODS, load.pods(count, seed=seed, scheduler=scheduler, prefix=prefix))
        self.sent += count

    def wait_for(self, count: int) -> None:
        """Until so many pods have come to their kubelets."""
        eventually(lambda: len(self.fakes.admissions()) >= count, f"{count} pods have a node", _PATIENCE)

    def wait_for_all(self) -> None:
        """Until every pod runs; programs that have ended are started again."""

        def all_run() -> bool:
            self.supervise()
            return len(self.fakes.running()) >= self.sent

        try:
            eventually(all_run, f"all of {self.sent} pods run", _PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._waiting()}") from error

    def assert_all_well(self) -> None:
        """Every pod runs, once, alone on what it holds, and no kubelet has refused one."""
        self.wait_for_all()
        assert self.fakes.refusals() == []
        assert audit(self.plane, self.fakes) == []
        assert phases(self.plane) == {"Running": self.sent}

    def _waiting(self) -> str:
        pods = [pod for pod in self.api.list_all(PODS) if not pod["spec"].get("nodeName")]
        return "\n".join(f"{pod['metadata']['name']}: {said_of(pod)}" for pod in pods[:10])


def said_of(pod: Object) -> str:
    """Why the pod has no node, as it says itself."""
    conditions = pod["status"].get("conditions", [])
    told = [one for one in conditions if (one["type"], one["status"]) == ("PodScheduled", "False")]
    return f"{told[0]['reason']}: {told[0].get('message', '')}" if told else ""


def pod(name: str, cpus: str, scheduler: str = "numaware", **metadata: object) -> Object:
    """One pod of one container that owns its CPUs."""
    limits = {"cpu": cpus, "memory": "1Gi"}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "app", "image": "example.com/none", "resources": {"limits": limits}}],
        },
    }


def notes(plane: ControlPlane, kind: str, name: str, reason: str) -> list[str]:
    """What the events of this reason say of an object."""
    return [
        event["note"]
        for event in plane.api().list_all(EVENTS)
        if event["reason"] == reason
        and (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
    ]


@contextmanager
def scene_on(plane: ControlPlane, nodes: Iterable[NodeSpec] | None = None) -> Iterator[Scene]:
    """A fresh set of nodes on a control plane that others have used before."""
    with (
        FakeNodes(plane, load.nodes(_NODES) if nodes is None else nodes) as fakes,
        FaultyProxy(plane) as proxy,
    ):
        scene = Scene(plane, fakes, proxy)
        try:
            yield scene
        finally:
            for daemon in scene.daemons:
                daemon.kill()
            clear(plane)


def clear(plane: ControlPlane) -> None:
    """Leave nothing for the next test to find."""
    api = plane.api()
    api.delete(PODS, {"gracePeriodSeconds": 0})
    for path in (TOPOLOGIES, NODES, EVENTS):
        api.delete(path)
    api.status_of("DELETE", LEASE)
    eventually(lambda: not api.list_all(PODS), "all pods are gone")
