from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from numaware.kube.client import Client
from numaware.kube.decoding import Condition
from numaware.kube.errors import ApiError
from numaware.kube.events import EventWriter
from numaware.kube.pods import LivePod
from numaware.serve.actions import KubeActions
from numaware.serve.scheduler import Bound
from support.live_pods import live
from support.twin_nodes import pod

POD = live(pod("a", 4))
LOST = ApiError(0, "Broken", "the connection broke")


class FakeClient:
    """Answers what it is told to; keeps what was asked."""

    def __init__(
        self, bind: ApiError | None = None, gets: tuple[dict[str, Any] | ApiError, ...] = ()
    ) -> None:
        self.refuses = bind
        self.gets = list(gets)
        self.patched: list[tuple[str, Mapping[str, Any]]] = []
        self.fails_to_patch = 0

    async def bind(self, *_: object, within: float) -> None:
        assert within < 10, "a leader may be without its lease by then"
        if self.refuses is not None:
            raise self.refuses

    async def get(self, *_: object) -> bytes:
        answer = self.gets.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return msgspec.json.encode(answer)

    async def patch_pod_status(self, _: str, name: str, __: str, status: Mapping[str, Any]) -> None:
        if self.fails_to_patch:
            self.fails_to_patch -= 1
            raise ApiError(503, "ServiceUnavailable", "not now")
        self.patched.append((name, status["conditions"][0]))


class FakeEvents:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.holds: list[int] = []

    def hold(self) -> None:
        self.holds.append(1)

    def go_on(self) -> None:
        self.holds.append(-1)

    def tell(self, *told: object) -> None:
        self.told.append(told)


def made(client: FakeClient, events: FakeEvents | None = None) -> KubeActions:
    async def no_sleep(_: float) -> None:
        await asyncio.sleep(0)

    return KubeActions(client, events or FakeEvents(), sleep=no_sleep)  # type: ignore[arg-type] # fakes at the border


def bind(client: FakeClient) -> Bound:
    events = FakeEvents()
    bound = asyncio.run(made(client, events).bind(POD, "n1", {}))
    assert events.holds == [1, -1], "events stand back for as long as the bind takes"
    return bound


def stored(node: str = "", uid: str = "a") -> dict[str, Any]:
    return {
        "metadata": {"name": "a", "namespace": "default", "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
    }


def test_a_bind_that_succeeds_is_done() -> None:
    assert bind(FakeClient()) == "bound"


def test_a_pod_that_is_not_there_is_gone() -> None:
    assert bind(FakeClient(ApiError(404, "NotFound", "no such pod"))) == "gone"


def test_a_refusal_that_changed_nothing_is_a_failure() -> None:
    assert bind(FakeClient(ApiError(403, "Forbidden", "may not"))) == "failed"


@pytest.mark.parametrize(
    "error", [LOST, ApiError(504, "Timeout", "slow"), ApiError(409, "Conflict", "taken")]
)
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (stored("n1"), "bound"),
        (stored("n2"), "elsewhere"),
        (stored(""), "failed"),
        (stored("n1", uid="another"), "gone"),
        (ApiError(404, "NotFound", "gone"), "gone"),
    ],
)
def test_where_the_outcome_is_open_the_server_is_asked(
    error: ApiError, found: dict[str, Any] | ApiError, expected: Bound
) -> None:
    assert bind(FakeClient(error, (found,))) == expected


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    assert bind(FakeClient(LOST, (LOST, LOST, stored("n1")))) == "bound"


def test_a_server_that_never_answers_makes_it_a_failure_that_is_safe_to_repeat() -> None:
    assert bind(FakeClient(LOST, (LOST,) * 20)) == "failed"


def telling(client: FakeClient, say: Callable[[KubeActions], None]) -> FakeEvents:
    """Say something, and let it go out."""
    events = FakeEvents()

    async def run() -> None:
        actions = made(client, events)
        say(actions)
        task = asyncio.create_task(actions.run())
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(run())
    return events


def test_why_a_pod_waits_is_a_condition_and_an_event() -> None:
    client = FakeClient()
    events = telling(client, lambda actions: actions.unschedulable(POD, "0/3 nodes are available: 3 full."))
    ((name, condition),) = client.patched
    assert name == "a"
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )
    assert condition["message"] == "0/3 nodes are available: 3 full."
    assert [told[1:3] for told in events.told] == [("Warning", "FailedScheduling")]


def test_a_pod_that_could_not_be_bound_says_so_but_not_to_autoscalers() -> None:
    client = FakeClient()
    events = telling(client, lambda actions: actions.failed(POD, "could not be bound to n1"))
    ((_, condition),) = client.patched
    assert (condition["reason"], condition["message"]) == ("SchedulerError", "could not be bound to n1")
    assert [told[1:3] for told in events.told] == [("Warning", "FailedScheduling")]


def test_a_pod_that_waits_for_its_volumes_says_so_and_no_autoscaler_listens() -> None:
    client = FakeClient()
    events = telling(client, lambda actions: actions.awaits_volumes(POD, "waits for claim default/c"))
    ((_, condition),) = client.patched
    assert (condition["status"], condition["reason"]) == ("False", "WaitingForVolumes")
    assert [told[1:3] for told in events.told] == [("Normal", "WaitingForVolumes")]


def test_a_word_that_is_not_true_any_more_is_not_said_after_all() -> None:
    client = FakeClient()
    said = msgspec.structs.replace(POD, scheduled=Condition("PodScheduled", "False", "Unschedulable", "full"))

    def say(actions: KubeActions) -> None:
        actions.unschedulable(said, "nearly full")
        actions.unschedulable(said, "full")

    assert telling(client, say).told == []
    assert client.patched == []


def test_what_the_pod_already_says_is_not_said_again() -> None:
    client = FakeClient()
    said: LivePod = msgspec.structs.replace(
        POD, scheduled=Condition("PodScheduled", "False", "Unschedulable", "full")
    )
    assert telling(client, lambda actions: actions.unschedulable(said, "full")).told == []
    assert client.patched == []


def test_the_newest_word_replaces_an_older_one_that_has_not_gone_out() -> None:
    client = FakeClient()

    def say(actions: KubeActions) -> None:
        actions.unschedulable(POD, "first")
        actions.unschedulable(POD, "second")

    telling(client, say)
    assert [condition["message"] for _, condition in client.patched] == ["second"]


def test_a_word_that_could_not_be_said_is_said_later() -> None:
    client = FakeClient()
    client.fails_to_patch = 2
    telling(client, lambda actions: actions.unschedulable(POD, "full"))
    assert [condition["message"] for _, condition in client.patched] == ["full"]


def test_a_pod_that_found_a_node_has_nothing_more_to_be_said_of_it() -> None:
    client = FakeClient()

    def say(actions: KubeActions) -> None:
        actions.unschedulable(POD, "full")
        actions.scheduled(POD, "n1")

    events = telling(client, say)
    assert client.patched == []
    assert [told[2] for told in events.told] == ["Scheduled"]


def test_the_fakes_have_the_methods_of_what_they_stand_for() -> None:
    for fake, real in ((FakeClient, Client), (FakeEvents, EventWriter)):
        assert {name for name in vars(fake) if not name.startswith("_")} <= set(dir(real))
