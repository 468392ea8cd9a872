"""Feed readers damaged input for as long as wanted: `python tests/fuzz/fuzz_readers.py sysfs --seconds 60`.

The same laws as in tests/property, with other examples each time; a seed is printed and can be given again.
A reader is added by one line in `TARGETS`: its name, its damaged input, and its law.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from property import (
    damaged_capture,
    test_alloc_response_fuzz,
    test_device_plugin_fuzz,
    test_diagnose_fuzz,
    test_lint_fuzz,
    test_sysfs_fuzz,
)


class Target(NamedTuple):
    """Damaged input of one kind, and the law that reading it keeps."""

    examples: st.SearchStrategy[Any]
    law: Callable[[Any], None]


TARGETS = {
    "alloc-response": Target(test_alloc_response_fuzz.EXAMPLES, test_alloc_response_fuzz.check),
    "device-plugin": Target(test_device_plugin_fuzz.EXAMPLES, test_device_plugin_fuzz.check),
    "doctor": Target(test_lint_fuzz.NODE_FILES, test_lint_fuzz.check_node),
    "lint": Target(test_lint_fuzz.EXAMPLES, test_lint_fuzz.check),
    "diagnose": Target(test_diagnose_fuzz.damaged(), test_diagnose_fuzz.check_evidence),
    "sysfs": Target(damaged_capture.damaged_entries(), test_sysfs_fuzz.check_capture),
}
ROUND = 500


def main() -> int:
    """Run rounds of examples until the time is over; the first broken law ends it with its smallest example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    target = TARGETS[chosen.target]
    start = time.time_ns() if chosen.seed is None else chosen.seed
    end = time.monotonic() + chosen.seconds
    rounds = 0
    while time.monotonic() < end:
        sys.stdout.write(f"seed {start + rounds}\n")
        run_round(target, start + rounds)
        rounds += 1
    sys.stdout.write(f"{rounds * ROUND} examples of {chosen.target}, no law broken\n")
    return 0


def run_round(target: Target, number: int) -> None:
    @seed(number)
    @settings(max_examples=ROUND, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(target.examples)
    def examples(example: Any) -> None:
        target.law(example)

    examples()


if __name__ == "__main__":
    sys.exit(main())
