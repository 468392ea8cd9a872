from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from numaware.schedule.engine import Engine
from numaware.schedule.profile import read
from numaware.serve.profile_files import ProfileFiles
from support.small_clusters import cluster_of, gpu_node
from support.twin_nodes import pod


def placed(engine: Engine) -> list[str | None]:
    """Where two small pods go, the second beside the first or not."""
    nodes = []
    for number in range(2):
        decision = engine.decide(pod(f"p{number}", 1))
        engine.reserve(decision)
        nodes.append(decision.node)
    for number in range(2):
        engine.cluster.release(f"p{number}")
    return nodes


SPREAD = "medium: {least-allocated: 1}\nalign-first: false\n"
PACK = "medium: {most-allocated: 1}\nalign-first: false\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "profile.yaml"
    path.write_text(PACK)
    return path


def test_a_profile_is_read_again_when_its_file_changes(file: Path) -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    files = ProfileFiles(engine, {"": file})
    file.write_text(SPREAD)
    files.look()
    assert placed(engine) == ["n0", "n1"]
    file.write_text(PACK)
    files.look()
    assert placed(engine) == ["n0", "n0"]


def test_a_file_that_changed_while_the_program_was_starting_counts_and_one_that_did_not_is_not_told_of(
    file: Path,
) -> None:
    """The profile is read with the options, long before the cluster is there and files are looked at."""
    engine = Engine(cluster_of(gpu_node(), gpu_node()), read(file.read_bytes(), str(file)))
    with capture_logs() as logged:
        ProfileFiles(engine, {"": file}).look()
    assert logged == []
    file.write_text(SPREAD)
    files = ProfileFiles(engine, {"": file})
    with capture_logs() as logged:
        files.look()
    assert [line["event"] for line in logged] == ["the profile has changed"]
    assert placed(engine) == ["n0", "n1"]


@pytest.mark.parametrize("content", ["medium: 7\n", "{", "", None])
def test_a_file_that_is_no_profile_any_more_changes_nothing_and_is_complained_about_once(
    file: Path, content: str | None
) -> None:
    engine = Engine(cluster_of(gpu_node(), gpu_node()))
    files = ProfileFiles(engine, {"": file})
    file.write_text(SPREAD)
    files.look()
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with capture_logs() as logged:
        files.look()
        files.look()
    assert [line["event"] for line in logged] == ["the profile cannot be used, the one before stays"]
    assert str(file) in logged[0]["problem"]
    assert placed(engine) == ["n0", "n1"]
    file.write_text(PACK)
    files.look()
    assert placed(engine) == ["n0", "n0"]


def test_each_scheduler_name_has_a_file_of_its_own(file: Path) -> None:
    engine = Engine(
        cluster_of(gpu_node(), gpu_node()), profiles={"batch": Engine(cluster_of())._evaluators[""].profile}
    )
    before = engine._evaluators[""]
    files = ProfileFiles(engine, {"batch": file})
    file.write_text(SPREAD)
    files.look()
    assert engine._evaluators[""] is before
    assert dict(engine._evaluators["batch"].profile.medium) == {"least-allocated": 1}
