"""Finished runs on disk: what comes back is what went in, and only for the same cluster and trace."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.schedule.profile import DEFAULT_PROFILE, shipped
from numaware.simulate import journal
from numaware.simulate.run import run
from support.lab_worlds import cluster, guaranteed, trace

PODS = trace(guaranteed("a", 2), guaranteed("b", 5), guaranteed("c", 5))


def test_results_come_back_as_they_were() -> None:
    results = [run(cluster(1), PODS, policy, 3) for policy in ("numaware", "kube-scheduler")]
    about = journal.subject(cluster(1), PODS, DEFAULT_PROFILE)
    found = journal.read(journal.write(about, results), "runs.jsonl", about)
    assert list(found) == [("numaware", 3), ("kube-scheduler", 3)]
    assert list(found.values()) == results


def test_another_cluster_trace_or_profile_is_another_subject() -> None:
    subjects = {
        journal.subject(cluster(1), PODS, DEFAULT_PROFILE),
        journal.subject(cluster(2), PODS, DEFAULT_PROFILE),
        journal.subject(cluster(1, "none"), PODS, DEFAULT_PROFILE),
        journal.subject(cluster(1), trace(guaranteed("a", 2)), DEFAULT_PROFILE),
        journal.subject(cluster(1), PODS, shipped("pack")),
    }
    assert len(subjects) == 5
    assert journal.subject(cluster(1), PODS, DEFAULT_PROFILE) in subjects


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "runs.jsonl:1: is no journal of simulate"),
        (b"nodes: []\n", "runs.jsonl:1: is no journal of simulate"),
        (journal.write("other", []), "runs.jsonl:1: is the journal of another cluster, trace or version"),
        (journal.write("this", []) + b"{}\n", "runs.jsonl:2: is no result"),
    ],
)
def test_a_journal_that_cannot_be_used_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(InputError) as error:
        journal.read(data, "runs.jsonl", "this")
    assert str(error.value).startswith(told)
