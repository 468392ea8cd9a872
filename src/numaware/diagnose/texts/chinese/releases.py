"""What changes between kubelets of different releases, in Chinese, by the template of the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # an upgrade
    "would be refused when the kubelet starts: {reason}: {message}": "kubelet 启动时会被拒绝：{reason}：{message}",
    "the kubelet would not start: {said}": "kubelet 无法启动：{said}",
    "was {old}, is {new}": "原为 {old}，现为 {new}",
    "is gone: take it out of the configuration": "已不存在：请从配置中删除",
    "is new: {stage}, {default}": "新增：{stage}，{default}",
    "was {old}, {before}; is {new}, {after}": "原为 {old}，{before}；现为 {new}，{after}",
    "on by default": "默认开启",
    "off by default": "默认关闭",
    "is written with its content twice; older kubelets still read it": "内容写两遍；旧的 kubelet 仍能读取",
    "is written without the second copy of its content again": "不再写第二份内容",
    "from now on: {says}": "从此：{says}",
    "no longer: {says}": "不再：{says}",
    # a resize
    "in-place resize is off by default before v1.33": "v1.33 之前默认不支持就地调整",
    # the rules (twin/rules.py)
    "a resize asks for no CPUs or memory anew: of the managers only that of devices gives hints": (
        "就地调整不再重新申请 CPU 和内存：管理器中只有设备管理器给出提示"
    ),
    "the Memory Manager exists": "有内存管理器",
    "CPU manager policy options, full-pcpus-only and SMTAlignmentError exist": "有 CPU 管理器策略选项、full-pcpus-only 和 SMTAlignmentError",
    "CPUs are sorted by how few are free beside them; before, two sockets had no certain order": "CPU 按旁边空闲的多少排序；此前两个插槽之间没有确定的顺序",
    "memory of init containers that ended is used again by the pod's later ones": "已结束的 init 容器的内存由同一 Pod 后面的容器重用",
    "a memory hint is extended only to groups that reach beyond its highest NUMA node": "内存提示只会扩展到超出其最高 NUMA 节点的组",
    "CPUs of the pod last asked about stay taken until the next one is": "最后一次被询问的 Pod 的 CPU 一直占用，直到询问下一个",
    "CPUs are taken by NUMA level, too; distribute-cpus-across-numa exists": "也按 NUMA 层级取 CPU；有 distribute-cpus-across-numa",
    "devices without topology are kept under node -1 in the file, before that under node 0": "没有拓扑的设备在文件中记在节点 -1 下，此前记在节点 0 下",
    "the narrowest memory hint is the one an empty machine would give, whatever groups there are now": "最窄的内存提示是空机器会给出的那个，与现有的组无关",
    "what a pod may use again of its init containers' memory is kept even after another pod had some": "即使之前别的 Pod 有 init 容器，Pod 仍可重用自己 init 容器的内存",
    "a merged hint is preferred only if all managers prefer the same NUMA nodes": "只有所有管理器都偏好同样的 NUMA 节点，合并后的提示才是首选",
    "topology manager options exist; a device without NUMA nodes counts as one without topology": "有拓扑管理器选项；没有 NUMA 节点的设备视为没有拓扑",
    "full-pcpus-only also counts the free cores, not only the threads asked for": "full-pcpus-only 也计算空闲的核，不只是请求的线程数",
    "scope and options of the topology manager are checked under policy none, too": "策略 none 下也检查拓扑管理器的作用域和选项",
    "unhealthy devices are refused by name, also those a running pod has": "按名字拒绝不健康的设备，包括运行中的 Pod 已有的",
    "init containers that restart run beside the others and keep what they have": "可重启的 init 容器与其他容器并行运行，并保留已有资源",
    "an allocation may not cross memory groups; a restart compares the sums of a group": "分配不得跨越内存组；重启时比较组内之和",
    "an SMTAlignmentError says which of its two causes it has": "SMTAlignmentError 会说明两种原因中的哪一种",
    "memory policy BestEffort is known, and refused for not being on Windows": "认识内存策略 BestEffort，但因不是 Windows 而拒绝",
    "an odd number of CPUs, too, is taken from one last-level cache if it fits": "奇数个 CPU 只要放得下，也从同一个末级缓存中取",
    "device hints name only NUMA nodes that have such devices, so a pod is pulled there": "设备提示只包含有此类设备的 NUMA 节点，Pod 因此被拉到那里",
    "a state file is read as its newest layout first; one without a memory checksum is taken": "状态文件先按最新的格式读取；没有校验和的内存文件也接受",
    "full-pcpus-only asks nothing of a container that has its CPUs: a restart refuses it no more": "full-pcpus-only 不再要求已有 CPU 的容器：重启不再拒绝它",
    "distributed CPUs never ask a NUMA node for more than it has; with align-by-socket one socket wins": "分散的 CPU 不会向 NUMA 节点要得比它有的更多；同时用 align-by-socket 时同一插槽优先",
    "a container that may have no memory of its own is not in the memory file (PodLevelResourceManagers)": (
        "没有自己内存的容器不记入内存状态文件（PodLevelResourceManagers）"
    ),
    "a resize is refused for what it changes; before, a static manager forbids all, and one gate stands for both": (
        "原地调整只因所改的资源被拒绝；此前任一静态管理器都会禁止全部调整，且两者共用一个特性门控"
    ),
    "a resize may ask for huge pages' and hard eviction's memory, and waits": "原地调整可以请求大页和硬驱逐保留的内存，并一直等待",
    "a resize beyond the whole node waits (Deferred); before, it is Infeasible": (
        "超出整个节点的原地调整会等待（Deferred）；此前为 Infeasible"
    ),
    "CPU and memory state files hold their content twice, and only the second checksum counts": "CPU 和内存状态文件的内容写两遍，只有第二个校验和算数",
}
