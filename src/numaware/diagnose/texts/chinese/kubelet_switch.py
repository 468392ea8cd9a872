"""Switching a kubelet's policies, in Chinese, by the template of the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # the plan
    "Kubelet {version} of {kind}: {file}": "{kind} 的 kubelet {version}：{file}",
    "Nothing would change.": "不会有任何变化。",
    "Steps": "步骤",
    "The kubelet would not start: {said}": "kubelet 将无法启动：{said}",
    "The restart would end {count} running pods:": "重启会终止 {count} 个正在运行的 Pod：",
    "cordon the node": "将节点标记为不可调度",
    "no new pod comes while its kubelet is away": "kubelet 停止期间不会有新的 Pod 到来",
    "evict {count} pods: {pods}": "驱逐 {count} 个 Pod：{pods}",
    "they move before the restart, as their disruption budgets allow": "在重启之前，按各自的中断预算迁走",
    "stop {unit}": "停止 {unit}",
    "a kubelet reads its configuration at the start only; containers go on": "kubelet 只在启动时读取配置；容器继续运行",
    "copy {files} to {folder}": "将 {files} 复制到 {folder}",
    "the way back, to the byte": "以便逐字节地恢复",
    "write {path}": "写入 {path}",
    "the settings that were asked for": "所要求的设置",
    "remove {path}": "删除 {path}",
    "it was not there before": "之前没有这个文件",
    "with it the kubelet would not start: {said}": "留着它 kubelet 将无法启动：{said}",
    "start {unit}": "启动 {unit}",
    "with the new configuration": "使用新的配置",
    "wait until {unit} is ready": "等待 {unit} 就绪",
    "if it does not come up, all of this is undone": "如果起不来，以上全部撤销",
    "uncordon the node": "恢复节点的调度",
    "new pods may come again": "新的 Pod 可以再次到来",
    "a drain goes through the API server, and none is named: --kubeconfig names it": (
        "驱逐要通过 API server，而没有指定：请用 --kubeconfig 指定"
    ),
    "nobody would make these pods anew, so they are not evicted without --force: {pods}": (
        "这些 Pod 没有控制器会重新创建，没有 --force 就不驱逐：{pods}"
    ),
    "which pods run here is not known without an API server: --kubeconfig names it": (
        "没有 API server 就不知道这里运行着哪些 Pod：请用 --kubeconfig 指定"
    ),
    "{unit} is the API server of this node, too, which is away with it": "{unit} 也是这个节点上的 API server，会一同停止",
    "{count} pods hold CPUs of their own, and are given others while they run": (
        "{count} 个 Pod 拥有独占的 CPU，运行中会被换成别的 CPU"
    ),
    "what becomes of the pods cannot be said: {why}": "无法判断这些 Pod 会怎样：{why}",
    "would have no effect: {source} has the last word on it": "不会生效：它最终由 {source} 决定",
    "change it there, or take it away there first": "请在那里修改，或先从那里去掉",
    # what happens
    "Nothing was done: --yes carries it out.": "没有执行：加上 --yes 才会执行。",
    "Nothing was done: pods would be ended. --drain moves them first, --let-pods-end goes on.": (
        "没有执行：有 Pod 会被终止。--drain 先把它们迁走，--let-pods-end 则照样继续。"
    ),
    "Half-way: {folder}, step {step} of {count}": "做到一半：{folder}，第 {step} 步，共 {count} 步",
    "Applied. `numaware kubelet rollback` goes back; {folder} has the files as they were.": (
        "已生效。`numaware kubelet rollback` 可以恢复；原来的文件在 {folder}。"
    ),
    "Rolled back, everything is as it was: {why}": "已回滚，一切如前：{why}",
    "Not put back yet: {why}. When that is mended, `numaware kubelet rollback --yes` goes on; {folder} has the files.": (
        "尚未恢复：{why}。修好之后，`numaware kubelet rollback --yes` 会继续；原来的文件在 {folder}。"
    ),
    "{why}; and then: {problem}": "{why}；随后：{problem}",
    "it was interrupted": "被中断",
    "it was called back": "被撤回",
    "it was done, and is not so": "已执行，但结果不符",
    "the API server: {problem}": "API server 回答：{problem}",
    "the kubelet did not come up within {seconds} s": "kubelet 在 {seconds} 秒内没有起来",
    "the kubelet does not stay up": "kubelet 起来后又退出",
    "{problem}; it said: {words}": "{problem}；它说：{words}",
    "the API server was there when this was planned, and is not named now": "计划时有 API server，现在没有指定",
    # what was asked for
    "is not FIELD=VALUE": "不是 字段=值 的形式",
    "is no setting of the resource managers of a kubelet": "不是 kubelet 资源管理器的设置",
    "did you mean {near}?": "是不是想写 {near}?",
    "sets nothing that the resource managers of a kubelet read": "没有设置 kubelet 资源管理器读取的任何内容",
    "has no flag, and this kubelet is configured by flags": "没有对应的命令行参数，而这个 kubelet 是用参数配置的",
    # files
    "holds no kubelet configuration": "不含 kubelet 配置",
    "holds several documents; only a file with one is edited": "包含多个文档；只修改含一个文档的文件",
    "is neither JSON nor YAML in block style, and is not edited": "既不是 JSON，也不是块格式的 YAML，不作修改",
    "{field} refers to other parts of the file, and is not edited": "{field} 引用了文件的其他部分，不作修改",
    "cannot be read": "无法读取",
    "is it there, and are you root?": "文件在吗?是 root 吗?",
    "cannot be written": "无法写入",
    "are you root, and is it mounted read-only?": "是 root 吗?是不是以只读方式挂载的?",
    "its configuration file was not found": "找不到它的配置文件",
    "name it with --config; a kubelet that has flags only must be given a file first": (
        "请用 --config 指定；只有参数的 kubelet 要先有一个配置文件"
    ),
    "the API server does not tell of it: {problem}": "API server 没有给出它的信息：{problem}",
    "--node names the Node, --kubeconfig an account that may read it": "用 --node 指定节点，用 --kubeconfig 指定可以读取它的账号",
    # the unit
    "systemd does not tell how it stands: {problem}": "systemd 没有给出它的状态：{problem}",
    "systemd has no such unit that it could start": "systemd 没有可以启动的这个单元",
    "--unit names the unit that runs the kubelet, for an agent --kubelet-unit": (
        "用 --unit 指定运行 kubelet 的单元，agent 则用 --kubelet-unit"
    ),
    # the journal
    "the journal cannot be written: {reason}": "日志无法写入：{reason}",
    "--journal names another folder": "可以用 --journal 指定别的目录",
    "another switch of this node is under way": "这个节点正在进行另一次切换",
    "the last switch of this node was left half-way": "这个节点的上一次切换只做到一半",
    "`numaware kubelet apply --resume` goes on, `numaware kubelet rollback` goes back": (
        "`numaware kubelet apply --resume` 继续，`numaware kubelet rollback` 恢复"
    ),
    "was written down where its files are in {folder}": "记录时，备份文件所在的目录是 {folder}",
    "who began it takes it up: the agent, or --root and --journal as they were then": (
        "请由开始它的一方继续：代理，或者使用当时的 --root 和 --journal"
    ),
    "no switch of this node is half-way": "这个节点没有做到一半的切换",
    "there is no switch to go back from": "没有可以恢复的切换",
    "the node was cordoned through an API server; name it": "节点是通过 API server 标记为不可调度的，请指定它",
    # pools
    "names no setting": "没有指定任何设置",
    "is not LABEL=VALUE": "不是 标签=值 的形式",
    "once for each label: --nodes pool=gpu --nodes zone=a": "每个标签写一次：--nodes pool=gpu --nodes zone=a",
    "deploy/crd/kubeletpolicies.yaml brings the kind": "deploy/crd/kubeletpolicies.yaml 提供这种对象",
    "the account of this console may not {verb} {what}": "控制台的账号没有对 {what} 执行 {verb} 的权限",
    "the cluster does not know KubeletPolicy objects: deploy/crd/kubeletpolicies.yaml brings them": (
        "集群中没有 KubeletPolicy 这种对象：由 deploy/crd/kubeletpolicies.yaml 提供"
    ),
    "no agent may change its kubelet: none was started with --allow-kubelet-changes": (
        "没有 agent 可以修改 kubelet：启动时都没有 --allow-kubelet-changes"
    ),
    "not all nodes were done in time; the order is paused": "未能按时完成所有节点；已暂停",
    "node {node} did not take it, and all kubelets were put back: {why}": "节点 {node} 未能切换，所有 kubelet 已恢复原状：{why}",
    "node {node} did not take it, and not all kubelets were put back in time: {why}": "节点 {node} 未能切换，部分 kubelet 未能及时恢复原状：{why}",
    "Still putting everything back; after a kill, `numaware kubelet apply --resume` would have to go on with that.": (
        "仍在恢复原状；若此时被强行终止，须由 `numaware kubelet apply --resume` 继续恢复。"
    ),
}
