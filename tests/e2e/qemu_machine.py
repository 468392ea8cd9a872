"""A real kernel on a machine with several NUMA nodes that QEMU pretends: what it was told is what must be found.

The guest has no disk. Its first file system holds busybox, this Python, and just the files that the commands need, which
are found by running them here once. QEMU interprets every instruction (TCG), so that it works wherever the tests do.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

from e2e.program import Program, eventually

ROOT = Path(__file__).parents[2]
# Prints every file that this process has imported or mapped, after it did what the guest will do.
_TRACE = """
import asyncio, sys, urllib.request
from pathlib import Path
from numaware.cli import main
from numaware.diagnose.texts import label
from numaware.node.agent import AgentOptions, run_agent
from numaware.node.kubelet_files import KubeletFiles
import array, mmap, signal, grpc._utilities
import numaware.cli.affinity, numaware.cli.agent, numaware.cli.topology, numaware.serve.logs
assert main(["topology", "show", "--json", "-o", "/dev/null"]) == 0
label("affinity-nothing")
numaware.serve.logs.set_up("text")
async def once():
    options = AgentOptions("guest", KubeletFiles(), listen="127.0.0.1:0")
    import numaware.node.agent as agent
    def said(*_, **fields): address.set_result(fields["address"])
    address = asyncio.get_running_loop().create_future()
    agent.log = type("Log", (), {"info": staticmethod(said)})
    task = asyncio.create_task(run_agent(options))
    url = await address + "/metrics"
    await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())
    task.cancel()
asyncio.run(once())
files = {module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
files |= {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if line.split()[-1].startswith("/")}
print("\\nFILES", *sorted(files), sep="\\n")
"""
_INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mkdir -p /tmp
/bin/busybox ifconfig lo up
export PYTHONPATH={path} PYTHONHOME={home} HOME=/ PATH=/bin PYTHONDONTWRITEBYTECODE=1 PYTHON={python}
run() {{ {python} -c 'import sys; from numaware.cli import main; sys.exit(main(sys.argv[1:]))' "$@"; }}
{script}
/bin/busybox echo GUEST-DONE
/bin/busybox poweroff -f
"""


class Machine(NamedTuple):
    """What QEMU is told: sockets, cores and threads of each, memory of each NUMA node, and their distances."""

    sockets: int
    cores: int
    threads: int
    memory_mib: tuple[int, ...]
    distances: tuple[tuple[int, ...], ...]
    # NUMA nodes that have a network card.
    cards: tuple[int, ...] = ()

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads

    def cpus_of(self, node: int) -> range:
        each = self.cpus // len(self.memory_mib)
        return range(node * each, (node + 1) * each)

    def arguments(self) -> list[str]:
        made = ["-smp", f"{self.cpus},sockets={self.sockets},cores={self.cores},threads={self.threads}"]
        made += ["-m", f"{sum(self.memory_mib)}M"]
        for node, size in enumerate(self.memory_mib):
            cpus = self.cpus_of(node)
            made += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
            made += ["-numa", f"node,nodeid={node},cpus={cpus[0]}-{cpus[-1]},memdev=m{node}"]
        for node, row in enumerate(self.distances):
            for other, distance in enumerate(row):
                if node != other:
                    made += ["-numa", f"dist,src={node},dst={other},val={distance}"]
        for place, node in enumerate(self.cards):
            bus = 64 + 32 * place
            made += ["-device", f"pxb-pcie,id=bridge{place},bus=pcie.0,bus_nr={bus},numa_node={node}"]
            made += ["-device", f"pcie-root-port,id=port{place},bus=bridge{place},chassis={place + 1}"]
            made += ["-device", f"virtio-net-pci,bus=port{place}"]
        return made


def boot(
    machine: Machine, script: str, folder: Path, seconds: float = 600, files: Sequence[Path] = ()
) -> str:
    """What the guest says on its console while it runs the script, in which `run ARGUMENTS` is `numaware ARGUMENTS`.

    It has these files in its first folder, with the modules that count connections, and the variable PYTHON is the path of this Python.
    """
    done = subprocess.run([ROOT / "scripts/kernel-image"], check=True, capture_output=True, text=True)
    kernel = Path(done.stdout.strip())
    image = _image(script, folder, [*files, *kernel.parent.glob("*_diag.ko")])
    console = folder / "console.log"
    console.touch()
    command: Sequence[str | Path] = [
        "qemu-system-x86_64",
        *("-accel", "tcg,thread=multi"),
        *("-machine", "q35"),
        # With less the threads of a core are not seen as such.
        *("-cpu", "Skylake-Server,vendor=GenuineIntel"),
        *("-kernel", kernel, "-initrd", image),
        *("-append", "console=ttyS0 quiet panic=-1 rdinit=/init random.trust_cpu=on"),
        *("-display", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{console}"),
        *machine.arguments(),
    ]
    with Program("qemu", command, folder / "qemu.log") as qemu:
        eventually(
            lambda: not qemu.running or "GUEST-DONE" in console.read_text(errors="replace"),
            "the guest is done",
            seconds,
        )
    said = console.read_text(errors="replace").replace("\r", "")
    assert "GUEST-DONE" in said, said[-3000:] + qemu.tail()
    return said


def between(said: str, start: str, end: str) -> str:
    """The part of what the guest said between two lines of the script."""
    return said.partition(f"{start}\n")[2].partition(f"{end}\n")[0]


def _image(script: str, folder: Path, files: Sequence[Path]) -> Path:
    """The guest's first file system: what all guests have in common, and behind it the script."""
    root = folder / "guest"
    root.mkdir()
    init = root / "init"
    paths = ":".join(entry for entry in sys.path if entry.startswith("/") and Path(entry).is_dir())
    python = Path(sys.executable).resolve()
    init.write_text(
        _INIT.format(path=f"{ROOT / 'src'}:{paths}", home=sys.base_prefix, python=python, script=script)
    )
    init.chmod(0o755)
    for file in files:
        shutil.copy(file, root)
    image = folder / "guest.cpio"
    image.write_bytes(_packed(folder.parent) + _archive(root))
    return image


@cache
def _packed(folder: Path) -> bytes:
    """Busybox, this Python, and all that the commands import, compiled: a guest that is interpreted should not have to."""
    root = folder / "common"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", root / "bin/busybox")
    for name in ("sh", "cat", "dd", "mkdir", "mount", "sleep", "wget"):
        (root / "bin" / name).symlink_to("busybox")
    done = subprocess.run(
        [sys.executable, "-c", _TRACE], check=False, capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    for file in done.stdout.partition("\nFILES\n")[2].split():
        _copy(Path(file), root)
    for package in ("encodings", "collections", "importlib"):
        home = Path(os.__file__).parent / package
        for module in home.glob("*.py"):
            _copy(module, root)
    _copy_python(root)
    # Valid whatever time the guest believes a file is from.
    compileall.compile_dir(root, quiet=2, maxlevels=30, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    return _archive(root)


def _archive(root: Path) -> bytes:
    names = "\n".join(str(one.relative_to(root)) for one in sorted(root.rglob("*")))
    command = ["cpio", "--create", "--format=newc", "--quiet"]
    return subprocess.run(command, input=names.encode(), stdout=subprocess.PIPE, check=True, cwd=root).stdout


def _copy_python(root: Path) -> None:
    real = Path(sys.executable).resolve()
    _copy(real, root)
    done = subprocess.run(["ldd", real], check=True, capture_output=True, text=True)
    for word in done.stdout.split():
        if word.startswith("/"):
            _copy(Path(word), root)


def _copy(path: Path, root: Path) -> None:
    """The file under its own name; a library also under the names by which others ask for it."""
    if not path.is_file():
        return
    stem, library, _ = path.name.partition(".so")
    names = path.parent.glob(f"{stem}.so*") if library else [path]
    for name in (path, *(other for other in names if other.resolve() == path.resolve())):
        target = root / str(name).lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, target)
