"""What schedulers say of pods, in the reader's language."""

from __future__ import annotations

from numaware.serve.console.views.pods import event_in_words
from numaware.serve.console.world import Event


def in_chinese(message: str) -> str:
    event = event_in_words(Event(1, 0, "waiting", message=message), "zh")
    assert event_in_words(Event(1, 0, "waiting", message=message), "en").message == message
    return event.message


def test_a_scheduler_is_told_where_it_is_known_and_quoted_where_it_is_not() -> None:
    message = "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) could not align the pod on NUMA nodes (restricted)."
    assert in_chinese(message) == (
        "4 个节点都不可用：3 个按 restricted 无法把 Pod 对齐到 NUMA 节点，1 个 CPU 不足。"
    )
    near = f"{message} nearest miss: node n0 is 1 CPU and 2 GiB of memory short on NUMA 0+1."
    assert in_chinese(near).endswith("最接近的是节点 n0：在 NUMA 0+1 上还差 1 个 CPU、2 GiB 内存。")
    assert in_chinese("2/2 nodes are available.") == "2 个节点都可用。"
    assert in_chinese("0/0 nodes are available:") == "0 个节点都不可用。"
    strange = "0/4 nodes are available: 4 node(s) had a bad day."
    assert in_chinese(strange) == strange
