"""What is counted as it comes and goes is what one would count who looks at all events anew."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from numaware.diagnose.rules.storms import StormDetector
from numaware.serve.console.views.refusals import BUCKET, HOUR, Refusals
from numaware.serve.console.world import Event, Happening

KINDS: st.SearchStrategy[Happening] = st.sampled_from(["refused", "refused", "refused", "admitted"])
# Who is in a storm is looked up once a second.
STEPS = st.sampled_from([0, 1_000, 4_000, 15_000, BUCKET // 2, BUCKET, HOUR // 3, HOUR])


class FewEvents:
    """A world that forgets all but its last twelve events."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000
        self.events: deque[Event] = deque(maxlen=12)
        self.happened: list[Event] = []

    def add(self, kind: Happening, node: str, owner: str) -> None:
        number = len(self.happened) + 1
        self.events.append(
            Event(number, self.now, kind, f"d/p{number}", node, owner, "TopologyAffinityError")
        )
        self.happened.append(self.events[-1])


@given(
    st.lists(
        st.tuples(
            STEPS, st.lists(st.tuples(KINDS, st.sampled_from("ab"), st.sampled_from("xy")), max_size=6)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_count_is_that_of_a_fresh_look(
    steps: list[tuple[int, list[tuple[Happening, str, str]]]],
) -> None:
    world = FewEvents()
    refusals = Refusals(world)  # type: ignore[arg-type] # it looks at nothing else
    detector = StormDetector()
    for pause, events in steps:
        world.now += pause
        for event in events:
            world.add(*event)
            if event[0] == "refused":
                detector.refused(event[2], event[1], "TopologyAffinityError", world.now)
        refusals.refresh()
        lasting = [
            event for event in world.events if event.kind == "refused" and event.time >= world.now - HOUR
        ]
        assert refusals.by_node == Counter(event.node for event in lasting)
        assert refusals.total == len(lasting)
        last = world.now // BUCKET
        assert refusals.buckets == tuple(
            sum(event.time // BUCKET == place for event in lasting) for place in range(last - 11, last + 1)
        )
        # However many a storm has, who is in it is known since it began.
        storms = detector.storms(world.now - BUCKET)
        assert refusals.worst == (storms[0] if storms else None)
        assert refusals.storms == {node for storm in storms for node in storm.nodes}
        assert refusals.lately == sum(
            event.kind == "refused" and event.time >= world.now - BUCKET for event in world.happened
        )


def test_a_world_that_has_refused_nothing_has_nothing_to_tell() -> None:
    refusals = Refusals(FewEvents())  # type: ignore[arg-type] # it looks at nothing else
    refusals.refresh()
    assert (refusals.total, refusals.lately, refusals.worst) == (0, 0, None)
    assert refusals.buckets == (0,) * 12
