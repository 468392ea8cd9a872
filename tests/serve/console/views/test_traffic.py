"""The Traffic page's numbers: sums that agree, the most to save first, reasons in the reader's language."""

from __future__ import annotations

from numaware.serve.console.views.traffic import TrafficRecorder
from support.console_world import client, console


def test_sums_of_nodes_are_those_of_the_cluster_and_the_most_to_save_comes_first() -> None:
    told = client(console()).get("/api/v1/traffic").json()
    assert told["source"] == "modelled"
    for name in ("total", "across", "planned"):
        assert told[name] == sum(one[name] for one in told["nodes"])
    saved = [one["across"] - one["planned"] for one in told["nodes"]]
    assert saved == sorted(saved, reverse=True)


def test_a_node_tells_the_same_numbers_and_words_its_answers() -> None:
    api = client(console())
    for one in api.get("/api/v1/traffic").json()["nodes"][:3]:
        english = api.get(f"/api/v1/traffic/{one['node']}").json()
        chinese = api.get(f"/api/v1/traffic/{one['node']}", headers={"accept-language": "zh"}).json()
        assert english["report"]["across"] == one["across"]
        assert len(english["pods"]) == len(english["report"]["pods"])
        for pod, other in zip(english["pods"], chinese["pods"], strict=True):
            assert pod["reason"].startswith(("move", "stays"))
            assert other["reason"].startswith(("移到", "不动"))


def test_a_node_that_is_not_there_has_no_traffic() -> None:
    assert client(console()).get("/api/v1/traffic/nobody").status_code == 404


def test_moments_are_ten_seconds_apart() -> None:
    world = console().world
    recorder = TrafficRecorder(world)
    for _ in range(4):
        recorder.record()
        world.advance(world.now + 5000)
    assert len(recorder.moments) == 2
    assert recorder.moments[1].time - recorder.moments[0].time == 10_000
