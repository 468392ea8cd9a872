"""What nodes say is remembered by class and question, and is what they would say if nobody remembered anything."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.schedule.trial_policies import TrialPolicies
from numaware.serve.console.api.routes import Console
from numaware.serve.console.views import judging
from numaware.serve.console.views.judging import Judge, Judgement
from numaware.serve.console.views.pod_shape import Shape, pod_of
from numaware.workload.dra.objects import DeviceClass
from support.console_world import console

SHAPES = (Shape("4", "8Gi", 0), Shape("40", "64Gi", 4), Shape("8", "64Gi", 1), Shape("200", "8Gi", 0))


def afresh(found: Console, shape: Shape) -> dict[str, Judgement]:
    cluster = found.world.cluster
    return {
        member.name: answer
        for member, answer in zip(cluster, Judge(cluster).judge(pod_of(shape)), strict=True)
    }


def test_remembered_answers_are_those_of_a_fresh_look_while_life_goes_on() -> None:
    found = console(nodes=8)
    verdicts = set()
    for _ in range(6):
        found.world.advance(found.world.now + 20_000)
        found.wall_model.refresh()
        for shape in SHAPES:
            answers = found.wall_model.judged(shape)
            assert answers == afresh(found, shape)
            verdicts |= {answer.verdict for answer in answers.values()}
    # It would prove little if all said the same.
    assert len(verdicts) > 2


def test_a_judge_that_forgets_in_between_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = console(nodes=8)
    cluster = found.world.cluster
    cache = [Judge(cluster).judge(pod_of(shape)) for shape in SHAPES]
    monkeypatch.setattr(judging, "_MOST", 3)
    forgetful = Judge(cluster)
    for _ in range(2):
        assert [forgetful.judge(pod_of(shape)) for shape in SHAPES] == cache


def test_other_rules_are_another_question() -> None:
    cluster = console(nodes=8).world.cluster
    judge = Judge(cluster)
    pod = pod_of(Shape("40", "64Gi", 4))
    as_they_are = [answer.verdict for answer in judge.judge(pod)]
    lax = [answer.verdict for answer in judge.judge(pod, policies=TrialPolicies("none"))]
    assert "refused" not in lax
    assert as_they_are != lax
    assert [answer.verdict for answer in judge.judge(pod)] == as_they_are


def test_what_dra_serves_is_nothing_that_a_node_lacks() -> None:
    """Neither of the pod that asks for it nor of the one that is the same without it."""
    cluster = console(nodes=4).world.cluster
    name = cluster.members[0].name
    cluster.dra.put(DeviceClass("gpu", "d.io/gpu"))
    wide = Shape("4000", "8Gi", 0)
    (alone,) = Judge(cluster).judge(pod_of(wide), [name])
    judge = Judge(cluster)
    (served,) = judge.judge(pod_of(replace(wide, gpu=1, gpu_resource="d.io/gpu")), [name])
    assert [part.resource for part in served.parts] == ["cpu"]
    assert judge.judge(pod_of(wide), [name]) == [alone]
