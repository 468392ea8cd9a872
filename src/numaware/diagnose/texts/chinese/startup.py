"""Kubelets that do not start, or would not, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

_RESTART_CPU = (
    "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data\n"
    "systemctl stop kubelet\n"
    "rm /var/lib/kubelet/cpu_manager_state\n"
    "systemctl start kubelet\n"
    "kubectl uncordon NODE"
)
_RESTART_MEMORY = _RESTART_CPU.replace("cpu_manager_state", "memory_manager_state")
_ANEW_CPU = f"排空节点，让 kubelet 重新开始：\n{_RESTART_CPU}"
_ANEW_MEMORY = f"排空节点，让 kubelet 重新开始：\n{_RESTART_MEMORY}"
_REST_NOT_KNOWN = "之后的内容不得而知。这里的结论来自之前的部分；没有发现更多问题，不等于一切正常。"
_AGAIN = "重新复制或生成该文件，并与原文件比较大小"

TEXTS: Mapping[str, Text] = {
    "cpu-manager-no-reserved-cpus": text(
        "kubelet 无法启动：static CPU 管理器需要预留 CPU",
        "cpuManagerPolicy static 会把 CPU 独占地分出去，所以必须为系统预留一些，而现在一个都没有："
        "kubeReserved.cpu、systemReserved.cpu 和 reservedSystemCPUs 都没有设置或为零。",
        'kubeReserved:\n  cpu: "1"',
        '或者直接指定 CPU：\nreservedSystemCPUs: "0,1"   # 完整的核，与网卡在同一个 NUMA 节点',
    ),
    "cpu-manager-reserved-cpus-wrong": text(
        "kubelet 无法启动：无法满足 CPU 预留",
        "static CPU 管理器无法留出预留的 CPU：{message}",
        "预留的 CPU 不要超过机器所有的，并且只指定在线的 CPU",
    ),
    "cpu-manager-state-policy-mismatch": text(
        'kubelet 无法启动：cpu_manager_state 的策略是 "{stored}"，配置的是 "{configured}"',
        "状态文件 {file} 是在策略 {stored} 下写的。kubelet 现在配置为 {configured}，它不会猜测哪个容器在哪些 CPU 上，所以不启动。",
        f"排空节点，停止 kubelet，删除 /var/lib/kubelet/cpu_manager_state，再启动：\n{_RESTART_CPU}",
        '或者恢复文件中的策略：\ncpuManagerPolicy: "{stored}"',
    ),
    "cpu-manager-state-reserved-mismatch": text(
        "kubelet 无法启动：cpu_manager_state 与机器或预留不符",
        "{message:sentence}写这个文件时预留或在线的是另外的 CPU[[（现在预留 {reserved}）]][[（现在在线 {online}）]]"
        "[[，文件中是 {stored}]]。",
        _ANEW_CPU,
    ),
    "cpu-manager-state-corrupt": text(
        "cpu_manager_state 已损坏[[：{problem}]]",
        "文件的校验和与内容不符，或内容无法读取；kubelet 不会用它启动。磁盘写满、手工编辑或 kubelet 降级都会造成这种情况。",
        _ANEW_CPU,
    ),
    "memory-manager-reserved-memory-mismatch": text(
        "kubelet 无法启动：reservedMemory 合计 {found}，应为 {wanted}[[，多了 {tooMuch}]][[，少了 {tooLittle}]][[（{resource}）]]",
        "memoryManagerPolicy Static 要求所有 NUMA 节点的 reservedMemory 之和恰好等于不给 Pod 使用的部分："
        "kubeReserved[[ ({kubeReserved})]] + systemReserved[[ ({systemReserved})]] + evictionHard[[ ({evictionHard})]] = {wanted}。"
        "现在是 {found}[[，多了 {tooMuch}]][[，少了 {tooLittle}]]。",
        "让各 NUMA 节点的 reservedMemory 合计为 {wanted}[[，例如：\n{example}]]",
        "或者放弃 NUMA 感知的内存：\nmemoryManagerPolicy: None",
    ),
    "memory-manager-reserved-memory-mismatch/no-such-node": text(
        "kubelet 无法启动：reservedMemory 指定了不存在的 NUMA 节点 {numaNode}",
        "{message:sentence}NUMA 节点的编号见 numactl --hardware。",
        "把预留改到机器实际有的 NUMA 节点上；所有节点的总和不变",
    ),
    "memory-manager-reserved-memory-mismatch/nothing-reserved": text(
        "kubelet 无法启动：memoryManagerPolicy Static 没有 reservedMemory",
        "内存管理器要求为系统保留某个 NUMA 节点的一些内存：{message}。",
        "systemReserved:\n  memory: 1Gi\nevictionHard:\n  memory.available: 100Mi\nreservedMemory:\n- numaNode: 0\n"
        "  limits:\n    memory: 1124Mi   # 1Gi + 100Mi",
        "或者放弃按 NUMA 管理内存：\nmemoryManagerPolicy: None",
    ),
    "memory-manager-state-mismatch": text(
        "kubelet 无法启动：memory_manager_state 不符[[（{problem}）]]",
        "状态文件是在另一种策略、另一种预留下，或在另一台机器上写的：{message}",
        _ANEW_MEMORY,
    ),
    "memory-manager-state-mismatch/policy": text(
        'kubelet 无法启动：memory_manager_state 的策略是 "{stored}"，配置的是 "{configured}"',
        "状态文件 {file} 是在策略 {stored} 下写的。kubelet 现在配置为 {configured}，不会用它启动。",
        _ANEW_MEMORY,
        '或者恢复文件中的策略：\nmemoryManagerPolicy: "{stored}"',
    ),
    "memory-manager-state-corrupt": text(
        "memory_manager_state 已损坏[[：{problem}]]",
        "文件的校验和与内容不符，或内容无法读取；kubelet 不会用它启动。",
        _ANEW_MEMORY,
    ),
    "memory-manager-state-corrupt/renamed": text(
        "memory_manager_state 不是 kubelet 写的[[：{problem}]]",
        '其中 NUMA 节点组的字段叫 "nodes"，而 kubelet 写的是 "cells"：它是文档里的例子，或被手工编辑过。kubelet 不会用它启动。',
        _ANEW_MEMORY,
    ),
    "device-manager-state-corrupt": text(
        "kubelet_internal_checkpoint 已损坏[[：{problem}]]",
        "文件的校验和与内容不符。kubelet 会忘记谁占用了哪个设备，可能把同一个设备分配两次。",
        "排空节点并重启 kubelet；在此之前运行中的 Pod 会保留设备",
    ),
    "too-many-numa-nodes": text(
        "kubelet 无法启动：NUMA 节点[[（{found} 个）]]超过允许的 {most} 个",
        "拓扑管理器要尝试 NUMA 节点的所有组合，每多一个节点组合数就翻倍；超过 {most} 个节点时它[[在策略 {policy} 下]]拒绝启动。",
        '提高上限（kubelet 1.31 及以后）：\ntopologyManagerPolicyOptions:\n  max-allowable-numa-nodes: "{found}"',
        "或者减少 NUMA 节点：在固件中调低 NPS 或 SNC",
        "或者关闭拓扑管理器：\ntopologyManagerPolicy: none",
    ),
    "unknown-policy": text(
        'kubelet 无法启动：未知的策略 "{given}"',
        "{message:sentence}",
        "{field}: {near}",
        "可用的值：{allowed:or}",
    ),
    "unknown-policy/platform": text(
        'kubelet 无法启动：策略 "{given}" 在 {platform} 上不可用',
        "{message:sentence}kubelet 认识这个策略，但它是为另一种操作系统准备的：内存管理器在 Windows 上有 BestEffort，在其他系统上有 "
        "Static。",
        "memoryManagerPolicy: None",
        "或者为系统预留内存并使用：\nmemoryManagerPolicy: Static",
    ),
    "unknown-policy-option": text(
        'kubelet 无法启动：未知的策略选项 "{option}"',
        "[[这个版本的 kubelet 不认识 {manager} 的策略选项 {option}。]]{message:sentence}",
        "也许应为 {near}",
        "去掉 {option}，或使用认识它的 kubelet[[（{since} 及以后）]]",
    ),
    "policy-option-needs-gate": text(
        'kubelet 无法启动：策略选项 "{option}" 需要特性门控 {gate}',
        "选项 {option} 处于 {stage} 阶段，这个阶段的选项需要打开门控 {gate}，而它是关闭的。",
        "featureGates:\n  {gate}: true",
        "或者去掉 {option}",
    ),
    "incompatible-policy-options": text(
        "kubelet 无法启动：策略选项互相排斥[[：{options:and}]]",
        "{message:sentence}",
        "{options:and} 只保留一个",
    ),
    "incompatible-policy-options/none-policy": text(
        "kubelet 无法启动：设置了 cpuManagerPolicyOptions，但 cpuManagerPolicy 不是 static",
        "这些选项属于 static 策略。{message:sentence}",
        "cpuManagerPolicy: static   # 并为系统预留 CPU",
        "或者去掉 cpuManagerPolicyOptions",
    ),
    "incompatible-policy-options/hardware": text(
        "kubelet 无法启动：align-by-socket 不适合这台机器",
        "{message:sentence}它的插槽比 NUMA 节点多。",
        "从 cpuManagerPolicyOptions 中去掉 align-by-socket",
    ),
    "incompatible-policy-options/no-distances": text(
        "kubelet 无法启动：prefer-closest-numa-nodes 不适合这台机器",
        "{message:sentence}该选项按 NUMA 节点之间的距离选择节点，而这台机器没有给出全部距离。",
        "从 topologyManagerPolicyOptions 中去掉 prefer-closest-numa-nodes",
        "看看内核知道哪些距离；在虚拟机里把距离透传进来：\ncat /sys/devices/system/node/node*/distance",
    ),
    "kubelet-configuration-invalid": text("kubelet 无法启动：{path} 无效", "{message:sentence}", "{fix}"),
    "kubelet-configuration-invalid/gate": text(
        "kubelet 无法启动：{path} 无效",
        "{message:sentence}特性门控随版本增减：特性成熟后先被锁定，然后被移除。",
        "从 featureGates 中去掉 {gate}",
    ),
    "evidence-incomplete": text("{file} {problem}：什么也没有读到", _REST_NOT_KNOWN, _AGAIN),
    "evidence-incomplete/bytes": text("{file} {problem}：读到 {bytes:size} 为止", _REST_NOT_KNOWN, _AGAIN),
    "evidence-incomplete/member": text("{file} {problem}：读到 {member} 为止", _REST_NOT_KNOWN, _AGAIN),
    "nothing-recognised": text(
        "没有任何可以作为证据读取的内容，因此没有得出结论",
        "[[{unread:unread}。]]没有显示问题，不等于没有问题。",
        "指定 kubelet 所在的单元：\njournalctl -u kubelet   # 或 k3s, k3s-agent, rke2-server, rke2-agent",
        "numaware diagnose --help 说明了可以读取什么",
    ),
    "not-a-kubelet-configuration": text(
        "{file} 不是 KubeletConfiguration",
        "其中有拓扑管理器的设置[[（{settings:and}）]]，但 kubelet 不会在那里读取[[（在 {under} 之下）]]：它们不起作用。",
        "把它们放到 KubeletConfiguration 的顶层：\n"
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{yaml}",
    ),
}
