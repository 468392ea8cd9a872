from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from numaware.machine import codec, sysfs
from numaware.machine.archive import Entry, Folder, Link
from numaware.machine.capture import Capture, RecordingTree, without_identity, write
from numaware.machine.topology import Machine
from numaware.machine.tree import ArchiveTree, open_tree

POD = "8b5c2f6e-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
CONTAINER = "ab" * 32
CARD = "sys/devices/pci0000:00/0000:00:01.0"
GROUP = f"/kubepods/pod{POD}/{CONTAINER}"
NAME = "enx00163e5a6b7c"

FILES: dict[str, Entry] = {
    "proc/cpuinfo": b"processor\t: 0\nmodel name\t: Example CPU\nBogoMIPS\t: 50\n\nSerial\t\t: 10000000deadbeef\n",
    "proc/meminfo": b"MemTotal:  8388608 kB\nMemFree:  1234 kB\n",
    "proc/self/cpuset": GROUP.encode() + b"\n",
    "proc/cmdline": b"root=UUID=secret password=hunter2\n",
    "sys/fs/cgroup/cpuset.cpus.effective": b"0-1\n",
    f"sys/fs/cgroup{GROUP}/cpuset.cpus.effective": b"0\n",
    f"sys/fs/cgroup{GROUP}/cpuset.mems.effective": b"0\n",
    "sys/class/dmi/id/sys_vendor": b"Example\n",
    "sys/class/dmi/id/product_serial": b"SN12345\n",
    "sys/class/dmi/id/product_uuid": POD.encode(),
    "sys/devices/system/cpu/online": b"0-1\n",
    "sys/devices/system/cpu/possible": b"0-1\n",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": b"0\n",
    "sys/devices/system/cpu/cpu0/topology/core_id": b"0\n",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings": b"1\n",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id": b"0\n",
    "sys/devices/system/cpu/cpu1/topology/core_id": b"1\n",
    "sys/devices/system/cpu/cpu1/topology/thread_siblings": b"2\n",
    "sys/devices/system/node/online": b"0\n",
    "sys/devices/system/node/node0/cpulist": b"0-1\n",
    "sys/devices/system/node/node0/distance": b"10\n",
    "sys/devices/system/node/node0/meminfo": b"Node 0 MemTotal:  8388608 kB\n",
    f"{CARD}/class": b"0x020000\n",
    f"{CARD}/vendor": b"0x15b3\n",
    f"{CARD}/device": b"0x1021\n",
    f"{CARD}/numa_node": b"0\n",
    f"{CARD}/net/{NAME}/address": b"00:16:3e:5a:6b:7c\n",
    f"{CARD}/driver": Link("/sys/bus/pci/drivers/mlx5_core"),
    "sys/bus/pci/drivers/mlx5_core": Folder(),
    "sys/bus/pci/devices/0000:00:01.0": Link("../../../devices/pci0000:00/0000:00:01.0"),
    f"sys/class/net/{NAME}": Link(f"../../devices/pci0000:00/0000:00:01.0/net/{NAME}"),
    "sys/kernel/notes": b"not for us",
}


def tree() -> ArchiveTree:
    return ArchiveTree(FILES, "example")


def archived(entries: dict[str, Entry]) -> bytes:
    stream = io.BytesIO()
    write(entries, stream)
    return stream.getvalue()


def everything(entries: dict[str, Entry]) -> str:
    return repr(sorted(entries.items()))


def shown(captured: Capture) -> Machine:
    """The machine as a reader of the capture will see it."""
    return sysfs.read(ArchiveTree(captured.entries, "capture"))


def test_the_capture_shows_the_same_machine() -> None:
    captured = Capture(tree(), with_identity=True)
    assert codec.encode(shown(captured)) == codec.encode(sysfs.read(tree()))


def test_the_archive_shows_the_same_machine(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(archived(Capture(tree(), with_identity=True).entries))
    assert sysfs.read(open_tree(path)) == sysfs.read(tree())


def test_a_capture_of_a_folder_shows_the_same_machine(tmp_path: Path) -> None:
    for name, entry in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, bytes):
            path.write_bytes(entry)
        elif isinstance(entry, Link):
            path.symlink_to(entry.target)
    live = open_tree(tmp_path)
    assert sysfs.read(live) == sysfs.read(tree())
    assert shown(Capture(open_tree(tmp_path), with_identity=True)) == sysfs.read(tree())


def test_only_what_the_reader_asked_for_is_saved() -> None:
    saved = Capture(tree(), with_identity=True).entries
    assert "proc/cmdline" not in saved
    assert "sys/kernel/notes" not in saved
    assert "sys/devices/system/node/node0/cpulist" in saved


@pytest.mark.parametrize("secret", [POD, CONTAINER, "00163e5a6b7c", "deadbeef", "SN12345", "hunter2", "1234"])
def test_nothing_in_the_capture_tells_who_the_machine_is(secret: str) -> None:
    assert secret not in everything(Capture(tree()).entries)


def test_without_identity_the_machine_is_the_same_but_for_the_name() -> None:
    captured = Capture(tree())
    expected = codec.encode(captured.machine).replace(b"enx00163e5a6b7c", b"enx000000000003")
    assert codec.encode(shown(captured)) == expected
    assert [cpu.allowed for cpu in shown(captured).cpus] == [True, False]


def test_one_identity_has_one_stand_in_everywhere() -> None:
    entries: dict[str, Entry] = {
        f"a/{POD}": b"",
        "b": POD.upper().encode(),
        "c": Link(f"a/{POD}"),
        "d": b"00000000-0000-0000-0000-000000000000",
    }
    assert without_identity(entries) == {
        "a/00000000-0000-0000-0000-000000000001": b"",
        "b": b"00000000-0000-0000-0000-000000000001",
        "c": Link("a/00000000-0000-0000-0000-000000000001"),
        "d": b"00000000-0000-0000-0000-000000000000",
    }


def test_a_cpu_mask_is_not_taken_for_an_identity() -> None:
    mask: dict[str, Entry] = {"m": b"ffffffff,ffffffff,ffffffff,ffffffff,00000000,0000ffff\n"}
    assert without_identity(mask) == mask


def test_the_serial_of_a_mainframe_processor_is_replaced() -> None:
    line: dict[str, Entry] = {
        "proc/cpuinfo": b"processor 0: version = FF,  identification = 0A1B2C,  machine = 8561\n"
    }
    assert without_identity(line)["proc/cpuinfo"] == (
        b"processor 0: version = FF,  identification = 000001,  machine = 8561\n"
    )


def test_equal_captures_are_equal_bytes() -> None:
    first, second = (archived(Capture(tree()).entries) for _ in range(2))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(first))) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.mtime, member.uid, member.gid, member.uname) for member in members} == {(0, 0, 0, "")}


def test_the_number_of_the_capturing_process_is_not_kept() -> None:
    captured = []
    for process in ("17", "4711"):
        files = {name.replace("proc/self", f"proc/{process}"): entry for name, entry in FILES.items()}
        files["proc/self"] = Link(process)
        captured.append(Capture(ArchiveTree(files, "live")))
    assert captured[0].entries == captured[1].entries
    assert shown(captured[0]) == shown(captured[1])
    assert [cpu.allowed for cpu in shown(captured[0]).cpus] == [True, False]


def test_what_changes_by_the_second_is_not_kept() -> None:
    content = b"Node 0 MemTotal:  8388608 kB\nNode 0 MemFree:  12 kB\nNode 0 HugePages_Total:  3\n"
    path = "sys/devices/system/node/node0/meminfo"
    kept = b"Node 0 MemTotal:  8388608 kB\nNode 0 HugePages_Total:  3\n"
    assert without_identity({path: content}) == {path: kept}


def test_links_stay_inside_an_unpacked_capture() -> None:
    with tarfile.open(fileobj=io.BytesIO(archived(Capture(tree()).entries))) as archive:
        targets = {member.name: member.linkname for member in archive.getmembers() if member.issym()}
    assert targets[f"{CARD}/driver"] == "../../../bus/pci/drivers/mlx5_core"
    assert not [target for target in targets.values() if target.startswith("/")]


def test_a_name_that_was_only_listed_is_kept_without_its_content() -> None:
    recording = RecordingTree(tree())
    assert recording.names("sys/class/dmi/id") == ["product_serial", "product_uuid", "sys_vendor"]
    assert recording.recorded()["sys/class/dmi/id/product_serial"] == b""


def test_an_unreadable_file_is_reported_and_left_out(tmp_path: Path) -> None:
    class Broken(ArchiveTree):
        def content_at(self, path: str) -> bytes:
            if path.endswith("meminfo"):
                raise OSError(5, "Input/output error")
            return super().content_at(path)

    captured = Capture(Broken(FILES, "broken"))
    assert "proc/meminfo" in captured.unreadable
    assert "proc/meminfo" not in captured.entries


def test_progress_counts_up() -> None:
    seen: list[int] = []
    Capture(tree(), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] > 10
