"""The documentation's claims about configuration, held against the code."""

from __future__ import annotations

import re
from pathlib import Path

from numaware.machine.quantity import Quantity
from numaware.twin.kubelet_config import read
from numaware.twin.options import CPU_STAGES, TOPOLOGY_STAGES

PAGE = (Path(__file__).parents[2] / "docs" / "kubelet" / "configuration.md").read_text()


def test_the_worked_example_is_accepted_and_adds_up() -> None:
    match = re.search(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None
    file = read(match[1].encode(), "example")
    assert file.problems == ()
    config = file.config
    right = dict(config.kube_reserved)["memory"] + dict(config.system_reserved)["memory"]
    right += Quantity.parse(dict(config.eviction_hard)["memory.available"])
    assert (
        right.value == sum(dict(node.limits)["memory"].value for node in config.reserved_memory) == 3584 << 20
    )


def test_the_tables_of_options_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|((?: [0-9.]* ?\|){3})$", PAGE, re.MULTILINE))
    assert rows.keys() == CPU_STAGES.keys() | TOPOLOGY_STAGES.keys()
    for option, history in (CPU_STAGES | TOPOLOGY_STAGES).items():
        firsts = {stage: f"1.{minor}" for minor, stage in history}
        cells = [cell.strip() for cell in rows[option].split("|")[:3]]
        assert cells == [firsts.get("alpha", ""), firsts.get("beta", ""), firsts.get("stable", "")]
