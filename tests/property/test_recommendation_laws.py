"""Whatever the machine, the release and the purpose: a recommended configuration starts, admits, and is in order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.recommend.configuration import Purpose, recommend
from numaware.diagnose.render import kubelet_yaml
from numaware.diagnose.rules.lint import World, lint
from numaware.diagnose.texts import Lang
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.twin import kubelet_config
from numaware.twin.hardware import layout
from numaware.twin.kubelet import start
from property.strategies import machines
from support.choices import LANGUAGES, PURPOSES

VERSIONS = st.integers(18, 36).map(lambda minor: f"v1.{minor}.0")


@st.composite
def servers(draw: st.DrawFn) -> Machine:
    """Machines as they are sold, small to large."""
    sockets, nodes = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (2, 4), (4, 4), (8, 4)]))
    cores, threads = draw(st.integers(1, 24)), draw(st.integers(1, 2))
    places = st.integers(0, sockets * nodes - 1)
    extras = [
        f"+{kind}@{','.join(map(str, where))}"
        for kind in ("gpu", "nic")
        if (where := draw(st.lists(places, max_size=6)))
    ]
    memory = draw(st.sampled_from(["0", "10Mi", "512Mi", "3Gi", "64Gi", "385Gi", "2Ti"]))
    return synthetic.read(f"{sockets}s x {nodes}n x {cores}c x {threads}t {' '.join(extras)} mem={memory}")


@settings(max_examples=200, deadline=None)
@given(
    machine=servers() | machines(),
    purpose=st.sampled_from(PURPOSES),
    version=VERSIONS,
    lang=st.sampled_from(LANGUAGES),
)
def test_a_recommendation_starts_admits_its_pod_and_passes_lint(
    machine: Machine, purpose: Purpose, version: str, lang: Lang
) -> None:
    found = recommend(machine, purpose, version)
    assert found.verdict.admitted, (found.verdict.message, found.document, found.pod)
    data = kubelet_yaml.render(found, "m", lang).encode()
    file = kubelet_config.read(data, "f", version)
    assert not file.refused
    kubelet = start(found.hardware, file.config)
    assert kubelet is found.verdict.node.kubelet
    linted = lint(data, "f", World(version=version, hardware=found.hardware))
    assert [one for one in linted.findings if one.severity != "info"] == []
    if kubelet.cpus:
        seen = layout(kubelet.hardware.numa)
        assert kubelet.cpus.reserved == seen.siblings(kubelet.cpus.reserved)
        assert 2 * kubelet.cpus.reserved.bit_count() <= seen.cpu_count or len(seen.cores) == 2


@settings(max_examples=60, deadline=None)
@given(machine=servers(), purpose=st.sampled_from(PURPOSES))
def test_the_same_question_has_the_same_answer(machine: Machine, purpose: Purpose) -> None:
    once, again = recommend(machine, purpose), recommend(machine, purpose)
    assert kubelet_yaml.render(once, "m") == kubelet_yaml.render(again, "m")


@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_numa_node_of_equal_ones_keeps_as_much_for_the_system(purpose: Purpose) -> None:
    found = recommend(synthetic.read("2s x 2n x 16c x 2t +gpu@0,1,2,3"), purpose)
    kubelet = found.verdict.node.kubelet
    assert kubelet.cpus is not None
    kept = {(cpus & kubelet.cpus.reserved).bit_count() for _, cpus in kubelet.layout.numas}
    assert len(kept) == 1
