"""A switch carried out: there and back; failing or killed at every step, it leaves the node whole."""

from __future__ import annotations

import asyncio
import errno
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from node.kubelet_switch.conftest import WANTED, SwitchedNode
from node.kubelet_switch.fake_unit import broken
from numaware.errors import InputError
from numaware.kube.errors import ApiError
from numaware.node.atomic_files import replace_file
from numaware.node.kubelet_files import KubeletFiles
from numaware.node.kubelet_switch import copies, journal, steps
from numaware.node.kubelet_switch.cluster import ClusterNode
from numaware.node.kubelet_switch.executor import Executor, Happens, Outcome
from numaware.node.kubelet_switch.plan import Manner, Plan, plan_content
from numaware.sentence import Sentence
from numaware.twin.kubelet import start
from numaware.twin.readmission import refused_files

STEPS = range(7)


class Killed(BaseException):
    """As kill -9: nobody catches it, and nothing more is done."""


def run(node: SwitchedNode, plan: Plan) -> Outcome:
    book = journal.Journal(journal.next_folder(node.home))
    book.open(plan.recorded())
    return asyncio.run(Executor(plan.recorded(), book, node.hands).apply())


def taken_up(node: SwitchedNode, *, back: bool) -> Outcome:
    story = journal.latest(node.home)
    assert story is not None
    assert story.ending is None
    worker = Executor(story.plan, journal.Journal(story.folder), node.hands)
    if back:
        return asyncio.run(worker.undo(story.next_step, Sentence("called back")))
    return asyncio.run(worker.resume(story))


def whole(node: SwitchedNode) -> bool:
    """Its kubelet runs, and would start again."""
    again = node.situation()
    file = again.place.read(again.version)
    kubelet = start(node.unit.hardware, file.config)
    return node.unit.active and not refused_files(kubelet, KubeletFiles(node.kubelet).state())


def test_there_and_back_to_the_byte(node: SwitchedNode) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    assert run(node, made).result == "applied"
    assert whole(node)
    after = node.situation().place.read("v1.35.0").config
    assert (after.cpu_policy, after.topology_policy, after.memory_policy) == (
        "static",
        "restricted",
        "Static",
    )
    kept = copies.bytes_aside(node.config, node.home / "000001/backup")
    back = plan_content(node.situation(), kept, Manner(journal=str(journal.next_folder(node.home))))
    assert run(node, back).result == "applied"
    assert node.bytes() == before
    assert whole(node)


@pytest.mark.parametrize("number", STEPS)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_failure_at_any_step_rolls_back_to_the_byte(
    node: SwitchedNode, monkeypatch: pytest.MonkeyPatch, number: int, late: bool
) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    _break(monkeypatch, made.steps[number], OSError(errno.ENOSPC, "No space left on device"), late=late)
    outcome = run(node, made)
    assert outcome.result == "rolled-back"
    assert outcome.step == number
    assert "No space left" in str(outcome.why)
    assert node.bytes() == before
    assert whole(node)


@pytest.mark.parametrize("number", STEPS)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("back", [False, True], ids=["resume", "rollback"])
@pytest.mark.parametrize("booted", [False, True], ids=["", "booted"])
def test_a_kill_at_any_step_leaves_what_can_be_brought_to_either_end(
    node: SwitchedNode, monkeypatch: pytest.MonkeyPatch, number: int, late: bool, back: bool, booted: bool
) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    with monkeypatch.context() as patched:
        _break(patched, made.steps[number], Killed(), late=late)
        with pytest.raises(Killed):
            run(node, made)
    if booted:
        # The machine has started its kubelet with whatever was there.
        asyncio.run(node.unit.start())
    outcome = taken_up(node, back=back)
    assert outcome.result == ("rolled-back" if back else "applied")
    assert whole(node)
    if back:
        assert node.bytes() == before
    else:
        assert node.situation().place.read("v1.35.0").config.cpu_policy == "static"


@pytest.mark.parametrize("number", STEPS)
def test_a_kill_while_undoing_is_taken_up_as_undoing(
    node: SwitchedNode, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    with monkeypatch.context() as patched:
        _break(patched, made.steps[-1], steps.StepError("not ready"), late=True)
        kind = type(made.steps[number])
        undo = kind.undo

        async def killed(self: Any, hands: Any) -> None:
            await undo(self, hands)
            if self == made.steps[number]:
                raise Killed

        patched.setattr(kind, "undo", killed)
        with pytest.raises(Killed):
            run(node, made)
    outcome = taken_up(node, back=False)
    assert outcome.result == "rolled-back"
    assert "not ready" in str(outcome.why)
    assert node.bytes() == before
    assert whole(node)


def test_a_kubelet_that_does_not_come_up_is_rolled_back_with_its_words(node: SwitchedNode) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    node.unit.trouble["start"] = broken("Job for kubelet.service failed")
    outcome = run(node, made)
    assert outcome.result == "rolled-back"
    assert "Job for kubelet.service failed" in str(outcome.why)
    assert node.bytes() == before
    node.unit.trouble["start"] = broken("Job for k3s.service failed")
    node.unit.words = "not on this machine"
    assert str(run(node, made).why) == "Job for k3s.service failed; it said: not on this machine"


def test_what_cannot_be_put_back_is_said_and_tried_again_later(
    node: SwitchedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    with monkeypatch.context() as patched:
        _break(patched, made.steps[-1], steps.StepError("not ready"), late=True)

        def full(path: Path, folder: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        patched.setattr(steps, "put_back", full)
        outcome = run(node, made)
    assert outcome.result == "stuck"
    assert "not ready; and then: " in str(outcome.why)
    assert taken_up(node, back=True).result == "rolled-back"
    assert node.bytes() == before


def test_who_interrupts_it_finds_everything_as_it_was(
    node: SwitchedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    _break(monkeypatch, made.steps[3], asyncio.CancelledError(), late=True)
    with pytest.raises(asyncio.CancelledError):
        run(node, made)
    assert node.bytes() == before
    assert whole(node)


def test_who_interrupts_it_again_and_again_finds_everything_as_it_was(
    node: SwitchedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = node.bytes()
    made = node.planned(**WANTED)
    _break(monkeypatch, made.steps[-1], steps.StepError("not ready"), late=True)

    async def play() -> Outcome:
        book = journal.Journal(journal.next_folder(node.home))
        book.open(made.recorded())
        undone: list[int] = []

        def tell(happens: Happens, number: int, _: Sentence) -> None:
            if happens == "undone":
                undone.append(number)
                asyncio.get_running_loop().call_soon(work.cancel)

        work = asyncio.ensure_future(Executor(made.recorded(), book, node.hands, tell).apply())
        try:
            return await work
        finally:
            assert undone == [*reversed(STEPS)]

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(play())
    story = journal.latest(node.home)
    assert story is not None
    assert story.ending == "rolled-back"
    assert node.bytes() == before
    assert whole(node)


@pytest.mark.parametrize(
    ("troubles", "told"),
    [
        ([ApiError(0, "Unreachable", "refused"), ApiError(503, "ServiceUnavailable", "not yet")], ""),
        ([ApiError(403, "Forbidden", "no such right")], "no such right"),
    ],
    ids=["server that comes up later", "no right"],
)
def test_a_server_that_comes_up_with_its_kubelet_is_waited_for(
    troubles: list[ApiError], told: str, node: SwitchedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of k3s and RKE2 is started by the same unit."""

    class Cluster(ClusterNode):
        async def is_ready_since(self, moment: float) -> bool:
            assert moment
            if troubles:
                raise troubles.pop(0)
            return True

    monkeypatch.setattr(steps, "_POLL_SECONDS", 0.0)
    hands = steps.Hands(Path("/"), node.unit, Cluster(cast("Any", None), "n1"), seconds=60.0)
    with pytest.raises(ApiError, match=told) if told else nullcontext():
        asyncio.run(steps.Ready("kubelet").do(hands))
    assert not troubles


def test_a_journal_whose_last_line_was_cut_off_is_read_without_it(node: SwitchedNode) -> None:
    book = journal.Journal(journal.next_folder(node.home))
    book.open(node.planned(**WANTED).recorded())
    book.note("begin", 0)
    with (book.folder / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"mark": "do')
    book.note("begin", 1)
    story = journal.latest(node.home)
    assert story is not None
    assert [entry.step for entry in story.entries] == [0, 1]
    assert story.next_step == 0


def test_two_switches_of_one_node_do_not_meet(tmp_path: Path) -> None:
    with journal.locked(tmp_path), pytest.raises(InputError, match="under way"), journal.locked(tmp_path):
        pass


def test_a_journal_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="journal cannot be written"), journal.locked(tmp_path / "file"):
        pass


def test_owner_mode_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    copies.put_aside([link], tmp_path / "aside")
    replace_file(link, b"new")
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)
    copies.put_back(link, tmp_path / "aside")
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"old", 0o640)


def _break(patched: pytest.MonkeyPatch, step: steps.AnyStep, error: BaseException, *, late: bool) -> None:
    """This step fails: before it did anything, or after it did all."""
    kind = type(step)
    do = kind.do

    async def failing(self: Any, hands: Any) -> None:
        if self == step and not late:
            raise error
        await do(self, hands)
        if self == step:
            raise error

    patched.setattr(kind, "do", failing)
