"""Pods that were refused, or admitted with less than they hoped for, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

_NUMA_SCHEDULER = (
    "让了解 NUMA 节点的调度器（例如 numaware）选择节点，不要把 Pod 送到 kubelet 必须拒绝它的地方"
)
_LOOK_CLOSER = (
    "收集拒绝前后的 kubelet 日志（journalctl -u kubelet）、kubelet 配置和 /var/lib/kubelet/*_manager_state，"
    "一起交给 numaware diagnose"
)
_TRIED = "{bestChange}   # 已在该节点的孪生上试过"
_AT_MOST = (
    "最多请求 {atMost:amount}，而不是 {askedFor:quantity}：就现有证据看，NUMA 节点 {freestNode} 还剩这么多"
)
_ROOM = "腾出空间：移走或删除 {holders:holders}"
_REFUSED = "{who} 被[[ {node} ]]拒绝（TopologyAffinityError）"

TEXTS: Mapping[str, Text] = {
    "topology-affinity-error": text(
        _REFUSED,
        "拓扑管理器找不到策略[[ {policy} ]]能接受的放置方式。仅凭事件无法知道是哪种资源失败：kubelet 对所有原因只有一句话。"
        "每种资源的提示在 kubelet 日志里，谁占用了什么在[[节点 {node} 的]]状态文件里。",
        _TRIED,
        _LOOK_CLOSER,
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error/reported": text(
        _REFUSED + "：没有 NUMA 节点有 {asked} 个可独占的 {resource}",
        "容器 {container} 请求 {asked} 个 {resource}，而节点报告的可独占量是：{free:free}。没有一个 NUMA 节点足够"
        "[[，而策略是 {policy}]]。报告可能早于或晚于这次拒绝。",
        _TRIED,
        "最多请求 {most} 个 {resource}，或在一个 NUMA 节点上腾出空间",
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error/one-resource": text(
        _REFUSED + "：{resource} 只放得进 {masks:sets}",
        "[[容器 {container}：]]{resource} 现在只能从 {masks:sets} 获得，这不是首选放置[[（策略 {policy}）]]："
        "空机器用更少的 NUMA 节点就够了。缺少的部分被其他 Pod 占着。[[{blame:blame}。]]",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "减小请求，使 {resource} 放得进一个 NUMA 节点",
        "腾出空间：在剩余最多的 NUMA 节点上迁移或删除占用 {resource} 的 Pod",
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error/too-wide": text(
        _REFUSED + "：{resource} 需要 {masks:sets}",
        "[[容器 {container}：]]请求的 {resource} 超过一个 NUMA 节点的总量，即使节点是空的。它只放得进 {masks:sets}，"
        "而 single-numa-node 只给一个节点。这台机器再空闲也没有用。[[{blame:blame}。]]",
        _TRIED,
        _AT_MOST,
        "把请求减小到一个 NUMA 节点以内，或换用 NUMA 节点更大的机器",
        "或者允许大的 Pod 跨节点：\ntopologyManagerPolicy: restricted",
    ),
    "topology-affinity-error/nothing-fits": text(
        _REFUSED + "：没有任何 NUMA 节点组合有足够的 {resource}",
        "[[容器 {container}：]]请求的 {resource} 比所有 NUMA 节点可独占的总和还多，管理器给不出任何提示，合并无从谈起。",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "减少请求的 {resource}，或在该节点上释放一些",
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error-disjoint-hints": text(
        _REFUSED + "：{resources:and} 没有共同的 NUMA 节点",
        "每种资源单独都放得下，但是 {wants:wants}：它们互相排斥，没有共同的 NUMA 节点。"
        "[[合并后的提示是 {merged}，不是任何一方的首选，所以策略拒绝了 Pod。]][[策略：{policy}。]]"
        "控制器反复重建 Pod 没有用，因为什么都没有改变。",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "减小请求，使 {resources:and} 放得进同一个 NUMA 节点",
        "或者腾出空间：释放 {room:room}，迁移或删除在那里占用它的 Pod",
        _NUMA_SCHEDULER,
    ),
    "smt-alignment-error": text(
        "{who} 被[[ {node} ]]拒绝（SMTAlignmentError）：请求 {requested:cpus}，每个核有 {threads} 个线程",
        "CPU 管理器启用了 full-pcpus-only，只分配完整的物理核；{requested} 不是 {threads} 的倍数。每个容器都要算上，"
        "虚拟机自己加的也要算：独占的模拟器线程会把偶数变成奇数。",
        "请求 {threads} 的倍数个 CPU：把 {requested} 改为 {fewer} 或 {more}",
        "或者从 cpuManagerPolicyOptions 中去掉 full-pcpus-only，那样两个 Pod 会共用一个核",
    ),
    "smt-alignment-error/no-cores-left": text(
        "{who} 被[[ {node} ]]拒绝（SMTAlignmentError）：请求 {requested:cpus}，完整的核只剩 {available} 个 CPU",
        "CPU 管理器启用了 full-pcpus-only，只分配完整的物理核（每核 {threads} 个 CPU），而空闲的不够："
        "系统不用的核上还剩 {available:cpus}。",
        _TRIED,
        "在该节点上释放一些核，减少请求，或把 Pod 放到别处",
        "为系统预留完整的核，这样不会浪费半个核",
    ),
    "not-enough-exclusive-cpus": text(
        "{who} 被[[ {node} ]]拒绝（UnexpectedAdmissionError）：可独占的 CPU 不够",
        "static CPU 管理器空闲的 CPU 少于容器的请求[[：请求 {requested}，可用 {available}]][[（总共请求 {wanted}）]]。"
        "调度器按千分之一核统计整个节点，kubelet 只分配整数个 CPU，而且从不分配预留的。这不是拓扑错误。",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "减少请求的 CPU，或释放一些独占的 CPU：numaware checkpoint show /var/lib/kubelet/cpu_manager_state "
        "会显示谁占用着它们",
        "不需要绑核的 Pod 不要占用独占池：请求小数（如 1500m），或改为 Burstable",
    ),
    "distributed-cpus-miscounted": text(
        "{who} 被[[ {node} ]]拒绝（UnexpectedAdmissionError）：CPU 管理器分配的 CPU 数对不上",
        "启用 distribute-cpus-across-numa 时，CPU 管理器选出的 NUMA 节点都有足够的空闲 CPU，但实际却从别的节点分配："
        "它继续查找时，后来的组合覆盖了最佳组合的最后几个节点。空闲 CPU 不足一份的节点什么也不给，于是总数对不上"
        "（remaining: {missing}）。空闲的 CPU 其实足够。这是 kubelet 的错误，不是 Pod 的，只要节点的占用状况不变就会再次发生。",
        _TRIED,
        "减少请求的 CPU，使它们放得进更少的 NUMA 节点",
        "或者从 cpuManagerPolicyOptions 中去掉 distribute-cpus-across-numa，这需要清空 cpu_manager_state 并重启 kubelet",
        "或者把 Pod 放到各 NUMA 节点占用均匀的节点上",
    ),
    "empty-pod-shared-pool": text(
        "{who} 被[[ {node} ]]拒绝（EmptyPodSharedPoolError）：它的 {resource} 没有留下可共享的部分",
        "这个 Pod 有自己的资源（spec.resources）：请求整数 CPU 或内存的容器从中取走自己的一份，其余容器共享剩下的部分。"
        "现在这些容器取走了全部 {resource}，共享的容器无处可运行。换节点没有用。",
        "把 Pod 的 spec.resources 中的 {resource} 提高到大于各容器自己请求的总和",
        "或者减少这些容器的请求，或者给每个容器写上自己的资源",
    ),
    "empty-pod-shared-pool/init": text(
        "{who} 被[[ {node} ]]拒绝（EmptyPodSharedPoolError）：没有 {resource} 留给 init 容器",
        "这个 Pod 有自己的资源（spec.resources）：可重启的 init 容器从中取走自己的一份并一直占用；后面没有请求的 init 容器"
        "要共享剩下的 {resource}，却什么也没有剩。换节点没有用。",
        "提高 Pod 的 spec.resources 中的 {resource}，或减少可重启 init 容器的请求",
        "或者给那个 init 容器写上自己的资源",
    ),
    "not-enough-memory-on-nodes": text(
        "{who} 被[[ {node} ]]拒绝：内存管理器给不出内存",
        "内存管理器无法从选定的 NUMA 节点给出内存（{message}）：那里剩余不够，或者它们已属于另一个节点组。"
        "放不下的内存不会给拓扑管理器任何提示，所以在任何策略下都是 UnexpectedAdmissionError。",
        _TRIED,
        "减少请求的内存，或在该节点上释放内存",
        _NUMA_SCHEDULER,
    ),
    "out-of-cpu": text(
        "{who} 被[[ {node} ]]拒绝（OutOfcpu）",
        "节点剩余的 CPU 不够[[：请求 {requested}，已用 {used}，总量 {capacity}]]。绑定它的调度器（或 nodeName）"
        "不知道那里已经在运行什么。这不是 NUMA 错误。",
        "减少请求，或把 Pod 放到别处",
        "不要手工设置 spec.nodeName：它会绕过调度器",
    ),
    "out-of-resource": text(
        "{who} 被[[ {node} ]]拒绝（{reason}）",
        "节点剩余的 {resource} 不够[[：请求 {requested}，已用 {used}，总量 {capacity}]]。这不是 NUMA 错误。",
        "减少请求，或把 Pod 放到别处",
        "不要手工设置 spec.nodeName：它会绕过调度器",
    ),
    "devices-unavailable": text(
        "{who} 被[[ {node} ]]拒绝：剩余的 {resource} 不够",
        "设备管理器空闲的设备少于容器的请求[[：请求 {requested}，可用 {available}]]。正在终止的 Pod 的设备还没有释放；"
        "插件或 kubelet 重启之后，设备会重新统计。",
        _TRIED,
        "等待正在终止的 Pod，或减少请求的 {resource}",
        "检查插件：kubectl describe node 会显示它提供了什么",
    ),
    "devices-unavailable/unregistered": text(
        "{who} 被[[ {node} ]]拒绝：没有插件提供 {resource}",
        "绑定 Pod 时 kubelet 知道 {resource}，但 kubelet 启动之后它的设备插件还没有注册。这不是拓扑错误。",
        "检查该节点上插件的 Pod：kubelet 每次启动之后，插件都必须重新注册",
    ),
    "devices-unhealthy": text(
        "{who} 被[[ {node} ]]拒绝：没有健康的 {resource}",
        "目前 {resource} 的所有设备都不健康或已消失，没有健康的设备可分配。这不是拓扑错误。",
        "检查设备及其插件的日志：kubectl -n kube-system logs -l name=PLUGIN",
        "设备恢复后重启插件，它会重新注册设备",
    ),
    "devices-unhealthy/held": text(
        "{who} 被[[ {node} ]]拒绝：它原有的 {resource} 已不健康",
        "重启之后 kubelet 要把 Pod 原有的设备还给它，而这些设备现在不健康，也不会换成别的设备。这不是拓扑错误。",
        "删除 Pod，新的 Pod 会得到别的设备",
        "检查设备及其插件的日志",
    ),
    "device-plugin-error": text(
        "{who} 被[[ {node} ]]拒绝：设备插件在 {call} 中失败",
        "设备插件的 {call} 返回错误：{error}。这不是拓扑错误：问题在插件、驱动或权限。",
        "查看插件自己的日志，其中有失败的设备和库",
        "检查插件是否以特权运行，或具有驱动所需的设备文件和权能",
    ),
    "device-plugin-error/gone": text(
        "[[{node} 上]]{resource} 的设备插件消失后没有回来",
        "kubelet 失去了与它的连接（{call}）[[：{error}]]，之后没有插件注册 {resource}。它的设备被视为不健康，"
        "请求它们的 Pod 会被拒绝。",
        "检查该节点上插件的 Pod 及其日志",
    ),
    "device-plugin-refused": text(
        "{who} 被设备插件拒绝（与 NUMA 无关）：{asked}",
        "不是 NUMA 问题：插件让多个 Pod 共享每个设备，拒绝请求超过 {most} 份的容器（{asked}），"
        "因为更多份并不会得到更多的设备（failRequestsGreaterThanOne）。",
        "请求 {most} 份：共享设备的更多副本不会带来更多算力",
        "或者请求完整的设备，如果插件以别的名字提供",
    ),
    "admission-error": text(
        "{who} 被[[ {node} ]]拒绝（{reason}）", "kubelet 拒绝了 Pod[[：{message}]]", _LOOK_CLOSER
    ),
    "admission-loop": text(
        "{who} 被拒绝（{reason}）后反复重建：[[{seconds:duration}内]] {count} 次",
        "控制器[[（{controllerKind} {controller}）]]不断替换被拒绝的 Pod，调度器又把新的 Pod 送到同一个节点[[ {node}]]，"
        "kubelet 以同样的原因（{reason}）拒绝它[[，大约每 {period:duration}一次]][[，从 {since} 开始]]。"
        "它不会自己停止：调度器看不到 kubelet 所看的东西。",
        "先打断循环：\nkubectl -n {namespace} scale {controllerKind}/{controller} --replicas={fewerReplicas}",
        "或者把下一个 Pod 送到别处：\nkubectl cordon {node}",
        "然后解决根本原因，见对应的拒绝",
    ),
    "unaligned-under-best-effort": text(
        "{who} 已准入，但没有对齐：它的资源在 {nodes:nodes}",
        "[[它占用 {devices:devices}。]][[{blame:blame}。]]合并后的提示是 {merged}，不是首选[[（容器 {container}）]]。"
        "best-effort 策略会接纳这样的 Pod，有什么给什么，它的一部分资源会在另一个 NUMA 节点上；restricted 会拒绝它。",
        "如果宁可拒绝也不要慢速运行，使用 restricted 或 single-numa-node",
        "请求不要超过一个 NUMA 节点的可独占量",
        _NUMA_SCHEDULER,
    ),
    "cpu-spread-over-nodes-under-best-effort": text(
        "{who} 已准入，但它的 CPU[[ {cpus}]] 分布在 {spread:nodes}",
        "[[请求了 {requested:cpus}。]]它们放不进一个[[有 {perNode:cpus} 的]] NUMA 节点[[，所以 CPU 管理器只给出 {offered:sets}]]。"
        "与其他资源合并后的提示变成 {merged}，1.24 之前的 kubelet 称之为首选；实际分到的 CPU[[ {cpus}]] 仍然分布在 "
        "{spread:nodes}。策略 {policy} 接纳了 Pod：它只是部分对齐。",
        "请求的 CPU 不要超过一个 NUMA 节点能给的数量[[：最多 {most:cpus}（每节点 {perNode} 减去预留的 {reserved}）]]，"
        "或换用 NUMA 节点更大的机器",
        "在 1.24 及以后的 kubelet 上使用 restricted 或 single-numa-node 来拒绝这样的 Pod",
    ),
    "memory-needs-two-nodes": text(
        "{who}：内存只能同时放在 {memoryNodes:nodes}",
        "CPU 放得进 {cpuNodes:sets}，但内存只能同时放在两个节点上（{memoryHint}[[，容器 {container}]]），"
        "于是占用 {memoryNodes:nodes}。single-numa-node 会拒绝这个 Pod；从 1.24 起 restricted 也会，因为 CPU 首选一个节点。",
        "请求的内存不要超过一个 NUMA 节点能给的",
        "换用每个 NUMA 节点内存更多的机器",
    ),
    # what is as it should be
    "aligned": text(
        "{who} 已准入，并对齐在 {nodes:nodes}",
        "[[容器 {container}：]]合并后的提示是首选，在 {nodes:nodes}[[（{merged}）]]。它请求的一切都在那里，Pod 已准入。",
    ),
    "aligned/several": text(
        "{who} 已准入，占用 {nodes:nodes}，已是最少",
        "[[容器 {container}：]]合并后的提示是首选，在 {nodes:nodes}[[（{merged}）]]。它的请求超过一个 NUMA 节点，"
        "Pod 在尽可能少的节点上准入。",
    ),
    "aligned/by-socket": text(
        "{who} 已准入，按插槽对齐：它的 CPU 在 {nodes:nodes}",
        "CPU 管理器启用了 align-by-socket：合并后的提示是首选[[（{merged}）]]，CPU {cpus} 可以来自该插槽的任何 NUMA 节点。",
    ),
    "healthy": text("{what}", "{story}"),
    "healthy/pinned": text(
        "{who} 独占 CPU {cpus}",
        "CPU 管理器[[给容器 {container} ]]分配了独占的 CPU {cpus}[[（请求 {requested:cpus}）]][[，都在 {nodes:nodes}]]。",
    ),
    "healthy/started": text(
        "[[{node} 上的]] kubelet 已启动：{managers:managers}",
        "这些资源管理器已启动：{managers:managers}[[；预留 CPU {reserved}]][[；版本 {version}]]。",
    ),
    "healthy/state": text(
        "{file} 与 kubelet 写入时一致[[：策略 {policy}]]",
        "校验和与内容相符；其中有 {pods:pods}[[，独占 {exclusive:cpus}]]。[[共享的 CPU：{sharedCpus}。]]",
    ),
}
