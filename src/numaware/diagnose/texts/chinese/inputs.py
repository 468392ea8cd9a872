"""What is wrong with manifests and kubelet configurations, in Chinese.

`Invalid value: …`, `Required value` and their like are the API server's own words and stay as they are, as does what the
kubelet and the YAML parser say.
"""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # files
    "larger than {} MiB": "超过 {} MiB",
    "larger than {} MiB, which no manifest is": "超过 {} MiB，清单不会有这么大",
    "split the file": "请拆分文件",
    "is not UTF-8 text": "不是 UTF-8 文本",
    "nested more than {} levels deep": "嵌套超过 {} 层",
    "holds more than {} values": "包含的值超过 {} 个",
    "holds more than {} objects": "包含的对象超过 {} 个",
    "holds a character that YAML forbids ({})": "包含 YAML 不允许的字符（{}）",
    "not YAML: {}": "不是合法的 YAML：{}",
    "a tab is used for indentation; YAML takes only blanks": "缩进用了制表符，YAML 只接受空格",
    "the line ends in a call-out mark such as <1>, copied from a manual": "行尾有从手册复制来的标注，如 <1>",
    "*{} refers to no anchor before it": "*{} 之前没有对应的锚点",
    "a mapping key is {}; Kubernetes takes only text": "映射的键是 {}，Kubernetes 只接受文本",
    "key {} is set twice in one mapping": "键 {} 在同一个映射中出现两次",
    "<< merges something that is not a mapping": "<< 合并的不是映射",
    "merge keys copy more than {} entries": "合并键复制的条目超过 {} 个",
    # manifests
    "holds no pod and no pod template": "不含 Pod，也不含 Pod 模板",
    "found {}": "找到的是 {}",
    "and {} more": "以及另外 {} 个",
    "is missing; the API server asks for a name": "缺失；API server 要求有名字",
    "expected a whole number of pods, 0 or more": "应为 0 或更大的整数个 Pod",
    "expected a whole number, got {}": "应为整数，实为 {}",
    "expected text, got a JSON {}; put it in quotes": "应为文本，实为 JSON {}；请加上引号",
    "expected true or false, got a JSON {}": "应为 true 或 false，实为 JSON {}",
    "expected a list, got a JSON {}": "应为列表，实为 JSON {}",
    "expected a mapping, got a JSON {}": "应为映射，实为 JSON {}",
    "expected a list of containers, got a JSON {}": "应为容器列表，实为 JSON {}",
    "expected a mapping of resources to quantities, got a JSON {}": "应为资源到数量的映射，实为 JSON {}",
    "expected a quantity such as 2, 500m or 1.5Gi, got a JSON {}": "应为 2、500m 或 1.5Gi 这样的数量，实为 JSON {}",
    "{} is not a quantity (expected a form such as 2, 500m, 1.5Gi or 1e3)": (
        "{} 不是数量（应为 2、500m、1.5Gi 或 1e3 这样的形式）"
    ),
    "{} is not a quantity": "{} 不是数量",
    "{} has an exponent beyond {}": "{} 的指数超出 {}",
    "{} is more than 2^63-1, the most Kubernetes can count": "{} 超过 2^63-1，Kubernetes 数不了这么多",
    "names {} resources; no pod has more than {}": "列出了 {} 种资源，没有 Pod 会超过 {} 种",
    "{} is not a name the API server takes": "API server 不接受 {} 这个名字",
    "has no value and counts as 0": "没有值，按 0 计",
    "is no QoS class; it is computed instead": "不是 QoS 类别，改为计算得出",
    "is no field of Kubernetes and is ignored; did you mean {}?": "不是 Kubernetes 的字段，会被忽略；是不是想写 {}?",
    # kubelet configurations
    "unknown field {}: the kubelet logs a warning and ignores it": "未知字段 {}：kubelet 记录一条警告后忽略它",
    "unknown field {}: the kubelet logs a warning and ignores it; did you mean {}?": (
        "未知字段 {}：kubelet 记录一条警告后忽略它；是不是想写 {}?"
    ),
    "and {} more unknown fields": "以及另外 {} 个未知字段",
    "is ignored: a kubelet of {} does not know it ({} brought it)": "会被忽略：{} 的 kubelet 还不认识它（{} 才引入）",
    "a fragment: the kubelet itself asks for apiVersion and kind": "只是片段：kubelet 本身要求有 apiVersion 和 kind",
    "a PerformanceProfile: taken as the Node Tuning Operator renders it": (
        "这是 PerformanceProfile：按 Node Tuning Operator 渲染的结果处理"
    ),
    "has no effect with memoryManagerPolicy None": "在 memoryManagerPolicy 为 None 时不起作用",
    "are not even looked at with topologyManagerPolicy none": "在 topologyManagerPolicy 为 none 时不会被读取",
    "is replaced by the number of CPUs in reservedSystemCPUs": "会被 reservedSystemCPUs 中的 CPU 数取代",
    "several kubelet configurations in one file: later ones change earlier ones": (
        "一个文件中有多份 kubelet 配置：后面的会更改前面的"
    ),
    "NUMA nodes of {} free devices inferred from the machine's GPUs": "{} 个空闲设备的 NUMA 节点由机器的 GPU 推断而来",
    "the NUMA nodes of {} free devices are not known, so all its {} are taken to have none; --devices tells them": (
        "{} 个空闲设备的 NUMA 节点未知，因此全部 {} 个都视为没有；可以用 --devices 指明"
    ),
    "the checksum is wrong: the kubelet forgets who holds which device": "校验和不符：kubelet 会忘记谁占用哪个设备",
}
