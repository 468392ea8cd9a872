"""`passDeviceSpecs` of NVIDIA's device plugin (and ours, which keeps its flags): right or not beside the kubelet's CPU manager.

Published guides say opposite things. What is right follows from two settings: the static CPU manager updates the cgroups of
containers, and each update takes away devices that the runtime was not told of. With `envvar` and `volume-mounts` it is told
only by `passDeviceSpecs`; with CDI it is told in any case. `lint` calls it for every file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numaware.diagnose.evidence.source_text import SourceText
from numaware.diagnose.finding import Finding, Subject, finding
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.workload.manifest import objects
from numaware.workload.template import templates
from numaware.workload.yamlfile import Node, documents

_FLAGS = ("migStrategy", "failOnInitError", "nvidiaDriverRoot", "plugin")
_IMAGE = "k8s-device-plugin"
_FIELD = "passDeviceSpecs"
_HELM = "compatWithCPUManager"
_ARGUMENTS = ("--pass-device-specs", "--device-list-strategy")
_VARIABLES = ("PASS_DEVICE_SPECS", "DEVICE_LIST_STRATEGY")
_TRUE = ("true", "t", "1")
_LONGEST_TEXT = 1 << 20


class PluginSettings(NamedTuple):
    """What a device plugin is told; `key` is how the file calls it."""

    passes: bool
    strategies: tuple[str, ...]
    key: str = _FIELD

    @property
    def is_injected(self) -> bool:
        """Whether GPUs get into a container behind the runtime's back."""
        return not any(strategy.startswith("cdi") for strategy in self.strategies)


def plugin_findings(
    parsed: list[Node], source_text: SourceText, cpu_policies: frozenset[str]
) -> list[Finding] | None:
    """What there is to say of the device plugins in a file; None if it has none. Policies are those of kubelets given with it."""
    file = source_text.file
    found = [settings for _, _, node in objects(parsed, file) for settings in _plugins(node, file)]
    if not found:
        return None
    return [one for settings in found for one in _judged(settings, source_text, cpu_policies)]


def _judged(
    settings: PluginSettings, source_text: SourceText, cpu_policies: frozenset[str]
) -> Iterator[Finding]:
    evidence = [source_text.field(settings.key)]
    subject = Subject("DevicePlugin", name=source_text.file)
    facts = {"key": settings.key, "strategies": list(settings.strategies)}
    static = "static" in cpu_policies
    if not settings.passes and settings.is_injected:
        if static:
            yield finding("pass-device-specs", subject, facts, evidence)
        elif not cpu_policies:
            yield finding(
                "pass-device-specs",
                subject,
                facts,
                evidence,
                severity="info",
                confidence="possible",
                variant="policy-unknown",
            )
    elif settings.passes and (not settings.is_injected or (cpu_policies and not static)):
        variant = "needless" if settings.is_injected else "needless-with-cdi"
        yield finding("pass-device-specs", subject, facts, evidence, severity="info", variant=variant)


def _plugins(node: Node, source: str) -> Iterator[PluginSettings]:
    """The settings in one document: a configuration, one in a ConfigMap, arguments of a pod, values of NVIDIA's chart."""
    flags = node.get("flags")
    if any(key in flags.mapping for key in _FLAGS):
        yield _settings(flags)
    elif node.get("kind").text == "ConfigMap":
        for value in node.get("data").mapping.values():
            if value.text and "flags:" in value.text and len(value.text) <= _LONGEST_TEXT:
                try:
                    inner = documents(value.text.encode(), source)
                except InputError:
                    continue
                for one in inner:
                    yield from _plugins(Node({"flags": one.get("flags")}, one.line), source)
    elif isinstance(node.get(_HELM).value, bool):
        strategies = _texts(node.get("deviceListStrategy"))
        yield PluginSettings(node.get(_HELM).value is True, strategies, _HELM)
    else:
        for template in templates(node):
            for container in template.node.get("spec", "containers").items:
                if _IMAGE in (container.get("image").text or ""):
                    yield _of_container(container)


def _settings(flags: Node) -> PluginSettings:
    plugin = flags.get("plugin")
    return PluginSettings(plugin.get(_FIELD).value is True, _texts(plugin.get("deviceListStrategy")))


def _of_container(container: Node) -> PluginSettings:
    """Arguments win over variables, as in the plugin itself; a switch without a value is on, another's value comes next."""
    told: dict[str, str] = {}
    for variable in container.get("env").items:
        name = variable.get("name").text
        if name in _VARIABLES:
            told[_ARGUMENTS[_VARIABLES.index(name)]] = str(variable.get("value").value).lower()
    words = [item.text or "" for part in ("command", "args") for item in container.get(part).items]
    for word, after in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in _ARGUMENTS:
            told[name] = (value if equals else "true" if name == _ARGUMENTS[0] else after).lower()
    strategies = tuple(filter(None, told.get(_ARGUMENTS[1], "").split(",")))
    key = _FIELD if _ARGUMENTS[0] in told else "image"
    return PluginSettings(told.get(_ARGUMENTS[0]) in _TRUE, strategies or ("envvar",), key)


def _texts(node: Node) -> tuple[str, ...]:
    given = [node.text] if node.text else [item.text for item in node.items]
    return tuple(printable(text, 40) for text in given if text) or ("envvar",)
