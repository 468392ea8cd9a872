"""Why pods have no node, in English: kube-scheduler's own words, as people know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaware.diagnose.texts.template import Specs

LABELS: Mapping[str, str] = {
    "unavailable": "0/{nodes} nodes are available:[[ {reasons:reasons}.]][[ nearest miss: {nearest}.]]",
    "nearest-short": "node {node} is {missing:amounts} short on {nodes:set}",
    "nearest-cause": "node {node}: {cause:clause}",
    "reason": "{text:reason}",
    "said": "{text:retold}",
}


def _reasons(reasons: str | Sequence[tuple[int, str]]) -> str:
    """As texts they are sorted, numbers and all: so does FitError.Error (v1.35)."""
    if isinstance(reasons, str):
        return reasons
    return ", ".join(sorted(f"{number} {text}" for number, text in reasons))


SPECS: Specs = {
    "reason": str,
    "reasons": _reasons,
    "retold": str,
    "clause": lambda sentence: sentence.removesuffix("."),
}
