from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from numaware.serve.queue import Queue, group_of
from numaware.workload.pod import NANO, Container, Pod
from numaware.workload.scheduling import PodClaim, Scheduling


def pod(uid: str, priority: int = 0, cpus: int = 1) -> Pod:
    wants = (("cpu", cpus * NANO),)
    return Pod(
        f"p-{uid}",
        uid=uid,
        containers=(Container("c", wants, wants),),
        scheduling=Scheduling(priority=priority),
    )


def uids(queue: Queue, now: float = 0) -> list[str]:
    found = []
    while (taken := queue.take(now)) is not None:
        found.append(taken.uid)
    return found


def test_the_highest_priority_goes_first_and_then_the_first_to_come() -> None:
    queue = Queue()
    for uid, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        queue.put(pod(uid, priority), 0)
    assert uids(queue) == ["b", "d", "a", "c"]


def test_a_pod_that_was_taken_is_not_taken_twice() -> None:
    queue = Queue()
    queue.put(pod("a"), 0)
    assert uids(queue) == ["a"]
    queue.put(pod("a"), 1)
    assert uids(queue, 1) == []


def test_a_failed_bind_waits_longer_each_time_and_never_more_than_ten_seconds() -> None:
    queue = Queue()
    queue.put(pod("a"), 0)
    now, waits = 0.0, []
    for _ in range(7):
        assert uids(queue, now) == ["a"]
        queue.failed("a", now)
        when = queue.next_at()
        assert when is not None
        assert uids(queue, when - 0.01) == []
        waits.append(when - now)
        now = when
    assert waits == [1, 2, 4, 8, 10, 10, 10]


def test_a_refused_pod_stays_where_it_is_until_something_helps_it() -> None:
    queue = Queue()
    queue.put(pod("a"), 0)
    queue.put(pod("b", cpus=2), 0)
    for uid in uids(queue):
        queue.refused(uid, 0)
    assert uids(queue, 100) == []
    queue.wake(lambda one: one.uid == "b", 100)
    assert uids(queue, 100) == ["b"]
    assert [one.pod.uid for one in queue.waiting.values() if one.state == "stuck"] == ["a"]


def test_only_the_first_of_a_group_is_woken_and_the_next_follows_when_it_found_a_place() -> None:
    queue = Queue()
    for uid in "abc":
        queue.put(pod(uid), 0)
    for uid in uids(queue):
        queue.refused(uid, 0)
    queue.wake(lambda _: True, 0)
    assert uids(queue) == ["a"]
    queue.placed("a", 0)
    assert uids(queue) == ["b"]
    queue.refused("b", 1)
    assert uids(queue) == []


def test_a_stuck_pod_is_looked_at_again_after_five_minutes_whatever_happened() -> None:
    queue = Queue()
    queue.put(pod("a"), 0)
    assert uids(queue) == ["a"]
    queue.refused("a", 0)
    assert uids(queue, 299) == []
    assert uids(queue, 300) == ["a"]


def test_a_pod_that_changes_while_it_is_stuck_is_tried_at_once() -> None:
    queue = Queue()
    gated = pod("a")
    held = msgspec.structs.replace(gated, scheduling=Scheduling(gates=("wait",)))
    queue.put(held, 0)
    assert uids(queue) == ["a"]
    queue.refused("a", 0)
    queue.put(gated, 1)
    assert uids(queue, 1) == ["a"]


def test_a_pod_that_changes_while_its_decision_is_made_is_tried_again_after_it() -> None:
    queue = Queue()
    queue.put(pod("a", cpus=64), 0)
    assert uids(queue) == ["a"]
    queue.put(pod("a", cpus=1), 1)
    queue.refused("a", 1)
    assert uids(queue, 1) == ["a"]


def test_a_pod_that_is_gone_is_never_taken() -> None:
    queue = Queue()
    queue.put(pod("a"), 0)
    queue.put(pod("b"), 0)
    queue.drop("a", 0)
    assert uids(queue) == ["b"]
    queue.refused("b", 0)
    queue.drop("b", 0)
    queue.wake(lambda _: True, 0)
    assert (uids(queue, 1000), len(queue), queue._stuck) == ([], 0, {})


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop", "take", "placed", "failed", "refused", "wake", "wait"]),
        st.sampled_from("abcd"),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_no_pod_is_lost_and_none_is_in_two_hands(actions: list[tuple[str, str, int]]) -> None:
    """Whatever happens: who was put and not dropped is taken in the end, exactly once."""
    queue = Queue()
    now = 0.0
    wanted: set[str] = set()
    hands: set[str] = set()
    for action, uid, number in actions:
        match action:
            case "put":
                queue.put(pod(uid, number, number + 1), now)
                wanted.add(uid)
            case "drop":
                queue.drop(uid, now)
                wanted.discard(uid)
                hands.discard(uid)
            case "take":
                taken = queue.take(now)
                if taken is not None:
                    assert taken.uid in wanted
                    assert taken.uid not in hands
                    hands.add(taken.uid)
            case "placed" if uid in hands:
                queue.placed(uid, now)
            case "failed" if uid in hands:
                queue.failed(uid, now)
                hands.discard(uid)
            case "refused" if uid in hands:
                queue.refused(uid, now)
                hands.discard(uid)
            case "wake":
                queue.wake(lambda one, chosen=uid: one.uid == chosen, now)  # type: ignore[misc]
            case _:
                now += number
    for uid in sorted(hands):
        queue.refused(uid, now)
    assert sorted(uids(queue, now + 1000)) == sorted(wanted)


def test_replicas_of_one_template_are_one_group_though_each_has_a_claim_of_its_own() -> None:
    def replica(uid: str, *claims: PodClaim) -> Pod:
        return msgspec.structs.replace(pod(uid), scheduling=Scheduling(resource_claims=claims))

    waiting, made = PodClaim("gpu", "", "t"), PodClaim("gpu", "a-gpu-x7", "t")
    assert group_of(replica("a", waiting)) == group_of(replica("b", made))
    assert group_of(replica("a", waiting)) != group_of(replica("b", PodClaim("nic", "", "t")))
