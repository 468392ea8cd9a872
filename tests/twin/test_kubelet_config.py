from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.twin import flags
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.kubelet_config import KubeletConfigFile, of_settings, read
from numaware.twin.kubelet_fields import KNOWN
from numaware.twin.settings import DEFAULT_EVICTION_HARD, Settings

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def loaded(text: str, version: str = "v1.35.0") -> KubeletConfigFile:
    return read(text.encode(), "f.yaml", version)


def machine_config(encoding: str, body: str) -> str:
    """OpenShift's way to write a file on a node: inside a URL."""
    source = f"data:text/plain;charset=utf-8{';' if encoding else ''}{encoding},{body}"
    file = {"path": "/etc/kubernetes/kubelet.conf", "contents": {"source": source}}
    return json.dumps({"kind": "MachineConfig", "spec": {"config": {"storage": {"files": [file]}}}})


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        loaded(text)
    return str(caught.value)


def told(file: KubeletConfigFile) -> list[str]:
    return [str(problem) for problem in file.problems]


def test_an_empty_configuration_is_the_kubelets_defaults() -> None:
    file = loaded(HEAD)
    assert file.config == KubeletConfig(eviction_hard=DEFAULT_EVICTION_HARD)
    assert dict(file.config.eviction_hard)["memory.available"] == "100Mi"
    assert file.problems == ()


def test_every_setting_of_the_managers_is_read() -> None:
    text = f"""{HEAD}cpuManagerPolicy: static
cpuManagerPolicyOptions: {{full-pcpus-only: "true", align-by-socket: "false"}}
cpuManagerReconcilePeriod: 5s
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {{max-allowable-numa-nodes: "16"}}
memoryManagerPolicy: Static
reservedMemory:
- limits: {{memory: 1Gi}}
- numaNode: 1
  limits: {{memory: 1073741824, hugepages-2Mi: 4Mi}}
reservedSystemCPUs: "0"
kubeReserved: {{memory: 1Gi}}
systemReserved: {{memory: 924Mi}}
evictionHard: {{memory.available: "5%"}}
featureGates: {{CPUManagerPolicyAlphaOptions: true}}
"""
    file = loaded(text, "v1.34.2")
    assert file.config == KubeletConfig(
        version="v1.34.2",
        topology_policy="restricted",
        topology_scope="pod",
        topology_options=(("max-allowable-numa-nodes", "16"),),
        cpu_policy="static",
        cpu_options=(("align-by-socket", "false"), ("full-pcpus-only", "true")),
        memory_policy="Static",
        kube_reserved=(("memory", Quantity.parse("1Gi")),),
        system_reserved=(("memory", Quantity.parse("924Mi")),),
        eviction_hard=(("memory.available", "5%"),),
        reserved_cpus="0",
        reserved_memory=(
            MemoryReservation(0, (("memory", Quantity.parse("1Gi")),)),
            MemoryReservation(
                1, (("hugepages-2Mi", Quantity.parse("4Mi")), ("memory", Quantity.parse("1073741824")))
            ),
        ),
        feature_gates=(("CPUManagerPolicyAlphaOptions", True),),
    )
    assert file.problems == ()


def test_eviction_defaults_count_only_when_nothing_is_set_or_they_are_merged() -> None:
    assert loaded(f"{HEAD}evictionHard: {{}}").config.eviction_hard == ()
    assert loaded(f"{HEAD}evictionHard: {{nodefs.available: 1%}}").config.eviction_hard == (
        ("nodefs.available", "1%"),
    )
    merged = loaded(
        f"{HEAD}evictionHard: {{nodefs.available: 1%}}\nmergeDefaultEvictionSettings: true"
    ).config
    assert dict(merged.eviction_hard) == {**dict(DEFAULT_EVICTION_HARD), "nodefs.available": "1%"}


@pytest.mark.parametrize(
    "wrapped",
    [
        f"{HEAD}cpuManagerPolicy: static\n",
        "cpuManagerPolicy: static\n",
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1alpha1\ncpuManagerPolicy: static\n",
        json.dumps({"kubeletconfig": {"cpuManagerPolicy": "static", "port": 10250}}),
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nspec: {kubeletConfig: {cpuManagerPolicy: static}}",
        "kind: Cluster\nkubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  cpuManagerPolicy: static\n",
        (
            "kind: Cluster\nnodes:\n- role: worker\n  kubeadmConfigPatches:\n  - |\n    kind: JoinConfiguration\n"
            "    nodeRegistration:\n      kubeletExtraArgs:\n        cpu-manager-policy: static\n"
        ),
        "kind: InitConfiguration\nnodeRegistration:\n  kubeletExtraArgs:\n  - {name: cpu-manager-policy, value: static}\n",
        (
            "kind: ConfigMap\nmetadata: {name: kubelet-config}\ndata:\n  other: text\n  kubelet: |\n"
            "    apiVersion: kubelet.config.k8s.io/v1beta1\n    kind: KubeletConfiguration\n    cpuManagerPolicy: static\n"
        ),
        f"kind: ClusterConfiguration\n---\n{HEAD}cpuManagerPolicy: static\n",
        "kind: ClusterConfig\nnodeGroups:\n- name: a\n  kubeletExtraConfig: {cpuManagerPolicy: static}\n",
        "kubeletConfig: {cpuManagerPolicy: static}\nlinuxConfig: {}\n",
        "version: v1alpha1\nmachine:\n  kubelet:\n    extraConfig: {cpuManagerPolicy: static}\n",
        "apiServer: {}\nkubelet:\n  cpuManagerPolicy: static\n  reservedSystemCPUs: '0'\n",
        "apiVersion: v1alpha1\nkind: KubeletConfig\nconfig: {cpuManagerPolicy: static}\n",
        "token: x\nkubelet-arg:\n- cpu-manager-policy=static\n",
        machine_config("base64", base64.b64encode(f"{HEAD}cpuManagerPolicy: static".encode()).decode()),
        machine_config("", quote(f"{HEAD}cpuManagerPolicy: static")),
    ],
)
def test_a_configuration_is_found_in_any_wrapper(wrapped: str) -> None:
    file = loaded(wrapped)
    assert file.config.cpu_policy == "static"
    assert not file.refused


def test_a_performance_profile_is_taken_as_its_operator_renders_it() -> None:
    profile = "apiVersion: performance.openshift.io/v2\nkind: PerformanceProfile\nspec:\n  cpu: {reserved: 0-3, isolated: 4-31}\n"
    plain = loaded(profile).config
    assert (plain.topology_policy, plain.cpu_policy, plain.memory_policy) == ("best-effort", "static", "None")
    assert plain.reserved_cpus == "0-3"
    strict = loaded(f"{profile}  numa: {{topologyPolicy: single-numa-node}}\n").config
    assert (strict.topology_policy, strict.memory_policy) == ("single-numa-node", "Static")
    assert strict.cpu_options == (("full-pcpus-only", "true"),)
    reservations = dict(strict.kube_reserved)["memory"] + dict(strict.system_reserved)["memory"]
    eviction = Quantity.parse(dict(strict.eviction_hard)["memory.available"])
    assert (reservations + eviction).nano == sum(
        dict(r.limits)["memory"].nano for r in strict.reserved_memory
    )
    assert "spec.cpu.reserved is missing" in refusal("kind: PerformanceProfile\nspec: {}\n")


def test_several_configurations_change_each_other_key_by_key() -> None:
    text = f"{HEAD}cpuManagerPolicy: static\nkubeReserved: {{cpu: '1', memory: 1Gi}}\n---\n{HEAD}kubeReserved: {{cpu: '2'}}\n"
    file = loaded(text)
    assert file.config.cpu_policy == "static"
    assert dict(file.config.kube_reserved) == {"cpu": Quantity.parse("2"), "memory": Quantity.parse("1Gi")}
    assert "several kubelet configurations in one file: later ones change earlier ones" in told(file)


def test_flags_win_over_the_file_and_replace_whole_maps_but_join_gates() -> None:
    text = f"{HEAD}cpuManagerPolicy: none\nkubeReserved: {{cpu: '1', memory: 1Gi}}\nfeatureGates: {{AllAlpha: true, AllBeta: true}}"
    over = flags.read("--cpu-manager-policy=static --kube-reserved=cpu=500m --feature-gates=AllBeta=false")
    config = read(text.encode(), "f", flags=over).config
    assert config.cpu_policy == "static"
    assert config.kube_reserved == (("cpu", Quantity.parse("500m")),)
    assert config.feature_gates == (("AllAlpha", True), ("AllBeta", False))


def test_flags_alone_make_a_configuration() -> None:
    file = of_settings(Settings(cpu_policy="static", reserved_cpus="0"), "v1.27.0")
    assert (file.config.version, file.config.cpu_policy, file.config.reserved_cpus) == (
        "v1.27.0",
        "static",
        "0",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: true}",
            (
                "f.yaml:1: json: cannot unmarshal bool into Go struct field "
                "KubeletConfiguration.cpuManagerPolicyOptions of type string (put the value in quotes)"
            ),
        ),
        (
            "kubeReserved:\n  cpu: 1\n",
            (
                "f.yaml:2: json: cannot unmarshal number into Go struct field "
                "KubeletConfiguration.kubeReserved of type string (put the value in quotes)"
            ),
        ),
        (
            "reservedSystemCPUs: 0",
            (
                "f.yaml:1: json: cannot unmarshal number into Go struct field "
                "KubeletConfiguration.reservedSystemCPUs of type string (put the value in quotes)"
            ),
        ),
        (
            "featureGates: {A: 'true'}",
            "f.yaml:1: json: cannot unmarshal string into Go struct field KubeletConfiguration.featureGates of type bool",
        ),
        (
            "reservedMemory: {numaNode: 0}",
            (
                "f.yaml:1: json: cannot unmarshal object into Go struct field "
                "KubeletConfiguration.reservedMemory of type []v1beta1.MemoryReservation"
            ),
        ),
        (
            "reservedMemory: [{numaNode: '0'}]",
            (
                "f.yaml:1: json: cannot unmarshal string into Go struct field "
                "KubeletConfiguration.reservedMemory.numaNode of type int32"
            ),
        ),
        (
            "evictionHard: [memory]",
            (
                "f.yaml:1: json: cannot unmarshal array into Go struct field "
                "KubeletConfiguration.evictionHard of type map[string]string"
            ),
        ),
        ("cpuManagerReconcilePeriod: '5'", 'f.yaml:1: cpuManagerReconcilePeriod: time: invalid duration "5"'),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_as_the_kubelets_decoder_does(text: str, message: str) -> None:
    assert refusal(text) == message


def test_a_reserved_amount_that_is_none_is_refused_with_its_line() -> None:
    assert refusal("reservedMemory:\n- limits:\n    memory: lots\n").startswith(
        "f.yaml:3: reservedMemory: 'lots' is not"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just text",
        "kubelet:\n  topologyManagerPolicy: restricted\n",
        "kind: Pod\nspec: {}\n",
        "kind: ConfigMap\ndata: {a: b}",
    ],
)
def test_a_file_without_a_configuration_is_refused(text: str) -> None:
    assert "holds no kubelet configuration" in refusal(text)


def test_unknown_fields_are_noted_with_the_likely_name() -> None:
    file = loaded(f"{HEAD}cpumanagerPolicy: static\nzzz: 1\n")
    assert file.config.cpu_policy == "none"
    assert told(file) == [
        (
            'cpumanagerPolicy: unknown field "cpumanagerPolicy": the kubelet logs a warning and ignores it; '
            "did you mean cpuManagerPolicy?"
        ),
        'zzz: unknown field "zzz": the kubelet logs a warning and ignores it',
    ]
    assert not file.refused


def test_a_file_full_of_unknown_fields_is_not_listed_in_full() -> None:
    file = loaded(HEAD + "".join(f"nothing{number}: 1\n" for number in range(60)))
    assert len(file.problems) == 51
    assert told(file)[-1] == "and 10 more unknown fields"


def test_fields_younger_than_the_kubelet_are_ignored_with_a_note() -> None:
    file = loaded(f"{HEAD}memoryManagerPolicy: Static\n", "v1.20.4")
    assert file.config.memory_policy == "None"
    assert told(file) == [
        "memoryManagerPolicy: is ignored: a kubelet of v1.20 does not know it (v1.21 brought it)"
    ]


def test_what_the_kubelet_refuses_is_among_the_problems() -> None:
    file = loaded(f"{HEAD}topologyManagerPolicy: strict\nkubeReserved: {{cpu: lots, memory: 1Gi}}\n")
    assert file.refused
    assert [problem.path for problem in file.problems] == ["topologyManagerPolicy", "kubeReserved"]
    assert file.config.kube_reserved == (("memory", Quantity.parse("1Gi")),)


def test_settings_without_effect_are_noted() -> None:
    text = f"""{HEAD}reservedMemory: [{{numaNode: 0, limits: {{memory: 1Gi}}}}]
topologyManagerPolicyOptions: {{prefer-closest-numa-nodes: "true"}}
reservedSystemCPUs: "0"
systemReserved: {{cpu: "4"}}
"""
    assert told(loaded(text)) == [
        "reservedMemory: has no effect with memoryManagerPolicy None",
        "topologyManagerPolicyOptions: are not even looked at with topologyManagerPolicy none",
        "systemReserved.cpu: is replaced by the number of CPUs in reservedSystemCPUs",
    ]


@pytest.mark.parametrize("version", ["", "1", "v2.0.0", "v1.3.0", "latest"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(InputError, match="is not a kubelet version"):
        loaded(HEAD, version)


def test_an_error_in_an_embedded_text_says_where_the_text_is() -> None:
    text = (
        "kind: Cluster\nkubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  kubeReserved: {cpu: 1}\n"
    )
    assert refusal(text).startswith("f.yaml (text at line 3):2: json: cannot unmarshal number")


def test_the_fields_the_managers_read_are_fields_of_the_kubelet() -> None:
    assert {"cpuManagerPolicy", "reservedMemory", "evictionHard", "topologyManagerPolicyOptions"} <= KNOWN
    assert len(KNOWN) > 100


@pytest.mark.parametrize(
    ("text", "laid_over"),
    [
        (f"{HEAD}cpuManagerPolicy: static\n", False),
        ("cpuManagerPolicy: static\n", False),
        ("kind: KubeletConfig\nspec: {kubeletConfig: {cpuManagerPolicy: static}}", True),
        ("kubelet-arg: [cpu-manager-policy=static]", True),
    ],
)
def test_a_piece_that_is_laid_over_another_configuration_is_known_to_be_one(
    text: str, laid_over: bool
) -> None:
    assert loaded(text).laid_over == laid_over


def test_kind_evicts_nothing_for_want_of_memory_unless_a_patch_says_so() -> None:
    patch = "kind: Cluster\nkubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  cpuManagerPolicy: static\n"
    assert "memory.available" not in dict(loaded(patch).config.eviction_hard)
    more = f"{patch}  evictionHard: {{memory.available: 1Gi}}\n"
    assert dict(loaded(more).config.eviction_hard)["memory.available"] == "1Gi"


def test_a_file_of_a_machine_config_that_cannot_be_unpacked_is_passed_over() -> None:
    broken = machine_config("base64", "!").replace('"contents": {', '"contents": {"compression": "gzip", ')
    assert "holds no kubelet configuration" in refusal(broken)
