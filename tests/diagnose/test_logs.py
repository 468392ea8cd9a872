"""The same story in the spelling of every release, in every wrapper, gives the same diagnosis."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable

import pytest

from numaware.diagnose.evidence.logs import keyvalues, record
from numaware.diagnose.evidence.logs.hints import hint, hint_list, hints_by_resource
from numaware.diagnose.evidence.logs.scan import LONGEST_LINE
from numaware.diagnose.finding import Finding
from numaware.twin.topology.hints import Hint
from support.diagnosed import bundled, diagnosed
from support.kubelet_logs import ERAS, WRAPPERS, Era, Story, journald, noisy, written

YES, NO = True, False
EITHER = [Hint(1, YES), Hint(2, YES), Hint(3, NO)]
DISJOINT = Story(
    hints={"cpu": [Hint(2, YES), Hint(3, NO)], "memory": [Hint(1, YES)]},
    merged=Hint(None, NO),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
BOTH = pytest.mark.parametrize("era", ERAS, ids=lambda era: era.name)


def only(found: list[Finding]) -> Finding:
    (one,) = [one for one in found if one.severity != "info"]
    return one


@BOTH
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_disjoint_hints_are_told_from_any_log(era: Era, wrapper: str) -> None:
    one = only(diagnosed(kubelet__log=noisy(written(era, DISJOINT), WRAPPERS[wrapper])))
    assert one.code == "topology-affinity-error-disjoint-hints"
    assert one.facts["wants"] == [
        {"resource": "cpu", "nodes": [[1]]},
        {"resource": "memory", "nodes": [[0]]},
    ]
    assert (one.subject.namespace, one.subject.name) == ("shop", "web-0")
    assert one.facts["twin"] == "confirmed"
    assert one.facts["policy"] == "single-numa-node"


@BOTH
def test_the_node_is_the_one_in_the_wrapper(era: Era) -> None:
    assert only(diagnosed(log=noisy(written(era, DISJOINT), journald))).subject.node == "node7"


@BOTH
def test_a_preferred_hint_on_one_node_is_aligned(era: Era) -> None:
    story = Story(hints={"cpu": EITHER, "nvidia.com/gpu": [Hint(2, YES)]}, merged=Hint(2, YES), admitted=True)
    (one,) = diagnosed(log=noisy(written(era, story), journald))
    assert (one.code, one.facts["nodes"]) == ("aligned", [1])


@BOTH
def test_a_resource_that_fits_nowhere_is_named(era: Era) -> None:
    story = Story(
        hints={"cpu": EITHER, "nvidia.com/gpu": []},
        merged=Hint(3, NO),
        reason="TopologyAffinityError",
        message="Resources cannot be allocated with Topology locality",
    )
    one = only(diagnosed(log=noisy(written(era, story), journald)))
    assert (one.code, one.variant, one.facts["resource"]) == (
        "topology-affinity-error",
        "nothing-fits",
        "nvidia.com/gpu",
    )


@BOTH
def test_a_fragmented_resource_is_named(era: Era) -> None:
    story = Story(
        hints={"cpu": [Hint(3, NO)], "nvidia.com/gpu": [Hint(1, YES), Hint(3, NO)]},
        merged=Hint(3, NO),
        reason="TopologyAffinityError",
        message="Resources cannot be allocated with Topology locality",
    )
    one = only(diagnosed(log=noisy(written(era, story), journald)))
    assert (one.code, one.variant, one.facts["resource"]) == (
        "topology-affinity-error",
        "one-resource",
        "cpu",
    )


@BOTH
def test_best_effort_lets_a_pod_in_that_is_not_aligned(era: Era) -> None:
    story = Story(
        hints={"cpu": [Hint(3, YES)], "nvidia.com/gpu": [Hint(3, NO)]},
        merged=Hint(3, NO),
        admitted=True,
        wanted=16,
        given="1-5,17-27",
    )
    one = only(diagnosed(log=noisy(written(era, story), journald)))
    assert (one.code, one.confidence) == ("unaligned-under-best-effort", "certain")
    states = {part["resource"]: part["state"] for part in one.facts["blame"]}
    assert states == {"cpu": "wide", "nvidia.com/gpu": "fragmented"}


@BOTH
def test_memory_that_needs_two_nodes_is_told_before_any_verdict(era: Era) -> None:
    story = Story(hints={"cpu": EITHER, "memory": [Hint(3, YES)]})
    one = only(diagnosed(log=noisy(written(era, story), journald)))
    assert (one.code, one.facts["memoryHint"]) == ("memory-needs-two-nodes", "{11 true}")


def test_an_old_merge_called_preferred_although_cpus_span_nodes() -> None:
    story = Story(
        hints={"nvidia.com/gpu": EITHER, "cpu": [Hint(3, YES)]},
        merged=Hint(1, YES),
        admitted=True,
        wanted=16,
        given="1-13,17-19",
    )
    one = only(diagnosed(log=noisy(written(ERAS[0], story), journald)))
    assert one.code == "cpu-spread-over-nodes-under-best-effort"
    assert one.facts["spread"] == [0, 1]
    assert one.facts["twin"] == "confirmed"


def test_the_twin_disagrees_with_a_merge_that_does_not_follow_from_its_hints() -> None:
    story = Story(hints={"cpu": EITHER}, merged=Hint(3, NO), admitted=True, given="0-1", wanted=2)
    one = only(diagnosed(log="\n".join(written(ERAS[2], story))))
    assert one.facts["twin"] == "disagrees"
    assert one.facts["twinExpected"] == "{01 true}"


def test_a_policy_in_the_log_decides_what_a_merge_without_verdict_means() -> None:
    story = Story(hints={"cpu": [Hint(3, NO)]}, merged=Hint(3, NO))
    policy = (
        'I0815 10:00:00.410301  102192 topology_manager.go:136] "Creating topology manager with policy per scope" '
        'topologyPolicyName="{}" topologyScopeName="container"'
    )
    told = {
        name: only(diagnosed(log="\n".join([policy.format(name), *written(ERAS[2], story)])))
        for name in ("best-effort", "restricted")
    }
    assert told["best-effort"].code == "unaligned-under-best-effort"
    assert (told["restricted"].code, told["restricted"].confidence) == ("topology-affinity-error", "likely")


@pytest.mark.parametrize("era", ERAS[:3], ids=lambda era: era.name)
def test_a_pod_that_is_not_said_to_have_passed_was_refused_if_the_log_goes_on(era: Era) -> None:
    """At its usual verbosity a kubelet says nothing of a refusal."""
    silent = Story(hints={"cpu": [Hint(3, NO)]}, merged=Hint(3, NO))
    after = Story(name="next-0", uid="u2", hints={"cpu": EITHER}, merged=Hint(1, YES), admitted=True)
    alone = only(diagnosed(log="\n".join(written(era, silent))))
    followed = only(diagnosed(log="\n".join([*written(era, silent), *written(era, after)])))
    assert (alone.code, alone.confidence) == ("unaligned-under-best-effort", "possible")
    assert (followed.code, followed.confidence) == ("topology-affinity-error", "likely")


def test_a_pod_without_any_wish_is_neither_aligned_nor_not() -> None:
    story = Story(hints={}, merged=Hint(3, YES), admitted=True)
    assert diagnosed(log="\n".join(written(ERAS[2], story))) == []


def test_pod_scope_names_no_container_and_is_told_all_the_same() -> None:
    lines = [line.replace(' containerName="app"', "") for line in written(ERAS[2], DISJOINT)]
    lines = [line.replace("ContainerTopologyHint", "PodTopologyHint") for line in lines]
    one = only(diagnosed(log="\n".join(lines)))
    assert one.code == "topology-affinity-error-disjoint-hints"
    assert "container" not in one.facts


def test_two_containers_of_one_pod_are_kept_apart() -> None:
    first = Story(
        hints={"cpu": EITHER}, merged=Hint(1, YES), admitted=True, wanted=2, given="2-3", container="a"
    )
    second = Story(
        hints={"cpu": [Hint(3, NO)]},
        merged=Hint(3, NO),
        container="b",
        reason="TopologyAffinityError",
        message="Resources cannot be allocated with Topology locality",
    )
    # The second container of a pod is admitted without another word from the Topology Manager.
    lines = [*written(ERAS[2], first), *written(ERAS[2], second)[1:]]
    one = only(diagnosed(log="\n".join(lines)))
    assert (one.facts["container"], one.variant) == ("b", "one-resource")


def test_cpus_that_lie_on_known_nodes_are_judged_by_where_they_lie() -> None:
    details = {str(cpu): {"NUMANodeID": cpu // 4, "SocketID": cpu // 4, "CoreID": cpu} for cpu in range(8)}
    topology = json.dumps({"NumCPUs": 8, "CPUDetails": details}, separators=(",", ":"))
    line = f'I0815 10:00:00.410301  102192 cpu_manager.go:172] "Detected CPU topology" topology={topology}'
    story = Story(hints={"cpu": EITHER}, merged=Hint(1, YES), admitted=True, wanted=3, given="2-4")
    one = only(diagnosed(log="\n".join([line, *written(ERAS[2], story)])))
    assert one.code == "cpu-spread-over-nodes-under-best-effort"
    assert (one.facts["spread"], one.facts["perNode"]) == ([0, 1], 4)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gzip", "xz"])
def test_a_compressed_log_is_read(pack: Callable[[bytes], bytes]) -> None:
    data = pack(noisy(written(ERAS[2], DISJOINT), journald).encode())
    bundle = bundled(kubelet__log__gz=data)
    assert bundle.files == [("kubelet.log.gz", "kubelet log")]
    assert only(diagnosed(log=data)).code == "topology-affinity-error-disjoint-hints"


def test_a_compressed_log_that_was_cut_off_counts_as_far_as_it_goes() -> None:
    data = gzip.compress(noisy(written(ERAS[2], DISJOINT), journald).encode() * 2000)
    assert only(diagnosed(log=data[: len(data) // 2])).facts["count"] > 1


@pytest.mark.parametrize("columns", [80, 100, 132])
def test_lines_that_a_terminal_folded_are_joined(columns: int) -> None:
    lines = [journald(line) for line in written(ERAS[2], DISJOINT)]
    folded = [line[at : at + columns] for line in lines for at in range(0, len(line), columns)]
    found = [one.code for one in diagnosed(log="\n".join(folded)) if one.severity != "info"]
    assert found == ["topology-affinity-error-disjoint-hints"]


def test_a_value_of_several_lines_is_joined() -> None:
    text = (
        'E0815 10:00:00.410301  102192 server.go:294] "Failed to run kubelet" err=<\n'
        "\tfailed to run Kubelet: unsupported on machines with more than 8 NUMA Nodes\n >\n"
        "I0815 10:00:01.410301  102192 generic.go:224] next\n"
    )
    assert only(diagnosed(log=text)).code == "too-many-numa-nodes"


def test_line_numbers_are_those_of_the_file() -> None:
    text = "\n" * 4000 + noisy(written(ERAS[2], DISJOINT), journald)
    lines = text.splitlines()
    one = only(diagnosed(log=text))
    assert one.evidence
    for evidence in one.evidence:
        assert evidence.text == lines[evidence.line - 1]


def test_a_line_without_end_is_cut_and_the_next_is_read() -> None:
    text = "x" * (3 * LONGEST_LINE) + "opolog\n" + noisy(written(ERAS[2], DISJOINT), journald)
    assert only(diagnosed(log=text)).code == "topology-affinity-error-disjoint-hints"


def test_all_spellings_of_a_hint_mean_the_same() -> None:
    spelled = ("{10 true}", "{NUMANodeAffinity:10 Preferred:true}", '{"NUMANodeAffinity":2,"Preferred":true}')
    assert {hint(text) for text in spelled} == {Hint(2, YES)}
    assert hint("{" + "0" * 62 + "10 true}") == Hint(2, YES)
    assert {hint(text) for text in ("{<nil> false}", '{"NUMANodeAffinity":null,"Preferred":false}')} == {
        Hint(None, NO)
    }
    assert hint("nothing") is None
    assert hint_list("[]") == []
    assert hint_list("<nil>") is None
    assert hints_by_resource("map[]") == {}
    assert hints_by_resource('{"cpu":null}') == {"cpu": None}


def test_key_values_survive_quotes_brackets_and_cut_ends() -> None:
    text = r'"Message with \"quotes\"" a="x \"y\" z" b={"k":"}"} c=[1, 2] d=plain e="cut'
    message, rest = keyvalues.message(text)
    assert message == 'Message with "quotes"'
    assert keyvalues.pairs(rest) == {
        "a": 'x "y" z',
        "b": '{"k":"}"}',
        "c": "[1, 2]",
        "d": "plain",
        "e": "cut",
    }


def test_a_year_has_an_order_even_in_a_leap_day() -> None:
    days = ["0228", "0229", "0301", "1231"]
    times = [record.read("f", 1, f"I{day} 00:00:00.000000 1 a.go:1] x".encode()).seconds for day in days]
    assert times == sorted(times, key=lambda at: at or 0)
    assert None not in times


def test_what_the_newest_kubelets_write_behind_a_list_of_cpus_is_looked_past() -> None:
    story = Story(hints={"cpu": EITHER}, merged=Hint(1, YES), admitted=True, wanted=6)
    result = (
        'I0815 10:00:00.410301  102192 policy_static.go:478] "AllocateCPUs" pod="shop/web-0" podUID="u" containerName="app" '
        'result="2-7 aligned=<uncore:true>"'
    )
    (one,) = diagnosed(log="\n".join([*written(ERAS[2], story), result.replace('"u"', f'"{story.uid}"')]))
    assert (one.code, one.facts["cpus"]) == ("aligned", "2-7")


def test_the_oldest_kubelets_name_a_pod_now_by_name_now_by_uid() -> None:
    story = Story(hints={"cpu": EITHER}, merged=Hint(2, YES), admitted=True, wanted=2, given="9-10")
    pod = f"{story.name}_{story.namespace}({story.uid})"
    lines = [
        line.replace(pod, story.uid if "Affinity" in line else story.name) for line in written(ERAS[0], story)
    ]
    (one,) = diagnosed(log="\n".join(lines))
    assert (one.code, one.subject.name, one.subject.uid) == ("aligned", "web-0", story.uid)


def test_align_by_socket_takes_cpus_beyond_the_hint_and_that_is_fine() -> None:
    details = {str(cpu): {"NUMANodeID": cpu // 4, "SocketID": 0, "CoreID": cpu} for cpu in range(8)}
    topology = json.dumps({"NumCPUs": 8, "CPUDetails": details}, separators=(",", ":"))
    line = f'I0815 10:00:00.410301  102192 cpu_manager.go:172] "Detected CPU topology" topology={topology}'
    hints = [Hint(1, YES), Hint(2, YES), Hint(3, YES)]
    story = Story(hints={"cpu": hints}, merged=Hint(1, YES), admitted=True, wanted=3, given="2-4")
    (one,) = diagnosed(log="\n".join([line, *written(ERAS[2], story)]))
    assert (one.code, one.variant) == ("aligned", "by-socket")


def test_the_distances_that_a_merge_may_look_at_are_not_in_a_log() -> None:
    policy = (
        'I0815 10:00:00.410301  102192 topology_manager.go:152] "Creating topology manager with policy per scope" '
        'topologyPolicyName="best-effort" topologyScopeName="container" '
        'topologyPolicyOptions={"PreferClosestNUMA":true,"MaxAllowableNUMANodes":8}'
    )
    story = Story(hints={"cpu": [Hint(5, YES), Hint(6, YES)]}, merged=Hint(6, YES), admitted=True)
    found = [
        one for one in diagnosed(log="\n".join([policy, *written(ERAS[2], story)])) if one.code == "aligned"
    ]
    assert ["twin" in one.facts for one in found] == [False]


@pytest.mark.parametrize("era", ERAS[:3], ids=lambda era: era.name)
def test_messages_without_what_stands_before_them_are_read_too(era: Era) -> None:
    text = "\n".join(line.partition("] ")[2] for line in written(era, DISJOINT))
    assert only(diagnosed(log=text)).code == "topology-affinity-error-disjoint-hints"
