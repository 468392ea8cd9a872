"""The reasons for each line of a recommended kubelet configuration, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "recommend-title": "用于 {purpose} 的 kubelet 配置，机器 {machine}，kubelet {version}。",
    "recommend-machine": "{nodes:numa}，{cores:cores}，{cpus:cpus}[[，{memory:size}]][[，{devices:and}]]",
    "recommend-proof": "已在该 kubelet 的孪生上试过：能够启动，并把请求 {asked:and} 的 Pod 准入到 {where:nodes}。",
    "recommend-proof-shared": "已在该 kubelet 的孪生上试过：能够启动，并准入请求 {asked:and} 的 Pod。",
    "recommend-note": "注意：{text}",
    "recommend-apply": (
        "应用方法：驱逐节点上的 Pod，停止 kubelet，删除 /var/lib/kubelet/cpu_manager_state 和 memory_manager_state，"
        "放好本文件，启动 kubelet，恢复调度。"
    ),
    "recommend-cpu-static": "请求整数个 CPU 的 Guaranteed Pod 独占 CPU。",
    "recommend-cpu-none": "只有一个核，不能独占分配，所以共享 CPU。",
    "recommend-full-pcpus-only": (
        "full-pcpus-only：没有两个 Pod 共用一个物理核，所以 CPU 要按每核线程数的倍数请求。当心：kubelet 重启后，如果空闲 CPU "
        "少于某个运行中 Pod 的请求，该 Pod 会被拒绝；请保留这么多空闲 CPU，或先驱逐。"
    ),
    "recommend-strict-cpu-reservation": (
        "strict-cpu-reservation：任何 Pod 都不在预留 CPU 上运行。当心：其余 CPU 全部分出去之后，kubelet 将无法再次启动；"
        "请留一个核不给 Guaranteed Pod。"
    ),
    "recommend-prefer-align-cpus-by-uncorecache": (
        "prefer-align-cpus-by-uncorecache：放得下时，容器的 CPU 共享同一个末级缓存。"
    ),
    "recommend-distribute-cpus-across-numa": (
        "distribute-cpus-across-numa：大于一个 NUMA 节点的 Pod 从每个节点得到同样多的 CPU，内存带宽随之增长。"
    ),
    "recommend-reserved-cpus": (
        "{of} 个 CPU 中的 {count} 个（{nodes:nodes} 上 {cores} 个完整的核）留给系统和不独占 CPU 的 Pod：先是内核启动所在的核，"
        "然后取自没有 GPU、有网卡的 NUMA 节点；各节点相同时轮流取。"
    ),
    "recommend-ai-training": (
        "restricted：Pod 的 CPU、内存和 GPU 来自尽可能少的 NUMA 节点，否则拒绝；需要全部 GPU 的 Pod 仍可跨越整机。"
    ),
    "recommend-inference": "single-numa-node：CPU 和内存来自 Pod 的 GPU 所在的 NUMA 节点，否则拒绝。",
    "recommend-latency": "single-numa-node：Pod 的任何资源都不会在机器的另一侧。",
    "recommend-database": "restricted：放得进一个 NUMA 节点的 Pod 就留在一个节点上，更大的 Pod 用尽可能少的节点。",
    "recommend-mixed": "best-effort：尽可能对齐，但从不因此拒绝，因为这里很多 Pod 并不在意。",
    "recommend-topology-none": "拓扑管理器关闭：NUMA 节点太多，它会花太长时间。",
    "recommend-scope-pod": "一个 Pod 的所有容器在相同的 NUMA 节点上。",
    "recommend-scope-container": "每个容器单独放置。",
    "recommend-max-allowable-numa-nodes": (
        "max-allowable-numa-nodes：没有它，kubelet 在超过 8 个 NUMA 节点的机器上不会启动。"
    ),
    "recommend-prefer-closest-numa-nodes": (
        "prefer-closest-numa-nodes：需要几个 NUMA 节点的 Pod 会得到彼此邻近的节点。"
    ),
    "recommend-memory-static": "Guaranteed Pod 的内存来自其 CPU 所在的 NUMA 节点。",
    "recommend-memory-none": "内存交给内核，内核优先使用首先访问它的 CPU 所在的 NUMA 节点。",
    "recommend-kube-reserved": (
        "留给 kubelet 和容器运行时：前 4 GiB 的 25 %，接下来 4 GiB 的 20 %，再 8 GiB 的 10 %，到 128 GiB 为止的 6 %，"
        "其余的 2 %，最多四分之一。"
    ),
    "recommend-system-reserved": "留给系统守护进程和内核：1 GiB，小机器为十六分之一。",
    "recommend-eviction": (
        "剩余内存少于此值时驱逐 Pod。用字节而不用百分比，否则下面的总和会精确到字节地依赖机器。其他信号是 kubelet 的默认值，"
        "设置任何一个之后默认值就会失效。"
    ),
    "recommend-reserved-memory": (
        "必须恰好等于 kubeReserved + systemReserved + evictionHard：{kube} + {system} + {eviction} = {total}，"
        "否则 kubelet 不会启动。按各 NUMA 节点的大小分摊。"
    ),
    "recommend-one-core": "机器只有一个核：Pod 无法绑核。",
    "recommend-later": "{option} 会有帮助，但 {version} 的 kubelet 不开特性门控就没有它。",
    "recommend-too-many-nodes": (
        "有 {count} 个 NUMA 节点，这个 kubelet 无法在合理时间内对齐 Pod；在固件里减少每个插槽的 NUMA 节点数（NPS、SNC）可以改变这一点。"
    ),
    "recommend-memory-later": "v1.{minor} 的 kubelet 不开特性门控就没有内存管理器。",
    "recommend-memory-assumed": "短格式没有 mem=：假定每个 NUMA 节点有 {size:size}，预留的内存以此为准。",
    "recommend-memory-unknown": "不知道这台机器的内存，或内存很少：内存管理器保持关闭。",
    "recommend-memory-slow": (
        "有 {count} 个 NUMA 节点，如果也对齐内存，kubelet 处理一个 Pod 要几秒到几小时；single-numa-node 的负载没有这个问题。"
    ),
}
