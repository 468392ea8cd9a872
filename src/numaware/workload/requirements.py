"""What the API server makes of requests and limits: amounts, defaults, and everything it refuses.

Mirrors `validateResourceRequirements` and its neighbours in `pkg/apis/core/validation`, and `SetDefaults_Pod` in
`pkg/apis/core/v1` (v1.35), with their messages, so that a person finds the same words here as from `kubectl apply`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from numaware.machine.quantity import ZERO, Quantity
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.workload.pod import Resources
from numaware.workload.yamlfile import Node

Amounts = dict[str, Quantity]
_NameRule = Callable[[str], str]
# (path below the resources, message) of one refusal.
Refusal = tuple[str, str]

HUGEPAGES = "hugepages-"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_NANO_PER_MILLI = 10**6
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
QUALIFIED = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?{_NAME}")
LABEL_VALUE = re.compile(rf"(?:{_NAME})?")


class Requirements(msgspec.Struct, frozen=True):
    """Requests and limits of one container or pod."""

    requests: Amounts
    limits: Amounts

    def defaulted(self) -> Requirements:
        """A limit without a request is also the request."""
        return Requirements({**self.limits, **self.requests}, self.limits)


def quantity(node: Node) -> Quantity:
    """An amount as JSON carries it to the API server, which keeps thousandths and rounds up; ValueError if it is none."""
    match node.value:
        case str(text):
            exact = Quantity.parse(text.strip())
        case bool() | dict() | list():
            raise ValueError(
                Sentence("expected a quantity such as 2, 500m or 1.5Gi, got a JSON {kind}", kind=node.kind)
            )
        case None:
            return ZERO
        case number:
            exact = Quantity.parse(number)
    return Quantity(-(-exact.nano // _NANO_PER_MILLI) * _NANO_PER_MILLI, exact.family)


def resources(amounts: Amounts) -> Resources:
    """The amounts as a pod holds them."""
    return tuple(sorted((name, amount.nano) for name, amount in amounts.items()))


def container_refusals(needs: Requirements) -> Iterator[Refusal]:
    """What the API server refuses in a container's resources."""
    return _refusals(needs, _container_name_refusal)


def pod_refusals(needs: Requirements) -> Iterator[Refusal]:
    """What the API server refuses in a pod's own resources."""
    return _refusals(needs, _pod_name_refusal)


def shown(name: str) -> str:
    """A resource's name as it may stand in a message: a stranger chose it."""
    return printable(name, 80)


def is_native(name: str) -> bool:
    """Whether Kubernetes itself owns the name: cpu, memory, hugepages-*, or anything of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether it is counted in whole devices that a plugin or the administrator announced."""
    return not is_native(name) and not name.startswith("requests.")


def _refusals(needs: Requirements, bad_name: _NameRule) -> Iterator[Refusal]:
    for name, amount in sorted(needs.limits.items()):
        yield from _amount_refusals("limits", name, amount, bad_name)
    for name, amount in sorted(needs.requests.items()):
        yield from _amount_refusals("requests", name, amount, bad_name)
        limit = needs.limits.get(name)
        may_differ = is_native(name) and not name.startswith(HUGEPAGES)
        if limit is None:
            if not may_differ:
                yield "limits", "Required value: Limit must be set for non overcommitable resources"
        elif amount.nano != limit.nano and not may_differ:
            yield "requests", f'Invalid value: "{amount}": must be equal to {shown(name)} limit of {limit}'
        elif amount.nano > limit.nano:
            yield (
                "requests",
                f'Invalid value: "{amount}": must be less than or equal to {shown(name)} limit of {limit}',
            )
    names = {*needs.limits, *needs.requests}
    if any(name.startswith(HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        yield "", "Forbidden: HugePages require cpu or memory"


def _amount_refusals(field: str, name: str, amount: Quantity, bad_name: _NameRule) -> Iterator[Refusal]:
    path = f"{field}[{shown(name)}]"
    refused = bad_name(name)
    if refused:
        yield path, refused
    if amount.nano < 0:
        yield path, f'Invalid value: "{amount}": must be greater than or equal to 0'
    elif is_extended(name) and amount.milli_value % 1000:
        yield path, f'Invalid value: "{amount}": must be an integer'
    elif name.startswith(HUGEPAGES) and not _whole_pages(name, amount):
        yield path, f'Invalid value: "{amount}": {amount} is not positive integer multiple of {shown(name)}'


def _whole_pages(name: str, amount: Quantity) -> bool:
    try:
        page = Quantity.parse(name.removeprefix(HUGEPAGES))
    except ValueError:
        return False
    return page.nano > 0 and page.milli_value % 1000 == 0 and amount.value % page.value == 0


def _container_name_refusal(name: str) -> str:
    if not QUALIFIED.fullmatch(name):
        return f'Invalid value: "{shown(name)}": must be a name such as nvidia.com/gpu'
    if "/" not in name and name not in _STANDARD and not name.startswith(HUGEPAGES):
        return f'Invalid value: "{shown(name)}": must be a standard resource type or fully qualified'
    if name.startswith("requests.") and not is_native(name):
        return f"""Invalid value: "{shown(name)}": doesn't follow extended resource name standard"""
    return ""


def _pod_name_refusal(name: str) -> str:
    if name in ("cpu", "memory") or name.startswith(HUGEPAGES):
        return ""
    return f'Unsupported value: "{shown(name)}": supported values: "cpu", "hugepages-", "memory"'
