"""Reads the table of `nvidia-smi topo -m` (or `-mp`): how GPUs and NICs are linked, and the CPUs each GPU is near; and the
list of `nvidia-smi -L`: the UUIDs of GPUs.

The table is pasted with tabs or with any number of blanks, with or without its legends, so that columns are
told by their words, never by their positions. Two things it does not say are not made up: a NIC row has no
CPUs, and a NUMA node may have more CPUs than the affinity shows (a job's cpuset hides the others), so that
the nodes given here hold the CPUs that are known to be on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.numa_of_cpus import home_nodes
from numaware.machine.textfile import read_text
from numaware.machine.topology import Cpu, Device, Link, Machine, NumaNode

_QUOTE = re.compile(r"^[>#]+ ?")
_FEATURE = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID", re.IGNORECASE)
_GPU = re.compile(r"GPU\d{1,5}", re.ASCII)
_NAME = re.compile(r"[A-Za-z][\w.:-]{0,63}", re.ASCII)
# What a row has and a header never: without it a row cut short would look like a header.
_CELL = re.compile(r"X|SYS|SOC|NODE|PHB|PXB|PSB|PIX|NV\d+", re.ASCII)
_LINK = re.compile(r"[A-Z][A-Z0-9]{1,9}", re.ASCII)
_ALIAS = re.compile(r"\s*(NIC\d{1,5})\s*:\s*([\w.:-]{1,64})\s*", re.ASCII)
_LISTED = re.compile(r"GPU (\d{1,5}): .{0,200}\(UUID: (GPU-[0-9a-fA-F-]{8,64})\)\s*", re.ASCII)
# What `topo -p2p` and its kin print into a table of the same look: states of a feature, not links.
_PEER_STATES = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "CHIPSET"})
# A chassis has tens of devices; pairs grow with the square, and so would a table of junk.
_MAX_DEVICES = 1024


class _Row(msgspec.Struct, frozen=True):
    """One device's line: its links by column, and the texts of the affinity columns ('' where blank)."""

    links: tuple[str, ...]
    cpus: str = ""
    numa: str = ""
    gpu_numa: str = ""


class _Header(msgspec.Struct, frozen=True):
    """The first line: device columns, then the affinity columns with the place where each word begins."""

    devices: tuple[str, ...]
    features: tuple[tuple[str, int], ...]


def read(data: bytes, source: str = "nvidia-smi topo -m") -> Machine:
    """The devices and links of the table, and what the affinities say about NUMA nodes."""
    lines = [_QUOTE.sub("", line) for line in read_text(data, source).splitlines()]
    listed = [match for line in lines if (match := _LISTED.fullmatch(line))]
    if listed:
        return Machine(devices=_listed(listed, source))
    header, rows = _table(lines, source)
    aliases = {match[1]: match[2] for line in lines if (match := _ALIAS.fullmatch(line))}
    warnings: list[str] = []
    try:
        devices = tuple(_device(name, rows.get(name), aliases, warnings) for name in header.devices)
        links = tuple(_links(header.devices, rows, warnings))
        numa, cpus = _nodes(devices, rows, warnings)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    missing = [name for name in header.devices if name not in rows]
    if missing:
        warnings.append(f"the table has no row for {', '.join(missing[:8])}; it looks cut off")
    return Machine(cpus=cpus, numa=numa, devices=devices, links=links, warnings=tuple(warnings))


def _listed(lines: Sequence[re.Match[str]], source: str) -> tuple[Device, ...]:
    """What `nvidia-smi -L` says: GPUs by number, each with the UUID by which plugins call it."""
    if len(lines) > _MAX_DEVICES:
        raise InputError(source, f"a list of {len(lines)} GPUs, which no machine has")
    uuids = {int(match[1]): match[2] for match in reversed(lines)}
    return tuple(Device(f"GPU{number}", "gpu", alias=uuids[number]) for number in sorted(uuids))


def _table(lines: Sequence[str], source: str) -> tuple[_Header, dict[str, _Row]]:
    """The first header line that is followed by a row of one of its devices."""
    for index, line in enumerate(lines):
        header = _header(line)
        if header is None:
            continue
        if len(header.devices) > _MAX_DEVICES:
            raise InputError(source, f"a table of {len(header.devices)} devices, which no machine has")
        rows: dict[str, _Row] = {}
        for place in range(index + 1, len(lines)):
            below = lines[place]
            if _header(below) is not None:
                break
            words = below.split()
            if words and words[0] in header.devices and "X" in words[1 : len(header.devices) + 1]:
                rows.setdefault(words[0], _row(below, header))
        if rows:
            _refuse_peer_table(rows.values(), source)
            return header, rows
    raise InputError(
        source, "no table found", hint="expected the output of `nvidia-smi topo -m` or `nvidia-smi -L`"
    )


def _header(line: str) -> _Header | None:
    """The device columns and affinity columns of a header line; None for any other line."""
    features = [(" ".join(match[0].upper().split()), match.start()) for match in _FEATURE.finditer(line)]
    words = line[: features[0][1]].split() if features else line.split()
    if len(set(words)) != len(words) or not any(_GPU.fullmatch(word) for word in words):
        return None
    if not all(_NAME.fullmatch(word) and not _CELL.fullmatch(word) for word in words):
        return None
    return _Header(tuple(words), tuple(features))


def _row(line: str, header: _Header) -> _Row:
    """A row's cells. Links are single words and never blank; an affinity may be, and then its place decides."""
    words = [(match[0], match.start()) for match in re.finditer(r"\S+", line)][1:]
    width = len(header.devices)
    links = [word for word, _ in words[:width]]
    rest = words[width:]
    names = [name for name, _ in header.features]
    cells = [cell.strip() for cell in line.split("\t")]
    if len(rest) >= len(names):
        texts = dict(zip(names, (word for word, _ in rest), strict=False))
    elif cells[1 : width + 1] == links:
        # Between tabs the first two cells keep their places; the tool prints a stray tab before the third.
        texts = dict(zip(names[:2], cells[width + 1 :], strict=False))
        texts.update(zip(names[2:], filter(None, cells[width + 3 :]), strict=False))
    else:
        texts = _by_place(rest, header)
    return _Row(
        tuple(links),
        texts.get("CPU AFFINITY", ""),
        texts.get("NUMA AFFINITY", ""),
        texts.get("GPU NUMA ID", ""),
    )


def _by_place(words: Sequence[tuple[str, int]], header: _Header) -> dict[str, str]:
    """The affinities of a row that has too few of them, from where its words stand below the header.

    Blanks that were tabs of eight leave the first cell below its title and the next ones left of theirs: with
    nothing in the first, the second starts 8 to the right of the first title, and the third 24.
    """
    texts: dict[str, str] = {}
    titles = dict(header.features)
    start = titles.get("CPU AFFINITY", 0)
    for word, place in words:
        if not texts and place < start + 8:
            texts["CPU AFFINITY"] = word
            start += 8 * (len(word) // 8)
        elif place < start + 20 or "GPU NUMA ID" not in titles:
            texts["NUMA AFFINITY"] = word
        else:
            texts["GPU NUMA ID"] = word
    return texts


def _refuse_peer_table(rows: Iterable[_Row], source: str) -> None:
    states = {word for row in rows for word in row.links} & _PEER_STATES
    if states:
        raise InputError(
            source,
            f"a table of peer-to-peer states ({min(states)}), not of links",
            hint="expected `nvidia-smi topo -m`",
        )


def _device(name: str, row: _Row | None, aliases: dict[str, str], warnings: list[str]) -> Device:
    cpus = _list(row.cpus) if row else None
    nodes = _list(row.numa) if row else None
    if nodes and len(nodes) > 1:
        warnings.append(f"{name} is near several NUMA nodes ({nodes}); none of them is taken as its own")
    return Device(
        name=name,
        kind="gpu" if _GPU.fullmatch(name) else "nic",
        cpus=cpus,
        numa=nodes.first() if nodes and len(nodes) == 1 else None,
        alias=aliases.get(name),
    )


def _links(names: Sequence[str], rows: dict[str, _Row], warnings: list[str]) -> Iterable[Link]:
    """Each pair once, in the order of the columns; a table that says two things about a pair is told."""
    for at, a in enumerate(names):
        for after, b in enumerate(names[at + 1 :], at + 1):
            there = _cell(rows, a, after)
            back = _cell(rows, b, at)
            if there and back and there != back:
                warnings.append(f"{a} to {b} is {there} but {b} to {a} is {back}; {there} is taken")
            if there or back:
                yield Link(a, b, there or back)


def _cell(rows: dict[str, _Row], name: str, column: int) -> str:
    row = rows.get(name)
    word = row.links[column] if row and column < len(row.links) else ""
    return word if _LINK.fullmatch(word) else ""


def _nodes(
    devices: Sequence[Device], rows: dict[str, _Row], warnings: list[str]
) -> tuple[tuple[NumaNode, ...], tuple[Cpu, ...]]:
    """The nodes whose CPUs the affinities tell, and the nodes that are a GPU's own memory."""
    known: dict[int, CpuSet] = {}
    of_gpus: dict[int, CpuSet] = {}
    for device in devices:
        cpus = device.cpus or EMPTY
        if device.numa is not None and cpus:
            known[device.numa] = known.get(device.numa, EMPTY) | cpus
        row = rows.get(device.name)
        for number in (_list(row.gpu_numa) if row else None) or ():
            of_gpus[number] = of_gpus.get(number, EMPTY) | cpus
    homes, contradictions = home_nodes(dict(sorted(known.items())))
    if contradictions:
        # Affinities that overlap are not the CPUs of single nodes, so nothing about the nodes follows from them.
        warnings.extend(contradictions)
        homes, known = {}, {}
    nodes = [NumaNode(id=number, cpus=cpus, nearest_cpus=cpus) for number, cpus in known.items()]
    nodes += [
        NumaNode(id=number, kind="gpu", nearest_cpus=cpus)
        for number, cpus in of_gpus.items()
        if number not in known
    ]
    return (
        tuple(sorted(nodes, key=lambda node: node.id)),
        tuple(Cpu(id=cpu, numa=node) for cpu, node in homes.items()),
    )


def _list(text: str) -> CpuSet | None:
    """A CPU or node list; None for a blank cell and for `N/A`."""
    return CpuSet.parse(text) if text[:1].isdigit() else None
