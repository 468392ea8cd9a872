from __future__ import annotations

import json

import pytest

from numaware.errors import InputError
from numaware.workload.manifest import Workload, first, read, scan
from numaware.workload.pod import NANO, amount
from numaware.workload.qos import qos_class

MI = 1 << 20
TEMPLATE = """
      metadata: {labels: {app: x}}
      spec:
        containers:
        - name: main
          image: i
          resources: {limits: {cpu: 4, memory: 1Gi}}
"""


def only(text: str) -> Workload:
    manifest = read(text.encode(), "f.yaml")
    assert len(manifest.workloads) == 1
    return manifest.workloads[0]


def pod_with(resources: str, extra: str = "") -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers:
  - name: c
    resources: {resources}
{extra}"""


def errors(text: str) -> list[str]:
    return [str(problem) for problem in scan(text.encode(), "f").problems if problem.severity == "error"]


def notes(text: str) -> list[str]:
    return [str(problem) for problem in scan(text.encode(), "f").problems if problem.severity == "note"]


@pytest.mark.parametrize(
    ("kind", "version", "spec", "replicas"),
    [
        ("Deployment", "apps/v1", "spec:\n  replicas: 3\n  template:", 3),
        ("Deployment", "apps/v1", "spec:\n  template:", 1),
        ("StatefulSet", "apps/v1", "spec:\n  replicas: 2\n  template:", 2),
        ("ReplicaSet", "apps/v1", "spec:\n  replicas: 0\n  template:", 0),
        ("ReplicationController", "v1", "spec:\n  replicas: 5\n  template:", 5),
        ("DaemonSet", "apps/v1", "spec:\n  template:", None),
        ("Job", "batch/v1", "spec:\n  parallelism: 4\n  template:", 4),
        ("CronJob", "batch/v1", "spec:\n  jobTemplate:\n    spec:\n     parallelism: 2\n     template:", 2),
        ("PodTemplate", "v1", "template:", 1),
        ("NewKindOfSet", "example.com/v1", "spec:\n  template:", 1),
    ],
)
def test_each_kind_that_holds_a_pod_template_gives_its_pods(
    kind: str, version: str, spec: str, replicas: int | None
) -> None:
    found = only(
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: w, namespace: ns}}\n{spec}{TEMPLATE}"
    )
    assert (found.kind, found.name, found.namespace, found.replicas) == (kind, "w", "ns", replicas)
    assert found.pod.containers[0].name == "main"
    assert amount(found.pod.containers[0].requests, "cpu") == 4 * NANO
    assert qos_class(found.pod) == "Guaranteed"


def test_a_volcano_job_gives_one_workload_per_task_with_its_topology_policy() -> None:
    text = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  minAvailable: 3
  tasks:
  - name: ps
    replicas: 1
    topologyPolicy: single-numa-node
    template: {spec: {containers: [{name: a}]}}
  - name: worker
    replicas: 8
    template: {spec: {containers: [{name: b}]}}
"""
    found = read(text.encode(), "f").workloads
    assert [(w.group, w.replicas, w.topology_policy, w.pod.name) for w in found] == [
        ("ps", 1, "single-numa-node", "j-ps"),
        ("worker", 8, None, "j-worker"),
    ]
    assert len({w.pod.uid for w in found}) == 2


def test_groups_of_other_operators_are_found_by_their_shape() -> None:
    template = "template: {spec: {containers: [{name: a}]}}"
    text = f"""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: t}}
spec:
  pytorchReplicaSpecs:
    Master: {{replicas: 1, {template}}}
    Worker: {{replicas: 7, {template}}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: s}}
spec:
  replicatedJobs:
  - name: driver
    template: {{spec: {{parallelism: 2, {template}}}}}
"""
    found = read(text.encode(), "f").workloads
    assert [(w.kind, w.group, w.replicas) for w in found] == [
        ("PyTorchJob", "Master", 1),
        ("PyTorchJob", "Worker", 7),
        ("JobSet", "driver", 2),
    ]


def test_lists_are_opened_and_their_items_take_the_kind_of_the_list() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    inner = {"kind": "List", "apiVersion": "v1", "items": [{"kind": "Service", "metadata": {"name": "s"}}]}
    data = json.dumps(
        {"kind": "List", "apiVersion": "v1", "items": [{"kind": "PodList", "items": [pod]}, inner]}
    )
    manifest = read(data.encode(), "f.json")
    assert [(w.kind, w.name) for w in manifest.workloads] == [("Pod", "a")]
    assert [(s.kind, s.name) for s in manifest.skipped] == [("Service", "s")]


def test_lists_of_aliased_lists_are_bounded() -> None:
    text = "l0: &l0 {kind: Service}\n"
    text += "".join(
        f"l{n}: &l{n} {{kind: List, items: [{', '.join([f'*l{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
    )
    with pytest.raises(InputError, match="aliases repeat more than 50000 values"):
        read((text + "kind: List\nitems: [*l11]\n").encode(), "f")
    with pytest.raises(InputError, match="more than 100000 objects"):
        read(f"kind: List\nitems: [{'{}, ' * 100_001}]\n".encode(), "f")


def test_the_first_pod_is_read_and_nothing_after_it() -> None:
    assert first((pod_with("{}") + "---\n" + pod_with("{limits: {cpu: x}}")).encode(), "f").pod.name
    with pytest.raises(InputError, match="f:"):
        first((pod_with("{limits: {cpu: x}}") + "---\n" + pod_with("{}")).encode(), "f")
    with pytest.raises(InputError, match=r"holds no pod and no pod template \(found Service\)"):
        first(b"kind: Service\n---\nkind: Service", "f")


def test_documents_are_numbered_and_others_skipped() -> None:
    text = "kind: Service\nmetadata: {name: s}\n---\n# nothing\n---\n" + pod_with("{}")
    manifest = read(text.encode(), "f")
    assert manifest.workloads[0].document == 2
    assert [(s.kind, s.document, s.line) for s in manifest.skipped] == [("Service", 0, 1)]


def test_a_file_without_pods_is_refused_with_what_it_holds() -> None:
    with pytest.raises(InputError, match=r"holds no pod and no pod template \(found ConfigMap, Service\)"):
        read(b"kind: Service\n---\nkind: ConfigMap\n", "f")
    with pytest.raises(InputError, match="holds no pod and no pod template"):
        read(b"", "f")
    with pytest.raises(InputError, match="holds no pod and no pod template"):
        read(b"just some text", "f")


def test_one_of_kubernetes_own_kinds_without_containers_is_an_error() -> None:
    assert errors("kind: Deployment\napiVersion: apps/v1\nspec: {}") == [
        "spec.template.spec.containers: Required value"
    ]
    assert errors("kind: Pod\nmetadata: {name: a}\nspec: {containers: []}") == [
        "spec.containers: Required value"
    ]
    assert errors("kind: Pod\nmetadata: {name: a}") == ["spec.containers: Required value"]


def test_a_limit_without_a_request_is_the_request_in_every_container() -> None:
    text = """kind: Pod
metadata: {name: p}
spec:
  initContainers:
  - name: i
    resources: {limits: {cpu: 2, memory: 1Mi}, requests: {cpu: 1}}
  containers:
  - name: c
    resources: {limits: {nvidia.com/gpu: 1, hugepages-2Mi: 4Mi, memory: 3Mi}}
"""
    pod = only(text).pod
    assert pod.init_containers[0].requests == (("cpu", NANO), ("memory", MI * NANO))
    assert pod.containers[0].requests == (
        ("hugepages-2Mi", 4 * MI * NANO),
        ("memory", 3 * MI * NANO),
        ("nvidia.com/gpu", NANO),
    )


def test_only_init_containers_with_restart_policy_always_are_sidecars() -> None:
    text = """kind: Pod
metadata: {name: p}
spec:
  initContainers: [{name: a, restartPolicy: Always}, {name: b}]
  containers: [{name: c, restartPolicy: Always}]
"""
    assert [c.restartable for c in only(text).pod.in_order] == [True, False, False]


@pytest.mark.parametrize(
    ("written", "nano"),
    [
        ("0.1", NANO // 10),
        ("010", 8 * NANO),
        ("'010'", 10 * NANO),
        ("1_000", 1000 * NANO),
        ("1e3", 1000 * NANO),
        ("' 2 '", 2 * NANO),
        ("100u", NANO // 1000),  # the API server keeps thousandths and rounds up
        ("1.0001", 1001 * NANO // 1000),
        ("~", 0),
    ],
)
def test_an_amount_is_what_the_api_server_makes_of_it(written: str, nano: int) -> None:
    assert (
        amount(only(pod_with(f"{{requests: {{cpu: {written}}}}}")).pod.containers[0].requests, "cpu") == nano
    )


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            '{requests: {cpu: "3"}, limits: {cpu: 2}}',
            'spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2',
        ),
        (
            "{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}",
            'spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        (
            "{requests: {nvidia.com/gpu: 1}}",
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            "{limits: {nvidia.com/gpu: 500m}, requests: {nvidia.com/gpu: 500m}}",
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        (
            "{limits: {cpu: -1}}",
            'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            "{limits: {gpu: 1}}",
            (
                'spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": '
                "must be a standard resource type or fully qualified"
            ),
        ),
        (
            "{limits: {hugepages-2Mi: 3Mi, cpu: 1}}",
            (
                'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": '
                "3Mi is not positive integer multiple of hugepages-2Mi"
            ),
        ),
        (
            "{limits: {hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 2Mi, cpu: 1}}",
            'spec.containers[0].resources.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi',
        ),
        (
            "{limits: {hugepages-big: 4Mi, cpu: 1}}",
            (
                'spec.containers[0].resources.limits[hugepages-big]: Invalid value: "4Mi": '
                "4Mi is not positive integer multiple of hugepages-big"
            ),
        ),
        (
            "{limits: {requests.example.com/x: 1}}",
            (
                'spec.containers[0].resources.limits[requests.example.com/x]: Invalid value: "requests.example.com/x": '
                "doesn't follow extended resource name standard"
            ),
        ),
        (
            "{limits: {a/b/c: 1}}",
            (
                'spec.containers[0].resources.limits[a/b/c]: Invalid value: "a/b/c": '
                "must be a name such as nvidia.com/gpu"
            ),
        ),
        (
            "{limits: {hugepages-2Mi: 4Mi}}",
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
        ),
    ],
)
def test_what_the_api_server_refuses_is_refused_in_its_words(resources: str, message: str) -> None:
    text = pod_with(resources)
    assert message in errors(text)
    with pytest.raises(InputError) as caught:
        read(text.encode(), "f.yaml")
    assert caught.value.source == "f.yaml:7"


@pytest.mark.parametrize(
    "amounts",
    ["{cpu: abc}", "{cpu: true}", "{cpu: [1]}", "{cpu: 99999999999999999999}", "{memory: 1GB}", "{cpu: ''}"],
)
def test_an_amount_that_is_none_is_an_error_at_its_field(amounts: str) -> None:
    (message,) = errors(pod_with(f"{{limits: {amounts}}}"))
    assert message.startswith(
        f"spec.containers[0].resources.limits[{amounts[1 : amounts.index(':')]}]: Invalid value: "
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: {containers: [{image: i}]}", "spec.containers[0].name: Required value"),
        ("spec: {containers: [{name: a}, {name: a}]}", 'spec.containers[1].name: Duplicate value: "a"'),
        (
            "spec: {containers: [{name: a}], initContainers: [{name: a}]}",
            'spec.initContainers[0].name: Duplicate value: "a"',
        ),
        (
            "spec: {containers: [{name: 5}]}",
            "spec.containers[0].name: expected text, got a JSON number; put it in quotes",
        ),
        (
            "spec: {containers: {name: a}}",
            "spec.containers: expected a list of containers, got a JSON object",
        ),
        (
            "spec: {containers: [{name: a, resources: [x]}]}",
            "spec.containers[0].resources: expected a mapping, got a JSON array",
        ),
        (
            "spec: {containers: [{name: a, resources: {limits: 5}}]}",
            "spec.containers[0].resources.limits: expected a mapping of resources to quantities, got a JSON number",
        ),
    ],
)
def test_malformed_containers_are_errors(text: str, message: str) -> None:
    assert message in errors(f"kind: Pod\nmetadata: {{name: p}}\n{text}\n")


def test_a_name_that_yaml_reads_as_a_number_is_an_error() -> None:
    assert "metadata.name: expected text, got a JSON number; put it in quotes" in errors(
        "kind: Pod\nmetadata: {name: 2024}\nspec: {containers: [{name: a}]}"
    )
    text = (
        "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d}\nspec:\n  replicas: '3'\n  template:"
        + TEMPLATE
    )
    assert errors(text) == ["spec.replicas: expected a whole number of pods, 0 or more"]


def test_a_refused_workload_does_not_hide_the_others() -> None:
    manifest = scan(f"{pod_with('{limits: {cpu: -1}}')}\n---\n{pod_with('{}')}".encode(), "f")
    assert [w.document for w in manifest.workloads] == [1]
    assert {p.line for p in manifest.problems} == {7}


@pytest.mark.parametrize(
    ("container", "note"),
    [
        ("resource: {limits: {cpu: 1}}", "spec.containers[0].resource: is no field of Kubernetes"),
        ("limits: {cpu: 1}", "spec.containers[0].limits: is no field of Kubernetes"),
        ("resources: {limit: {cpu: 1}}", "spec.containers[0].resources.limit: is no field of Kubernetes"),
        ("resources: {cpu: 1}", "spec.containers[0].resources.cpu: is no field of Kubernetes"),
        (
            "resources: {requests: {memory: 100m}}",
            'spec.containers[0].resources.requests[memory]: fractional byte value "100m"',
        ),
        (
            "resources: {requests: {cpu: }}",
            "spec.containers[0].resources.requests[cpu]: has no value and counts as 0",
        ),
    ],
)
def test_what_kubernetes_would_silently_ignore_is_noted(container: str, note: str) -> None:
    (text,) = notes(f"kind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    {container}\n")
    assert text.startswith(note)


def test_fields_that_do_not_matter_here_are_ignored() -> None:
    text = pod_with("{claims: [{name: x}], limits: {cpu: 1}}", "  brandNewField: {a: [1]}\n")
    assert notes(text) == []
    assert only(text).pod.containers[0].limits == (("cpu", NANO),)


def test_every_amount_can_be_pointed_at() -> None:
    text = """kind: Deployment
apiVersion: apps/v1
metadata: {name: d}
spec:
  template:
    spec:
      containers:
      - name: c
        resources:
          limits:
            cpu: 4
            nvidia.com/gpu: 1
"""
    found = only(text)
    assert found.spec_path == "spec.template.spec"
    resources = f"{found.spec_path}.containers[0].resources"
    assert found.line_of(f"{resources}.limits[cpu]") == 11
    assert found.line_of(f"{resources}.limits[nvidia.com/gpu]") == 12
    assert found.line_of(f"{resources}.limits[absent]") == 0


def test_recorded_identity_is_kept_and_otherwise_made_up_the_same_way_each_time() -> None:
    text = "kind: Pod\nmetadata: {name: p, namespace: ns, uid: u-1}\nspec: {containers: [{name: c}]}\nstatus: {qosClass: Guaranteed}"
    pod = only(text).pod
    assert (pod.uid, pod.namespace, pod.qos) == ("u-1", "ns", "Guaranteed")
    bare = pod_with("{}")
    assert only(bare).pod.uid == only(bare).pod.uid != only(bare.replace("name: p", "name: q")).pod.uid
    assert only(bare).pod.namespace == "default"


def test_an_unknown_qos_class_is_noted_and_computed_instead() -> None:
    text = pod_with("{limits: {cpu: 1, memory: 1Mi}}", "status: {qosClass: Best}\n")
    assert notes(text) == ["status.qosClass: is no QoS class; it is computed instead"]
    assert qos_class(only(text).pod) == "Guaranteed"


def test_overhead_is_kept_and_checked() -> None:
    assert only(pod_with("{}", "  overhead: {cpu: 250m}\n")).pod.overhead == (("cpu", NANO // 4),)
    assert errors(pod_with("{}", "  overhead: {cpu: -1}\n")) == [
        'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]


def test_pod_level_requests_are_filled_up_from_containers_and_then_from_limits() -> None:
    pod = only(pod_with("{requests: {cpu: 1}}", "  resources: {limits: {cpu: 4, memory: 8Mi}}\n")).pod
    assert pod.pod_limits == (("cpu", 4 * NANO), ("memory", 8 * MI * NANO))
    assert pod.pod_requests == (("cpu", NANO), ("memory", 8 * MI * NANO))
    assert qos_class(pod) == "Burstable"


def test_pod_level_huge_pages_come_from_the_containers() -> None:
    pod = only(pod_with("{limits: {hugepages-2Mi: 4Mi, cpu: 1}}", "  resources: {limits: {cpu: 4}}\n")).pod
    assert dict(pod.pod_limits)["hugepages-2Mi"] == 4 * MI * NANO
    assert dict(pod.pod_requests)["hugepages-2Mi"] == 4 * MI * NANO


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            "{requests: {cpu: 1}, limits: {cpu: 8}}",
            (
                'spec.resources.requests[cpu]: Invalid value: "1": '
                "must be greater than or equal to aggregate container requests of 2"
            ),
        ),
        (
            "{limits: {cpu: 1}, requests: {cpu: 1}}",
            'spec.containers[0].resources.limits[cpu]: Invalid value: "2": must be less than or equal to pod limits of 1',
        ),
        (
            "{limits: {nvidia.com/gpu: 1}}",
            (
                'spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": '
                'supported values: "cpu", "hugepages-", "memory"'
            ),
        ),
    ],
)
def test_pod_level_resources_smaller_than_the_containers_are_refused(own: str, message: str) -> None:
    assert message in errors(pod_with("{limits: {cpu: 2}}", f"  resources: {own}\n"))


def test_a_pod_of_absurd_size_is_refused() -> None:
    many = ", ".join(f"{{name: c{n}}}" for n in range(251))
    assert errors(f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{many}]}}")[0].startswith(
        "spec.containers: Too many: 251"
    )
    names = ", ".join(f"x.io/r{n}: 1" for n in range(65))
    assert errors(pod_with(f"{{limits: {{{names}}}}}")) == [
        "spec: names 65 resources; no pod has more than 64"
    ]


def test_a_strangers_names_cannot_carry_terminal_commands() -> None:
    text = pod_with('{limits: {"\\e[31m/x": 1}}')
    assert all("\x1b" not in message for message in errors(text))
    assert errors(text)


def test_pod_level_huge_pages_must_cover_the_containers() -> None:
    text = pod_with(
        "{limits: {hugepages-2Mi: 4Mi, cpu: 1}}", "  resources: {limits: {hugepages-2Mi: 2Mi, cpu: 1}}\n"
    )
    assert (
        'spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi": '
        "must be greater than or equal to aggregate container limits of 4Mi"
    ) in errors(text)


def test_a_name_the_api_server_would_not_take_is_noted() -> None:
    text = "kind: Pod\nspec: {containers: [{name: My_App}]}"
    assert notes(text) == [
        "metadata.name: is missing; the API server asks for a name",
        "spec.containers[0].name: 'My_App' is not a name the API server takes",
    ]
    assert only(text).name == "unnamed"
