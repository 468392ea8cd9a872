from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from numaware.errors import InputError
from numaware.machine import archive
from numaware.machine.tree import open_tree
from support.made_machine import CPU, write

ONLINE = f"{CPU}/online"
PLAIN = {ONLINE: "0-3\n", f"{CPU}/cpu0/topology/core_id": "7\n", "proc/cpuinfo": "processor : 0\n"}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": lambda data: data,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
}


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as made:
        for member, content in members:
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    made.linkname = target
    return made


def file(name: str, content: bytes = b"0\n") -> tuple[tarfile.TarInfo, bytes]:
    return member(name), content


def save(folder: Path, data: bytes, name: str = "capture.tar") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_folder_is_read_like_a_root(tmp_path: Path) -> None:
    tree = open_tree(write(tmp_path, PLAIN))
    assert tree.read(ONLINE) == b"0-3\n"
    assert tree.read(f"{CPU}/offline") is None
    assert tree.read(CPU) is None
    assert tree.names(CPU) == ["cpu0", "online"]
    assert tree.names("sys/nowhere") == []


def test_the_live_machine_is_a_folder_like_any_other() -> None:
    assert b"MemTotal" in (open_tree("/").read("proc/meminfo") or b"")


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_reads_like_the_folder_it_was_made_of(tmp_path: Path, suffix: str, form: int) -> None:
    long = f"sys/{'long' * 20}/{'name' * 20}"
    write(tmp_path / "root", PLAIN | {"sys/link": "->devices/system/cpu", long: "x"})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as made:
        made.add(tmp_path / "root", "capture")
    tree = open_tree(save(tmp_path, PACKERS[suffix](buffer.getvalue()), f"capture.{suffix}"))
    folder = open_tree(tmp_path / "root")
    for path in ("", "sys", "proc", CPU, f"{CPU}/cpu0/topology", "sys/link"):
        assert tree.names(path) == folder.names(path)
    for path in (*PLAIN, "sys/link/online", "sys/link/nothing", long):
        assert tree.read(path) == folder.read(path)
    assert tree.resolve("sys/link/cpu0") == folder.resolve("sys/link/cpu0") == f"{CPU}/cpu0"
    assert tree.readlink("sys/link") == folder.readlink("sys/link") == "devices/system/cpu"


@pytest.mark.parametrize("depth", ["", "one/", "one/two/"])
def test_the_root_may_be_some_folders_down(tmp_path: Path, depth: str) -> None:
    path = save(tmp_path, tar(file(f"./{depth}{ONLINE}", b"0-1\n")))
    assert open_tree(path).read(ONLINE) == b"0-1\n"
    assert open_tree(write(tmp_path / "folder", {depth + ONLINE: "0-1\n"})).read(ONLINE) == b"0-1\n"


def test_an_archive_of_several_machines_is_opened_at_one_of_them(tmp_path: Path) -> None:
    path = save(tmp_path, tar(file(f"a/{ONLINE}", b"0\n"), file(f"b/{ONLINE}", b"0-1\n")))
    with pytest.raises(InputError, match=r"holds 2 machines: a, b \(give one of them, as in .*/a\)"):
        open_tree(path)
    assert open_tree(path / "b").read(ONLINE) == b"0-1\n"


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("../devices/system/cpu", CPU),
        ("/sys/devices/system/cpu", CPU),
        ("../../../../../../../sys/devices/system/cpu", CPU),
        ("/etc", None),
        ("../../../../../../../../etc", None),
        ("missing", None),
        ("loop", None),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_links_stay_inside_the_root(
    tmp_path: Path, target: str, leads_to: str | None, *, packed: bool
) -> None:
    write(tmp_path / "root", PLAIN | {"sys/class/link": f"->{target}", "sys/class/loop": "->loop"})
    path = tmp_path / "root"
    if packed:
        path = tmp_path / "capture.tar"
        with tarfile.open(path, "w") as made:
            made.add(tmp_path / "root", "")
    tree = open_tree(path)
    assert tree.resolve("sys/class/link") == leads_to
    assert tree.readlink("sys/class/link") == target
    assert tree.read("sys/class/link/online") == (b"0-3\n" if leads_to else None)
    assert tree.names("sys/class/link") == (["cpu0", "online"] if leads_to else [])


def test_a_file_that_is_a_link_is_read_where_it_leads(tmp_path: Path) -> None:
    outside = save(tmp_path, b"secret", "outside")
    files = PLAIN | {"sys/in": f"->/{ONLINE}", "sys/out": f"->{outside}", "sys/up": "->../../outside"}
    tree = open_tree(write(tmp_path / "root", files))
    assert tree.read("sys/in") == b"0-3\n"
    assert tree.read("sys/out") is None
    assert tree.read("sys/up") is None


def test_a_chain_of_links_that_doubles_at_each_step_ends(tmp_path: Path) -> None:
    chain = {f"sys/l{step}": f"->l{step + 1}/l{step + 1}" for step in range(60)}
    assert open_tree(write(tmp_path, PLAIN | chain)).resolve("sys/l0") is None


def test_a_path_of_thousands_of_parts_is_nothing(tmp_path: Path) -> None:
    tree = open_tree(write(tmp_path, PLAIN))
    assert tree.read("sys/" + "x/" * 5000 + "y") is None
    assert tree.resolve("sys/" + "x/" * 5000 + "y") is None


def test_a_pipe_neither_hangs_nor_is_read(tmp_path: Path) -> None:
    write(tmp_path, PLAIN)
    os.mkfifo(tmp_path / "sys" / "pipe")
    tree = open_tree(tmp_path)
    answers: list[bytes | None] = []
    reader = threading.Thread(target=lambda: answers.append(tree.read("sys/pipe")), daemon=True)
    reader.start()
    reader.join(10)
    assert answers == [None]


def test_a_file_larger_than_any_of_sysfs_is_an_error_of_that_file_alone(tmp_path: Path) -> None:
    big = b"x" * (archive.MAX_FILE_BYTES + 1)
    packed = open_tree(save(tmp_path, tar(file(ONLINE, b"0\n"), file("sys/big", big))))
    write(tmp_path / "root", PLAIN)
    (tmp_path / "root" / "sys" / "big").write_bytes(big)
    for tree in (packed, open_tree(tmp_path / "root")):
        with pytest.raises(OSError, match="large"):
            tree.read("sys/big")
        assert tree.read(ONLINE) is not None


def test_a_whole_file_is_read_however_long(tmp_path: Path) -> None:
    write(tmp_path, PLAIN | {"proc/cpuinfo": "x" * 200_001})
    assert open_tree(tmp_path).read("proc/cpuinfo") == b"x" * 200_001


def test_hard_links_in_an_archive_are_the_earlier_file(tmp_path: Path) -> None:
    made = tar(file(ONLINE, b"0-5\n"), (member("sys/hard", tarfile.LNKTYPE, ONLINE), b""))
    assert open_tree(save(tmp_path, made)).read("sys/hard") == b"0-5\n"


def test_devices_and_pipes_in_an_archive_are_not_there(tmp_path: Path) -> None:
    special = [(member(f"dev/{n}", kind), b"") for n, kind in enumerate((tarfile.CHRTYPE, tarfile.FIFOTYPE))]
    assert open_tree(save(tmp_path, tar(file(ONLINE), *special))).names("dev") == []


def test_padding_that_tar_puts_behind_a_sysfs_file_is_dropped(tmp_path: Path) -> None:
    assert open_tree(save(tmp_path, tar(file(ONLINE, b"0\n".ljust(4096, b"\x00"))))).read(ONLINE) == b"0\n"


def test_a_member_named_from_the_root_is_below_the_root(tmp_path: Path) -> None:
    assert open_tree(save(tmp_path, tar(file(f"/{ONLINE}", b"0\n")))).read(ONLINE) == b"0\n"


def test_a_member_that_climbs_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"climbs out of the archive: 'sys/\.\./\.\./etc/x'"):
        open_tree(save(tmp_path, tar(file(ONLINE), file("sys/../../etc/x"))))


@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_cut_off_anywhere_is_refused(tmp_path: Path, suffix: str) -> None:
    whole = PACKERS[suffix](
        tar(*(file(f"{CPU}/cpu{n}/online") for n in range(40))).rstrip(b"\x00") + bytes(1024)
    )
    assert open_tree(save(tmp_path, whole)).names(CPU)
    for length in range(0, len(whole) - 1024, max(1, len(whole) // 50)):
        with pytest.raises(InputError, match=r"is cut off|is not a tar archive|cannot be decompressed"):
            open_tree(save(tmp_path, whole[:length]))


def test_a_damaged_header_is_refused(tmp_path: Path) -> None:
    data = bytearray(tar(file(ONLINE), file("sys/second")))
    data[1024 + 10] ^= 1
    with pytest.raises(InputError, match="has a damaged header"):
        open_tree(save(tmp_path, bytes(data)))


@pytest.mark.parametrize(
    ("limit", "value", "complaint"),
    [
        ("MAX_STREAM_BYTES", 20_000, "more than 0 MiB"),
        ("MAX_KEPT_BYTES", 5_000, "more than 0 MiB of files"),
        ("MAX_MEMBERS", 10, "more than 10 members"),
    ],
)
@pytest.mark.parametrize("suffix", PACKERS)
def test_a_bomb_is_stopped_at_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, complaint: str, suffix: str
) -> None:
    monkeypatch.setattr(archive, limit, value)
    made = tar(*(file(f"{CPU}/cpu{n}/online", b"7" * 1000) for n in range(40)))
    with pytest.raises(InputError, match=complaint):
        open_tree(save(tmp_path, PACKERS[suffix](made)))


def test_an_extension_header_of_unlikely_size_is_refused(tmp_path: Path) -> None:
    made = tar((member("././@LongLink", tarfile.GNUTYPE_LONGNAME), b"x" * 100_000), file(ONLINE))
    with pytest.raises(InputError, match="extension header of 100000 bytes"):
        open_tree(save(tmp_path, made))


def test_a_folder_of_the_oldest_archives_is_an_empty_file_with_a_slash(tmp_path: Path) -> None:
    tree = open_tree(
        save(tmp_path, tar(file(f"{CPU}/", b""), file("sys/x/", b""), form=tarfile.USTAR_FORMAT))
    )
    assert tree.is_folder(CPU)
    assert tree.read("sys/x") is None


def test_members_of_unknown_kinds_are_passed_over_with_their_content(tmp_path: Path) -> None:
    tree = open_tree(save(tmp_path, tar((member("sys/odd", b"V"), b"x" * 700), file(ONLINE, b"0-1\n"))))
    assert tree.read(ONLINE) == b"0-1\n"
    assert tree.read("sys/odd") is None


@pytest.mark.parametrize(
    ("kind", "content", "complaint"),
    [
        (tarfile.GNUTYPE_SPARSE, b"", "sparse file"),
        (tarfile.XHDTYPE, b"999 path=x\n", "damaged pax header"),
        (tarfile.XHDTYPE, b"x path=x\n", "damaged header"),
        (tarfile.GNUTYPE_LONGNAME, b"x/" * 3000, "longer than a path may be"),
    ],
)
def test_headers_that_make_no_sense_are_refused(
    tmp_path: Path, kind: bytes, content: bytes, complaint: str
) -> None:
    made = tar((member("odd", kind), content), file(ONLINE), form=tarfile.USTAR_FORMAT)
    with pytest.raises(InputError, match=complaint):
        open_tree(save(tmp_path, made))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not a tar archive"),
        (b"hello\n", "is not a tar archive"),
        (bytes(10_240), "holds no captured machine"),
        (b"\x1f\x8b\x08junk", "cannot be decompressed"),
        (b"BZh9junk", "cannot be decompressed"),
        (b"\xfd7zXZ\x00junk", "cannot be decompressed"),
    ],
)
def test_what_is_no_archive_is_told_in_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = save(tmp_path, content)
    with pytest.raises(InputError, match=complaint) as caught:
        open_tree(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "nul\x00byte", "x" * 5000])
def test_a_path_that_is_not_there_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"no such file|not the name of a file|File name too long"):
        open_tree(f"{tmp_path}/{name}")


def test_an_empty_folder_holds_no_machine(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no captured machine"):
        open_tree(tmp_path)


def test_a_device_is_neither_folder_nor_archive() -> None:
    with pytest.raises(InputError, match="neither a folder nor a file"):
        open_tree(os.devnull)
