"""Why pods have no node, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaware.diagnose.texts.chinese.explain import between, named
from numaware.diagnose.texts.template import Specs

LABELS: Mapping[str, str] = {
    "unavailable": "{nodes} 个节点都不可用[[：{reasons:reasons}]]。[[最接近的是{nearest}。]][[{room}。]]",
    "available": "{nodes} 个节点中 {fitting} 个可用[[：{reasons:reasons}]]。",
    "all-available": "{nodes} 个节点都可用。",
    "nearest-short": "节点 {node}：在 {nodes:set} 上还差 {missing:amounts}",
    "nearest-cause": "节点 {node}：{cause:clause}",
    "room-wanted": "如果 {pods:list} 让出空间，就能放到节点 {node} 上；numaware 目前还不会抢占",
    "room-kept": "如果 {pods:list} 让出空间，就能放到节点 {node} 上；numaware 目前还不会抢占，但会为它保留它们腾出的空间",
}

REASONS: Mapping[str, str] = {
    "gpu-share": "GPU 份额不足",
    "insufficient": "{resource:named}不足",
    "claim-foreign": "PVC {claim} 不是为 Pod {pod} 创建的（Pod 不是其所有者）",
    "scheduling-gates": "调度门控未清空，暂不调度",
    "too-many-pods": "Pod 数已达上限",
    "volume-driver": "节点上没有 CSI 驱动 {driver}",
    "quoted": "{text}",
    "volumes-unknown": "无法判断：尚未读到存储声明和卷",
    "pod-unreadable": "无法判断：Pod 无法完整读取：{problem}",
    "claims": "无法判断：Pod 还在等待 {claims:list}，而它们也决定节点",
    "volcano-cpu-policy": "CPU 管理器策略不是 static",
    "not-aligned": "无法对齐这个 Pod",
    "numa-alignment": "按 {policy} 无法把 Pod 对齐到 NUMA 节点",
    "smt-alignment": "给不出整核（SMTAlignmentError）",
    "volume-space": "可用存储不足",
    "volume-binding": "找不到可绑定的 PersistentVolume",
    "host-ports": "所需的主机端口已被占用",
    "volume-affinity": "不符合 PersistentVolume 的节点亲和性",
    "node-affinity": "不符合 Pod 的节点亲和性或选择器",
    "node-features": "未声明 Pod 需要的特性",
    "pod-affinity": "不符合 Pod 亲和性规则",
    "pod-anti-affinity": "不符合 Pod 反亲和性规则",
    "topology-spread": "不符合 Pod 拓扑分布约束",
    "topology-spread-label": "不符合 Pod 拓扑分布约束（缺少所需的标签）",
    "node-name": "与指定的节点名不符",
    "existing-anti-affinity": "不满足已有 Pod 的反亲和性规则",
    "volume-limit": "卷数超过节点上限",
    "disk-conflict": "没有可用的磁盘",
    "volume-zone": "没有卷所在的可用区",
    "devices": "设备不足",
    "exclusive-cpus": "可独占的 CPU 不足",
    "numa-memory": "任何可用的 NUMA 节点组合都内存不足",
    "untolerated-taint": "有 Pod 不容忍的污点 {{{key}: {value}}}",
    "pods-astray": "有 Pod 占用了什么不得而知",
    "room-held": "正在为优先级更高的 Pod 保留空间",
    "room-nominated": "正在为其他调度器提名到该节点的 Pod 保留空间",
    "dra-resources": "留给 kube-scheduler：由它分配在这里由 DRA 提供的资源（{names:list}）",
    "namespaces-unknown": "无法判断：Pod 的规则按标签选择命名空间，而这些标签尚未读到",
    "held-back": "曾拒绝同一模板的 Pod，此后没有变化",
    "node-unknown": "没有任何上报",
    "claim-in-use": "访问模式为 ReadWriteOncePod 的 PersistentVolumeClaim 已被其他 Pod 使用",
    "unschedulable": "已禁止调度",
    "outcome-unknown": "结果取决于未知的信息（{unknowns:sorted}）",
    "no-nodes": "没有节点",
    "volcano-no-numa-info": "没有 NUMA 信息",
    "volume-missing": "找不到 PersistentVolume“{name}”",
    "claim-lost": "PersistentVolumeClaim“{name}”绑定的 PersistentVolume“{volume}”不存在",
    "claim-deleted": "PersistentVolumeClaim“{name}”正在删除",
    "claim-missing": "找不到 PersistentVolumeClaim“{name}”",
    "claims-unbound": "Pod 有尚未绑定的（立即绑定）PersistentVolumeClaim",
    "volcano-policy": "任务的拓扑策略 {task} 与节点的 {node} 不同",
    "kubelet-crash": "kubelet 会崩溃：{error}",
    "kubelet-start": "kubelet 用这个策略无法启动",
    "pod-group": "Pod 属于组 {group}，numaware 尚不能整组调度：请交给 kube-scheduler",
    "allocations": "Pod 有 {claims:list}：numaware 把资源声明的分配交给 kube-scheduler",
    "workload-class": "未知的负载类别 {value}（numaware.io/workload-class 只能是 high、medium 或 low）",
    "claim-awaited": "等待临时卷控制器创建 PersistentVolumeClaim“{name}”",
    "volume-claims": "{number:volume_claims}（{names:list}）绑定",
    "resource-claims": "{number:resource_claims}（DRA：{names:list}）",
    "setting": "{name}",
    "core-siblings": "哪些 CPU 同属一个物理核",
    "memory-groups": "内存管理器的节点分组",
    "shares": "GPU 的份额",
    "device-nodes": "{resource} 在哪些 NUMA 节点上",
    "devices-on-several": "跨多个 NUMA 节点的 {resource} 设备",
    "cuts": "CPU 和设备在 NUMA 节点之间如何划分",
    "changes": "上次上报之后的变化",
    "unhealthy-devices": "不健康的设备",
    "volcano-counts": "NUMA 节点的内存和设备（Volcano 不上报）",
    "no-topology": "NUMA 节点（无人上报）",
}


def _reasons(reasons: str | Sequence[tuple[int, str]]) -> str:
    if isinstance(reasons, str):
        return reasons
    ordered = sorted(reasons, key=lambda pair: -pair[0])
    return "，".join(f"{number} 个{between(text).rstrip()}" for number, text in ordered)


SPECS: Specs = {
    "reasons": _reasons,
    "named": lambda resource: between(named(resource)).lstrip(),
    "clause": lambda sentence: sentence.removesuffix("。"),
    "sorted": lambda texts: "、".join(sorted(texts)),
    "volume_claims": lambda number: f"{number} 个存储卷申领",
    "resource_claims": lambda number: f"{number} 个资源申领",
}
