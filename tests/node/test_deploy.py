"""What is shipped to run the agent fits together: account, labels, ports, annotations, mounts."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from numaware.cli.agent import agent
from numaware.cli.device_plugin import device_plugin
from numaware.kube.kubelet_policies import Order, Phase
from numaware.kube.pods import KAI_OBSERVED
from numaware.node.device_plugin.config import read
from numaware.schedule.ledger import OBSERVED
from numaware.twin.kubelet_fields import KIND_OF

DEPLOY = Path(__file__).parents[2] / "deploy"


def shipped(path: str, kind: str) -> Any:
    documents = yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8"))
    return next(document for document in documents if document["kind"] == kind)


def pod() -> Any:
    return shipped("agent/daemonset.yaml", "DaemonSet")["spec"]["template"]


def test_the_policy_is_for_the_account_that_the_agents_have_and_for_all_that_it_may_write() -> None:
    account = shipped("rbac/agent.yaml", "ServiceAccount")["metadata"]
    policy = shipped("rbac/agent-own-node.yaml", "ValidatingAdmissionPolicy")
    assert pod()["spec"]["serviceAccountName"] == account["name"]
    (condition,) = policy["spec"]["matchConditions"]
    assert f'"system:serviceaccount:{account["namespace"]}:{account["name"]}"' in condition["expression"]
    matched = policy["spec"]["matchConstraints"]["resourceRules"]
    for rule in shipped("rbac/agent.yaml", "ClusterRole")["rules"]:
        if {"create", "patch"} & set(rule["verbs"]):
            assert any(
                set(rule["apiGroups"]) <= set(one["apiGroups"])
                and (set(rule["resources"]) <= set(one["resources"]) or one["resources"] == ["*"])
                for one in matched
            )
    binding = shipped("rbac/agent-own-node.yaml", "ValidatingAdmissionPolicyBinding")["spec"]
    assert binding == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_the_policy_allows_the_annotations_that_the_agent_writes() -> None:
    variables = shipped("rbac/agent-own-node.yaml", "ValidatingAdmissionPolicy")["spec"]["variables"]
    ours = next(variable["expression"] for variable in variables if variable["name"] == "ours")
    assert yaml.safe_load(ours) == [OBSERVED, KAI_OBSERVED]


def test_the_network_policy_is_for_the_agents_pods_and_their_port() -> None:
    policy = shipped("agent/networkpolicy.yaml", "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    (container,) = pod()["spec"]["containers"]
    (ingress,) = policy["ingress"]
    assert [port["port"] for port in ingress["ports"]] == [port["name"] for port in container["ports"]]
    assert ingress["from"]


def test_what_is_secret_in_the_kubelets_folder_is_covered() -> None:
    (container,) = pod()["spec"]["containers"]
    mounts = [(mount["mountPath"], mount["name"]) for mount in container["volumeMounts"]]
    volumes = {volume["name"]: volume for volume in pod()["spec"]["volumes"]}
    whole = mounts.index(("/host/var/lib/kubelet", "kubelet"))
    covered = {path.rpartition("/")[2] for path, name in mounts[whole:] if "emptyDir" in volumes[name]}
    assert covered == {"pods", "plugins", "plugins_registry", "pki"}
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


def test_the_device_plugin_has_no_rights_and_its_configuration_is_one_that_it_takes() -> None:
    pod = shipped("device-plugin/daemonset.yaml", "DaemonSet")["spec"]["template"]["spec"]
    assert "serviceAccountName" not in pod
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/kubelet/device-plugins"]
    (port,) = container["ports"]
    assert inspect.signature(device_plugin).parameters["listen"].default == f":{port['containerPort']}"
    data = shipped("device-plugin/daemonset.yaml", "ConfigMap")["data"]
    (name,) = data
    assert f"--config=/etc/numaware/{name}" in container["args"]
    assert read(data[name].encode(), name).flags.plugin.pass_device_specs


def patched(file: str) -> tuple[Any, Any]:
    """The pod and the container as a patch for the agents changes them; it fits them."""
    patch = yaml.safe_load((DEPLOY / "agent" / file).read_text(encoding="utf-8"))["spec"]["template"]["spec"]
    (changed,) = patch["containers"]
    (container,) = pod()["spec"]["containers"]
    assert changed["name"] == container["name"]
    assert set(container["args"]) <= set(changed["args"])
    assert {mount["name"] for mount in changed["volumeMounts"]} == {one["name"] for one in patch["volumes"]}
    return patch, changed


def test_the_patch_that_allows_kubelet_changes_is_for_the_agents_and_makes_them_what_they_need() -> None:
    _, changed = patched("kubelet-changes.yaml")
    assert "--allow-kubelet-changes" in changed["args"]


@pytest.mark.parametrize(
    ("file", "mode", "needed"),
    [("affinity.yaml", "nri", "/var/run/nri"), ("affinity-cgroup.yaml", "cgroup", "/host/sys/fs/cgroup")],
)
def test_the_patches_that_let_agents_move_pods_give_them_what_that_needs(
    file: str, mode: str, needed: str
) -> None:
    patch, changed = patched(file)
    assert f"--affinity={mode}" in changed["args"]
    assert patch["hostPID"]
    security = changed["securityContext"]
    assert {"SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_NICE"} == set(security["capabilities"]["add"])
    # The API server refuses it otherwise.
    assert security["allowPrivilegeEscalation"]
    options = inspect.signature(agent).parameters
    writable = {mount["mountPath"] for mount in changed["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {needed, str(options["affinity_folder"].default)}
    assert options["nri_socket"].default.startswith("/var/run/nri/")


def test_the_schema_of_kubelet_policies_has_only_settings_that_can_be_set() -> None:
    definition = shipped("crd/kubeletpolicies.yaml", "CustomResourceDefinition")
    (version,) = definition["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(fields["kubelet"]["properties"]) <= set(KIND_OF)
    assert fields["whereMissing"]["properties"] == fields["kubelet"]["properties"]
    assert fields["order"]["enum"] == list(get_args(Order))
    assert version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["nodes"][
        "additionalProperties"
    ]["properties"]["phase"]["enum"] == list(get_args(Phase))
