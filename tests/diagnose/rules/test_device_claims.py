"""Claims before they are applied: what would keep their devices together, and who hands out CPUs."""

from __future__ import annotations

import pytest

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.lint import FILE_ALONE, lint
from numaware.diagnose.texts import finding_text

STATIC = FILE_ALONE._replace(cpu_policies=frozenset({"static"}))
NONE = FILE_ALONE._replace(cpu_policies=frozenset({"none"}))
BOTH = "{name: gpu, exactly: {deviceClassName: gpu}}, {name: nic, exactly: {deviceClassName: nic}}"


def found(text: str, world: object = FILE_ALONE) -> list[Finding]:
    linted = lint(text.encode(), "dra.yaml", world)  # type: ignore[arg-type] # of this one type
    assert linted.kind == "manifest"
    return [one for one in linted.findings if one.code not in ("not-guaranteed", "healthy")]


def claim(requests: str, constraints: str = "", kind: str = "ResourceClaim", version: str = "v1") -> str:
    devices = f"devices: {{requests: [{requests}], constraints: [{constraints}]}}"
    spec = f"{{spec: {{{devices}}}}}" if kind.endswith("Template") else f"{{{devices}}}"
    return f"apiVersion: resource.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: c, namespace: ml}}\nspec: {spec}\n"


def match(attribute: str, requests: str = "") -> str:
    return f"{{matchAttribute: {attribute}, requests: [{requests}]}}"


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_a_claim_of_several_devices_shows_the_line_that_would_align_them(kind: str) -> None:
    (one,) = found(claim(BOTH, kind=kind))
    assert (one.code, one.severity, one.subject.kind, one.subject.namespace) == (
        "claim-not-aligned",
        "warning",
        kind,
        "ml",
    )
    text = finding_text(one)
    assert text.fix[0] == (
        "constraints:\n- requests: [gpu, nic]\n  matchAttribute: resource.kubernetes.io/numaNode"
    )
    assert "resource.kubernetes.io/pcieRoot" in text.fix[1]
    # The line that is shown is what was missing.
    assert found(claim(BOTH, match("resource.kubernetes.io/numaNode", "gpu, nic"), kind)) == []


@pytest.mark.parametrize(
    ("constraints", "codes"),
    [
        (match("resource.kubernetes.io/numaNode"), []),
        (match("resource.kubernetes.io/pcieRoot", "gpu, nic"), []),
        (match("dra.net/numaNode", "gpu, nic/small"), []),
        (match("resource.kubernetes.io/numaNode", "gpu"), ["claim-not-aligned"]),
        (match("d.io/model"), ["claim-not-aligned"]),
    ],
)
def test_only_a_constraint_on_where_devices_are_aligns_all_requests(
    constraints: str, codes: list[str]
) -> None:
    assert [one.code for one in found(claim(BOTH, constraints))] == codes


def test_many_devices_of_one_request_may_be_meant_to_be_apart() -> None:
    (one,) = found(claim("{name: gpu, deviceClassName: gpu, count: 8}", version="v1beta1"))
    assert (one.code, one.severity, one.variant) == ("claim-not-aligned", "info", "one-request")
    assert found(claim("{name: gpu, exactly: {deviceClassName: gpu}}")) == []


def pod(resources: str, claims: str = "[]", cpu: str = "4") -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: a, namespace: ml}}
spec:
  resourceClaims: {claims}
  containers: [{{name: c, resources: {{limits: {{cpu: {cpu}, memory: 1Gi{resources}}}}}}}]
"""


CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: d.io/gpu}
"""


def test_a_pinned_pod_with_devices_of_dra_is_told_that_nobody_aligns_them() -> None:
    (one,) = found(pod("", "[{name: gpu, resourceClaimName: c}]"))
    assert (one.code, finding_text(one).title) == (
        "devices-served-by-dra",
        "ml/a: gpu is not aligned by the kubelet: served by DRA",
    )
    (by_class,) = found(f"{pod(', d.io/gpu: 1')}---\n{CLASS}")
    assert by_class.facts["names"] == ["d.io/gpu"]
    # Without a class it is a device plugin's; without CPUs of its own there is nothing to be apart from.
    assert found(pod(", d.io/gpu: 1")) == []
    assert [one.code for one in found(pod("", "[{name: gpu, resourceClaimName: c}]", "500m"))] == [
        "fractional-cpu-not-pinned"
    ]


DRIVER = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cpus}
spec:
  template:
    spec: {containers: [{name: d, image: "registry.k8s.io/dra-driver-cpu/dra-driver-cpu:v0.1"}]}
"""
CPU_CLASS = CLASS.replace("name: gpu", "name: dra.cpu").replace(
    "extendedResourceName: d.io/gpu", "selectors: []"
)


@pytest.mark.parametrize(
    "text", [DRIVER, CPU_CLASS, claim("{name: cpu, exactly: {deviceClassName: dra.cpu}}")]
)
def test_a_driver_of_cpus_and_the_static_cpu_manager_exclude_each_other(text: str) -> None:
    codes = [one.code for one in found(text, STATIC) if one.severity == "error"]
    assert codes == ["cpu-driver-beside-static"]
    for world in (NONE, FILE_ALONE):
        assert "cpu-driver-beside-static" not in {one.code for one in found(text, world)}


def test_a_claim_that_cannot_be_read_is_a_finding_and_not_an_end() -> None:
    (one,) = found(claim("7"))
    assert (one.code, one.subject.kind) == ("manifest-invalid", "ResourceClaim")
