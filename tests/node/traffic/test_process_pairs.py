"""What another program appends to a file, such as oeAware's client: only news count, whole lines, and of processes of pods."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from numaware.node.traffic import process_pairs
from numaware.node.traffic.process_pairs import ProcessPairs
from numaware.node.traffic.source import PodNetwork

PODS = [
    PodNetwork("a", 1, "/a", processes=(10, 11)),
    PodNetwork("b", 2, "/b", processes=(20,)),
    PodNetwork("c", 3, "/c", shared=True, processes=(30,)),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "pairs"
    file.write_text("pid1 10, pid2 20, level 999\n")
    return file


def append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def test_what_was_there_before_is_nobodys_and_news_are_counted_once(file: Path) -> None:
    source = ProcessPairs(file)
    assert source.collect(PODS).bytes == {}
    # As oeAware's client prints it, with a line about each period.
    append(
        file,
        "process_affinity data->count: 3\npid1 10, pid2 20, level 5000000\npid1 11, pid2 20, level 1000\n"
        "pid1 20, pid2 30, level 7\n",
    )
    assert source.collect(PODS).bytes == {("a", "b"): 5_001_000, ("b", "c"): 7}
    assert source.collect(PODS).bytes == {}


def test_numbers_alone_will_do_and_half_a_line_waits_for_its_rest(file: Path) -> None:
    source = ProcessPairs(file)
    source.collect(PODS)
    append(file, "10 20 40\n20,30,50\n10 30 6")
    assert source.collect(PODS).bytes == {("a", "b"): 40, ("b", "c"): 50}
    append(file, "0\n")
    assert source.collect(PODS).bytes == {("a", "c"): 60}


def test_strangers_talk_within_a_pod_and_noise_count_for_nothing(file: Path) -> None:
    source = ProcessPairs(file)
    source.collect(PODS)
    append(file, "10 11 40\n10 99 40\nnothing\n10 20\n10 20 -5\n10 20 99999999999999999999\n")
    assert source.collect(PODS).bytes == {}


def test_a_file_that_is_replaced_or_begins_anew_is_read_from_its_beginning(
    file: Path, tmp_path: Path
) -> None:
    source = ProcessPairs(file)
    source.collect(PODS)
    (tmp_path / "next").write_text("10 20 1\n")
    (tmp_path / "next").rename(file)
    assert source.collect(PODS).bytes == {("a", "b"): 1}
    file.write_text("20 30 2\n")
    os.truncate(file, 0)
    assert source.collect(PODS).bytes == {}
    append(file, "20 30 3\n")
    assert source.collect(PODS).bytes == {("b", "c"): 3}


def test_a_file_that_is_missing_or_none_is_named_and_read_when_it_comes(tmp_path: Path) -> None:
    file = tmp_path / "pairs"
    source = ProcessPairs(file)
    assert source.collect(PODS).unread == {str(file): "No such file or directory"}
    os.mkfifo(file)
    assert source.collect(PODS).unread == {str(file): "is no regular file"}
    file.unlink()
    file.write_text("10 20 4\n")
    assert source.collect(PODS).bytes == {("a", "b"): 4}


def test_of_a_file_that_grows_too_fast_the_end_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pairs, "_MOST_READ", 100)
    source = ProcessPairs(file)
    source.collect(PODS)
    append(file, "10 20 1000000\n" * 100 + "20 30 1\n")
    counted = source.collect(PODS)
    assert counted.bytes[("b", "c")] == 1
    assert counted.lost == (str(file),)
    assert source.collect(PODS).bytes == {}
