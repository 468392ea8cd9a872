from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.machine.topology import PciDevice
from numaware.node.device_plugin.selection import Selector

CARD = PciDevice("0000:3b:00.0", "020000", "15b3", "101d", "mlx5_core", 0)
FUNCTION = PciDevice(
    "0000:3b:00.2", "020000", "15b3", "101e", "vfio-pci", 0, virtual_function_of="0000:3b:00.0"
)
GPU = PciDevice("0000:86:00.0", "030200", "10de", "20b0", "nvidia", 1)
SCREEN = PciDevice("0000:03:00.0", "030000", "1a03", "2000", "ast")
BRIDGE = PciDevice("0000:00:01.0", "060400", "15b3", "0000", "pcieport")


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (Selector("gpu"), [GPU]),
        (Selector("gpu", vendors=("1002",)), []),
        (Selector("physical", vendors=("15b3",)), [CARD]),
        (Selector("physical", classes=("02", "03")), [CARD, GPU, SCREEN]),
        (Selector("physical", devices=("101d",)), [CARD]),
        (Selector("physical", drivers=("nvidia",)), [GPU]),
        (Selector("physical", addresses=("0000:86:00.0",)), [GPU]),
        (Selector("virtual"), [FUNCTION]),
        (Selector("virtual", physical=("0000:3b:00.0",)), [FUNCTION]),
        (Selector("virtual", physical=("0000:3b:00.1",)), []),
    ],
)
def test_a_selector_takes_what_has_all_that_it_names(selector: Selector, taken: list[PciDevice]) -> None:
    assert [one for one in (CARD, FUNCTION, GPU, SCREEN, BRIDGE) if selector.takes(one)] == taken


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


SELECTORS = st.builds(
    Selector,
    st.sampled_from(["gpu", "physical", "virtual"]),
    some("10de", "15b3"),
    some("101d", "20b0"),
    some("02", "0200", "03", "0302", "1200"),
    some("nvidia", "vfio-pci"),
    some("0000:01:00.0", "0000:02:00.0"),
    some("0000:03:00.0"),
)
FUNCTIONS: Sequence[PciDevice] = [
    PciDevice(address, code, vendor, device, driver, virtual_function_of=parent)
    for address in ("0000:01:00.0", "0000:02:00.0")
    for code in ("020000", "030200", "120000")
    for vendor in ("10de", "15b3")
    for device in ("101d", "20b0")
    for driver in ("nvidia", "vfio-pci")
    for parent in (None, "0000:03:00.0")
]


@given(SELECTORS, SELECTORS)
def test_what_two_selectors_both_take_they_are_known_to_overlap_in(a: Selector, b: Selector) -> None:
    assert a.overlaps(b) == b.overlaps(a)
    if any(a.takes(one) and b.takes(one) for one in FUNCTIONS):
        assert a.overlaps(b)
