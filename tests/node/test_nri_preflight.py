"""Which line of which file has to change so that a container runtime listens for plug-ins."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from numaware.diagnose.texts import Lang, label
from numaware.node.nri.preflight import Advice, advise

SOCKET = "/var/run/nri/nri.sock"
SECTION = 'plugins."io.containerd.nri.v1.nri"'
OLD = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "x"\n'
NEW = "version = 3\n"


def node(root: Path, **files: str) -> Path:
    """Files of /etc by their path, with two underscores for a slash."""
    for name, text in files.items():
        path = root / "etc" / name.replace("__", "/")
        path = path.with_suffix(".toml" if "containerd" in name else ".conf")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def nri(*lines: str) -> str:
    return "\n".join([f"[{SECTION}]", *lines, ""])


@pytest.mark.parametrize(
    ("config", "code", "runtime", "line"),
    [
        (OLD, "switch-on", "containerd 1.7", "disable = false"),
        (OLD + nri("disable = true"), "switch-on", "containerd 1.7", "disable = false"),
        ("", "switch-on", "containerd 1.7", "disable = false"),
        (NEW, "restart", "containerd 2", ""),
        (NEW + nri("disable = true"), "switch-on", "containerd 2", "disable = false"),
        (OLD + nri("disable = false"), "restart", "containerd 1.7", ""),
        (NEW + nri("disable_connections = true"), "switch-on", "containerd 2", "disable_connections = false"),
        (NEW + nri('socket_path = "/run/nri/nri.sock"'), "restart", "containerd 2", ""),
        (NEW + nri('socket_path = "/run/x.sock"'), "elsewhere", "containerd 2", "--nri-socket /run/x.sock"),
        ("version = [", "unreadable", "containerd", ""),
    ],
)
def test_containerd(tmp_path: Path, config: str, code: str, runtime: str, line: str) -> None:
    advice = advise(node(tmp_path, containerd__config=config), SOCKET)
    assert (advice.code, advice.runtime, advice.line) == (code, runtime, line)
    assert advice.file == "/etc/containerd/config.toml"
    assert advice.section == (SECTION if code == "switch-on" else "")


def test_a_file_that_containerd_imports_has_the_last_word(tmp_path: Path) -> None:
    config = 'imports = ["/etc/containerd/conf.d/*.toml"]\n' + OLD + nri("disable = false")
    root = node(tmp_path, containerd__config=config, containerd__conf__d=nri("disable = true"))
    (tmp_path / "etc/containerd/conf.d").mkdir()
    (tmp_path / "etc/containerd/conf.d/nri.toml").write_text(nri("disable = true"))
    assert advise(root, SOCKET) == Advice(
        "switch-on", "containerd 1.7", "/etc/containerd/conf.d/nri.toml", SECTION, "disable = false"
    )


def test_the_containerd_of_k3s_has_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(NEW + nri("disable = true"))
    assert advise(tmp_path, SOCKET).file == f"/{file.relative_to(tmp_path)}"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"crio__crio": "[crio]\n"},
            Advice(
                "switch-on", "CRI-O", "/etc/crio/crio.conf.d/10-nri.conf", "crio.nri", "enable_nri = true"
            ),
        ),
        (
            {"crio__crio": "[crio.nri]\nenable_nri = false\n"},
            Advice("switch-on", "CRI-O", "/etc/crio/crio.conf", "crio.nri", "enable_nri = true"),
        ),
        (
            {"crio__crio": "[crio.nri]\nenable_nri = true\n"},
            Advice("restart", "CRI-O", "/etc/crio/crio.conf"),
        ),
        (
            {"crio__crio": '[crio.nri]\nenable_nri = true\nnri_listen = "/run/x"\n'},
            Advice("elsewhere", "CRI-O", "/etc/crio/crio.conf", line="--nri-socket /run/x"),
        ),
        (
            {"crio__crio": "crio = 3\n"},
            Advice(
                "unreadable", "CRI-O", "/etc/crio/crio.conf", problem="'int' object has no attribute 'get'"
            ),
        ),
    ],
)
def test_crio(tmp_path: Path, files: dict[str, str], expected: Advice) -> None:
    assert advise(node(tmp_path, **files), SOCKET) == expected


def test_of_two_runtimes_the_one_that_runs_is_meant(tmp_path: Path) -> None:
    root = node(tmp_path, containerd__config=OLD, crio__crio="[crio]\n")
    assert advise(root, SOCKET).runtime == "containerd 1.7"
    (root / "run/crio").mkdir(parents=True)
    (root / "run/crio/crio.sock").touch()
    assert advise(root, SOCKET).runtime == "CRI-O"


def test_where_no_runtime_has_nri_the_other_way_is_named(tmp_path: Path) -> None:
    assert advise(tmp_path, SOCKET).code == "unreadable"
    (tmp_path / "etc").mkdir()
    assert "--affinity cgroup" in label(advise(tmp_path, SOCKET).message, "en")


@pytest.mark.parametrize("lang", get_args(Lang))
def test_the_line_its_section_and_its_file_are_in_the_words(tmp_path: Path, lang: Lang) -> None:
    words = label(advise(node(tmp_path, containerd__config=OLD), SOCKET).message, lang)
    for part in ("disable = false", f"[{SECTION}]", "/etc/containerd/config.toml", "containerd 1.7"):
        assert part in words
