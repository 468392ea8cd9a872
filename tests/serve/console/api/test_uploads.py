"""Uploads for diagnosis: answered like `numaware diagnose`, bounded, and never at the cost of others."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request

from numaware.serve.console.api import uploads
from numaware.serve.console.api.diagnose import Diagnosis, diagnosed
from numaware.serve.console.api.uploads import Uploads
from numaware.serve.problems import ProblemError
from property.test_diagnose_fuzz import EVIDENCE
from support.console_world import client, shared_console
from support.packed import PACKERS, bz2_of, long_name_gz, tar

LOG = b'I0117 09:43:00.988280   77344 cpu_manager.go:214] "Starting CPU manager" policy="static"\n'


def sent(data: bytes, **query: str) -> tuple[int, Any]:
    answer = client(shared_console()).post("/api/v1/diagnose", content=data, params=query)
    return answer.status_code, answer.json()


def test_an_upload_is_answered_as_the_command_answers() -> None:
    status, told = sent(LOG, file="kubelet.log")
    assert status == 200
    assert told["files"] == [{"file": "kubelet.log", "kind": "kubelet log"}]
    assert told["findings"][0]["title"] == "the kubelet started: the CPU manager with policy static"


def test_the_language_is_the_one_asked_for() -> None:
    assert sent(b"", lang="zh")[1]["findings"][0]["title"].startswith("没有任何可以作为证据读取的内容")


@pytest.mark.parametrize("form", PACKERS)
def test_a_cut_off_archive_is_told_up_to_where_it_was_read(form: str) -> None:
    whole = PACKERS[form](tar({f"{n}.log": LOG * 400 for n in range(8)}).rstrip(b"\0"))
    status, told = sent(whole[: len(whole) * 2 // 3], file="../../etc\0/\n")
    assert status == 200
    assert ("nothing of it was read" if form == "bz2" else "read up to") in told["findings"][0]["title"]


def test_a_small_file_with_a_name_of_a_gigabyte_is_told() -> None:
    status, told = sent(long_name_gz(256 << 20))
    assert status == 200
    assert "has an extension header of 268435456 bytes" in told["findings"][0]["title"]


def test_a_reader_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_SECONDS", 0.01)
    status, told = sent(LOG)
    assert (status, told["detail"]) == (
        422,
        "upload: takes more time or memory to read than there is for an upload",
    )


# Callers one by one


class FakeCaller:
    """Sends a body in pieces, and stays or leaves."""

    def __init__(self, *pieces: bytes, leaves: bool = False) -> None:
        self.pieces = list(pieces)
        self.leaves = leaves
        self.waiting = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.pieces:
            piece = self.pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}
        self.waiting.set()
        if not self.leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    @property
    def request(self) -> Request:
        return Request({"type": "http", "method": "POST", "headers": []}, self.receive)


def run(story: Callable[[Uploads], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(Uploads())

    asyncio.run(told())


def test_who_has_left_is_not_worked_for() -> None:
    endless = bz2_of(LOG, 6 << 20)

    async def story(kept: Uploads) -> None:
        with pytest.raises(ClientDisconnect):
            await kept.diagnosis(FakeCaller(endless, leaves=True).request, "log", "en")
        assert (kept._kept, kept._uploads, kept._slots._value) == (0, 0, uploads._AT_ONCE)

    run(story)


def test_unfinished_uploads_together_have_one_budget_and_give_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uploads, "_MOST_KEPT", 1000)

    async def story(kept: Uploads) -> None:
        async def unfinished() -> None:
            class Stalls(FakeCaller):
                async def receive(self) -> dict[str, Any]:
                    if not self.pieces:
                        await asyncio.Event().wait()
                    return {"type": "http.request", "body": self.pieces.pop(), "more_body": True}

            await kept.diagnosis(Stalls(bytes(400)).request, "log", "en")

        tasks = [asyncio.ensure_future(unfinished()) for _ in range(3)]
        done, waiting = await asyncio.wait(tasks, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = done
        assert isinstance(error := refused.exception(), ProblemError)
        assert (error.status, error.headers) == (503, {"retry-after": "5"})
        assert (kept._kept, kept._uploads) == (800, 2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (kept._kept, kept._uploads) == (0, 0)

    run(story)


def test_there_are_only_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_MOST_UPLOADS", 0)
    assert sent(LOG)[0] == 503


def test_a_disk_without_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    status, told = sent(LOG)
    assert (status, told["detail"]) == (503, "the upload cannot be kept: No space left on device")


# Whatever is sent


@st.composite
def packed(draw: st.DrawFn) -> bytes:
    """Evidence inside archives inside archives, damaged at any of the layers."""
    data = draw(st.sampled_from(EVIDENCE))
    for _ in range(draw(st.integers(1, 4))):
        data = damaged(draw, data)
        if draw(st.booleans()):
            data = tar({"a/first": b"x", draw(st.sampled_from(["log", "a/b.gz", "ä"])): data, "last": b""})
            data = damaged(draw, data)
        data = PACKERS[draw(st.sampled_from(list(PACKERS)))](data)
    return damaged(draw, data)


def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The same, cut off or with some bytes changed, mostly near the beginning where headers are."""
    made = bytearray(data)
    if draw(st.booleans()):
        return data
    for _ in range(draw(st.integers(0, 3))):
        reach = draw(st.sampled_from((16, 600, max(1, len(made)))))
        if made:
            made[draw(st.integers(0, min(reach, len(made)) - 1))] = draw(st.integers(0, 255))
    return bytes(made[: draw(st.integers(0, len(made)))]) if draw(st.booleans()) else bytes(made)


@settings(max_examples=200, deadline=None)
@given(packed(), st.sampled_from(("en", "zh")))
def test_nothing_inside_an_archive_brings_the_reader_down(data: bytes, lang: Any) -> None:
    told = msgspec.json.decode(
        msgspec.json.encode(diagnosed(io.BytesIO(data), "upload", lang)), type=Diagnosis
    )
    assert told.files


@settings(max_examples=12, deadline=None)
@given(packed(), st.text(max_size=30))
def test_whatever_is_sent_is_answered(data: bytes, name: str) -> None:
    status, told = sent(data, file=name)
    assert status in (200, 400)
    assert "findings" in told or "detail" in told
