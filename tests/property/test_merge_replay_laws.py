"""The merge done again from what was logged is the twin's own merge, under the policy it was logged under."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.evidence.logs.journal import Part
from numaware.diagnose.rules.merge_replay import replay
from numaware.twin.hardware import CpuPlace, NumaHardware, layout
from numaware.twin.rules import rules_for
from numaware.twin.topology.hints import Hint, Hints
from numaware.twin.topology.policies import Policy
from support.diagnosed import bundled
from support.kubelet_logs import ERAS, Story, written

NODES = 3
FULL = (1 << NODES) - 1
MASKS = sorted(range(1, FULL + 1), key=lambda mask: (mask.bit_count(), mask))
LAYOUT = layout(tuple(NumaHardware(node, (CpuPlace(node, node, 0),)) for node in range(NODES)))


@st.composite
def hint_lists(draw: st.DrawFn) -> dict[str, list[Hint]]:
    """Hints of one to three resources, each list in the kubelet's order."""
    found = {}
    for name in ("cpu", "memory", "nvidia.com/gpu")[: draw(st.integers(1, 3))]:
        masks = [mask for mask in MASKS if draw(st.booleans())]
        least = draw(st.integers(1, NODES))
        found[name] = [Hint(mask, preferred=mask.bit_count() == least) for mask in masks]
    return found


def merged(policy: str, version: str, lists: dict[str, list[Hint]]) -> Hint:
    given_lists = [
        Hints([one.mask or 0 for one in hints], [one.mask or 0 for one in hints if one.preferred])
        for hints in lists.values()
    ]
    return Policy(policy, LAYOUT.full, equal_masks=rules_for(version).equal_masks).merged(given_lists)


POLICIES = st.sampled_from(("best-effort", "restricted", "single-numa-node"))


@settings(max_examples=200, deadline=None)
@given(hint_lists(), POLICIES)
def test_what_the_twin_merged_is_confirmed(lists: dict[str, list[Hint]], policy: str) -> None:
    found = replay(
        Part("c", hints=dict(lists), merged=merged(policy, "v1.35.0", lists)), NODES, policy, old=False
    )
    assert found is not None
    assert found.confirmed


@settings(max_examples=200, deadline=None)
@given(hint_lists(), POLICIES, st.sampled_from(MASKS), st.booleans())
def test_any_other_outcome_is_not(
    lists: dict[str, list[Hint]], policy: str, mask: int, preferred: bool
) -> None:
    right = merged(policy, "v1.35.0", lists)
    other = Hint(mask, preferred)
    found = replay(Part("c", hints=dict(lists), merged=other), NODES, policy, old=False)
    assert found is not None
    assert found.confirmed == (other == right)
    if not found.confirmed:
        assert found.expected == right


@settings(max_examples=60, deadline=None)
@given(hint_lists(), st.sampled_from(ERAS))
def test_hints_survive_being_written_and_read(lists: dict[str, list[Hint]], era: object) -> None:
    chosen = next(one for one in ERAS if one is era)
    story = Story(hints=lists, merged=merged("best-effort", "v1.35.0", lists), admitted=True)
    journal = bundled(log="\n".join(written(chosen, story))).journal
    journal.close()
    ((_, case),) = journal.cases()
    (part,) = case.first.parts.values()
    assert part.hints == lists
    assert part.merged == story.merged


@settings(max_examples=100, deadline=None)
@given(hint_lists(), POLICIES)
def test_nodes_that_the_log_does_not_speak_of_do_not_spoil_the_proof(
    lists: dict[str, list[Hint]], policy: str
) -> None:
    """The machine has a node more than any hint names, as one with memory only has."""
    small = {name: [one for one in hints if (one.mask or 0) < FULL >> 1] for name, hints in lists.items()}
    part = Part("c", hints=dict(small), merged=merged(policy, "v1.35.0", small))
    found = replay(part, NODES - 1, policy, old=False, more=True)
    assert found is not None
    assert found.confirmed
