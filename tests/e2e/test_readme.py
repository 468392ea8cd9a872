"""The README, typed line by line by somebody who has a cluster and a checkout: every command of it runs, none is left out.

Commands that stay up get a port of their own, as another program may have theirs, and are asked whether they work. What a reader
has at hand (a pod, a log, a certificate) lies in the checkout. `make test` alone is not run: this is a part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from e2e.control_plane import CRD, RBAC, ControlPlane, assets, free_port
from e2e.ours import TOKEN
from e2e.program import Program, eventually
from e2e.trouble import pod
from test_docs import ENGLISH, code_blocks

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
KUBELET_SAYS = (
    'I1119 10:00:00.000000    1234 kubelet.go:2505] "SyncLoop ADD" source="api" pods=["ml/trainer-0"]\n'
    'I1119 10:00:00.100000    1234 topology_manager.go:217] "Topology Admit Handler" podUID="1" podNamespace="ml" podName="trainer-0"\n'
)
# Where it listens, and where it answers, by how the command begins. 0.0.0.0 has loopback in it.
STAY_UP = {
    "numaware scheduler": ("--listen 127.0.0.1:{port}", "http://127.0.0.1:{port}/readyz"),
    "numaware extender --token": ("--listen 127.0.0.1:{port}", "http://127.0.0.1:{port}/readyz"),
    "numaware up": ("--port {port} --no-browser", "http://127.0.0.1:{port}/healthz"),
    "numaware console --prometheus": ("--port {port} --no-browser", "http://127.0.0.1:{port}/healthz"),
    "numaware console --host": ("--port {port} --no-browser", "https://127.0.0.1:{port}/healthz"),
}
# Whose answer is no: refused by a kubelet, no place.
ANSWER_NO = ("numaware explain examples", "kubectl numa why-pending")
COVERED_ELSEWHERE = {"make test": "make test"}
# Each way to install begins where nothing of numaware is.
AFRESH = ("helm install", "kubectl apply -f deploy/crd")


def commands() -> list[str]:
    return [line for block in code_blocks(ENGLISH.read_text(encoding="utf-8")) for line in block if line]


# Two minutes for it to answer; what it has started ends with it.
_ALONE = """ip link set lo up
{line} & up=$!
for _ in $(seq 240); do
  curl --silent --fail http://127.0.0.1:8080/healthz && found=yes && break
  kill -0 $up || exit 1
  sleep 0.5
done
kill $(pgrep -P $up) $up
wait
[ "$found" = yes ]
"""


class Reader:
    """Types commands in a checkout; with a kubeconfig of an administrator, and programs that a cluster's owner has."""

    def __init__(self, folder: Path, plane: ControlPlane, helm: Path) -> None:
        self.folder, self._plane = folder, plane
        self.checkout = folder / "numaware"
        given = folder / "bin"
        given.mkdir()
        for name, program in (
            ("helm", helm),
            ("kubectl", assets() / "kubectl"),
            ("pipx", folder / "pipx/bin/pipx"),
        ):
            (given / name).symlink_to(program)
        (given / "journalctl").write_text(f"#!/bin/sh\ncat <<'END'\n{KUBELET_SAYS}END\n", encoding="utf-8")
        (given / "journalctl").chmod(0o755)
        path = (folder / "installed", given, Path(sys.executable).parent, os.environ["PATH"])
        self.environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("PYTHON", "VIRTUAL"))
            },
            "PATH": ":".join(map(str, path)),
            "HOME": str(folder / "home"),
            "KUBECONFIG": str(plane.kubeconfig("admin")),
            "PIPX_HOME": str(folder / "pipx-home"),
            "PIPX_BIN_DIR": str(folder / "installed"),
            "COLUMNS": "200",
        }

    def type(self, line: str) -> None:
        """As it stands, until it has ended or, where it stays up, until it answers."""
        begins = next((one for one in STAY_UP if line.startswith(one)), None)
        if line == "make up":
            self._alone_on_the_network(line)
        elif begins is not None:
            self._see_it_up(line, *STAY_UP[begins])
        else:
            done = self.run(self._on_a_node(line) if "--node /" in line else line)
            expected = (1,) if line.startswith(ANSWER_NO) else (0,)
            assert done.returncode in expected, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def clear(self) -> None:
        """Nothing of numaware is in the cluster any more, whoever brought it."""
        for line in (
            "helm uninstall numaware --namespace numaware --ignore-not-found",
            "kubectl numa uninstall --kinds",
            f"kubectl delete --ignore-not-found --wait=true -f {CRD} -R -f {RBAC}",
        ):
            done = self.run(line)
            assert done.returncode == 0, f"{line}: {done.stderr}"
        eventually(
            lambda: self._plane.api().status_of("GET", "/api/v1/namespaces/numaware") == 404,
            "the namespace is gone",
            60,
        )

    def _see_it_up(self, line: str, flags: str, url: str) -> None:
        port = free_port()
        where = url.format(port=port)
        command = f"exec {line} {flags.format(port=port)}"
        program = Program(line, ["bash", "-c", command], self.folder / "log", self.environment)
        # A `Program` starts where the tests are.
        program.command = ["env", "--chdir", str(self.checkout), *program.command]
        trusted = ssl._create_unverified_context()  # noqa: S323 - a certificate that it was given a moment ago
        with program:

            def answers() -> bool:
                with urllib.request.urlopen(where, timeout=5, context=trusted) as answer:  # noqa: S310 - our own
                    return bool(answer.status == 200)

            eventually(answers, f"`{line}` answers", 120, program)

    def _alone_on_the_network(self, line: str) -> None:
        """Its port is the one that the README names, which another program of this machine may have."""
        script = self.folder / "alone.sh"
        script.write_text(_ALONE.format(line=line), encoding="utf-8")
        done = self.run(f"unshare --net bash {script}")
        assert done.returncode == 0, done.stdout + done.stderr

    def _on_a_node(self, line: str) -> str:
        """This machine with a kubelet's folder, where nobody else sees it."""
        config = self.checkout / "node-config"
        config.mkdir(exist_ok=True)
        (config / "config.yaml").write_text(
            yaml.safe_dump({"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"})
        )
        cover = "mount --make-rprivate / && mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet"
        return f"unshare --mount bash -c '{cover} && mount --bind {config} /var/lib/kubelet && {line}'"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reader")
    _check_out(folder / "numaware")
    subprocess.run([sys.executable, "-m", "venv", folder / "pipx"], check=True)
    pip = (
        folder / "pipx/bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "pipx",
    )
    subprocess.run(pip, check=True)
    built = subprocess.run(
        [ROOT / "scripts/go-tools/build", "helm"], check=True, stdout=subprocess.PIPE, text=True
    )
    with ControlPlane(folder / "plane", controllers=True) as plane:
        reader = Reader(folder, plane, Path(built.stdout.strip()))
        reader.clear()
        plane.kubectl("create", "namespace", "ml")
        plane.api().create("/api/v1/namespaces/ml/pods", pod("trainer-0", "4"))
        yield reader


def _check_out(checkout: Path) -> None:
    """What is committed and what is about to be, with an environment that is there already."""
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, checkout], check=True)
    listed = ("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source = ROOT / name
        if source.is_file() and not source.is_symlink():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, checkout / name)
    (checkout / ".venv").symlink_to(Path(sys.executable).parents[1])
    for name, text in _AT_HAND.items():
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(text, encoding="utf-8")
    certificate = ("openssl", "req", "-x509", "-nodes", "-days", "7", "-subj", "/CN=console")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", "console.key")
    subprocess.run([*certificate, *key, "-out", "console.crt"], cwd=checkout, check=True, capture_output=True)


_POD = {"apiVersion": "v1", "kind": "Pod", **pod("web", "1")}
_DEPLOYMENT: Mapping[str, object] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "none:1",
                        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
                    }
                ]
            },
        },
    },
}
# A policy that does nothing, as no CPU manager gives it whole CPUs.
_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "topologyManagerPolicy": "single-numa-node",
}
_AT_HAND = {
    "pod.yaml": json.dumps(_POD),
    "deployment.yaml": json.dumps(_DEPLOYMENT),
    "kubelet.yaml": json.dumps(_KUBELET),
    "token": TOKEN,
    "must-gather/kubelet.log": KUBELET_SAYS,
}


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_readme_runs(reader: Reader, line: str) -> None:
    if line in COVERED_ELSEWHERE:
        assert COVERED_ELSEWHERE[line] in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
        return
    if line.startswith(AFRESH):
        reader.clear()
    reader.type(line)


def test_there_are_commands_to_type() -> None:
    assert len(commands()) >= 30
