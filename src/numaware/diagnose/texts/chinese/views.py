"""The fixed words around answers on the command line, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.chinese.explain import between, named
from numaware.diagnose.texts.english.explain import quantity as bare
from numaware.diagnose.texts.template import Each, Specs

LABELS: Mapping[str, str] = {
    # one pod on one node
    "explain-admitted": "✓ {node} 会准入 {pod}",
    "explain-refused": "✗ {node} 会拒绝 {pod}：{reason}",
    "explain-never": "✗ {node} 会拒绝 {pod}，即使节点全空也一样：{reason}",
    "explain-unschedulable": "✗ {pod} 不会被送到 {node}：{reason}",
    "explain-says": "kubelet 会说：{message}",
    "explain-topology": "拓扑 {policy}[[，作用域 {scope}]]",
    "explain-cpus": "CPU 管理器 {policy}",
    "explain-memory": "内存管理器 {policy}",
    "explain-legend": "CPU：{legend}",
    "explain-reserved": "预留",
    "explain-held": "已占用",
    "explain-new": "本 Pod",
    "explain-free": "可独占",
    "explain-none": "无 {resource:resource}",
    "explain-room": "它到来之前可独占：",
    "explain-left": "{resource:beside}{free:bare} / {total:bare}",
    "explain-shared": "CPU 来自共享池",
    "explain-own": "{nodes:set} 上的 {cpus:cpulist}",
    "explain-block": "{nodes:set} 上的 {amount:amount}",
    "explain-devices": "{resource}：{held:held}",
    "explain-aligned": "对齐",
    "explain-spread": "分布在 {nodes:set}",
    "explain-no-change": "没有找到能在此准入的请求、策略、选项或运行中 Pod 的改动",
    "explain-changes": "以下任一改动都能使它准入（均已在孪生体上试过）",
    "explain-several": "{pod}：{nodes} 个节点中 {count} 个会准入[[：{names:list}]]",
    "note": "注意：{note}",
    # one pod on all nodes
    "whatif-summary": "{kind} {name}：{pods:pods} 中 {placed} 个能找到节点",
    "whatif-goes": "{pod} → {node}[[，{how}]][[，{zones:zones}]]",
    "whatif-none": "{pod}：{message}",
    "whatif-more": "以及另外 {count} 个",
    "whatif-takes": "可以接收[[，{how}]]",
    "whatif-split": "跨 NUMA",
    "whatif-group": "{count:machines}：{said}",
    "reasons": "{reasons:clauses}",
    "whatif-names": "{names:list}[[ 以及另外 {more} 个]]",
    "whatif-waiting": "集群文件中的 {count:pods} 没有找到位置，第一个是 {first}",
    # what keeps a pod from one NUMA node, or from the node
    "only-on": "{resource:beside}仅 NUMA {numa:list} 足够",
    "short-on-every": "每个 NUMA 节点{resource:among}至少差 {amount:bare}",
    "short-on-node": "节点{resource:among}差 {amount:bare}",
    "too-small": "{resource:beside}比整机多要 {amount:bare}",
    # what a file was taken for
    "kind-archive": "压缩包",
    "kind-events": "事件",
    "kind-kubectl text": "kubectl 输出",
    "kind-kubelet configuration": "kubelet 配置",
    "kind-kubelet flags": "kubelet 参数",
    "kind-device plugin configuration": "设备插件配置",
    "kind-kubelet log": "kubelet 日志",
    "kind-manifest": "清单",
    "kind-pods": "Pod",
    "kind-settings": "设置",
    "kind-state file": "状态文件",
    "kind-topology": "拓扑",
    "kind-unknown": "未能识别",
    # a pod that waits
    "pending-placed": "{pod} 已在 {node} 上",
    "pending-taken": "{count:machines}可以接收 {pod}，最好的是 {node}。它在等待自己的调度器 {scheduler}。",
    "pending-dra": "{what:and}由 DRA 提供，由 kube-scheduler 分配，kubelet 不做对齐；{count:machines}可以接收 Pod 的其余部分。",
    "pending-said": "它的调度器说：{message}",
    "nodes-dra": "{node}，DRA 设备：{devices:of_dra}",
    "pending-see": "另见 numaware explain pod {pod} --on NODE",
    # lists of nodes and pods; headings, column by column
    "nodes-heading": "节点|策略|了解程度|POD|可独占的 CPU|可独占的设备|未被申请的 CPU",
    "nodes-known-complete": "完整",
    "nodes-known-counts": "仅计数",
    "nodes-known-none": "未知",
    "nodes-known": "{level}[[（{source}）]][[，{old}]]",
    "nodes-old": "已过时",
    "nodes-pods": "{pods}[[（另有 {waiting} 个在途）]]",
    "pods-heading": "命名空间|名称|节点|NUMA|CPU|对齐|预测|实际",
    "pods-aligned": "是",
    "pods-crossing": "否",
    "outcome-match": "相符",
    "outcome-wrong_zone": "NUMA 节点不符",
    "outcome-wrong_cpus": "CPU 不符",
    "outcome-rejected": "被拒绝",
    "outcome-unexpected": "意外",
    # schedulers side by side
    "simulate-head": "{cluster}（{nodes:machines}），{trace}（{pods:pods}），{seeds}",
    "simulate-seed": "种子 {seed}",
    "simulate-seeds": "种子 {seeds} 的平均值",
    "simulate-unplaced": "{policy}：未放置的 Pod",
    "simulate-sizes": "按 GPU 数统计的已放置 Pod",
    "simulate-of": "{placed}/{asked}",
    "simulate-storm": "{policy}：{owner} 在 {seconds} 秒内被拒绝 {times}，多数由 {node} 拒绝（{reason}）",
    "measure-placed pods": "已放置的 Pod",
    "measure-refused by kubelets": "被 kubelet 拒绝",
    "measure-refused per 1,000 pods": "每千个 Pod 被拒绝",
    "measure-aligned % of pinned pods": "独占 Pod 的对齐率 %",
    "measure-cross-NUMA pods": "跨 NUMA 的 Pod",
    "measure-CPU % allocated": "CPU 分配率 %",
    "measure-memory % allocated": "内存分配率 %",
    "measure-stranded % of capacity": "闲置难用的容量 %",
    "measure-wait on average": "平均等待",
    "measure-talk between NUMA nodes MB/s": "跨 NUMA 节点流量 MB/s",
    "measure-talk after moves MB/s": "移动后跨 NUMA 流量 MB/s",
    "measure-decisions per s": "每秒决策",
    "measure-device": "{device} 分配率 %",
}


def _held(counts: Mapping[str, int]) -> str:
    """So many devices on each NUMA node, -1 for none."""
    return "，".join(
        f"NUMA {numa} 上 {number} 个" if int(numa) >= 0 else f"{number} 个不属于任何 NUMA 节点"
        for numa, number in counts.items()
    )


SPECS: Specs = {
    "clauses": "；".join,
    "bare": bare,
    "resource": named,
    "among": lambda name: between(named(name)),
    "beside": lambda name: between(named(name)).lstrip(),
    "cpulist": lambda cpus: f"CPU {cpus}",
    "held": _held,
    "zones": Each("NUMA {numa}[[（CPU {cpus}）]]", "、"),
    "of_dra": Each("[[NUMA {numa} 上 ]]{driver} 空闲 {free} / {count}", "，"),
    "machines": lambda number: f"{number} 个节点",
}
