"""Where nothing is wrong, nothing is found."""

from __future__ import annotations

import pytest

from support.diagnosed import bundled, diagnosed
from support.healthy_evidence import samples

SAMPLES = dict(samples())


def test_there_are_fifty_samples_and_each_is_recognised() -> None:
    assert len(SAMPLES) == 50
    unknown = [name for name, text in SAMPLES.items() if bundled(file=text).files[0][1] == "unknown"]
    assert unknown == []


@pytest.mark.parametrize("name", SAMPLES)
def test_a_healthy_sample_has_no_findings_but_that_it_is_fine(name: str) -> None:
    assert [one for one in diagnosed(file=SAMPLES[name]) if one.severity != "info"] == []


@pytest.mark.parametrize("seed", range(3))
def test_healthy_logs_of_other_dice_are_fine_too(seed: int) -> None:
    found = [
        (name, one.code)
        for name, text in samples(seed)
        for one in diagnosed(file=text)
        if one.severity != "info"
    ]
    assert found == []
