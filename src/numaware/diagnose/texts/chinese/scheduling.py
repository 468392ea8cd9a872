"""Why pods have no node, in Chinese.

Reasons are counted over nodes in the words of kube-scheduler, which are the same in events, statuses and logs of every
scheduler: those words are their code, and here each of them has its Chinese. What is not in the table is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from numaware.diagnose.texts.chinese.explain import between, named
from numaware.diagnose.texts.template import Specs

Telling = Callable[[re.Match[str]], str]

_UNKNOWN = {
    "which CPUs share a core": "哪些 CPU 同属一个物理核",
    "groups of the Memory Manager": "内存管理器的节点分组",
    "shares of GPUs": "GPU 的份额",
    "how CPUs and devices are cut between NUMA nodes": "CPU 和设备在 NUMA 节点之间如何划分",
    "what has changed since the last report": "上次上报之后的变化",
    "devices that are not healthy": "不健康的设备",
}
_UNKNOWN_NAMED = (
    (re.compile(r"NUMA nodes of (\S+)"), "{} 在哪些 NUMA 节点上"),
    (re.compile(r"devices of (\S+) on several NUMA nodes"), "跨多个 NUMA 节点的 {} 设备"),
)


def _unknown(match: re.Match[str]) -> str:
    told = []
    for one in match[1].split(", "):
        shown = _UNKNOWN.get(one, one)
        for pattern, template in _UNKNOWN_NAMED:
            if found := pattern.fullmatch(one):
                shown = template.format(found[1])
        told.append(shown)
    return f"结果取决于未知的信息（{'、'.join(told)}）"


def _claims(match: re.Match[str]) -> str:
    waits = []
    if match[1]:
        waits.append(f"{match[1]} 个存储卷申领（{match[2]}）绑定")
    if match[3]:
        waits.append(f"{match[3]} 个资源申领（DRA：{match[4]}）分配")
    return f"无法判断：Pod 还在等待 {'、'.join(waits)}，而它们也决定节点"


def _fixed(text: str) -> Telling:
    return lambda match: text.format(*match.groups())


_REASONS: tuple[tuple[re.Pattern[str], Telling], ...] = tuple(
    (re.compile(pattern), tell if callable(tell) else _fixed(tell))
    for pattern, tell in (
        (r"Insufficient GPU share", "GPU 份额不足"),
        (r"Insufficient (\S+)", lambda match: f"{between(named(match[1])).lstrip()}不足"),
        (r"Too many pods", "Pod 数已达上限"),
        (r"node\(s\) could not align the pod on NUMA nodes \((\S+)\)", "按 {} 无法把 Pod 对齐到 NUMA 节点"),
        (r"node\(s\) could not align the pod", "无法对齐这个 Pod"),
        (r"node\(s\) could not give whole cores \(SMTAlignmentError\)", "给不出整核（SMTAlignmentError）"),
        (
            r"node\(s\) had too little memory on any usable set of NUMA nodes",
            "任何可用的 NUMA 节点组合都内存不足",
        ),
        (r"node\(s\) had too few exclusive CPUs", "可独占的 CPU 不足"),
        (r"node\(s\) had too few devices", "设备不足"),
        (r"node\(s\) have pods of which nobody knows what they hold", "有 Pod 占用了什么不得而知"),
        (r"node\(s\) that nothing is known of", "没有任何上报"),
        (r"node\(s\) where the outcome depends on what is not known \((.*)\)", _unknown),
        (
            r"node\(s\) refused this template before and have not changed since",
            "曾拒绝同一模板的 Pod，此后没有变化",
        ),
        (r"the kubelet would crash: (.*)", "kubelet 会崩溃：{}"),
        (r"the kubelet would not start with this policy", "kubelet 用这个策略无法启动"),
        (
            r"node\(s\) not judged: the pod's rules select namespaces by labels that could not be read yet",
            "无法判断：Pod 的规则按标签选择命名空间，而这些标签尚未读到",
        ),
        (r"node\(s\) were unschedulable", "已禁止调度"),
        (r"node\(s\) didn't match the requested node name", "与指定的节点名不符"),
        (r"node\(s\) didn't match Pod's node affinity/selector", "不符合 Pod 的节点亲和性或选择器"),
        (r"node\(s\) had untolerated taint (\{.*\})", "有 Pod 不容忍的污点 {}"),
        (r"node\(s\) didn't match pod topology spread constraints", "不符合 Pod 拓扑分布约束"),
        (
            r"node\(s\) didn't match pod topology spread constraints \(missing required label\)",
            "不符合 Pod 拓扑分布约束（缺少所需的标签）",
        ),
        (r"node\(s\) didn't match pod affinity rules", "不符合 Pod 亲和性规则"),
        (r"node\(s\) didn't match pod anti-affinity rules", "不符合 Pod 反亲和性规则"),
        (r"node\(s\) didn't satisfy existing pods anti-affinity rules", "不满足已有 Pod 的反亲和性规则"),
        (r"node\(s\) didn't have free ports for the requested pod ports", "所需的主机端口已被占用"),
        (r"Scheduling is blocked due to non-empty scheduling gates", "调度门控未清空，暂不调度"),
        (
            (
                r"cannot be judged: the pod waits for (?:(\d+) volume claims? \((.*?)\) to be bound)?(?: and )?"
                r"(?:(\d+) resource claims? \((.*?)\) \(DRA\) to be allocated)?, and those decide about the node too"
            ),
            _claims,
        ),
        (r"numa info is empty", "没有 NUMA 信息"),
        (r"cpu manager policy isn't static", "CPU 管理器策略不是 static"),
        (
            r"task topology policy\[(.*)\] is different with node\[(.*)\]",
            "任务的拓扑策略 {} 与节点的 {} 不同",
        ),
    )
)
# The head, the reasons, and what numaware and kube-scheduler add to them.
_SUMMARY = re.compile(
    r"(\d+)/(\d+) nodes are available:?(?: (.*?))?\.?(?: nearest miss: (.*)\.)?(?: preemption: .*)?",
    re.DOTALL,
)
# Where one counted reason ends and the next begins.
_NEXT = re.compile(r", (?=\d+ )")
_SHORT = re.compile(r"node (\S+) is (.*) short on (NUMA [\d+]+)")
_AMOUNT = re.compile(r"(?P<size>[\d.]+ \w+) of (?P<kind>\S+)|(?P<number>\d+) (?P<what>\S+)")


def reason(text: str) -> str:
    """One reason; as it is, if nobody knows it."""
    return _known(text) or text


def _known(text: str) -> str:
    for pattern, tell in _REASONS:
        if match := pattern.fullmatch(text):
            return tell(match)
    return ""


def summary(message: str) -> str:
    """What a scheduler says of a pod that waits, `0/3 nodes are available: …`; empty if a part of it is not known."""
    match = _SUMMARY.fullmatch(message)
    if match is None:
        return _known(message)
    fitting, nodes, told, miss = match.groups()
    why = _known(told) if told else ""
    if told and not why:
        parts = [part.partition(" ") for part in _NEXT.split(told)]
        counted = [(int(number), _known(words)) for number, _, words in parts if number.isdigit()]
        if len(counted) < len(parts) or not all(said for _, said in counted):
            return ""
        why = _counted(counted)
    near = _SHORT.fullmatch(miss) if miss else None
    if miss and near is None:
        return ""
    head = f"{nodes} 个节点中 {fitting} 个可用" if int(fitting) else f"{nodes} 个节点都不可用"
    if fitting == nodes and int(nodes):
        head = f"{nodes} 个节点都可用"
    return f"{head}{f'：{why}' if why else ''}。{_nearest(near) if near else ''}"


def _nearest(match: re.Match[str]) -> str:
    amounts = [_AMOUNT.fullmatch(part) for part in match[2].split(" and ")]
    told = "、".join(
        f"{one['size']} {named(one['kind'])}"
        if one["size"]
        else f"{one['number']} 个 {'CPU' if one['what'] in ('CPU', 'CPUs') else one['what']}"
        for one in amounts
        if one
    )
    return f"最接近的是节点 {match[1]}：在 {match[3]} 上还差 {told}。"


def _counted(reasons: Sequence[tuple[int, str]]) -> str:
    ordered = sorted(reasons, key=lambda one: -one[0])
    return "，".join(f"{number} 个{between(told).rstrip()}" for number, told in ordered)


def _reasons(reasons: str | Sequence[tuple[int, str]]) -> str:
    if isinstance(reasons, str):
        return reason(reasons)
    return _counted([(number, reason(text)) for number, text in reasons])


LABELS: Mapping[str, str] = {
    "unavailable": "{nodes} 个节点都不可用[[：{reasons:reasons}]]。[[最接近的是{nearest}。]]",
    "nearest-short": "节点 {node}：在 {nodes:set} 上还差 {missing:amounts}",
    "nearest-cause": "节点 {node}：{cause:clause}",
    "reason": "{text:reason}",
    "said": "{text:retold}",
}

SPECS: Specs = {
    "reason": reason,
    "reasons": _reasons,
    "clause": lambda sentence: sentence.removesuffix("。"),
}
