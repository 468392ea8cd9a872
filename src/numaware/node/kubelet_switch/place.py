"""Where the kubelet of this node keeps its configuration, and which unit of systemd runs it.

Four ways to run a kubelet are told apart by the files they leave: kubeadm, a plain unit, k3s and RKE2. The first two have one
configuration file; the latter make it themselves, and take drop-ins beside it or flags in a configuration of their own. A
kubelet with `--config-dir` reads drop-ins too, and they win: there a drop-in of ours, read last, is what is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from numaware.diagnose.doctor.kubelet import CONFIGS, KUBELET, flag_files
from numaware.diagnose.doctor.node_root import NodeRoot
from numaware.errors import InputError
from numaware.sentence import Sentence
from numaware.twin import flags, kubelet_config
from numaware.twin.settings import Settings
from numaware.workload.yamlfile import Node, documents

Kind = Literal["kubeadm", "systemd", "k3s", "rke2"]
# What is written: the kubelet's own file, a drop-in beside it, or flags in the configuration of k3s or RKE2.
Form = Literal["configuration", "drop-in", "kubelet-arg"]

KUBELET_ARG = "kubelet-arg"
_OURS = "99-numaware"
_COMMAND = re.compile(r"^ExecStart=\s*\S", re.MULTILINE)
_UNIT_FOLDERS = (
    "etc/systemd/system",
    "usr/local/lib/systemd/system",
    "lib/systemd/system",
    "usr/lib/systemd/system",
)
_KUBEADM = (
    f"{KUBELET}/kubeadm-flags.env",
    "etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
)
# Of each distribution of Rancher's: its units, the agent's first.
_RANCHER: Mapping[Kind, tuple[str, str]] = {
    "k3s": ("k3s-agent", "k3s"),
    "rke2": ("rke2-agent", "rke2-server"),
}
_KUBECONFIGS = (
    "etc/kubernetes/kubelet.conf",
    "var/lib/kubelet/kubeconfig",
    "etc/kubernetes/kubelet-kubeconfig",
)


class Layer(msgspec.Struct, frozen=True):
    """One file that the configuration is read from; later ones win."""

    path: str
    form: Form
    data: bytes


def _order(layer: Layer) -> tuple[int, str]:
    """The file itself, then drop-ins by name, then flags by the name of their file: as they are read."""
    return ("configuration", "drop-in", "kubelet-arg").index(layer.form), layer.path


class Place(msgspec.Struct, frozen=True):
    """Where one kubelet is configured: all layers in order, flags over them, and the one file that is written.

    Paths are absolute, seen from the node's root. `file` need not exist yet.
    """

    kind: Kind
    unit: str
    file: str
    form: Form
    layers: tuple[Layer, ...] = ()
    flag_source: str = ""
    flag_text: str = ""
    kubelet_root: str = f"/{KUBELET}"
    kubeconfig: str = ""

    def with_content(self, data: bytes) -> Place:
        """As it is when the file that is written holds this."""
        layers = [layer for layer in self.layers if layer.path != self.file]
        layers.append(Layer(self.file, self.form, data))
        return msgspec.structs.replace(self, layers=tuple(sorted(layers, key=_order)))

    @property
    def has_api_server(self) -> bool:
        """Whether the unit is more than the kubelet: that of a k3s or RKE2 server is also its API server."""
        return self.kind in _RANCHER and self.unit == _RANCHER[self.kind][1]

    @property
    def _drowned(self) -> bool:
        """Whether flags in k3s's own unit take the place of the list in its files."""
        return self.kind in _RANCHER and bool(self.flag_text)

    @property
    def content(self) -> bytes | None:
        """What the file that is written holds now, None where it is not there."""
        return next((layer.data for layer in self.layers if layer.path == self.file), None)

    def read(self, version: str) -> kubelet_config.KubeletConfigFile:
        """The configuration in force, as the kubelet of that version takes it from all its layers and flags."""
        settings, over = Settings(), Settings()
        for layer in self.layers:
            if layer.form == "kubelet-arg":
                if self._drowned:
                    continue
                over = (Settings() if _replaces(layer) else over).overridden(_arguments(layer))
            elif layer.data.strip():
                settings = settings.patched(kubelet_config.read(layer.data, layer.path, version).settings)
        if self.flag_text:
            over = over.overridden(flags.read(self.flag_text, self.flag_source))
        return kubelet_config.of_settings(settings.overridden(over), version)

    def source_of(self, field: str, version: str) -> str:
        """Which layer, or the flags, has the last word on a setting; empty if none says anything."""
        if self.flag_text and getattr(flags.read(self.flag_text, self.flag_source), field) is not None:
            return self.flag_source
        replaced = self._drowned
        for layer in reversed(self.layers):
            if replaced and layer.form == "kubelet-arg":
                continue
            replaced = replaced or (layer.form == "kubelet-arg" and _replaces(layer))
            settings = (
                _arguments(layer)
                if layer.form == "kubelet-arg"
                else kubelet_config.read(layer.data, layer.path, version).settings
                if layer.data.strip()
                else Settings()
            )
            if getattr(settings, field) is not None:
                return layer.path
        return self.flag_source if self._drowned else ""

    def healthz(self) -> str:
        """Where the kubelet says that it is well; empty if it was told not to."""
        address, port = "127.0.0.1", "10248"
        for layer in self.layers:
            if layer.form == "kubelet-arg" or not layer.data.strip():
                continue
            for document in documents(layer.data, layer.path):
                address = str(document.get("healthzBindAddress").value or address)
                given = document.get("healthzPort").value
                port = port if given is None else str(given)
        return f"http://{address}:{port}/healthz" if port != "0" else ""


def recognise(root: NodeRoot, *, unit: str = "", config: str = "", kubelet_root: str = "") -> Place:
    """The place on this node; what the caller says of it wins over what is found."""
    unit = unit.removesuffix(".service")
    if config:
        # Who names the file says all that is to be read.
        place = Place(
            "systemd", unit or "kubelet", config, "configuration", kubelet_root=kubelet_root or f"/{KUBELET}"
        )
        return _with_layers(root, place, {config: "configuration"})
    rancher = next((kind for kind in _RANCHER if root.exists(f"var/lib/rancher/{kind}/agent")), None)
    if rancher is not None:
        return _rancher(root, rancher, unit)
    line = (root.processes() or {}).get("kubelet", b"").decode(errors="replace")
    source, text = ("/proc/…/cmdline", line) if line else flag_files(root)
    named = flags.argument(text, "config")
    found = root.first([named.lstrip("/")] if named else CONFIGS)
    if found is None:
        raise InputError(
            "kubelet",
            Sentence("its configuration file was not found"),
            hint=Sentence("name it with --config; a kubelet that has flags only must be given a file first"),
        )
    base = f"/{found[0]}"
    folder = flags.argument(text, "config-dir").rstrip("/")
    place = Place(
        "kubeadm" if any(map(root.exists, _KUBEADM)) else "systemd",
        unit or "kubelet",
        f"{folder}/{_OURS}.conf" if folder else base,
        "drop-in" if folder else "configuration",
        flag_source=source,
        flag_text=text,
        kubelet_root=kubelet_root or flags.argument(text, "root-dir") or f"/{KUBELET}",
        kubeconfig=flags.argument(text, "kubeconfig") or _existing(root, _KUBECONFIGS),
    )
    return _with_layers(root, place, {base: "configuration", **_drop_ins(root, folder, ".conf")})


def _rancher(root: NodeRoot, kind: Kind, unit: str) -> Place:
    """K3s and RKE2 since v1.32 have a folder of drop-ins; older ones take flags from configurations of their own."""
    agent = f"/var/lib/rancher/{kind}/agent"
    folder, own = f"{agent}/etc/kubelet.conf.d", f"/etc/rancher/{kind}"
    paths: dict[str, Form] = {
        **_drop_ins(root, folder, ".conf"),
        f"{own}/config.yaml": "kubelet-arg",
        **_drop_ins(root, f"{own}/config.yaml.d", ".yaml", "kubelet-arg"),
    }
    drops = root.exists(folder.lstrip("/"))
    units = _RANCHER[kind]
    found = next(
        (one for one in units if any(root.exists(f"{place}/{one}.service") for place in _UNIT_FOLDERS)),
        units[0],
    )
    source, text = _own_flags(root, unit or found)
    place = Place(
        kind,
        unit or found,
        f"{folder}/{_OURS}.conf" if drops else f"{own}/config.yaml.d/{_OURS}.yaml",
        "drop-in" if drops else "kubelet-arg",
        flag_source=source,
        flag_text=text,
        kubeconfig=f"{agent}/kubelet.kubeconfig",
    )
    return _with_layers(root, place, paths)


def _own_flags(root: NodeRoot, unit: str) -> tuple[str, str]:
    """The flags that a unit of Rancher's hands to its kubelet (`--kubelet-arg`), and the file that says so; its drop-ins win."""
    paths = [f"{folder}/{unit}.service" for folder in reversed(_UNIT_FOLDERS)]
    paths += _drop_ins(root, f"/{_UNIT_FOLDERS[0]}/{unit}.service.d", ".conf")
    for path in reversed(paths):
        text = (root.read(path.lstrip("/")) or b"").decode(errors="replace")
        if _COMMAND.search(text):
            given = [one.removeprefix("--") for one in flags.every(text, KUBELET_ARG)]
            return (f"/{path.lstrip('/')}", "\0".join(f"--{one}" for one in given)) if given else ("", "")
    return "", ""


def _existing(root: NodeRoot, paths: tuple[str, ...]) -> str:
    return next((f"/{path}" for path in paths if root.exists(path)), "")


def _drop_ins(root: NodeRoot, folder: str, end: str, form: Form = "drop-in") -> dict[str, Form]:
    names = root.names(folder.lstrip("/")) if folder else []
    return {f"{folder}/{name}": form for name in names if name.endswith(end)}


def _with_layers(root: NodeRoot, place: Place, paths: Mapping[str, Form]) -> Place:
    layers = []
    for path, form in paths.items():
        data = root.read(path.lstrip("/"))
        if data is not None:
            layers.append(Layer(path, form, data))
        elif form == "configuration":
            raise InputError(
                path, Sentence("cannot be read"), hint=Sentence("is it there, and are you root?")
            )
    return msgspec.structs.replace(place, layers=tuple(sorted(layers, key=_order)))


def _replaces(layer: Layer) -> bool:
    """Whether it takes the place of all flags in files before it, as a `kubelet-arg` without a plus does."""
    return any(document.get(KUBELET_ARG).value is not None for document in documents(layer.data, layer.path))


def _arguments(layer: Layer) -> Settings:
    """The kubelet's flags in a configuration of k3s or RKE2: `kubelet-arg`, or `kubelet-arg+`, which adds to earlier ones."""
    given: list[Node] = []
    for document in documents(layer.data, layer.path):
        for key in (KUBELET_ARG, f"{KUBELET_ARG}+"):
            listed = document.get(key)
            given += listed.items or ([listed] if listed.text else [])
    pairs = [(one.text or "").partition("=") for one in given]
    return flags.from_arguments([(name.removeprefix("--"), value) for name, _, value in pairs], layer.path)
