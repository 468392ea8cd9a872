"""The image as `make image` makes it, in a real containerd: every component starts as the chart has it, on a file system that is read only."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from e2e.control_plane import ControlPlane, free_port
from e2e.ours import TOKEN
from e2e.program import Program, eventually
from e2e.real_containerd import RealContainerd
from e2e.real_kubelet import RealKubelet
from numaware import __version__
from numaware.kube.install.manifests import manifests
from numaware.machine import synthetic

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
IMAGE = f"docker.io/library/numaware:{__version__}"
# What containerd gives who does not say otherwise.
_GIVEN = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
RUN = ("run", "--rm", "--snapshotter", "native")


def _contexts() -> dict[str, list[str]]:
    """How the chart has each component run, in the words of `ctr`, by its verb."""
    rendered = [manifests("beside-kube-scheduler"), manifests("inside-kube-scheduler", nodes=["cp-1"])]
    plain = (ROOT / "deploy/device-plugin/daemonset.yaml").read_text(encoding="utf-8")
    found = {}
    for one in (one for text in (*rendered, plain) for one in yaml.safe_load_all(text) if one):
        if one["kind"] in ("Deployment", "DaemonSet"):
            pod = one["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            context = {**pod.get("securityContext", {}), **container["securityContext"]}
            found[container["command"][1]] = _flags(context)
    return found


def _flags(context: Mapping[str, Any]) -> list[str]:
    """A field of which nobody here knows what it means would be one that is not tried."""
    asked = {**context}
    user = asked.pop("runAsUser")
    assert asked.pop("runAsNonRoot", user != 0) is (user != 0)
    flags = ["--user", f"{user}:{asked.pop('runAsGroup', user)}"]
    if asked.pop("readOnlyRootFilesystem"):
        flags.append("--read-only")
    if asked.pop("capabilities") == {"drop": ["ALL"]}:
        flags += [word for name in _GIVEN for word in ("--cap-drop", f"CAP_{name}")]
    if asked.pop("seccompProfile") == {"type": "RuntimeDefault"}:
        flags.append("--seccomp")
    # That is what ctr does if it is not told otherwise.
    assert asked.pop("allowPrivilegeEscalation") is False
    assert asked == {}
    return flags


CONTEXTS = _contexts()


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
    """A container of the image on the host's network, as the chart has this component run; folders by where they are mounted."""

    def __init__(
        self,
        runtime: RealContainerd,
        folder: Path,
        command: Sequence[str],
        mounted: Mapping[str, Path] | None = None,
        writable: Sequence[str] = (),
    ) -> None:
        # `numaware up` is no component; it wants no more than the console does.
        context = CONTEXTS["console" if command[1] == "up" else command[1]]
        mounts = [
            f"--mount=type=bind,src={source},dst={place},options=rbind:{'rw' if place in writable else 'ro'}"
            for place, source in (mounted or {}).items()
        ]
        run = (*RUN, "--net-host", *context, *mounts, IMAGE, command[1])
        super().__init__(command[1], runtime.ctr_command(*run, *command), folder / "log")


def _ask(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def _said(runtime: RealContainerd, *command: str) -> str:
    program = runtime.ctr_command(*RUN, *CONTEXTS["scheduler"], IMAGE, "once", *command)
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
    with Container(runtime, tmp_path, command, {"/given": given}) as container:
        assert eventually(lambda: _ask(port, path), f"{verb} answers", seconds=60, alive=container)


def test_seeds_are_compared_in_processes_of_their_own(runtime: RealContainerd) -> None:
    """Each begins with the command's file, which must not begin a comparison again."""
    told = _said(
        *(runtime, "numaware", "simulate", "lab:", "lab:40", "--seed", "1", "--seed", "2"),
        *("--workers", "2", "--json"),
    )
    assert json.loads(told)


def test_agent_and_device_plugin_work_beside_a_real_kubelet(
    runtime: RealContainerd, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the mounts of their DaemonSets, the test's node in the place of the host."""
    folder = tmp_path_factory.mktemp("node")
    machine = synthetic.read("2s x 1n x 7c x 2t +gpu@0,0,1,1 mem=32Gi")
    pci = tuple(replace(one, driver="nvidia") if one.class_code == "030200" else one for one in machine.pci)
    config = {"topologyManagerPolicy": "restricted", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    with RealKubelet(folder / "kubelet", replace(machine, pci=pci), config) as kubelet:
        host = {"/host/sys": kubelet.made / "sys", "/host/proc": kubelet.made / "proc"}
        given = folder / "given"
        given.mkdir()
        (given / "plugin.yaml").write_text(yaml.safe_dump(_PLUGIN), encoding="utf-8")
        (kubelet.root / "config.yaml").write_bytes(kubelet.config_file.read_bytes())
        ports = free_port(), free_port()
        sockets = "/var/lib/kubelet/device-plugins"
        plugin = Container(
            runtime,
            folder,
            (
                *("numaware", "device-plugin", "--config=/etc/numaware/plugin.yaml", "--root=/host"),
                *(f"--device-plugins={sockets}", "--no-nvml", f"--listen=127.0.0.1:{ports[0]}"),
            ),
            {**host, "/host/dev": Path("/dev"), sockets: kubelet.plugins_folder, "/etc/numaware": given},
            writable=(sockets,),
        )
        agent = Container(
            runtime,
            folder,
            (
                *("numaware", "agent", "--root=/host", "--node=node-1", "--no-publish"),
                f"--listen=127.0.0.1:{ports[1]}",
            ),
            {**host, "/host/var/lib/kubelet": kubelet.root},
        )
        with plugin, agent:
            registered = (
                'numaware_device_plugin_devices{health="healthy",numa="1",resource="nvidia.com/gpu"} 2.0'
            )
            eventually(lambda: registered in _ask(ports[0], "/metrics"), "it offers GPUs", 60, plugin)
            eventually(
                lambda: 'numa_nodes{node="node-1"} 2.0' in _ask(ports[1], "/metrics"),
                "it knows the machine",
                60,
                agent,
            )
            devices = eventually(
                lambda: kubelet.state("kubelet_internal_checkpoint")["Data"]["RegisteredDevices"],
                "the kubelet has written down the devices",
                30,
            )
            assert len(devices["nvidia.com/gpu"]) == 4


_PLUGIN = {"version": "v1", "resources": [{"name": "nvidia.com/gpu", "gpus": {"vendor": "nvidia"}}]}


@pytest.fixture(scope="module")
def for_krew(built: Path) -> Path:
    (archive,) = built.glob("*.oci.tar")
    script = (sys.executable, ROOT / "scripts/krew.py", archive, "--url", "https://registry.example.org/numa")
    subprocess.run(script, check=True, capture_output=True)
    return built


def test_what_krew_unpacks_runs_without_a_python_on_the_machine(for_krew: Path, tmp_path: Path) -> None:
    (archive,) = for_krew.glob("kubectl-numa-*.tar.gz")
    store, path = tmp_path / "store/numa", tmp_path / "bin"
    with tarfile.open(archive) as files:
        # krew refuses an archive with anything else in it.
        assert {member.type for member in files} <= {tarfile.REGTYPE, tarfile.DIRTYPE}
        files.extractall(store, filter="data")
    path.mkdir()
    (path / "kubectl-numa").symlink_to(store / "kubectl-numa")
    # The launcher asks a shell and two of coreutils' programs; nothing else of the machine is there.
    for name in ("sh", "dirname", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    done = subprocess.run(
        [path / "kubectl-numa", "topology", "show", "--format", "json"],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cpuCount"] > 0


def test_krews_manifest_names_the_archive_and_its_sum(for_krew: Path) -> None:
    (archive,) = for_krew.glob("kubectl-numa-*.tar.gz")
    manifest = yaml.safe_load((for_krew / "numa.yaml").read_text(encoding="utf-8"))
    (platform,) = manifest["spec"]["platforms"]
    assert platform["uri"] == f"https://registry.example.org/numa/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    # What krew's own checks of a manifest ask for.
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", manifest["spec"]["version"])
    assert manifest["spec"]["homepage"].startswith("https://")
    assert len(manifest["spec"]["shortDescription"]) <= 50
    assert "\n" in manifest["spec"]["description"]
    assert manifest["metadata"]["name"] == platform["bin"].removeprefix("kubectl-")


def _file(files: tarfile.TarFile, name: str) -> Any:
    found = files.extractfile(name)
    assert found is not None
    return found
