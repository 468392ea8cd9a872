"""The four ways to run a kubelet, recognised by their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.node.kubelet_switch.look import place_of
from numaware.node.kubelet_switch.plan import Manner, Situation, plan

MACHINE = synthetic.read("2s x 4c x 2t mem=32Gi")
CONFIG = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: none\n"


def files(root: Path, contents: dict[str, bytes]) -> Path:
    for name, data in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_bytes(b"")
    return root


def test_kubeadm_is_known_by_its_flags(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        {
            "var/lib/kubelet/config.yaml": CONFIG,
            "var/lib/kubelet/kubeadm-flags.env": b'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.1"\n',
            "etc/kubernetes/kubelet.conf": b"",
        },
    )
    place = place_of(root)
    assert (place.kind, place.unit, place.file, place.form) == (
        "kubeadm",
        "kubelet",
        "/var/lib/kubelet/config.yaml",
        "configuration",
    )
    assert place.kubeconfig == "/etc/kubernetes/kubelet.conf"
    assert place.healthz() == "http://127.0.0.1:10248/healthz"


def test_a_plain_unit_says_in_its_command_line_where_all_is(tmp_path: Path) -> None:
    line = b"kubelet\0--config=/opt/k.yaml\0--root-dir=/data/kubelet\0--kubeconfig\0/opt/kc\0--cpu-manager-policy=static\0"
    root = files(tmp_path, {"opt/k.yaml": CONFIG, "proc/7/comm": b"kubelet\n", "proc/7/cmdline": line})
    place = place_of(root)
    assert (place.kind, place.file, place.kubelet_root, place.kubeconfig) == (
        "systemd",
        "/opt/k.yaml",
        "/data/kubelet",
        "/opt/kc",
    )
    assert place.read("v1.35.0").config.cpu_policy == "static"
    assert place.source_of("cpu_policy", "v1.35.0") == "/proc/…/cmdline"


def test_with_a_folder_of_drop_ins_ours_is_one_of_them(tmp_path: Path) -> None:
    line = b"kubelet\0--config=/opt/k.yaml\0--config-dir=/opt/d/\0"
    root = files(
        tmp_path,
        {
            "opt/k.yaml": CONFIG,
            "opt/d/10-a.conf": b"kind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n",
            "opt/d/README": b"not a drop-in",
            "proc/7/comm": b"kubelet\n",
            "proc/7/cmdline": line,
        },
    )
    place = place_of(root)
    assert (place.file, place.form, place.content) == ("/opt/d/99-numaware.conf", "drop-in", None)
    assert place.read("v1.35.0").config.topology_policy == "restricted"
    ours = place.with_content(b"kind: KubeletConfiguration\ntopologyManagerPolicy: best-effort\n")
    assert ours.read("v1.35.0").config.topology_policy == "best-effort"
    assert [layer.path for layer in ours.layers] == [
        "/opt/k.yaml",
        "/opt/d/10-a.conf",
        "/opt/d/99-numaware.conf",
    ]


@pytest.mark.parametrize(("kind", "unit"), [("k3s", "k3s-agent"), ("rke2", "rke2-server")])
def test_ranchers_take_drop_ins_and_older_ones_flags(tmp_path: Path, kind: str, unit: str) -> None:
    root = files(
        tmp_path,
        {
            f"var/lib/rancher/{kind}/agent/kubelet.kubeconfig": b"",
            f"etc/rancher/{kind}/config.yaml": b"kubelet-arg:\n- cpu-manager-policy=static\n- max-pods=7\n",
            f"etc/systemd/system/{unit}.service": b"",
        },
    )
    old = place_of(root)
    assert old.has_api_server == (unit == "rke2-server")
    assert (old.kind, old.unit, old.form) == (kind, unit, "kubelet-arg")
    assert old.file == f"/etc/rancher/{kind}/config.yaml.d/99-numaware.yaml"
    assert old.read("v1.35.0").config.cpu_policy == "static"
    folder = f"var/lib/rancher/{kind}/agent/etc/kubelet.conf.d"
    files(root, {f"{folder}/00-{kind}-defaults.conf": b"kind: KubeletConfiguration\nhealthzPort: 1\n"})
    new = place_of(root)
    assert (new.file, new.form) == (f"/{folder}/99-numaware.conf", "drop-in")
    # Flags win over drop-ins there, too.
    assert (
        new.with_content(b"kind: KubeletConfiguration\ncpuManagerPolicy: none\n")
        .read("v1.35.0")
        .config.cpu_policy
        == "static"
    )


def test_flags_of_k3s_add_up_over_its_own_files(tmp_path: Path) -> None:
    """`kubelet-arg+` adds to what files before it say, in the order of their names; the last word on a setting wins."""
    own = "etc/rancher/k3s"
    root = files(
        tmp_path,
        {
            "var/lib/rancher/k3s/agent/kubelet.kubeconfig": b"",
            f"{own}/config.yaml": b"kubelet-arg:\n- cpu-manager-policy=static\n- topology-manager-policy=best-effort\n",
            f"{own}/config.yaml.d/10-site.yaml": b"kubelet-arg+:\n- topology-manager-policy=restricted\n",
            f"{own}/config.yaml.d/20-one.yaml": b"kubelet-arg+: topology-manager-scope=pod\n",
            f"{own}/config.yaml.d/README": b"kubelet-arg+: [cpu-manager-policy=none]\n",
        },
    )
    place = place_of(root)
    assert (place.form, place.file) == ("kubelet-arg", f"/{own}/config.yaml.d/99-numaware.yaml")
    config = place.read("v1.35.0").config
    assert (config.cpu_policy, config.topology_policy, config.topology_scope) == (
        "static",
        "restricted",
        "pod",
    )
    assert place.source_of("topology_policy", "v1.35.0") == f"/{own}/config.yaml.d/10-site.yaml"
    ours = place.with_content(b"kubelet-arg+:\n- topology-manager-policy=single-numa-node\n")
    assert ours.read("v1.35.0").config.topology_policy == "single-numa-node"
    # Without the plus it takes the place of all before it.
    files(root, {f"{own}/config.yaml.d/15-last.yaml": b"kubelet-arg:\n- topology-manager-policy=none\n"})
    place = place_of(root)
    config = place.read("v1.35.0").config
    assert (config.cpu_policy, config.topology_policy, config.topology_scope) == ("none", "none", "pod")
    assert place.source_of("cpu_policy", "v1.35.0") == ""
    assert place.source_of("topology_scope", "v1.35.0") == f"/{own}/config.yaml.d/20-one.yaml"


UNIT = b"""\
[Service]
Type=notify
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s \\
    server \\
\t'--kubelet-arg=topology-manager-policy=best-effort' \\
\t'--kubelet-arg' \\
\t'max-pods=50' \\
"""


def test_what_the_unit_of_k3s_says_takes_the_place_of_its_files(tmp_path: Path) -> None:
    """As its installer writes it: k3s takes a list from its command line and from nowhere else, if it is there."""
    own = "etc/rancher/k3s"
    root = files(
        tmp_path,
        {
            "var/lib/rancher/k3s/agent/kubelet.kubeconfig": b"",
            f"{own}/config.yaml": b"kubelet-arg:\n- cpu-manager-policy=static\n",
            "etc/systemd/system/k3s.service": UNIT,
        },
    )
    place = place_of(root)
    assert (place.unit, place.has_api_server) == ("k3s", True)
    config = place.read("v1.35.0").config
    assert (config.cpu_policy, config.topology_policy) == ("none", "best-effort")
    for wanted, value in (("topologyManagerPolicy", "restricted"), ("topologyManagerScope", "pod")):
        with pytest.raises(InputError, match=r"/etc/systemd/system/k3s\.service has the last word on it"):
            plan(Situation(place, MACHINE, {}), {wanted: value}, Manner())
    # A drop-in is read all the same, where no flag of the unit says anything else.
    folder = "var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
    files(root, {f"{folder}/00-k3s-defaults.conf": b"kind: KubeletConfiguration\n"})
    made = plan(Situation(place_of(root), MACHINE, {}), {"topologyManagerScope": "pod"}, Manner())
    assert made.possible
    assert "k3s is the API server of this node, too, which is away with it" in map(str, made.notes)
    # `systemctl edit` wins over the installer.
    dropped = {
        "etc/systemd/system/k3s.service.d/10-own.conf": b"[Service]\nExecStart=\nExecStart=/k3s server\n"
    }
    assert place_of(files(root, dropped)).read("v1.35.0").config.cpu_policy == "static"


def test_a_file_of_ours_in_the_folder_of_rke2_is_taken_up_again(tmp_path: Path) -> None:
    own = "etc/rancher/rke2"
    before = b"kubelet-arg+:\n- topology-manager-policy=restricted\n"
    root = files(
        tmp_path,
        {
            "var/lib/rancher/rke2/agent/kubelet.kubeconfig": b"",
            f"{own}/config.yaml": b"token: secret\n",
            f"{own}/config.yaml.d/99-numaware.yaml": before,
        },
    )
    place = place_of(root)
    assert (place.kind, place.unit, place.form) == ("rke2", "rke2-agent", "kubelet-arg")
    assert place.file == f"/{own}/config.yaml.d/99-numaware.yaml"
    assert place.content == before
    assert place.read("v1.35.0").config.topology_policy == "restricted"
    assert place.source_of("topology_policy", "v1.35.0") == place.file


def test_no_configuration_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its configuration file was not found"):
        place_of(files(tmp_path, {}))
    with pytest.raises(InputError, match="cannot be read"):
        place_of(files(tmp_path, {}), config="/nowhere.yaml")
