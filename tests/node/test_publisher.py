from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from kube.fake_api_server import FakeApiServer, Refusal, connection, fake_api_server, until
from numaware.kube.client import Client
from numaware.kube.resources import DEFINITIONS, NODE_RESOURCE_TOPOLOGIES, NUMATOPOLOGIES, PODS
from numaware.kube.topology import nrt
from numaware.machine import synthetic
from numaware.node import publisher
from numaware.node.kubelet_files import KubeletFiles
from numaware.node.observation import Facts, observe
from numaware.node.publisher import Options, Publisher
from numaware.node.troubles import Troubles
from numaware.twin.node import Node
from support.fake_podresources import FakePodResources
from support.made_node import NAME, MadeNode

CONFIG: dict[str, Any] = {
    "topologyManagerPolicy": "restricted",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
}
GPU = "nvidia.com_gpu"
GPUS: dict[str, dict[str, tuple[int, ...]]] = {"nvidia.com/gpu": {"gpu-0": (0,), "gpu-1": (1,)}}
OBJECT = NODE_RESOURCE_TOPOLOGIES.path(name=NAME)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Shorter than pytest's own: the path of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="node-") as folder:
        yield Path(folder)


class Scene:
    def __init__(self, made: MadeNode, server: FakeApiServer, kubelet: FakePodResources) -> None:
        self.made = made
        self.server = server
        self.kubelet = kubelet
        self.troubles = Troubles()
        self.publisher: Publisher | None = None

    def happens(self) -> None:
        """What the twin says is now on the disk and in the kubelet's answers."""
        self.made.tell(self.kubelet)
        self.made.write()

    async def looked_at(self) -> None:
        """What is there now was looked at; a look that had begun before does not count, so two are waited for."""
        assert self.publisher is not None
        counts = self.publisher.counts
        for _ in range(2):
            seen = counts.scans
            self.made.write()
            await until(lambda: counts.scans > seen)  # noqa: B023 - run before the next round

    def published(self) -> Node | None:
        raw = self.server.objects.get(OBJECT)
        if raw is None:
            return None
        report = nrt.decode(msgspec.json.encode(raw))
        assert report.complete is not None, report.problem
        return report.complete.node

    def agrees(self) -> bool:
        told = self.published()
        return told is not None and (
            told.state.cpu.shared,
            told.state.cpu.owned,
            told.state.device.owned,
        ) == (
            self.made.node.state.cpu.shared,
            self.made.node.state.cpu.owned,
            self.made.node.state.device.owned,
        )

    def unready(self) -> str:
        assert self.publisher is not None
        return self.publisher.unready()

    def writes(self) -> list[str]:
        return [path for method, path, _ in self.server.calls if method in ("PATCH", "POST", "PUT")]


def publishing(
    tmp_path: Path,
    look: Callable[[Scene], Awaitable[None]],
    options: Options | None = None,
    files: Callable[[KubeletFiles], KubeletFiles] = lambda files: files,
    prepare: Callable[[FakeApiServer], None] = lambda _: None,
) -> None:
    async def run() -> None:
        made = MadeNode(tmp_path, synthetic.read("2s x 1n x 4c"), CONFIG, GPUS)
        async with (
            fake_api_server() as server,
            FakePodResources(made.files.podresources) as kubelet,
            Client(connection(server)) as client,
        ):
            scene = Scene(made, server, kubelet)
            made.register(server)
            prepare(server)
            scene.happens()
            chosen = options or Options(str(tmp_path))
            scene.publisher = Publisher(NAME, client, files(made.files), scene.troubles, chosen)
            task = asyncio.create_task(scene.publisher.run())
            try:
                await look(scene)
                assert not task.done()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def define(server: FakeApiServer) -> None:
    """The kind is defined, and served from then on."""
    server.missing.clear()
    server.put(
        DEFINITIONS,
        "noderesourcetopologies.topology.node.k8s.io",
        spec={"versions": [{"name": "v1alpha1", "served": True}, {"name": "v1alpha2", "served": True}]},
        status={"conditions": [{"type": "Established", "status": "True"}]},
    )


def test_what_changes_is_published_and_each_pod_told_where_it_lies(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        uid = scene.made.admit(scene.server, "trainer", cpu="3", memory="1Gi", **{GPU: "1"})
        scene.happens()
        await until(scene.agrees)
        path = PODS.path("work", "trainer")
        await until(lambda: "annotations" in scene.server.objects[path]["metadata"])
        text = scene.server.objects[path]["metadata"]["annotations"]["numaware.io/placement-observed"]
        assert json.loads(text) == [
            {"zone": "node-0", "amount": {"cpu": "3", "nvidia.com/gpu": "1"}, "cpus": "1-3"}
        ]
        scene.made.node = scene.made.node.release(uid)
        scene.server.remove(PODS, "trainer", "work")
        scene.made.tell(scene.kubelet)
        await until(scene.agrees)

    publishing(tmp_path, look)


def test_the_object_belongs_to_the_node_and_is_applied_by_one_manager(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        body = scene.server.objects[OBJECT]
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Node", NAME)
        ((_, _, query),) = [call for call in scene.server.calls if call[0] == "PATCH"]
        assert query == {"fieldManager": "numaware-agent", "force": "true"}

    publishing(tmp_path, look)


def test_nothing_is_written_while_nothing_changes_even_if_files_are_touched(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        before = len(scene.writes())
        for _ in range(3):
            await scene.looked_at()
        scene.server.put(PODS, "besteffort", "work", spec={"nodeName": NAME, "containers": [{"name": "c"}]})
        await scene.looked_at()
        assert len(scene.writes()) == before

    publishing(tmp_path, look)


def test_what_is_known_is_not_worked_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[Facts] = []

    def counted(facts: Facts) -> Node:
        observed.append(facts)
        return observe(facts)

    monkeypatch.setattr(publisher, "observe", counted)

    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        await scene.looked_at()
        before = len(observed)
        await scene.looked_at()
        assert len(observed) == before
        scene.made.admit(scene.server, "a", cpu="2", memory="1Gi")
        scene.happens()
        await until(scene.agrees)
        assert len(observed) > before

    publishing(tmp_path, look)


def test_an_agent_that_starts_anew_writes_nothing_if_all_is_as_it_was(tmp_path: Path) -> None:
    async def run() -> None:
        made = MadeNode(tmp_path, synthetic.read("2s x 1n x 4c"), CONFIG, GPUS)
        async with fake_api_server() as server, FakePodResources(made.files.podresources) as kubelet:
            scene = Scene(made, server, kubelet)
            made.register(server)
            made.admit(server, "trainer", cpu="3", memory="1Gi")
            scene.happens()
            for round_ in range(3):
                async with Client(connection(server)) as client:
                    publisher = Publisher(NAME, client, made.files, Troubles(), Options(str(tmp_path)))
                    scene.publisher = publisher
                    task = asyncio.create_task(publisher.run())
                    await until(lambda: publisher.counts.last_success > 0)  # noqa: B023 - run before the next round
                    await scene.looked_at()
                    assert publisher.unready() == ""
                    assert (publisher.counts.writes > 0) == (round_ == 0)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_a_kubelet_that_hangs_is_one_line_in_the_log_and_what_was_published_stays(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        before = scene.server.objects[OBJECT]
        scene.kubelet.problem = "internal error"
        with capture_logs() as lines:
            for number in range(3):
                scene.made.write()
                await until(lambda: scene.troubles.counts["podresources"] > number)  # noqa: B023 - as above
        assert [line["cause"] for line in lines if line["event"] == "trouble"] == ["refused"]
        assert scene.server.objects[OBJECT] == before
        scene.kubelet.problem = ""
        scene.made.admit(scene.server, "late", cpu="2", memory="1Gi")
        scene.happens()
        await until(scene.agrees)
        await until(lambda: scene.troubles.current == {})

    publishing(tmp_path, look)


def test_a_half_written_state_file_is_told_and_never_published(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        scene.made.admit(scene.server, "first", cpu="3", memory="1Gi")
        scene.happens()
        await until(scene.agrees)
        path = scene.made.files.root / "cpu_manager_state"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        await until(lambda: "observation" in scene.troubles.current)
        assert scene.troubles.current["observation"][0] == "state"
        assert scene.agrees()
        path.write_bytes(whole)
        await until(lambda: scene.troubles.current == {})
        assert scene.agrees()

    publishing(tmp_path, look)


def test_files_that_are_not_there_are_waited_for(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(lambda: "observation" in scene.troubles.current)
        assert scene.published() is None, "a kubelet that has not started is not an empty node"
        (tmp_path / "state").rename(scene.made.files.root / "cpu_manager_state")
        await until(scene.agrees)

    async def early(scene: Scene) -> None:
        await look(scene)

    original = MadeNode.write

    def without_state(self: MadeNode) -> None:
        original(self)
        (self.files.root / "cpu_manager_state").rename(tmp_path / "state")

    MadeNode.write = without_state  # type: ignore[method-assign] # a kubelet that has not come so far
    try:
        publishing(tmp_path, early)
    finally:
        MadeNode.write = original  # type: ignore[method-assign] # as it was


def test_an_object_that_somebody_deleted_or_changed_is_made_right_again(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        await until(lambda: scene.unready() == "")
        scene.server.remove(NODE_RESOURCE_TOPOLOGIES, NAME)
        await until(lambda: "somebody has deleted" in scene.unready())
        await until(scene.agrees)
        await until(lambda: scene.unready() == "")
        body = scene.server.objects[OBJECT]
        scene.server.put(NODE_RESOURCE_TOPOLOGIES, NAME, **{**body, "zones": []})
        await until(lambda: "somebody has written over" in scene.unready())
        await until(lambda: bool(scene.server.objects[OBJECT]["zones"]))
        assert scene.agrees()
        scene.server.put(NODE_RESOURCE_TOPOLOGIES, NAME, zones="nonsense")
        await until(lambda: isinstance(scene.server.objects[OBJECT]["zones"], list))
        assert scene.agrees()
        await until(lambda: scene.unready() == "")

    publishing(tmp_path, look)


def test_an_older_writing_of_our_own_that_is_put_back_is_made_right_too(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        before = scene.server.objects[OBJECT]
        scene.made.admit(scene.server, "late", cpu="2", memory="1Gi")
        scene.happens()
        await until(scene.agrees)
        scene.server.put(NODE_RESOURCE_TOPOLOGIES, NAME, **before)
        await until(lambda: not scene.agrees() or "somebody" in scene.unready())
        await until(lambda: scene.agrees() and scene.unready() == "")

    publishing(tmp_path, look)


def test_our_own_writes_are_not_taken_for_those_of_others(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        for number in range(3):
            scene.made.admit(scene.server, f"p{number}", cpu="1", memory="1Gi")
            scene.happens()
            await until(scene.agrees)
        await scene.looked_at()
        assert scene.writes().count(OBJECT) <= 4
        assert scene.unready() == ""

    publishing(tmp_path, look)


def test_a_watch_that_is_faster_than_the_answer_to_a_write_is_no_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = FakeApiServer._patch

    async def late(server: FakeApiServer, *given: Any) -> Any:
        answer = original(server, *given)
        await asyncio.sleep(0.05)
        return answer

    async def answer(server: FakeApiServer, request: Any) -> Any:
        done = await answered(server, request)
        return await done if asyncio.iscoroutine(done) else done

    answered = FakeApiServer.answer
    monkeypatch.setattr(FakeApiServer, "_patch", late)
    monkeypatch.setattr(FakeApiServer, "answer", answer)

    async def look(scene: Scene) -> None:
        for number in range(3):
            scene.made.admit(scene.server, f"p{number}", cpu="1", memory="1Gi")
            scene.happens()
            await until(scene.agrees)
        await scene.looked_at()
        report = nrt.decode(msgspec.json.encode(scene.server.objects[OBJECT]))
        assert report.complete is not None
        assert report.complete.generation == scene.writes().count(OBJECT)
        assert scene.unready() == ""

    publishing(tmp_path, look)


def test_another_publisher_of_the_object_is_told_of_and_not_fought_with(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        for _ in range(5):
            await until(lambda: scene.unready() == "")
            scene.server.put(NODE_RESOURCE_TOPOLOGIES, NAME, zones=[])
            await until(lambda: scene.server.objects[OBJECT]["zones"] != [])
        await until(lambda: scene.unready() == "")
        scene.server.put(NODE_RESOURCE_TOPOLOGIES, NAME, zones=[])
        await until(lambda: scene.troubles.current.get("published", ("", ""))[0] == "contested")
        assert "a node has one publisher" in scene.troubles.current["published"][1]
        # It is put right all the same, a little later.
        await until(lambda: scene.server.objects[OBJECT]["zones"] != [])
        assert scene.agrees()

    publishing(tmp_path, look)


def test_a_cluster_without_the_kind_is_told_what_to_apply_and_noticed_when_it_comes(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(lambda: "published" in scene.troubles.current)
        cause, message = scene.troubles.current["published"]
        assert cause == "undefined"
        assert message == (
            "this cluster has no NodeResourceTopology (topology.node.k8s.io/v1alpha2): "
            "kubectl apply -f deploy/crd/noderesourcetopology.yaml"
        )
        assert scene.unready().startswith("this cluster has no NodeResourceTopology")
        define(scene.server)
        await until(scene.agrees)
        await until(lambda: scene.unready() == "" and scene.troubles.current == {})

    publishing(tmp_path, look, prepare=lambda server: server.missing.add(NODE_RESOURCE_TOPOLOGIES.path()))


def test_who_may_not_watch_the_object_publishes_and_says_so(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        await until(lambda: scene.troubles.current.get("published", ("",))[0] == "unwatched")
        assert scene.unready().startswith("published: 403 Forbidden")

    publishing(tmp_path, look, prepare=lambda server: server.forbidden.add(NODE_RESOURCE_TOPOLOGIES.path()))


def test_an_api_server_that_fails_is_tried_again(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        scene.server.refusals.extend(Refusal(403, "Forbidden") for _ in range(3))
        scene.made.admit(scene.server, "late", cpu="2", memory="1Gi")
        scene.happens()
        await until(scene.agrees)
        assert scene.troubles.counts["api"] >= 1
        await until(lambda: scene.troubles.current == {})

    publishing(tmp_path, look)


def test_the_configuration_counts_from_the_kubelets_restart_on(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(scene.agrees)
        scene.made.configure({**CONFIG, "topologyManagerPolicy": "single-numa-node"})
        scene.happens()
        await scene.looked_at()
        told = scene.published()
        assert told is not None
        assert told.kubelet.config.topology_policy == "restricted", "the kubelet still runs with the old one"
        # A kubelet that starts makes its socket anew.
        socket = scene.made.files.podresources
        socket.rename(socket.with_suffix(".old"))
        socket.with_suffix(".old").rename(socket)

        def changed() -> bool:
            now = scene.published()
            return now is not None and now.kubelet.config.topology_policy == "single-numa-node"

        await until(changed)

    publishing(tmp_path, look)


def test_volcano_and_kai_are_told_if_wanted(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        uid = scene.made.admit(scene.server, "trainer", cpu="3", memory="1Gi")
        scene.happens()
        pod, topology = PODS.path("work", "trainer"), NUMATOPOLOGIES.path(name=NAME)
        await until(lambda: "annotations" in scene.server.objects[pod]["metadata"])
        assert scene.server.objects[topology]["spec"]["podAllocations"][0]["uid"] == uid
        assert json.loads(
            scene.server.objects[pod]["metadata"]["annotations"]["kai.scheduler/numa-placement-observed"]
        ) == [{"zone": "node-0", "amount": {"cpu": "3"}}]
        before = len(scene.writes())
        await scene.looked_at()
        assert len(scene.writes()) == before

    publishing(tmp_path, look, Options(str(tmp_path), volcano=True, kai=True))


def test_configz_is_asked_through_the_api_server(tmp_path: Path) -> None:
    async def look(scene: Scene) -> None:
        await until(lambda: "configuration" in scene.troubles.current or "api" in scene.troubles.current)
        path = f"/api/v1/nodes/{NAME}/proxy/configz"
        scene.server.objects[path] = {"kubeletconfig": CONFIG}
        await until(scene.agrees)
        assert "configuration" not in scene.troubles.current

    publishing(tmp_path, look, files=lambda files: msgspec.structs.replace(files, config=None))
