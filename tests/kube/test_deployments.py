"""Deployments as the API server tells of them: when all their pods are new and ready, and when that will not be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server
from numaware.kube import deployments
from numaware.kube.client import Client
from numaware.kube.deployments import RESTARTED_AT, Rollout
from numaware.kube.errors import ApiError
from numaware.kube.resources import DEPLOYMENTS


def told(status: dict[str, Any] | None = None, **spec: Any) -> Rollout:
    """What is read of a Deployment with this status."""

    async def play() -> Rollout:
        async with fake_api_server() as server, Client(connection(server)) as client:
            found = server.put(DEPLOYMENTS, "d", "ns", spec={"template": {}, **spec}, status=status)
            found["metadata"]["generation"] = 7
            return await deployments.read(client, "d", "ns")

    return asyncio.run(play())


def counts(updated: int, total: int, available: int, observed: int = 7) -> dict[str, Any]:
    return {
        "observedGeneration": observed,
        "updatedReplicas": updated,
        "replicas": total,
        "availableReplicas": available,
    }


@pytest.mark.parametrize(
    ("status", "done"),
    [
        (counts(2, 2, 2), True),
        (counts(2, 2, 2, observed=6), False),
        (counts(1, 2, 2), False),
        (counts(2, 3, 3), False),
        (counts(2, 2, 1), False),
        ({}, False),
        (None, False),
    ],
)
def test_it_is_done_when_all_pods_are_new_and_ready_and_none_is_left_over(
    status: dict[str, Any] | None, done: bool
) -> None:
    assert told(status, replicas=2).done(7) is done


def test_one_pod_is_wanted_where_no_number_is_told_and_none_where_it_is_zero() -> None:
    assert told().wanted == 1
    assert told(counts(0, 0, 0), replicas=0).done(7)


@pytest.mark.parametrize(("status", "said"), [("False", "timed out"), ("True", ""), ("Unknown", "")])
def test_the_controller_says_when_it_gives_up(status: str, said: str) -> None:
    conditions = [
        {"type": "Available", "status": "False", "message": "other"},
        {
            "type": "Progressing",
            "status": status,
            "reason": "ProgressDeadlineExceeded",
            "message": "timed out",
        },
    ]
    found = told({**counts(1, 2, 1), "conditions": conditions})
    assert found.failed == said
    assert found.gave_up(7) is bool(said)
    # What was said of the generation before says nothing of this one.
    assert not found.gave_up(8)


def test_a_restart_changes_one_annotation_and_can_be_taken_back() -> None:
    async def play() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:
            template = {"metadata": {"annotations": {"mine": "kept"}}, "spec": {"containers": []}}
            server.put(DEPLOYMENTS, "d", "ns", spec={"template": template})
            assert (await deployments.restart(client, "d", "ns", "today")).restarted_at == "today"
            assert noted(server) == {"mine": "kept", RESTARTED_AT: "today"}
            assert (await deployments.restart(client, "d", "ns", None)).restarted_at is None
            assert noted(server) == {"mine": "kept"}

    asyncio.run(play())


def noted(server: FakeApiServer) -> Any:
    made = server.objects[DEPLOYMENTS.path("ns", "d")]
    return made["spec"]["template"]["metadata"]["annotations"]


def test_what_is_no_deployment_is_an_answer_that_cannot_be_read() -> None:
    with pytest.raises(ApiError, match="BadAnswer"):
        told(replicas="many")
