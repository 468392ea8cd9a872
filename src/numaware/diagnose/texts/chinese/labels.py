"""Short Chinese texts: under marked lines, and the fixed words of the renderers."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "trouble": "发现了问题",
    "no-trouble": "没有发现拓扑问题",
    "error": "错误",
    "warning": "警告",
    "info": "正常",
    "certain": "确定",
    "likely": "很可能",
    "possible": "可能",
    "why": "原因",
    "help": "办法",
    "wants": "{resource} 想要 {nodes:sets}",
    "wants-nothing": "{resource} 放不进任何 NUMA 节点的组合",
    "no-wish": "没有提示：任何 NUMA 节点都可以",
    "merged": "合并结果：{hint}",
    "refused": "在这里被拒绝",
    "started": "开始准入",
    "again": "再次创建",
    "got-cpus": "分给了容器",
    "gap": "{what}",
    "not-whole": "不是整数个 CPU：应为 {whole}",
    "lint-summary": "{files} 个文件，{errors} 个错误，{warnings} 个警告",
    "more-lines": "以及另外 # 行",
}
