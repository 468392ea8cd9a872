"""What is found in files before they are applied, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

TEXTS: Mapping[str, Text] = {
    "cpu-manager-no-reserved-cpus/on-a-base": text(
        "这里没有预留 CPU，而 static CPU 管理器至少需要一个",
        "cpuManagerPolicy 为 static 时，没有预留 CPU kubelet 就不会启动。本文件中没有预留；它叠加在一份基础配置之上，那里可能有 systemReserved.cpu 或 kubeReserved.cpu。",
        '直接写明 CPU，不依赖基础配置：\nreservedSystemCPUs: "0,1"   # 整个物理核，位于网卡所在的 NUMA 节点',
    ),
    "memory-manager-reserved-memory-mismatch/not-reservable": text(
        "kubelet 不会启动：reservedMemory 保留了 {found} 的 {resource}，而没有人要求保留它",
        "reservedMemory 中每种内存的总和必须等于整个节点的预留量，而 kubeReserved、systemReserved 和 evictionHard 都没有预留 {resource}：总和必须为 0。",
        "从 reservedMemory 中删除 {resource}",
    ),
    "memory-manager-reserved-memory-mismatch/unbacked": text(
        "kubelet 不会启动：reservedMemory 保留了 {found}，而整个节点没有任何预留",
        "reservedMemory 只说明 kubeReserved、systemReserved 和 evictionHard 一共保留的内存在哪里，而这里它们什么也没有保留。",
        "systemReserved:\n  memory: {found}",
    ),
    "policy-option-needs-gate/all": text(
        "kubelet 不会启动：策略选项需要特性门控 {gate}",
        "{message:sentence} 门控 {gate} 关闭时，这个版本的 kubelet 不接受任何策略选项[[（{options:and}）]]。",
        "featureGates:\n  {gate}: true",
        "或者删除这些选项",
    ),
    "incompatible-policy-options/distribute-on-one-node": text(
        "{option} 在 single-numa-node 下不起作用",
        "{option} 把容器的 CPU 均匀分到几个 NUMA 节点上，而 single-numa-node 只接受留在一个节点上的容器。kubelet 会启动，但什么也不会被分散。",
        "删除 {option}",
        "或者允许大的 Pod 跨节点：\ntopologyManagerPolicy: restricted",
    ),
    "incompatible-policy-options/closest-of-one-node": text(
        "{option} 在 single-numa-node 下不起作用",
        "{option} 按距离在多个 NUMA 节点的组合中选择，而 single-numa-node 只接受一个节点。",
        "删除 {option}",
        "或者允许大的 Pod 跨越相邻的节点：\ntopologyManagerPolicy: restricted",
    ),
    "reserved-cpus-split-cores": text(
        "预留 CPU {reserved} 浪费了 CPU {lost}",
        "使用 full-pcpus-only 时只分配整个物理核。CPU {lost} 与预留的 CPU 同核，没有容器能独占它们：整机浪费 {count:cpus}。",
        '预留整个物理核：\nreservedSystemCPUs: "{whole}"',
    ),
    "marks-of-a-manual": text(
        "{name} 中有手册里的标记：{marks:and}",
        "手册给行编号以便解释，用省略号代替省去的内容；两者都不是 YAML。原样读取时，标记会成为值的一部分，或使文件无法读取。"
        "这里先略去标记再检查其余内容。",
        "sed -i -E 's/[ \\t]+<[0-9]+>[ \\t]*$//; /^[ \\t]+\\.\\.\\.$/d' {name}",
    ),
    "ignored-field": text(
        "{path} 不起作用", "{path}：{message}。", "是不是想写 {near}?", "删除或改正 {path}"
    ),
    "ignored-field/manifest": text(
        "{path} 不是 Kubernetes 的字段，不起作用",
        "Kubernetes 会悄悄丢掉它，Pod 就在没有这项内容的情况下运行。",
        "应写在 {near}",
    ),
    "manifest-invalid": text("API server 会拒绝 {name}：{path}", "{path}：{message}"),
    "memory-in-fractions-of-a-byte": text(
        "{path} 请求的是不足一个字节的内存",
        "{message:sentence}后缀 m 表示千分之一，所以 500m 的内存是半个字节。",
        "用 Mi 表示 MiB，用 M 表示 MB",
    ),
    "pod-level-resources-not-pinned": text(
        "{who} 使用 Pod 级资源，不会绑核",
        "CPU 管理器和内存管理器会跳过带 spec.resources 的 Pod：它的容器运行在共享 CPU 上。",
        "给每个容器设置相等的 requests 和 limits，并删除 spec.resources",
    ),
    "devices-without-topology": text(
        "不知道任何 {resource} 在哪个 NUMA 节点[[（{nodes:and}）]]",
        "设备插件上报 {resource} 时没有拓扑信息，拓扑管理器得不到它的提示：CPU 和内存彼此对齐，设备却可能在另一个 NUMA 节点上。",
        "使用会上报每个设备 NUMA 节点的设备插件版本",
        "在虚拟机里，把设备的 NUMA 节点透传进来（否则 sysfs 中的 numa_node 是 -1）",
    ),
    "pass-device-specs": text(
        "容器会丢失 GPU：{key} 关闭，而 CPU 管理器是 static",
        "deviceListStrategy 为 {strategies:and} 时，GPU 是绕过容器运行时放进容器的。static CPU 管理器会反复更新容器，每次更新都会拿走运行时"
        "不知道的设备。各种教程有的写 true，有的写 false；与 static CPU 管理器一起使用时，true 才是对的。",
        "flags:\n  plugin:\n    passDeviceSpecs: true   # 即 --pass-device-specs，插件要能看到主机的 /dev",
        "或者由 CDI 声明设备：\nflags:\n  plugin:\n    deviceListStrategy: cdi-cri",
    ),
    "pass-device-specs/policy-unknown": text(
        "{key} 关闭，只有不用 static CPU 管理器时才对",
        "各种教程有的写 true，有的写 false。deviceListStrategy 为 {strategies:and} 且 cpuManagerPolicy 为 static 时，true 才对：否则 CPU 管理器"
        "的更新会把 GPU 从运行中的容器里拿走。cpuManagerPolicy 为 none 时 false 就对，需要的权限也更少。把 kubelet 配置一起给出，就能确定。",
        "numaware lint {name} kubelet-config.yaml",
    ),
    "pass-device-specs/needless": text(
        "{key} 打开了，但没有必要",
        "它是为 static CPU 管理器准备的，而一起给出的 kubelet 用的是别的策略。它没有害处，但插件为此要能看到主机的 /dev。",
        "flags:\n  plugin:\n    passDeviceSpecs: false",
    ),
    "pass-device-specs/needless-with-cdi": text(
        "{key} 打开了，但没有必要",
        "deviceListStrategy 为 {strategies:and} 时，CDI 会把设备节点告诉运行时，所以无论策略如何，CPU 管理器的更新都会保留它们。",
        "flags:\n  plugin:\n    passDeviceSpecs: false",
    ),
    "claim-not-aligned": text(
        "没有什么保证 {who} 的设备在同一个 NUMA 节点上",
        "它有请求 {requests:and}，每一个都可能由不同的 NUMA 节点提供。除非声明里写明，kube-scheduler 和 kubelet 都不对齐 DRA 的设备。",
        "{yaml}",
        "或者用 matchAttribute: resource.kubernetes.io/pcieRoot，把设备放在同一个 PCIe 根之下；驱动必须发布这个属性，没有它的设备不会被选中",
    ),
    "claim-not-aligned/one-request": text(
        "{who} 请求多个设备，它们可能在多个 NUMA 节点上",
        "除非声明里写明，kube-scheduler 和 kubelet 都不对齐 DRA 的设备。加上约束后，声明会等到一个 NUMA 节点有足够的设备为止；"
        "Pod 需要的比一个节点拥有的还多时，就不要加。",
        "{yaml}",
    ),
    "devices-served-by-dra": text(
        "{who}：kubelet 不对齐 {names:and}：由 DRA 提供",
        "kubelet 让这个 Pod 独占 CPU，而它的拓扑管理器得不到 DRA 设备的提示：无论策略如何，设备都可能在另外的 NUMA 节点上。",
        "numaware explain FILE --node NODE --dra FILE   # 分配之后，说明它们在哪里",
        "或者使用设备插件提供的设备，它会给出提示",
        "或者 CPU 也由 DRA 分配（dra-driver-cpu，cpuManagerPolicy none），放在同一个声明里，并写 matchAttribute: "
        "resource.kubernetes.io/numaNode",
    ),
    "cpu-driver-beside-static": text(
        "{driver} 和 static CPU 管理器都在分配 CPU",
        "驱动通过 DRA 给容器分配 CPU，而一起给出的 kubelet 配置里 cpuManagerPolicy 是 static。双方都不知道对方分配了什么：在同一个节点上二者互斥。",
        "cpuManagerPolicy: none   # 重启前删除 /var/lib/kubelet/cpu_manager_state",
        "或者不要把驱动放到使用 static 策略的节点上",
    ),
    "memory-needs-two-nodes/refused": text(
        "{who}：容器 {container} 的内存放不进任何一个 NUMA 节点",
        "容器 {container} 请求 {asked}，而 {node} 的一个 NUMA 节点最多只能给 {most:size}；它的 CPU 可以放在 {cpuNodes:sets}。"
        "在 {policy} 下两者必须一致，所以 Pod 总会被拒绝。",
        "{resource} 最多请求 {most:size}",
        "或者把工作拆成每个都能放进一个 NUMA 节点的 Pod",
        "或者在 restricted 下请求足够多的 CPU，使它们也需要 {memoryNodes:nodes}",
    ),
    "memory-needs-two-nodes/spans": text(
        "{who}：容器 {container} 的内存来自 {memoryNodes:nodes}",
        "容器 {container} 请求 {asked}，而 {node} 的一个 NUMA 节点最多只能给 {most:size}。它的 CPU 可以放在 {cpuNodes:sets}；"
        "在 {policy} 下它会被准入，内存来自机器的两侧。",
        "{resource} 最多请求 {most:size}",
        "或者把工作拆成每个都能放进一个 NUMA 节点的 Pod",
    ),
    # manifests that will not do what their author thinks
    "fractional-cpu-not-pinned": text(
        "{who}：容器 {container} 请求 {cpu} CPU，不会绑核",
        "static CPU 管理器只绑定整数个 CPU。请求 {cpu} 的容器运行在所有 NUMA 节点的共享 CPU 上，拓扑管理器也得不到它的 CPU 提示。",
        '请求整数个 CPU：\nresources:\n  requests: {{cpu: "{whole}"}}\n  limits: {{cpu: "{whole}"}}',
    ),
    "not-guaranteed": text(
        "{who} 是 {qos}：没有容器能独占 CPU 或内存",
        "只有 Guaranteed 的 Pod 才会绑核并对齐，而它是 {qos}[[：{missing}]]。",
        "给每个容器（包括 init 容器）设置 cpu 和 memory 的 limits，并让 requests 与之相等：\n{yaml}",
    ),
    "init-larger-than-app": text(
        "{who}：init 容器 {init} 请求 {initAmount} 的 {resource}，多于其后所有容器的 {appAmount}",
        "init 容器最先分配，它拿到的就是 Pod 被绑定的范围：应用容器没有接手的 {resource} 会一直占用到 Pod 结束，还可能把 Pod 绑到两个 NUMA 节点上。",
        "init 容器的 {resource} 不要超过 {appAmount}",
    ),
    "init-larger-than-app/shared": text(
        "{who}：init 容器 {init} 请求 {initAmount} 的 {resource}，多于其后所有容器的 {appAmount}",
        "调度器在 Pod 的整个生命周期里都按较大者预留：{initAmount} 的 {resource}，而 init 容器结束后只需要 {appAmount}。",
        "init 容器的 {resource} 不要超过 {appAmount}",
    ),
    "never-fits": text(
        "{who} 在[[ {cluster} 的]]任何节点上都放不下，空节点也不行",
        "{story}",
        "{remedy}",
        "或者下列之一，均已在孪生上试过：\n{others}",
    ),
}
