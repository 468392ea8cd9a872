"""The image as `make image` makes it, in a real containerd: every component starts as nobody, on a file system that is read only."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.control_plane import ControlPlane, free_port
from e2e.ours import TOKEN
from e2e.program import Program, eventually
from e2e.real_containerd import RealContainerd
from numaware import __version__

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
IMAGE = f"docker.io/library/numaware:{__version__}"
# What containerd gives who does not say otherwise; a chart drops ALL.
_GIVEN = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
WITHOUT_CAPABILITIES = tuple(word for name in _GIVEN for word in ("--cap-drop", f"CAP_{name}"))
RUN = ("run", "--rm", "--snapshotter", "native", "--read-only", "--user", "65532:65532")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make image` fills."""
    out = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, ROOT / "scripts/image.py", "--out", out], check=True)
    return out


@pytest.fixture(scope="module")
def runtime(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealContainerd]:
    (archive,) = built.glob("*.oci.tar")
    with RealContainerd(tmp_path_factory.mktemp("containerd"), "forky") as containerd:
        containerd.ctr("images", "import", "--local", "--snapshotter", "native", str(archive))
        yield containerd


class Container(Program):
    """A container of the image on the host's network, without any capability."""

    def __init__(
        self, runtime: RealContainerd, folder: Path, command: Sequence[str], mounted: Path | None = None
    ) -> None:
        mount = ["--mount", f"type=bind,src={mounted},dst=/given,options=rbind:ro"] if mounted else []
        run = (*RUN, "--net-host", *WITHOUT_CAPABILITIES, *mount, IMAGE, command[1])
        super().__init__(command[1], runtime.ctr_command(*run, *command), folder / "log")


def _ask(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def _said(runtime: RealContainerd, *command: str) -> str:
    program = runtime.ctr_command(*RUN, IMAGE, "once", *command)
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout


def test_the_archive_is_what_its_digest_says_and_small(built: Path) -> None:
    (archive,) = built.glob("*.oci.tar")
    (digest,) = built.glob("*.digest")
    with tarfile.open(archive) as files:
        index = json.load(_file(files, "index.json"))
        (described,) = index["manifests"]
        assert described["digest"] == digest.read_text().strip()
        for name in files.getnames():
            if name.startswith("blobs/sha256/") and (blob := files.extractfile(name)):
                assert hashlib.sha256(blob.read()).hexdigest() == name.removeprefix("blobs/sha256/")
    assert archive.stat().st_size < 80_000_000


def test_what_is_in_it_is_listed(built: Path) -> None:
    (bom,) = built.glob("*.cdx.json")
    listed = json.loads(bom.read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    urls = [component["purl"] for component in listed["components"]]
    assert len(urls) == len({*urls})
    locked = dict(re.findall(r'name = "(.+)"\nversion = "(.+)"', (ROOT / "uv.lock").read_text()))
    assert f"pkg:pypi/grpcio@{locked['grpcio']}" in urls
    assert any(url.startswith("pkg:deb/debian/libssl3@") for url in urls)
    assert f"pkg:pypi/pytest@{locked['pytest']}" not in urls


def test_it_says_its_version_and_sees_the_machine(runtime: RealContainerd) -> None:
    assert _said(runtime, "numaware", "--version").strip() == __version__
    machine = json.loads(_said(runtime, "numaware", "topology", "show", "--format", "json"))
    assert machine["cpuCount"] > 0


def test_it_opens_the_console_on_the_lab(runtime: RealContainerd, tmp_path: Path) -> None:
    port = free_port()
    command = ("numaware", "up", "--port", str(port), "--no-browser")
    with Container(runtime, tmp_path, command) as container:
        eventually(lambda: "ok" in _ask(port, "/healthz"), "the console answers", 60, container)
        assert "<script" in _ask(port, "/")


@pytest.mark.parametrize("verb", ["scheduler", "extender", "console"])
def test_components_reach_a_real_api_server(
    runtime: RealContainerd, plane: ControlPlane, tmp_path: Path, verb: str
) -> None:
    port, given = free_port(), tmp_path / "given"
    given.mkdir(mode=0o755)
    kubeconfig = plane.kubeconfig(f"numaware-{verb}").read_text().replace(str(plane.ca), "/given/ca.crt")
    for name, text in (("kubeconfig", kubeconfig), ("ca.crt", plane.ca.read_text()), ("token", TOKEN)):
        (given / name).write_text(text)
        (given / name).chmod(0o644)
    flags: dict[str, Sequence[str]] = {
        "scheduler": ("--listen", f"127.0.0.1:{port}"),
        "extender": ("--listen", f"127.0.0.1:{port}", "--token-file", "/given/token"),
        "console": ("--port", str(port), "--no-browser"),
    }
    command = ("numaware", verb, "--kubeconfig", "/given/kubeconfig", *flags[verb])
    path = "/api/v1/nodes" if verb == "console" else "/readyz"
    with Container(runtime, tmp_path, command, given) as container:
        assert eventually(lambda: _ask(port, path), f"{verb} answers", seconds=60, alive=container)


def _file(files: tarfile.TarFile, name: str) -> Any:
    found = files.extractfile(name)
    assert found is not None
    return found
