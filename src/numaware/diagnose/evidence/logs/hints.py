"""Topology hints as kubelets have printed them: three spellings of the same thing.

    {01 true} {10 true} {11 false}                                  1.16 to 1.20 (once with all 64 digits)
    {NUMANodeAffinity:01 Preferred:true}                            1.21 to about 1.24
    [{"NUMANodeAffinity":2,"Preferred":true}]                       since then; the mask as a number

A mask in binary reads from the right: `10` is NUMA node 1. `<nil>` and `null` mean any node.
"""

from __future__ import annotations

import re
from typing import Any

from numaware.diagnose.evidence.logs.keyvalues import parsed_json
from numaware.twin.topology.hints import Hint

_HINT = r"\{(?:NUMANodeAffinity:)?([01]{1,64}|<nil>) (?:Preferred:)?(true|false)\}"
_ONE = re.compile(_HINT)
_HINTS = r"(?:\{(?:NUMANodeAffinity:)?(?:[01]{1,64}|<nil>) (?:Preferred:)?(?:true|false)\} ?)*"
_RESOURCE = re.compile(rf"(?<![\w./-])([A-Za-z0-9][\w./-]{{0,316}}):\[({_HINTS})\]")
_MOST_HINTS = 4096

HintLists = dict[str, list[Hint] | None]


def hint(value: Any) -> Hint | None:
    """One hint in any spelling, None where there is none."""
    if isinstance(value, dict):
        return _of_json(value)
    if not isinstance(value, str):
        return None
    if value.lstrip().startswith('{"'):
        return _of_json(parsed_json(value))
    match = _ONE.search(value)
    return _of_text(match[1], match[2]) if match else None


def hint_list(value: Any) -> list[Hint] | None:
    """The hints of one resource; None where the value holds no list."""
    if isinstance(value, str):
        text = value.strip()
        if not text.startswith("["):
            return None
        if '"' not in text:
            return [_of_text(mask, preferred) for mask, preferred in _ONE.findall(text)[:_MOST_HINTS]]
        value = parsed_json(text)
    if not isinstance(value, list):
        return None
    return [parsed for one in value[:_MOST_HINTS] if (parsed := _of_json(one)) is not None]


def hints_by_resource(value: Any) -> HintLists | None:
    """The hints of one provider by resource; None in place of a list is "any node", and no map at all is None."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("map["):
            return {
                name: [_of_text(mask, preferred) for mask, preferred in _ONE.findall(listed)[:_MOST_HINTS]]
                for name, listed in _RESOURCE.findall(text)
            }
        if not text.startswith("{"):
            return None
        value = parsed_json(text)
    if not isinstance(value, dict):
        return None
    return {str(name): hint_list(listed) for name, listed in value.items()}


def _of_json(value: Any) -> Hint | None:
    if not isinstance(value, dict) or not isinstance(value.get("Preferred"), bool):
        return None
    mask = value.get("NUMANodeAffinity")
    if isinstance(mask, str):
        return _of_text(mask, str(value["Preferred"]).lower()) if re.fullmatch("[01]{1,64}", mask) else None
    if mask is None or (isinstance(mask, int) and not isinstance(mask, bool) and 0 <= mask < 1 << 64):
        return Hint(mask, value["Preferred"])
    return None


def _of_text(mask: str, preferred: str) -> Hint:
    return Hint(None if mask == "<nil>" else int(mask, 2), preferred == "true")


def shown(hint: Hint) -> str:
    """A hint as the older kubelets print it, which is the shorter form."""
    mask = "<nil>" if hint.mask is None else f"{hint.mask:b}".zfill(2)
    return f"{{{mask} {'true' if hint.preferred else 'false'}}}"


def nodes_of(mask: int | None) -> list[int]:
    """The NUMA nodes in a mask."""
    return [] if mask is None else [node for node in range(mask.bit_length()) if mask >> node & 1]
