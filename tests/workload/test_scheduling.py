"""The scheduling part of manifests."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.workload.manifest import read, scan
from numaware.workload.scheduling import (
    EVERY_ADDRESS,
    NO_SCHEDULING,
    HostPort,
    NodeTerm,
    Owner,
    PodClaim,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Requirement,
    Scheduling,
    Selector,
    ServedResources,
    SpreadRule,
    Toleration,
)

WEB = Selector((Requirement("app", "In", ("web",)),))
TERM = "topologyKey: zone, labelSelector: {matchLabels: {app: web}}"


def manifest(spec: str, metadata: str = "", kind: str = "Pod") -> str:
    body = f"""kind: {kind}
metadata: {{name: p, namespace: shop{metadata}}}
spec:
  containers: [{{name: c}}]
"""
    return body + "\n".join(f"  {line}" for line in spec.splitlines())


def scheduling(spec: str, metadata: str = "") -> Scheduling:
    (workload,) = read(manifest(spec, metadata).encode(), "f").workloads
    return workload.pod.scheduling


def errors(spec: str, metadata: str = "") -> list[str]:
    found = scan(manifest(spec, metadata).encode(), "f").problems
    assert all(problem.line > 0 for problem in found)
    return [str(problem) for problem in found if problem.severity == "error"]


def required_nodes(terms: str) -> str:
    return (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        f"{{nodeSelectorTerms: {terms}}}}}}}"
    )


def required_pods(term: str, kind: str = "podAffinity") -> str:
    return f"affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{term}}}]}}}}"


def spread(rule: str) -> str:
    return f"topologySpreadConstraints: [{{{rule}}}]"


def test_a_pod_without_any_of_it_shares_one_value() -> None:
    assert scheduling("restartPolicy: Never") is NO_SCHEDULING


def test_scheduling_is_no_part_of_the_shape() -> None:
    plain, chosen = (read(manifest(spec).encode(), "f").workloads[0].pod for spec in ("", "nodeName: n1"))
    assert plain.shape == chosen.shape
    assert plain.scheduling != chosen.scheduling


def test_labels_are_sorted_and_only_heeded_annotations_are_kept() -> None:
    found = scheduling(
        "",
        ", labels: {b: x, a: ''}, annotations: "
        "{note: hello, numaware.io/class: high, volcano.sh/numa-topology-policy: restricted}",
    )
    assert found.labels == (("a", ""), ("b", "x"))
    assert found.annotations == (
        ("numaware.io/class", "high"),
        ("volcano.sh/numa-topology-policy", "restricted"),
    )
    assert found.annotation("numaware.io/class") == "high"
    assert found.annotation("numaware.io/other") == ""


def test_simple_fields() -> None:
    found = scheduling("""nodeName: n1
nodeSelector: {disk: ssd, arch: arm64}
schedulerName: numaware
priority: 7
priorityClassName: batch
preemptionPolicy: Never
schedulingGates: [{name: example.com/a}, {name: b}]
resourceClaims: [{name: gpu, resourceClaimName: g}]""")
    assert found.node.node_name == "n1"
    assert found.node.selector == (("arch", "arm64"), ("disk", "ssd"))
    assert (found.scheduler, found.priority, found.priority_class, found.preempts) == (
        "numaware",
        7,
        "batch",
        False,
    )
    assert found.gates == ("example.com/a", "b")
    assert found.resource_claims == (PodClaim("gpu", "g"),)


def test_classes_that_every_cluster_has_give_a_priority_and_others_leave_it_open() -> None:
    assert scheduling("priorityClassName: system-node-critical").priority == 2_000_001_000
    assert scheduling("priorityClassName: system-cluster-critical").priority == 2_000_000_000
    assert scheduling("priorityClassName: mine").priority is None
    assert scheduling("schedulerName: ''").scheduler == "default-scheduler"


def test_required_node_affinity_drops_empty_terms_which_match_nothing() -> None:
    found = scheduling(
        required_nodes(
            "[{matchExpressions: [{key: zone, operator: In, values: [b, a, b]}, {key: size, operator: Gt, values: ['3']}]},"
            " {}, {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]"
        )
    )
    assert found.node.required == (
        NodeTerm((Requirement("size", "Gt", ("3",)), Requirement("zone", "In", ("a", "b")))),
        NodeTerm(names=(Requirement("metadata.name", "In", ("n1",)),)),
    )
    assert scheduling(required_nodes("[{}]")).node.required == ()
    assert scheduling("nodeName: n1").node.required is None


def test_preferred_node_affinity() -> None:
    found = scheduling(
        "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: ["
        "{weight: 5, preference: {matchExpressions: [{key: gpu, operator: DoesNotExist}]}}, {weight: 1, preference: {}}]}}"
    )
    assert found.node.preferred == (PreferredNodes(5, NodeTerm((Requirement("gpu", "DoesNotExist"),))),)


@pytest.mark.parametrize(
    ("written", "namespaces", "chosen"),
    [
        (TERM, ("shop",), None),
        (f"{TERM}, namespaces: []", ("shop",), None),
        (f"{TERM}, namespaceSelector: null", ("shop",), None),
        (f"{TERM}, namespaces: [two, one, one]", ("one", "two"), None),
        (f"{TERM}, namespaceSelector: {{}}", (), Selector()),
        (
            f"{TERM}, namespaces: [x], namespaceSelector: {{matchLabels: {{team: red}}}}",
            ("x",),
            Selector((Requirement("team", "In", ("red",)),)),
        ),
    ],
)
def test_a_term_means_the_pods_own_namespace_only_where_nothing_else_is_said(
    written: str, namespaces: tuple[str, ...], chosen: Selector | None
) -> None:
    assert scheduling(required_pods(written)).pods.near == (PodTerm("zone", WEB, namespaces, chosen),)
    assert scheduling(required_pods(written, "podAntiAffinity")).pods.apart == (
        PodTerm("zone", WEB, namespaces, chosen),
    )


def test_preferred_pod_affinity_and_anti_affinity() -> None:
    term = PodTerm("zone", WEB, ("shop",))
    preferred = (
        f"preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 9, podAffinityTerm: {{{TERM}}}}}]"
    )
    found = scheduling(f"affinity: {{podAffinity: {{{preferred}}}, podAntiAffinity: {{{preferred}}}}}").pods
    assert found.rather_near == found.rather_apart == (PreferredPods(9, term),)
    assert found.near == found.apart == ()


def test_a_missing_selector_is_not_an_empty_one() -> None:
    assert scheduling(required_pods("topologyKey: zone")).pods.near[0].selector is None
    assert (
        scheduling(required_pods("topologyKey: zone, labelSelector: {}")).pods.near[0].selector == Selector()
    )


def test_label_keys_narrow_a_selector_to_pods_like_or_unlike_this_one() -> None:
    found = scheduling(
        required_pods(f"{TERM}, matchLabelKeys: [hash, absent], mismatchLabelKeys: [tenant]"),
        ", labels: {hash: abc, tenant: t1}",
    )
    assert found.pods.near[0].selector == Selector(
        (
            Requirement("app", "In", ("web",)),
            Requirement("hash", "In", ("abc",)),
            Requirement("tenant", "NotIn", ("t1",)),
        )
    )


def test_a_selector_the_api_server_has_already_narrowed_is_not_narrowed_twice() -> None:
    merged = (
        "topologyKey: zone, labelSelector: {matchExpressions: [{key: hash, operator: In, values: [abc]}]}"
    )
    found = scheduling(required_pods(f"{merged}, matchLabelKeys: [hash]"), ", labels: {hash: abc}")
    assert found.pods.near[0].selector == Selector((Requirement("hash", "In", ("abc",)),))


def test_spread_rules_have_the_defaults_of_the_api() -> None:
    found = scheduling(spread(f"maxSkew: 2, whenUnsatisfiable: DoNotSchedule, {TERM}"))
    assert found.spread == (SpreadRule("zone", 2, hard=True, selector=WEB),)
    found = scheduling(
        spread(
            f"maxSkew: 1, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore, "
            f"nodeTaintsPolicy: Honor, matchLabelKeys: [hash], {TERM}"
        ),
        ", labels: {hash: h}",
    )
    assert found.spread == (
        SpreadRule(
            "zone",
            1,
            hard=True,
            selector=Selector((Requirement("app", "In", ("web",)), Requirement("hash", "In", ("h",)))),
            min_domains=3,
            heed_affinity=False,
            heed_taints=True,
        ),
    )
    soft = scheduling(spread("maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, topologyKey: zone")).spread
    assert soft == (SpreadRule("zone", 1, hard=False, selector=None),)


def test_tolerations() -> None:
    found = scheduling("""tolerations:
- {key: gpu, value: "yes", effect: NoSchedule}
- {key: gpu, operator: Equal, value: "no"}
- {operator: Exists}
- {key: slow, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
- {key: price, operator: Lt, value: "100"}""")
    assert found.node.tolerations == (
        Toleration("gpu", value="yes", effect="NoSchedule"),
        Toleration("gpu", value="no"),
        Toleration(exists=True),
        Toleration("slow", exists=True, effect="NoExecute"),
        Toleration("price", value="100", compares="Lt"),
    )


def test_images_go_by_the_names_that_nodes_give_them() -> None:
    text = """kind: Pod
metadata: {name: p}
spec:
  initContainers: [{name: i, image: "registry:5000/init"}]
  containers: [{name: a, image: "app:v1"}, {name: b}]
  volumes: [{name: model, image: {reference: "registry:5000/llm"}}, {name: scratch, emptyDir: {}}]"""
    found = read(text.encode(), "f").workloads[0].pod.scheduling
    assert found.images == ("registry:5000/init:latest", "app:v1", "registry:5000/llm:latest")


def ports_of(spec: str) -> tuple[HostPort, ...]:
    text = "kind: Pod\nmetadata: {name: p}\nspec:\n" + "\n".join(f"  {line}" for line in spec.splitlines())
    return read(text.encode(), "f").workloads[0].pod.scheduling.host_ports


def test_host_ports_are_those_of_containers_that_stay() -> None:
    assert ports_of("""containers:
- name: c
  ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81}, {containerPort: 53, hostPort: 53, protocol: UDP, hostIP: 10.0.0.1}]
initContainers:
- {name: once, ports: [{containerPort: 1, hostPort: 1}]}
- {name: side, restartPolicy: Always, ports: [{containerPort: 2, hostPort: 2}]}""") == (
        HostPort("TCP", EVERY_ADDRESS, 2),
        HostPort("TCP", EVERY_ADDRESS, 8080),
        HostPort("UDP", "10.0.0.1", 53),
    )


def test_on_the_network_of_the_host_every_port_is_one_of_the_host() -> None:
    assert ports_of("hostNetwork: true\ncontainers: [{name: c, ports: [{containerPort: 80}]}]") == (
        HostPort("TCP", EVERY_ADDRESS, 80),
    )


def test_volumes_to_be_bound_are_claims_and_others_are_not() -> None:
    found = scheduling("""volumes:
- {name: a, emptyDir: {}}
- {name: b, persistentVolumeClaim: {claimName: data}}
- {name: c, ephemeral: {volumeClaimTemplate: {spec: {}}}}""")
    assert found.claims == ("data", "p-c")


def test_a_pod_belongs_to_those_it_refers_to_and_a_template_to_its_object() -> None:
    owners = ", ownerReferences: [{kind: ReplicaSet, name: rs, controller: true}, {kind: Node, name: n1}]"
    assert scheduling("", owners).owners == (Owner("ReplicaSet", "rs", controller=True), Owner("Node", "n1"))


STATEFUL = """apiVersion: apps/v1
kind: {kind}
metadata: {{name: db, namespace: shop}}
spec:
  volumeClaimTemplates: [{{metadata: {{name: data}}}}]
  template:
    metadata: {{labels: {{app: db}}}}
    spec:
      hostNetwork: {host}
      tolerations: [{{key: gpu, operator: Exists}}]
      containers: [{{name: c}}]
"""


def template(kind: str, host: str = "false") -> Scheduling:
    (workload,) = read(STATEFUL.format(kind=kind, host=host).encode(), "f").workloads
    return workload.pod.scheduling


def test_claims_that_a_stateful_set_makes_for_its_pods_are_theirs() -> None:
    found = template("StatefulSet")
    assert found.claims == ("data-db",)
    assert found.labels == (("app", "db"),)
    assert found.owners == (Owner("StatefulSet", "db", controller=True),)


def test_pods_of_a_daemon_set_also_tolerate_what_its_controller_adds() -> None:
    keys = [(each.key, each.effect) for each in template("DaemonSet").node.tolerations]
    assert keys[0] == ("gpu", "")
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in keys
    assert ("node.kubernetes.io/network-unavailable", "NoSchedule") not in keys
    on_host = [each.key for each in template("DaemonSet", "true").node.tolerations]
    assert "node.kubernetes.io/network-unavailable" in on_host
    assert len(template("StatefulSet").node.tolerations) == 1


def test_the_policy_of_a_volcano_task_becomes_the_pods_annotation() -> None:
    text = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  tasks:
  - name: t
    topologyPolicy: restricted
    template:
      metadata: {annotations: {volcano.sh/numa-topology-policy: none}}
      spec: {containers: [{name: c}]}
"""
    (workload,) = read(text.encode(), "f").workloads
    assert workload.pod.scheduling.annotations == (("volcano.sh/numa-topology-policy", "restricted"),)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nodeName: 5", "spec.nodeName: expected text, got a JSON number; put it in quotes"),
        ("nodeSelector: {a: true}", "spec.nodeSelector[a]: expected text, got a JSON bool; put it in quotes"),
        ("nodeSelector: [a]", "spec.nodeSelector: expected a mapping, got a JSON array"),
        ("affinity: none", "spec.affinity: expected a mapping, got a JSON string"),
        ("affinity: {nodeAffinity: []}", "spec.affinity.nodeAffinity: expected a mapping, got a JSON array"),
        ("affinity: {podAffinity: x}", "spec.affinity.podAffinity: expected a mapping, got a JSON string"),
        ("tolerations: {key: a}", "spec.tolerations: expected a list, got a JSON object"),
        ("priority: high", "spec.priority: expected a whole number, got high"),
        ("priority: 1.5", "spec.priority: expected a whole number, got 1.5"),
        ("priority: 3000000000", "spec.priority: expected a whole number, got 3000000000"),
        (
            "preemptionPolicy: Maybe",
            'spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"',
        ),
        ("schedulingGates: [{name: a}, {name: a}]", 'spec.schedulingGates[1]: Duplicate value: "a"'),
        ("schedulingGates: [{}]", "spec.schedulingGates[0].name: Required value"),
        ("hostNetwork: 1", "spec.hostNetwork: expected true or false, got a JSON number"),
        (
            "tolerations: [{key: a, operator: Like, value: '3'}]",
            'spec.tolerations[0].operator: Unsupported value: "Like": supported values: "", "Equal", "Exists", "Gt", "Lt"',
        ),
        (
            "tolerations: [{key: a, operator: Lt, value: '03'}]",
            "spec.tolerations[0].value: Invalid value: must be a whole number when the operator is Gt or Lt",
        ),
        (
            "tolerations: [{effect: Never, operator: Exists}]",
            (
                'spec.tolerations[0].effect: Unsupported value: "Never": supported values: "", "NoSchedule", '
                '"PreferNoSchedule", "NoExecute"'
            ),
        ),
        (
            "tolerations: [{value: a}]",
            "spec.tolerations[0].operator: Invalid value: must be Exists when there is no key (it then means any taint)",
        ),
        (
            "tolerations: [{key: a, operator: Exists, value: b}]",
            "spec.tolerations[0].operator: Invalid value: there must be no value when the operator is Exists",
        ),
        (
            "tolerations: [{key: a, operator: Exists, tolerationSeconds: 3}]",
            "spec.tolerations[0].effect: Invalid value: must be NoExecute when tolerationSeconds is set",
        ),
        (
            spread(f"whenUnsatisfiable: DoNotSchedule, {TERM}"),
            "spec.topologySpreadConstraints[0].maxSkew: Required value",
        ),
        (
            spread(f"maxSkew: 0, whenUnsatisfiable: DoNotSchedule, {TERM}"),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            spread(f"maxSkew: 1, {TERM}"),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Required value",
        ),
        (
            spread("maxSkew: 1, whenUnsatisfiable: DoNotSchedule"),
            "spec.topologySpreadConstraints[0].topologyKey: Required value",
        ),
        (
            spread(f"maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, minDomains: 2, {TERM}"),
            (
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if "
                "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            ),
        ),
        (
            spread("maxSkew: 1, whenUnsatisfiable: DoNotSchedule, topologyKey: z, matchLabelKeys: [a]"),
            (
                "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector "
                "is not set"
            ),
        ),
        (
            (
                "topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule, topologyKey: z},"
                " {maxSkew: 2, whenUnsatisfiable: DoNotSchedule, topologyKey: z}]"
            ),
            (
                "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: there is such a rule "
                "before it"
            ),
        ),
        (
            "volumes: [{name: a, persistentVolumeClaim: {}}]",
            "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
        ),
    ],
)
def test_what_the_api_server_refuses_is_told_with_its_place(spec: str, message: str) -> None:
    assert errors(spec) == [message]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("[]", ": Required value: must have at least one node selector term"),
        (
            "[{matchExpressions: [{key: a, operator: Near}]}]",
            (
                '[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", '
                '"DoesNotExist", "Gt", "Lt"'
            ),
        ),
        (
            "[{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]",
            "[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            "[{matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]}]",
            "[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        (
            "[{matchExpressions: [{key: a, operator: In}]}]",
            "[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            "[{matchExpressions: [{key: 'a b', operator: Exists}]}]",
            '[0].matchExpressions[0].key: Invalid value: "a b": must be a name such as example.com/name',
        ),
        (
            "[{matchFields: [{key: metadata.uid, operator: In, values: [x]}]}]",
            "[0].matchFields: Invalid value: the only field to select by is metadata.name",
        ),
        (
            "[{matchFields: [{key: metadata.name, operator: In, values: [n1, n2]}]}]",
            "[0].matchFields: Required value: must be only one value for a field",
        ),
    ],
)
def test_node_affinity_that_the_api_server_refuses(term: str, message: str) -> None:
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    assert errors(required_nodes(term)) == [f"{path}{message}"]


def test_pod_affinity_that_the_api_server_refuses() -> None:
    path = f"spec.affinity.podAffinity.{REQUIRED}[0]"
    assert errors(required_pods("labelSelector: {}")) == [f"{path}.topologyKey: Required value"]
    gt = "topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}"
    assert errors(required_pods(gt)) == [
        (
            f'{path}.labelSelector.matchExpressions[0].operator: Unsupported value: "Gt": supported values: "In", "NotIn", '
            '"Exists", "DoesNotExist"'
        )
    ]
    preferred = "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: z}}]}}"
    assert errors(preferred) == [
        (
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: "
            "must be in the range 1-100"
        )
    ]


def test_labels_have_the_form_of_labels() -> None:
    assert errors("", ", labels: {a/b/c: x}") == [
        'metadata.labels[a/b/c]: Invalid value: "a/b/c": must be a name such as example.com/name'
    ]
    assert errors("", ", labels: {a: 'x y'}") == [
        (
            'metadata.labels[a]: Invalid value: "x y": a label has at most 63 letters, digits, "-", "_" and ".", and begins '
            "and ends with a letter or digit"
        )
    ]
    assert errors("", ", labels: {version: 1.0}") == [
        "metadata.labels[version]: expected text, got a JSON number; put it in quotes"
    ]


def test_a_port_outside_the_range_is_refused() -> None:
    text = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, ports: [{containerPort: 80, hostPort: 70000}]}]}"
    with pytest.raises(InputError, match=r"hostPort: Invalid value: 70000: must be in the range 0-65535"):
        read(text.encode(), "f")


def test_a_list_that_aliases_repeat_without_end_is_bounded() -> None:
    values = ", ".join(f"v{number}" for number in range(30))
    terms = ", ".join("*e" for _ in range(60))
    text = manifest(
        f"x: &v [{values}]\n"
        f"y: &e {{matchExpressions: [{', '.join('{key: a, operator: In, values: *v}' for _ in range(20))}]}}\n"
        + required_nodes(f"[{terms}]")
    )
    found = [problem for problem in scan(text.encode(), "f").problems if "Too many" in str(problem.text)]
    assert len(found) == 1


def test_claims_of_devices_are_named_by_the_pod_and_told_by_its_status() -> None:
    text = b"""apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: t}, {name: nic, resourceClaimName: mine}]
  containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi, d.io/gpu: 1, e.io/x: 1}}}]
status:
  resourceClaimStatuses: [{name: gpu, resourceClaimName: a-gpu-x}]
  extendedResourceClaimStatus:
    resourceClaimName: made
    requestMappings: [{containerName: c, resourceName: d.io/gpu, requestName: r}]
"""
    pod = read(text, "pod.yaml").workloads[0].pod
    assert pod.scheduling.resource_claims == (PodClaim("gpu", "a-gpu-x", "t"), PodClaim("nic", "mine"))
    assert pod.scheduling.served == ServedResources("made", ("d.io/gpu",))
    # The kubelet's Device Manager passes over what a claim stands for; schedulers still see the request.
    (container,) = pod.containers
    assert [name for name, _ in container.limits] == ["cpu", "e.io/x", "memory"]
    assert [name for name, _ in container.requests] == ["cpu", "d.io/gpu", "e.io/x", "memory"]
