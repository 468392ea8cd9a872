"""The one error of a user's input goes through processes as it is."""

from __future__ import annotations

import pickle

from numaware.errors import InputError
from numaware.sentence import Sentence


def test_an_input_error_survives_the_way_from_a_worker() -> None:
    error = InputError("pods.yaml", Sentence("{key} is unknown", key="cpuu"), hint="known: cpu", line=3)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.source, again.problem, again.hint, again.line) == (
        str(error),
        "pods.yaml",
        error.problem,
        "known: cpu",
        3,
    )
