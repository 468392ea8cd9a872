"""Whatever stands in the scheduling fields of a pod: values that can be used and hashed, or problems with a line."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.workload.manifest import scan

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 70000)
    | st.sampled_from(
        (2**40, 1.5, "", "a", "a b", "In", "Gt", "Exists", "Honor", "NoExecute", "metadata.name")
    )
)
KEYS = st.sampled_from(
    (
        "key",
        "operator",
        "values",
        "value",
        "effect",
        "weight",
        "preference",
        "podAffinityTerm",
        "labelSelector",
        "namespaceSelector",
        "namespaces",
        "topologyKey",
        "matchLabels",
        "matchExpressions",
        "matchFields",
        "matchLabelKeys",
        "nodeSelectorTerms",
        "maxSkew",
        "minDomains",
        "whenUnsatisfiable",
        "nodeTaintsPolicy",
        "name",
        "persistentVolumeClaim",
        "claimName",
        "ephemeral",
        REQUIRED,
        PREFERRED,
    )
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeName": ANYTHING,
        "nodeSelector": ANYTHING,
        "affinity": st.dictionaries(
            st.sampled_from(("nodeAffinity", "podAffinity", "podAntiAffinity")),
            st.dictionaries(st.sampled_from((REQUIRED, PREFERRED)), ANYTHING) | ANYTHING,
        )
        | ANYTHING,
        "tolerations": ANYTHING,
        "topologySpreadConstraints": ANYTHING,
        "schedulingGates": ANYTHING,
        "priority": ANYTHING,
        "priorityClassName": ANYTHING,
        "preemptionPolicy": ANYTHING,
        "schedulerName": ANYTHING,
        "volumes": ANYTHING,
        "resourceClaims": ANYTHING,
        "hostNetwork": ANYTHING,
    },
)
METADATA = st.fixed_dictionaries(
    {}, optional={"labels": ANYTHING, "annotations": ANYTHING, "ownerReferences": ANYTHING}
)


@given(METADATA, SPECS, ANYTHING)
@settings(max_examples=200)
def test_any_values_in_scheduling_fields_are_read_or_refused(
    metadata: object, spec: object, ports: object
) -> None:
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"containers": [{"name": "c", "ports": ports}], **spec},
    }
    found = scan(json.dumps(pod).encode(), "f")
    refused = [problem for problem in found.problems if problem.severity == "error"]
    assert bool(found.workloads) != bool(refused)
    assert all(problem.line == 1 and problem.path for problem in found.problems)
    again = scan(json.dumps(pod).encode(), "f").workloads
    assert [hash(each.pod.scheduling) for each in again] == [
        hash(each.pod.scheduling) for each in found.workloads
    ]
