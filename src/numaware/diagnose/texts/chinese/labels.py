"""Short Chinese texts: under marked lines, and the fixed words of the renderers."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "a-pod": "一个 Pod",
    "trouble": "发现了问题",
    "no-trouble": "没有发现拓扑问题",
    "error": "错误",
    "warning": "警告",
    "info": "正常",
    "certain": "确定",
    "likely": "很可能",
    "possible": "可能",
    "why": "原因",
    "colon": "：",
    "help": "办法",
    "wants": "{resource} 想要 {nodes:sets}",
    "wants-nothing": "{resource} 放不进任何 NUMA 节点的组合",
    "makes-do": "{resource} 可以用 {nodes:sets}，但首选更少的节点",
    "no-wish": "没有提示：任何 NUMA 节点都可以",
    "merged": "合并结果：{hint}",
    "refused": "在这里被拒绝",
    "stopped": "kubelet 到此为止",
    "again": "再次创建",
    "got-cpus": "分给了容器",
    "not-whole": "不是整数个 CPU：应为 {whole}",
    "diagnosed": "{files:files}中有 {errors:errors}、{warnings:warnings}",
    "unknown-files": "未能识别：{count:files}",
    "facts": "事实",
    "files": "文件",
    "more-lines": "以及另外 {count} 行",
}
