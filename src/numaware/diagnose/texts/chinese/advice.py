"""Manifests that will not do what their author thinks, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "fractional-cpu-not-pinned": Text(
        "{who}：容器 {container} 请求 {cpu} CPU，不会绑核",
        "static CPU 管理器只绑定整数个 CPU。请求 {cpu} 的容器运行在所有 NUMA 节点的共享 CPU 上，拓扑管理器也得不到它的 CPU 提示。",
        ('请求整数个 CPU：\nresources:\n  requests: {{cpu: "{whole}"}}\n  limits: {{cpu: "{whole}"}}',),
    ),
    "not-guaranteed": Text(
        "{who} 是 {qos}：没有容器能独占 CPU 或内存",
        "只有 Guaranteed 的 Pod 才会绑核并对齐，而它是 {qos}[[：{missing}]]。",
        ("给每个容器（包括 init 容器）设置 cpu 和 memory 的 limits，并让 requests 与之相等：\n{yaml}",),
    ),
    "init-larger-than-app": Text(
        "{who}：init 容器 {init} 请求 {initAmount} 的 {resource}，多于其后所有容器的 {appAmount}",
        "init 容器最先分配，它拿到的就是 Pod 被绑定的范围：应用容器没有接手的 {resource} 会一直占用到 Pod 结束，还可能把 Pod 绑到两个 NUMA 节点上。",
        ("init 容器的 {resource} 不要超过 {appAmount}",),
    ),
    "init-larger-than-app/shared": Text(
        "{who}：init 容器 {init} 请求 {initAmount} 的 {resource}，多于其后所有容器的 {appAmount}",
        "调度器在 Pod 的整个生命周期里都按较大者预留：{initAmount} 的 {resource}，而 init 容器结束后只需要 {appAmount}。",
        ("init 容器的 {resource} 不要超过 {appAmount}",),
    ),
    "never-fits": Text(
        "{who} 在[[ {cluster} 的]]任何节点上都放不下，空节点也不行",
        "{story}",
        ("{remedy}", "或者下列之一，均已在孪生上试过：\n{others}"),
    ),
}
