"""相互通信的 Pod 该如何安置，中文。"""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "affinity-move": "移到 NUMA {target}，跨 NUMA 流量减少 {saving}",
    "affinity-pinned": "不动：kubelet 已分配独占的 CPU 或内存",
    "affinity-not-chosen": "不动：由其命名空间、白名单或 Pod 自身决定",
    "affinity-silent": "不动：在本节点上不与任何 Pod 通信",
    "affinity-cooling-down": "不动：刚刚移动过",
    "affinity-together": "不动：已与其通信对象同处一处",
    "affinity-no-room": "不动：没有 NUMA 节点容得下它",
    "affinity-no-gain": "不动：预计没有收益",
    "affinity-one-numa-node": "不动：只有一个 NUMA 节点，不可能有收益",
    "affinity-across": "Pod 间流量 {total}，其中跨 NUMA {before}；按计划执行后 {after}",
    "affinity-nothing": "没有值得计入的 Pod 间通信",
    "affinity-verified": "{pods} 个 Pod 的 {processes} 个进程，均在应在之处",
    "affinity-astray": "{pod}：进程 {pid} 可用 CPU {allowed}，应为 {wanted}",
    "affinity-intruding": "{pod}：进程 {pid} 可用 CPU {allowed}，这些由他人独占",
    "affinity-memory": "{pod}：进程 {pid} 可用 NUMA {allowed} 的内存，应为 {wanted}",
    "affinity-mode-observe": "仅观察：不移动任何 Pod",
    "affinity-mode-modelled": "模型：内置演示的 Pod 没有进程",
    "affinity-mode-nri": "通过[[ {runtime} 的]] NRI 执行",
    "affinity-mode-cgroup": "直接在内核的控制组中执行",
    "affinity-stale": "{seconds} 秒前写入：agent 可能已停止",
    "affinity-measured": "{pod}：已移到 NUMA {target}，预计 {predicted}[[，现有 {measured} 留在其中]]",
    "affinity-migrated": "{pod}：{seconds} 秒内将其 {moved} 内存迁至 NUMA {target}，{left} 无法迁移；单步最长 {stall} 微秒",
    "affinity-nri-switch-on": "{runtime} 未开放插件接口：在 {file} 的 [{section}] 节写入 {line} 并重启",
    "affinity-nri-elsewhere": "{runtime} 在别处监听（{file}）：启动 agent 时加上 {line}",
    "affinity-nri-restart": "{runtime} 的配置[[（{file}）]]已启用 NRI：请重启它，并确认 agent 能看到其套接字",
    "affinity-nri-unreadable": "无法理解 {runtime} 的 {file}：{problem}",
    "affinity-nri-without": "此处没有配置支持 NRI 的容器运行时：可改用 --affinity cgroup",
    "affinity-gain": "{pod} 在 NUMA {target}：移动前跨 NUMA {before}，预计 {planned}[[，实测 {after}]]",
}
