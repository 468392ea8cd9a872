"""`numaware topology`: see a machine, compare two, or save one for somebody else to look at.

A command imports what it needs when it runs: an answer in JSON pays for no drawing, and nobody for `capture`.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from numaware.cli.file_input import read_file, source_of
from numaware.cli.machine_input import load_machine
from numaware.cli.options import AsJson, dashed, flag, option, repeatable
from numaware.cli.output import deliver, replacing, write_json
from numaware.cli.progress import progress_bar
from numaware.errors import InputError
from numaware.machine import codec
from numaware.machine.closeness import with_links
from numaware.machine.sources import read_source
from numaware.machine.textfile import MAX_TEXT_BYTES
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree
from numaware.machine.words import printable

Format = Literal["text", "json", "svg"]
Kind = Literal["numactl", "lscpu", "nvidia-smi", "hwloc", "nccl", "cadvisor", "lspci"]

app = App(name="topology", help="See a machine: NUMA nodes, CPUs, caches, memory, devices, distances.")

Output = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="Write to this file, complete or not at all.")
]
Form = Annotated[
    Format, Parameter(name="--format", help="text for people, json for programs, svg for a page or a ticket.")
]
AnyMachine = Annotated[Path, option("A folder or archive with /sys and /proc, or a topology in JSON.")]


@app.command
def show(
    *,
    root: AnyMachine = Path("/"),
    extra: Annotated[
        tuple[str, ...],
        repeatable(
            "KIND=FILE: add what another tool printed; may be repeated.", "--with", show_default=False
        ),
    ] = (),
    form: Form = "text",
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Show a machine: this one, a captured one, or one saved as JSON.

    The picture nests packages, NUMA nodes, shared caches and cores, with
    memory, huge pages and devices where they belong; then distances, how close
    devices are to one another (PIX, PXB, PHB, NODE, SYS, as nvidia-smi says
    it), then whatever is odd. Equal parts are drawn once.

    For example:

      numaware topology show
      numaware topology show --root node7.tar.gz
      numaware topology show --format svg -o node7.svg
      nvidia-smi topo -m > topo.txt
      numaware topology show --with nvidia-smi=topo.txt
    """
    machine = load_machine(root)
    if extra:
        from numaware.machine.merge import merge  # noqa: PLC0415 - see above

        machine = merge([(str(root), machine), *(_extra(pair) for pair in extra)])
    return _present(machine, "json" if as_json else form, output)


@app.command(usage="Usage: numaware topology read --from KIND FILE [OPTIONS]")
def read(
    file: Annotated[str, dashed("What the tool printed; - is stdin.", "FILE")],
    /,
    *,
    kind: Annotated[Kind, Parameter(name="--from", help="Who printed it.")],
    form: Form = "text",
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Show a machine from what another tool says about it.

    It shows what the source knows: numactl has memory and distances but no
    caches, nvidia-smi has devices and their links but no memory.

      numactl      numactl --hardware
      lscpu        lscpu, or lscpu -e, or lscpu -p
      nvidia-smi   nvidia-smi topo -m, or nvidia-smi -L
      hwloc        lstopo --of xml
      nccl         the file that NCCL_TOPO_DUMP_FILE names
      cadvisor     MachineInfo, as the kubelet has it
      lspci        lspci -v, or lspci -vnn

    For example:

      ssh node7 numactl --hardware | numaware topology read --from numactl -
      numaware topology read --from nvidia-smi topo.txt --json
    """
    return _present(_read_source(kind, file), "json" if as_json else form, output)


@app.command
def diff(a: AnyMachine, b: AnyMachine, /, *, as_json: AsJson = False) -> int:
    """Say what differs between two machines that should be alike.

    Equal differences are told once. Free huge pages, and memory that differs
    by less than 1 %, change with every boot and are no difference.

    Exit code: 0 alike, 1 something differs, 2 one of them cannot be read.

    For example:

      numaware topology diff node7.tar.gz node8.tar.gz
      numaware topology diff / golden.json
    """
    from numaware.machine.diff import compare  # noqa: PLC0415 - see above
    from numaware.machine.drawing import terminal  # noqa: PLC0415

    differences = compare(with_links(load_machine(a)), with_links(load_machine(b)))
    names = {"a": printable(str(a), 1000), "b": printable(str(b), 1000)}
    if as_json:
        details = [{**msgspec.structs.asdict(one), "text": str(one)} for one in differences]
        write_json({"same": not differences, **names, "differences": details}, indent=2)
        return int(bool(differences))
    lines = [f"A  {names['a']}", f"B  {names['b']}"] if differences else ["alike"]
    for area, members in groupby(differences, key=lambda difference: difference.area):
        lines += ["", area, *(f"  {difference}" for difference in members)]
    terminal.write_plain("".join(f"{line}\n" for line in lines), sys.stdout)
    return int(bool(differences))


@app.command
def capture(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="The archive to write, named .tar.gz.")],
    root: Annotated[Path, option("Another root file system, such as /host in a pod.")] = Path("/"),
    with_identity: Annotated[bool, flag("Keep serial numbers, UUIDs and MAC addresses.")] = False,
) -> int:
    """Save a machine for somebody else to look at.

    The archive holds the files of /sys and /proc that numaware reads, and
    nothing else. Serial numbers, UUIDs, MAC addresses and container ids are
    left out or replaced; host name and IP addresses are never read.

    For example:

      numaware topology capture -o node7.tar.gz
      numaware topology show --root node7.tar.gz
    """
    from numaware.machine.capture import Capture, write  # noqa: PLC0415 - see above

    with replacing(output) as stream:
        with progress_bar(_files_read, None) as update:
            captured = Capture(
                open_tree(root), with_identity=with_identity, progress=lambda done: update(completed=done)
            )
        write(captured.entries, stream)
    sys.stderr.write(f"{output}: {len(captured.entries)} files and links saved\n")
    if captured.unreadable:
        count, first = len(captured.unreadable), captured.unreadable[0]
        sys.stderr.write(f"{count} files could not be read, the first is {first}\n")
    return 0


def _files_read(rich: Any) -> tuple[Any, ...]:
    return rich.SpinnerColumn(), rich.TextColumn("reading /sys and /proc: {task.completed} files")


def _extra(pair: str) -> tuple[str, Machine]:
    kind, equals, file = pair.partition("=")
    if not equals or not file:
        raise InputError(f"--with {pair}", "not of the form KIND=FILE", hint="such as nvidia-smi=topo.txt")
    return file, _read_source(kind, file)


def _read_source(kind: str, file: str) -> Machine:
    return read_source(kind, read_file(file, MAX_TEXT_BYTES), source_of(file))


def _present(machine: Machine, form: Format, output: Path | None) -> int:
    machine = with_links(machine)
    if form == "json":
        deliver(codec.encode(machine), output)
    elif form == "svg":
        from numaware.machine.drawing import svg  # noqa: PLC0415 - see above

        deliver(svg.render(machine), output)
    else:
        from numaware.machine.drawing import terminal, text  # noqa: PLC0415 - see above
        from numaware.machine.drawing.lines import to_plain  # noqa: PLC0415 - see above
        from numaware.machine.drawing.picture import draw  # noqa: PLC0415

        if output is None:
            terminal.write(text.render(draw(machine), terminal.width_of(sys.stdout)), sys.stdout)
        else:
            deliver(to_plain(text.render(draw(machine), terminal.PAGE)).encode(), output)
    return 0
