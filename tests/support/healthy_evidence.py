"""Evidence of clusters on which all is well, of kubelets of several releases: fifty files in which nothing may be found."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from numaware.machine.cpuset import CpuSet
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state import memory as memory_file
from numaware.twin.state.alloc_response import one_variable
from numaware.twin.topology.hints import Hint, Hints
from numaware.twin.topology.merge import merge, narrower
from support.kubelet_logs import ERAS, WRAPPERS, Story, header, noisy, written


def samples(seed: int = 7) -> Iterator[tuple[str, str]]:
    """Fifty files by name."""
    dice = random.Random(seed)  # noqa: S311 - made-up logs need no secrets
    for number in range(20):
        yield f"kubelet-{number}.log", _log(dice, number)
    for number in range(10):
        yield f"config-{number}.yaml", _config(dice, number)
    for number in range(6):
        yield f"state-{number}", _cpu_state(dice)
    for number in range(4):
        yield f"state-{6 + number}", _other_state(number)
    for number in range(6):
        yield f"pod-{number}.yaml", _pod(dice, number)
    for number in range(4):
        yield f"events-{number}.json", _events(number)


def _log(dice: random.Random, number: int) -> str:
    """A kubelet that starts and admits pods that are aligned, want nothing, or are pinned without a policy."""
    era = ERAS[number % len(ERAS)]
    wrap = list(WRAPPERS.values())[number % len(WRAPPERS)]
    lines: list[str] = []
    if not era.as_json:
        lines += _start(era.name)
    for at in range(dice.randint(3, 12)):
        lines += written(era, _story(dice, at))
    if not era.as_json:
        lines += _everyday()
    return noisy(lines, wrap)


def _start(era: str) -> list[str]:
    told: tuple[tuple[str, str], ...]
    if era == "1.20":
        told = (
            (
                "topology_manager.go:120",
                "[topologymanager] Creating topology manager with restricted policy per container scope",
            ),
            (
                "policy_static.go:110",
                '[cpumanager] reserved 2 CPUs ("0-1") not available for exclusive assignment',
            ),
            ("cpu_manager.go:193", "[cpumanager] starting with static policy"),
            ("state_mem.go:36", "[cpumanager] initializing new in-memory state store"),
            ("state_mem.go:88", '[cpumanager] updated default cpuset: "0-63"'),
        )
    else:
        told = (
            ("server.go:416", '"Kubelet version" kubeletVersion="v1.27.3"'),
            ("flags.go:64", 'FLAG: --topology-manager-policy="none"'),
            (
                "topology_manager.go:136",
                (
                    '"Creating topology manager with policy per scope" topologyPolicyName="restricted" '
                    'topologyScopeName="container"'
                ),
            ),
            (
                "policy_static.go:174",
                '"Reserved CPUs not available for exclusive assignment" reservedSize=2 reserved="0-1"',
            ),
            ("cpu_manager.go:214", '"Starting CPU manager" policy="static"'),
            ("memory_manager.go:169", '"Starting memorymanager" policy="Static"'),
            ("state_mem.go:88", '"Updated default CPUSet" cpuSet="0-63"'),
        )
    return [header("I", 0, source) + text for source, text in told]


def _everyday() -> list[str]:
    """Errors and warnings that every node has, and that have nothing to do with NUMA nodes."""
    told = (
        (
            "E",
            "cpu_manager.go:384",
            '"RemoveStaleState: removing container" podUID="5e71a8a1" containerName="app"',
        ),
        (
            "E",
            "remote_runtime.go:269",
            '"StopPodSandbox from runtime service failed" err="rpc error: code = Unknown"',
        ),
        (
            "E",
            "kubelet.go:2389",
            '"Container runtime network not ready" networkReady="cni plugin not initialized"',
        ),
        (
            "W",
            "watcher.go:93",
            'Error while processing event ("/sys/fs/cgroup/devices"): no such file or directory',
        ),
        (
            "E",
            "pod_workers.go:1294",
            '"Error syncing pod, skipping" err="failed to StartContainer: CrashLoopBackOff"',
        ),
        (
            "I",
            "event.go:307",
            '"Event occurred" object="shop/web-0" kind="Pod" type="Warning" reason="Unhealthy" message="x"',
        ),
        ("I", "kubelet.go:2389", '"SyncLoop ADD" source="api" pods=["a/b-0","a/b-1"]'),
        (
            "E",
            "client.go:88",
            '"ListAndWatch ended unexpectedly for device plugin" err="EOF" resource="nvidia.com/gpu"',
        ),
        (
            "I",
            "server.go:144",
            '"Got registration request from device plugin with resource" resourceName="nvidia.com/gpu"',
        ),
    )
    return [header(level, 1, source) + text for level, source, text in told]


def _story(dice: random.Random, at: int) -> Story:
    nodes = dice.choice((1, 2, 4))
    full = (1 << nodes) - 1
    story = Story(name=f"app{at}-{dice.randint(0, 9)}", uid=f"uid-{at}", second=at)
    if dice.random() < 0.3:
        story.merged, story.admitted = Hint(full, preferred=True), True
        return story
    home = dice.randrange(nodes)
    hints = [Hint(1 << node, preferred=True) for node in range(nodes) if node == home or dice.random() < 0.6]
    if nodes > 1:
        hints.append(Hint(full, preferred=False))
    names = dice.sample(("cpu", "memory", "nvidia.com/gpu"), dice.randint(1, 3))
    story.hints = dict.fromkeys(names, hints)
    lists = [
        Hints([one.mask or 0 for one in hints], [one.mask or 0 for one in hints if one.preferred])
    ] * len(names)
    story.merged, story.admitted = merge(lists, full, narrower), True
    if "cpu" in names:
        story.wanted, story.given = 2, f"{2 + 2 * at}-{3 + 2 * at}"
    return story


def _config(dice: random.Random, number: int) -> str:
    kube, system = dice.randint(1, 8) * 512, dice.randint(1, 4) * 256
    nodes = dice.choice((1, 2, 4))
    total = kube + system + 100
    share = total // nodes
    lines = [
        "apiVersion: kubelet.config.k8s.io/v1beta1",
        "kind: KubeletConfiguration",
        f"kubeReserved: {{cpu: {dice.randint(1, 4)}000m, memory: {kube}Mi}}",
        f"systemReserved: {{memory: {system}Mi}}",
        "evictionHard: {memory.available: 100Mi}",
        "cpuManagerPolicy: static",
        f"topologyManagerPolicy: {dice.choice(('best-effort', 'restricted', 'single-numa-node'))}",
        f"topologyManagerScope: {dice.choice(('container', 'pod'))}",
    ]
    if number % 2:
        lines += ["memoryManagerPolicy: Static", "reservedMemory:"]
        for node in range(nodes):
            amount = share + (total - share * nodes if node == 0 else 0)
            lines += [f"- numaNode: {node}", f"  limits: {{memory: {amount}Mi}}"]
    return "\n".join(lines) + "\n"


def _cpu_state(dice: random.Random) -> str:
    owned: dict[str, dict[str, str]] = {}
    free = set(range(64))
    for pod in range(dice.randint(0, 5)):
        cpus = set(dice.sample(sorted(free - {0, 1}), 4))
        free -= cpus
        owned[f"uid-{pod}"] = {"app": str(CpuSet(cpus))}
    return cpu_file.encode("static", str(CpuSet(free)), owned)


def _other_state(number: int) -> str:
    if number == 0:
        return cpu_file.encode("none", "", {})
    if number == 1:
        return memory_file.encode("None", {}, {})
    if number == 2:
        table = memory_file.MemoryTable(1 << 35, 1 << 30, (1 << 35) - (1 << 30), 0, (1 << 35) - (1 << 30))
        return memory_file.encode("Static", {0: memory_file.NodeEntry(0, {"memory": table}, (0,))}, {})
    entry = device_file.DeviceEntry("uid", "app", "nvidia.com/gpu", {0: ["a"]}, one_variable({"a"}))
    return device_file.encode([entry], {"nvidia.com/gpu": ["a", "b"]})


def _pod(dice: random.Random, number: int) -> str:
    amounts = f"{{cpu: {dice.randint(1, 32)}, memory: {dice.randint(1, 64)}Gi}}"
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: app-{number}, namespace: shop}}\nspec:\n  containers:\n"
        f"  - name: app\n    image: app\n    resources:\n      requests: {amounts}\n      limits: {amounts}\n"
    )


def _events(number: int) -> str:
    told = (
        ("Normal", "Scheduled", "Successfully assigned shop/web-0 to n1"),
        ("Normal", "Pulled", "Container image already present on machine"),
        ("Warning", "BackOff", "Back-off restarting failed container"),
        (
            "Warning",
            "FailedScheduling",
            "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.",
        ),
        ("Warning", "Unhealthy", "Readiness probe failed"),
    )
    items = [
        {
            "kind": "Event",
            "type": kind,
            "reason": reason,
            "message": message,
            "involvedObject": {"kind": "Pod", "name": f"web-{number}", "namespace": "shop", "uid": "u"},
        }
        for kind, reason, message in told
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)
