"""What is as it should be, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "aligned": Text(
        "{who} 已准入，并对齐在 {nodes:nodes}",
        "[[容器 {container}：]]合并后的提示是首选，在 {nodes:nodes}[[（{merged}）]]。它请求的一切都在那里，Pod 已准入。",
    ),
    "aligned/several": Text(
        "{who} 已准入，占用 {nodes:nodes}，已是最少",
        "[[容器 {container}：]]合并后的提示是首选，在 {nodes:nodes}[[（{merged}）]]。它的请求超过一个 NUMA 节点，"
        "Pod 在尽可能少的节点上准入。",
    ),
    "aligned/by-socket": Text(
        "{who} 已准入，按插槽对齐：它的 CPU 在 {nodes:nodes}",
        "CPU 管理器启用了 align-by-socket：合并后的提示是首选[[（{merged}）]]，CPU {cpus} 可以来自该插槽的任何 NUMA 节点。",
    ),
    "healthy": Text("{what}", "{story}"),
    "healthy/pinned": Text(
        "{who} 独占 CPU {cpus}",
        "CPU 管理器[[给容器 {container} ]]分配了独占的 CPU {cpus}[[（请求 {requested:cpus}）]][[，都在 {nodes:nodes}]]。",
    ),
    "healthy/started": Text(
        "[[{node} 上的]] kubelet 已启动：{managers:managers}",
        "这些资源管理器已启动：{managers:managers}[[；预留 CPU {reserved}]][[；版本 {version}]]。",
    ),
    "healthy/state": Text(
        "{file} 与 kubelet 写入时一致[[：策略 {policy}]]",
        "校验和与内容相符；其中有 {pods:pods}[[，独占 {exclusive:cpus}]]。[[共享的 CPU：{sharedCpus}。]]",
    ),
}
