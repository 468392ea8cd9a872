"""Law: what is written is read back, and what is not a state file is one error."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.twin.state import cpu, device, memory
from numaware.twin.state.verify import Report, verify
from support.old_state_files import cpu_state_v1

names = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(0, 2**64 - 1)
nodes = st.integers(0, 63)
cpu_lists = st.sets(st.integers(0, 300), max_size=20).map(CpuSet).map(str)
entries = st.dictionaries(names, st.dictionaries(names, cpu_lists, max_size=3), max_size=3)
tables = st.builds(memory.MemoryTable, numbers, numbers, numbers, numbers, numbers)
states = st.dictionaries(
    nodes,
    st.builds(
        memory.NodeEntry,
        st.integers(0, 99),
        st.dictionaries(names, tables, max_size=2),
        st.lists(nodes, max_size=4).map(tuple),
    ),
    max_size=3,
)
blocks = st.builds(memory.MemoryBlock, st.lists(nodes, max_size=4).map(tuple), names, numbers)
assignments = st.dictionaries(
    names, st.dictionaries(names, st.lists(blocks, max_size=3), max_size=2), max_size=2
)
ids = st.lists(names, max_size=3, unique=True)
held = st.builds(
    device.DeviceEntry,
    names,
    names,
    names,
    st.dictionaries(st.integers(-1, 63), ids, max_size=3),
    st.binary(max_size=40),
)


@given(names, cpu_lists, entries)
def test_cpu_state_is_read_back(policy: str, default: str, given_away: dict[str, dict[str, str]]) -> None:
    text = cpu.encode(policy, default, given_away)
    state = cpu.decode(text)
    assert (state.policy, state.default_cpus, state.entries, state.stamp.form) == (
        policy,
        default,
        given_away,
        "v2",
    )
    assert cpu.encode(state.policy, state.default_cpus, state.entries) == text


@given(names, cpu_lists, st.dictionaries(names, cpu_lists, max_size=3))
def test_old_cpu_state_is_read_back(policy: str, default: str, by_id: dict[str, str]) -> None:
    state = cpu.decode(cpu_state_v1(policy, default, by_id))
    assert (state.policy, state.default_cpus, state.by_container_id, state.stamp.form) == (
        policy,
        default,
        by_id,
        "v1",
    )


@given(names, states, assignments)
def test_memory_state_is_read_back(
    policy: str,
    state: dict[int, memory.NodeEntry],
    given_away: dict[str, dict[str, list[memory.MemoryBlock]]],
) -> None:
    text = memory.encode(policy, state, given_away)
    back = memory.decode(text)
    assert (back.policy, back.machine_state, back.stamp.form) == (policy, state, "v1")
    assert memory.encode(back.policy, back.machine_state, back.entries) == text
    for uid, containers in given_away.items():
        for name, blocks_held in containers.items():
            assert sorted(back.entries[uid][name], key=repr) == sorted(blocks_held, key=repr)


@given(st.lists(held, max_size=3), st.dictionaries(names, ids, max_size=2), st.sampled_from(["v1", "v2"]))
def test_device_state_is_read_back(
    given_away: list[device.DeviceEntry], registered: dict[str, list[str]], form: device.Form
) -> None:
    text = device.encode(given_away, registered, form)
    back = device.decode(text)
    assert device.encode(back.entries, back.registered, form) == text
    assert {name: set(listed) for name, listed in back.registered.items()} == {
        name: set(listed) for name, listed in registered.items()
    }
    assert sorted(entry.alloc_response for entry in back.entries) == sorted(
        entry.alloc_response for entry in given_away
    )
    if form == "v2":
        assert sorted(devices_of(entry) for entry in back.entries) == sorted(map(devices_of, given_away))


def devices_of(entry: device.DeviceEntry) -> tuple[str, str, str, str]:
    placed = sorted((node, sorted(names)) for node, names in entry.devices.items())
    return entry.pod_uid, entry.container, entry.resource, repr(placed)


SAMPLES = [
    cpu.encode("static", "0,3-7", {"u": {"c": "1", "d": "2"}}),
    memory.encode(
        "Static",
        {0: memory.NodeEntry(1, {"memory": memory.MemoryTable(9, 1, 8, 2, 6)}, (0,))},
        {"u": {"c": [memory.MemoryBlock((0,), "memory", 2)]}},
    ),
    device.encode([device.DeviceEntry("u", "c", "x.io/d", {0: ["a"]}, b"\n\x00")], {"x.io/d": ["a"]}),
]


@given(st.sampled_from(SAMPLES), st.data())
def test_a_damaged_file_is_a_verdict_and_never_a_crash(sample: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(start, min(len(sample), start + 8)))
    junk = data.draw(
        st.one_of(st.text(max_size=4), st.sampled_from(["{", "}", "[]", "null", "-1", "1e999", '"']))
    )
    damaged = (sample[:start] + junk + sample[end:]).encode(errors="surrogatepass")
    assert isinstance(verify(damaged, "f"), Report)
    for module in (cpu, memory, device):
        with suppress(InputError):
            assert module.decode(damaged).stamp.accepted


@given(st.binary(max_size=60))
def test_junk_is_no_state_file(data: bytes) -> None:
    assert not verify(data, "f").valid
    with pytest.raises(InputError):
        memory.decode(data)


@given(st.sampled_from(SAMPLES), st.data())
def test_a_changed_digit_never_passes(sample: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([i for i, letter in enumerate(sample) if letter.isdigit()]))
    digit = data.draw(st.sampled_from("0123456789").filter(lambda letter: letter != sample[place]))
    assert not verify((sample[:place] + digit + sample[place + 1 :]).encode(), "f").valid
