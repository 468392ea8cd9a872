"""The objects of a hwloc XML file, whatever its version: types by their present names, masks as CPU sets."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from numaware.machine.cpuset import MAX_ID, CpuSet

# An object and what it is inside of, outermost first.
Placed = tuple[Element, tuple[Element, ...]]

_OLD_NAMES = {"Socket": "Package", "Node": "NUMANode"}
_ALL = (1 << MAX_ID + 1) - 1


def walk(parent: Element, above: tuple[Element, ...] = ()) -> Iterator[Placed]:
    """Every object below, in the order of the file; `read_xml` has bounded how deep they nest."""
    for element in parent.iterfind("object"):
        yield element, above
        yield from walk(element, (*above, element))


def type_of(element: Element) -> str:
    name = element.get("type", "")
    return _OLD_NAMES.get(name, name)


def enclosing(above: tuple[Element, ...], name: str) -> Element | None:
    """The innermost object of that type around."""
    return next((element for element in reversed(above) if type_of(element) == name), None)


def number(element: Element | None, name: str = "os_index") -> int | None:
    """An attribute that is an id, a size or a count; hwloc writes -1, or nothing, for unknown."""
    text = element.get(name, "") if element is not None else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 21 else None


def kernel_id(element: Element) -> int | None:
    """The number of a CPU or NUMA node, which unlike those of packages and cores are small."""
    index = number(element)
    if index is not None and index > MAX_ID:
        raise ValueError(f"{type_of(element)} {index} is beyond the largest id accepted, {MAX_ID}")
    return index


def cpu_set(element: Element, name: str = "cpuset") -> CpuSet | None:
    """A mask attribute; None where the object has none."""
    text = element.get(name)
    return None if text is None else parse_mask(text)


def parse_mask(text: str) -> CpuSet:
    """A mask of 32-bit words, highest first, blank for zero; a leading `0xf...f` stands for endless ones."""
    words = text.strip().split(",")
    if len(words) > (MAX_ID + 1) // 32 + 1:
        raise ValueError(f"a mask of {len(words)} words names CPUs above {MAX_ID}")
    endless = words[0] == "0xf...f"
    mask = -1 if endless else 0
    for word in words[endless:]:
        digits = word.removeprefix("0x")
        if len(digits) > 8 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise ValueError(f"{text[:40]!r} is not a mask of hexadecimal words")
        mask = mask << 32 | int(digits or "0", 16)
    return CpuSet.from_mask(mask & _ALL if endless else mask)


def infos(element: Element) -> dict[str, str]:
    """The name and value pairs of an object, first ones kept, blank ones left out."""
    values: dict[str, str] = {}
    for info in element.iterfind("info"):
        if value := info.get("value", "").strip():
            values.setdefault(info.get("name", ""), value)
    return values
