from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from numaware.twin.gates import GATES, enabled
from numaware.twin.options import (
    CPU_STAGES,
    EXCLUSIVE_PAIRS,
    CpuOptions,
    TopologyOptions,
    parse_cpu_options,
    parse_topology_options,
)
from numaware.twin.rules import rules_for

V35 = "v1.35.0"
VECTORS = Path(__file__).parents[1] / "vectors" / "kubelet"
ALPHA = (("CPUManagerPolicyAlphaOptions", True), ("TopologyManagerPolicyAlphaOptions", True))
# As the recordings were made.
OPEN = tuple(
    (f"{manager}Policy{stage}Options", True)
    for manager in ("CPUManager", "TopologyManager")
    for stage in ("", "Alpha", "Beta")
)


def test_no_options_are_the_defaults() -> None:
    assert parse_cpu_options((), V35, ()) == CpuOptions()
    assert parse_topology_options((), V35, ()) == TopologyOptions(prefer_closest=False, max_allowable=8)


@pytest.mark.parametrize("field", CpuOptions.__struct_fields__)
def test_each_cpu_option_sets_its_own_field(field: str) -> None:
    names = {
        "full_pcpus_only": "full-pcpus-only",
        "distribute_across_numa": "distribute-cpus-across-numa",
        "align_by_socket": "align-by-socket",
        "distribute_across_cores": "distribute-cpus-across-cores",
        "strict_reservation": "strict-cpu-reservation",
        "prefer_align_uncore": "prefer-align-cpus-by-uncorecache",
    }
    assert sorted(names.values()) == sorted(CPU_STAGES)
    parsed = parse_cpu_options(((names[field], "T"),), V35, ALPHA)
    assert parsed == CpuOptions(**{field: True})
    assert parse_cpu_options(((names[field], "0"),), V35, ALPHA) == CpuOptions()


@pytest.mark.parametrize(
    ("options", "version", "gates", "text"),
    [
        ((("full-pcpu-only", "true"),), V35, (), 'unknown CPU Manager Policy option: "full-pcpu-only"'),
        (
            (("full-pcpus-only", "yes"),),
            V35,
            (),
            'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            (("align-by-socket", "true"),),
            V35,
            (),
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        # Even an option that is off needs its gate.
        (
            (("align-by-socket", "false"),),
            V35,
            (),
            'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        ),
        (
            (("distribute-cpus-across-numa", "true"),),
            V35,
            (("CPUManagerPolicyBetaOptions", False),),
            'CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided',
        ),
        (
            (("distribute-cpus-across-numa", "true"),),
            "v1.32.1",
            (),
            'CPU Manager Policy Alpha-level Options not enabled, but option "distribute-cpus-across-numa" provided',
        ),
        (
            (("strict-cpu-reservation", "true"),),
            "v1.31.0",
            (),
            'unknown CPU Manager Policy option: "strict-cpu-reservation"',
        ),
        ((("x", "y"),), "v1.22.17", (), 'unsupported cpumanager option: "x" (y)'),
        # Of several bad options the first by name is told; in the kubelet it is any of them.
        ((("z", "1"), ("a", "1")), V35, (), 'unknown CPU Manager Policy option: "a"'),
    ],
)
def test_a_bad_cpu_option_gets_the_kubelets_words(
    options: tuple[tuple[str, str], ...], version: str, gates: tuple[tuple[str, bool], ...], text: str
) -> None:
    assert parse_cpu_options(options, version, gates) == text


@pytest.mark.parametrize("pair", EXCLUSIVE_PAIRS)
def test_options_that_exclude_each_other_are_refused(pair: tuple[str, str]) -> None:
    both = tuple((name, "true") for name in pair)
    one = ((pair[0], "true"), (pair[1], "false"))
    assert parse_cpu_options(both, V35, ALPHA) == (
        f"static policy options {pair[0]} and {pair[1]} can not be used at the same time"
    )
    assert isinstance(parse_cpu_options(one, V35, ALPHA), CpuOptions)


@pytest.mark.parametrize(
    ("options", "version", "text"),
    [
        ((("prefer-closest", "true"),), V35, 'unknown Topology Manager Policy option: "prefer-closest"'),
        (
            (("max-allowable-numa-nodes", "4"),),
            V35,
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
        (
            (("max-allowable-numa-nodes", "x"),),
            V35,
            (
                'unable to convert policy option to integer "max-allowable-numa-nodes": '
                'strconv.Atoi: parsing "x": invalid syntax'
            ),
        ),
        (
            (("max-allowable-numa-nodes", "9" * 30),),
            V35,
            (
                'unable to convert policy option to integer "max-allowable-numa-nodes": '
                f'strconv.Atoi: parsing "{"9" * 30}": value out of range'
            ),
        ),
        (
            (("prefer-closest-numa-nodes", "ja"),),
            V35,
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "ja": invalid syntax',
        ),
        (
            (("prefer-closest-numa-nodes", "true"),),
            "v1.27.0",
            (
                "Topology Manager Policy Alpha-level Options not enabled, "
                'but option "prefer-closest-numa-nodes" provided'
            ),
        ),
        (
            (("max-allowable-numa-nodes", "9"),),
            "v1.30.0",
            'unknown Topology Manager Policy option: "max-allowable-numa-nodes"',
        ),
    ],
)
def test_a_bad_topology_option_gets_the_kubelets_words(
    options: tuple[tuple[str, str], ...], version: str, text: str
) -> None:
    assert parse_topology_options(options, version, ()) == text


def test_the_words_for_a_closed_topology_gate_changed_in_v1_33() -> None:
    options = (("max-allowable-numa-nodes", "16"),)
    closed = (("TopologyManagerPolicyBetaOptions", False),)
    assert parse_topology_options(options, "v1.33.0", closed) == (
        'topology manager policy beta-level options not enabled, but option "max-allowable-numa-nodes" provided'
    )
    assert parse_topology_options(options, "v1.33.0", ()) == TopologyOptions(max_allowable=16)


def test_releases_before_there_were_options_ignore_them() -> None:
    assert parse_cpu_options((("anything", "at all"),), "v1.21.0", ()) == CpuOptions()
    assert parse_topology_options((("anything", "at all"),), "v1.25.0", ()) == TopologyOptions()


def test_a_gate_follows_its_own_setting_then_all_of_its_stage_then_the_release() -> None:
    name = "CPUManagerPolicyAlphaOptions"
    assert not enabled(name, 35, ())
    assert enabled(name, 35, (("AllAlpha", True),))
    assert not enabled(name, 35, (("AllAlpha", True), (name, False)))
    assert not enabled("CPUManagerPolicyBetaOptions", 35, (("AllBeta", False),))
    assert enabled("CPUManagerPolicyOptions", 35, (("AllBeta", False),))
    assert not enabled(name, 22, ((name, True),))


def test_every_gate_has_an_ascending_history_that_ends_before_it_is_gone() -> None:
    for gate in GATES.values():
        firsts = [first for first, _, _ in gate.history]
        assert firsts == sorted(set(firsts))
        assert firsts[-1] < gate.gone


class _Scenario(msgspec.Struct, rename="camel"):
    config: dict[str, Any]
    kubernetes_version: str


class _Start(msgspec.Struct):
    error: str | None = None


class _Result(msgspec.Struct):
    start: _Start
    unstable: tuple[str, ...] = ()


class _Record(msgspec.Struct):
    """What of a recording is about its start; most of it is not."""

    scenario: _Scenario
    result: _Result


def test_the_recorded_start_errors_about_options_are_met() -> None:
    met = 0
    decoder = msgspec.json.Decoder(_Record)
    for path in sorted(VECTORS.glob("*.jsonl.gz")):
        with gzip.open(path) as lines:
            for line in lines:
                record = decoder.decode(line)
                config, version = record.scenario.config, record.scenario.kubernetes_version
                recorded = record.result.start.error or ""
                if "/start/error" in record.result.unstable:
                    continue
                cpu = parse_cpu_options(
                    tuple(config.get("cpuManagerPolicyOptions", {}).items()), version, OPEN
                )
                topology = parse_topology_options(
                    tuple(config.get("topologyManagerPolicyOptions", {}).items()), version, OPEN
                )
                # The topology manager is made first, and since v1.28 reads its options only under a policy.
                idle = ("bogus",) if rules_for(version).none_is_checked else ("none", "bogus")
                if isinstance(topology, str) and config["topologyManagerPolicy"] not in idle:
                    assert recorded == topology
                    met += 1
                elif isinstance(cpu, str) and not recorded.startswith(
                    ("[", "unknown policy", "unknown scope", "new none", "unsupported on", "cannot discover")
                ):
                    assert recorded == f"new static policy error: {cpu}"
                    met += 1
                else:
                    assert "Policy option" not in recorded
    assert met > 20
