"""What is wrong with manifests and kubelet configurations, in Chinese, by the template of the English sentence.

`Invalid value: …`, `Required value` and their like are the API server's own words and stay as they are, as does what the
kubelet and the YAML parser say.
"""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # where it is
    "{source}: {problem}": "{source}：{problem}",
    "{path}: {text}": "{path}：{text}",
    "{problem} ({hint})": "{problem}（{hint}）",
    # machines
    "each NUMA node is assumed to have {size} GiB of memory; mem= says how much it has": (
        "假定每个 NUMA 节点有 {size} GiB 内存；用 mem= 说明实际大小"
    ),
    # files
    "larger than {most} MiB": "超过 {most} MiB",
    "split the file": "请拆分文件",
    "is not UTF-8 text": "不是 UTF-8 文本",
    "nested more than {most} levels deep": "嵌套超过 {most} 层",
    "holds more than {most} values": "包含的值超过 {most} 个",
    "holds more than {most} objects": "包含的对象超过 {most} 个",
    "holds a character that YAML forbids ({reason})": "包含 YAML 不允许的字符（{reason}）",
    "not YAML: {problem}": "不是合法的 YAML：{problem}",
    "a tab is used for indentation; YAML takes only blanks": "缩进用了制表符，YAML 只接受空格",
    "not YAML: the line ends in a call-out mark such as <1>, copied from a manual": (
        "不是合法的 YAML：行尾有从手册复制来的标注，如 <1>"
    ),
    "*{name} refers to no anchor before it": "*{name} 之前没有对应的锚点",
    "a mapping key is {kind}; Kubernetes takes only text": "映射的键是 {kind}，Kubernetes 只接受文本",
    "key {key!r} is set twice in one mapping": "键 {key!r} 在同一个映射中出现两次",
    "<< merges something that is not a mapping": "<< 合并的不是映射",
    "aliases repeat more than {most} values": "别名重复的值超过 {most} 个",
    "write them out, or split the file": "请把它们写出来，或拆分文件",
    # packed files
    "holds more than {most} MiB when unpacked": "解压后超过 {most} MiB",
    "takes longer than {seconds} seconds to read": "读取时间超过 {seconds} 秒",
    "cannot be decompressed: {reason}": "无法解压：{reason}",
    "is cut off and cannot be decompressed to its end": "不完整，无法解压到结尾",
    "is cut off: its end mark is missing": "不完整：缺少结束标记",
    "is cut off in the middle of a file": "在一个文件的中间被截断",
    "is encrypted": "已加密",
    "has a member packed by method {method}": "有成员以方法 {method} 压缩，无法读取",
    "is not a tar archive": "不是 tar 归档",
    "is packed in more than {most} layers": "打包的层数超过 {most} 层",
    "has a damaged header": "的文件头已损坏",
    "has a damaged pax header": "的 pax 文件头已损坏",
    "has an extension header of {size} bytes": "的扩展文件头有 {size} 字节",
    "has a name that is longer than a path may be": "中有一个名字比路径允许的还长",
    "has a member that climbs out of the archive: {name!r}": "中有一个成员指向归档之外：{name!r}",
    "has more than {most} members": "的成员超过 {most} 个",
    "holds a sparse file": "包含稀疏文件",
    "holds more than {most} MiB of files": "包含的文件超过 {most} MiB",
    "holds more than {most} files": "包含的文件超过 {most} 个",
    # manifests
    "holds no ResourceSlice, ResourceClaim, ResourceClaimTemplate or DeviceClass": (
        "不含 ResourceSlice、ResourceClaim、ResourceClaimTemplate 或 DeviceClass"
    ),
    "cannot be read as a {kind}: {problem}": "不能读作 {kind}：{problem}",
    "{name}: the slices of {node} are taken to be its own": "{name}：把 {node} 的 ResourceSlice 当作它自己的",
    "holds no pod and no pod template": "不含 Pod，也不含 Pod 模板",
    "found {kinds}": "找到的是 {kinds}",
    "and {count} more": "以及另外 {count} 个",
    "is missing; the API server asks for a name": "缺失；API server 要求有名字",
    "expected a whole number of pods, 0 or more": "应为 0 或更大的整数个 Pod",
    "expected a whole number, got {value}": "应为整数，实为 {value}",
    "expected text, got a JSON {kind}; put it in quotes": "应为文本，实为 JSON {kind}；请加上引号",
    "expected true or false, got a JSON {kind}": "应为 true 或 false，实为 JSON {kind}",
    "expected a list, got a JSON {kind}": "应为列表，实为 JSON {kind}",
    "expected a mapping, got a JSON {kind}": "应为映射，实为 JSON {kind}",
    "expected a list of containers, got a JSON {kind}": "应为容器列表，实为 JSON {kind}",
    "expected a mapping of resources to quantities, got a JSON {kind}": "应为资源到数量的映射，实为 JSON {kind}",
    "expected a quantity such as 2, 500m or 1.5Gi, got a JSON {kind}": (
        "应为 2、500m 或 1.5Gi 这样的数量，实为 JSON {kind}"
    ),
    "Invalid value: {problem}": "Invalid value：{problem}",
    "{text!r} is not a quantity (expected a form such as 2, 500m, 1.5Gi or 1e3)": (
        "{text!r} 不是数量（应为 2、500m、1.5Gi 或 1e3 这样的形式）"
    ),
    "{text!r} is not a quantity": "{text!r} 不是数量",
    "{text!r} has an exponent beyond {most}": "{text!r} 的指数超出 {most}",
    "{text!r} is more than 2^63-1, the most Kubernetes can count": "{text!r} 超过 2^63-1，Kubernetes 数不了这么多",
    "names {count} resources; no pod has more than {most}": "列出了 {count} 种资源，没有 Pod 会超过 {most} 种",
    "{name!r} is not a name the API server takes": "API server 不接受 {name!r} 这个名字",
    "has no value and counts as 0": "没有值，按 0 计",
    "is no QoS class; it is computed instead": "不是 QoS 类别，改为计算得出",
    "is no field of Kubernetes and is ignored; did you mean {near}?": "不是 Kubernetes 的字段，会被忽略；是不是想写 {near}?",
    # kubelet configurations
    "unknown field {field}: the kubelet logs a warning and ignores it": "未知字段 {field}：kubelet 记录一条警告后忽略它",
    "{problem}; did you mean {near}?": "{problem}；是不是想写 {near}?",
    "and {count} more unknown fields": "以及另外 {count} 个未知字段",
    "is ignored: a kubelet of v1.{minor} does not know it (v1.{since} brought it)": (
        "会被忽略：v1.{minor} 的 kubelet 还不认识它（v1.{since} 才引入）"
    ),
    "a fragment: the kubelet itself asks for apiVersion and kind": "只是片段：kubelet 本身要求有 apiVersion 和 kind",
    "is missing": "缺失",
    "{given} is read as {known}, the only version kubelets take": "{given} 按 {known} 读取，kubelet 只接受这个版本",
    "a PerformanceProfile: taken as the Node Tuning Operator renders it": (
        "这是 PerformanceProfile：按 Node Tuning Operator 渲染的结果处理"
    ),
    "is a number, and the API server asks for text: put it in quotes": "是数字，而 API server 要求文本：请加上引号",
    "has no effect with memoryManagerPolicy None": "在 memoryManagerPolicy 为 None 时不起作用",
    "are not even looked at with topologyManagerPolicy none": "在 topologyManagerPolicy 为 none 时不会被读取",
    "is replaced by the number of CPUs in reservedSystemCPUs": "会被 reservedSystemCPUs 中的 CPU 数取代",
    "several kubelet configurations in one file: later ones change earlier ones": (
        "一个文件中有多份 kubelet 配置：后面的会更改前面的"
    ),
    "{source}: {version} is newer than {known}, whose rules are taken for it": (
        "{source}：{version} 比 {known} 新，按后者的规则处理"
    ),
    "{source}: numactl tells no cores: each CPU is taken for a core of its own": (
        "{source}：numactl 不说明核：每个 CPU 视为一个单独的核"
    ),
    # devices of state files
    "{resource}: NUMA nodes of {count} free devices inferred from the machine's GPUs": (
        "{resource}：{count} 个空闲设备的 NUMA 节点由机器的 GPU 推断而来"
    ),
    "{resource}: the NUMA nodes of {count} free devices are not known, so all its {all} are taken to have none; "
    "--devices tells them": (
        "{resource}：{count} 个空闲设备的 NUMA 节点未知，因此全部 {all} 个都视为没有；可以用 --devices 指明"
    ),
    "{resource}: which of {count} free devices is where is not known; dealt as --devices lists them": (
        "{resource}：{count} 个空闲设备各在何处未知，按 --devices 的顺序分配"
    ),
    "{resource}: {count} devices of --devices are not in the state file, and taken to be free": (
        "{resource}：--devices 中有 {count} 个设备不在状态文件中，视为空闲"
    ),
    "{resource}: --devices lists {count} devices less than the state file, and is believed": (
        "{resource}：--devices 比状态文件少 {count} 个设备，以 --devices 为准"
    ),
    "{file}: the checksum is wrong: the kubelet forgets who holds which device": (
        "{file}：校验和不符：kubelet 会忘记谁占用哪个设备"
    ),
}
