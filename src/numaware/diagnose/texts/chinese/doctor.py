"""What a doctor sees and finds on a node, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

_NRI = "只有在运行时调整容器的程序才需要它，例如把互相通信的 Pod 移到一起。"

TEXTS: Mapping[str, Text] = {
    "machine-unreadable": text(
        "无法从 /sys 读取机器",
        "{message:sentence}",
        "在节点上运行，或用 --root 给出含有 sys/ 和 proc/ 的目录或归档",
    ),
    "kubelet-not-running": text(
        "此节点上没有运行 kubelet",
        "能看到其他进程，但没有叫 kubelet 的。",
        "systemctl status kubelet\njournalctl -u kubelet -n 200 | numaware diagnose -",
    ),
    "podresources-missing": text(
        "PodResources 套接字不存在",
        "代理通过 {file} 询问 kubelet 谁占用了哪些 CPU、内存和设备。没有它，代理什么也看不到。",
        "启动 kubelet，它运行时会创建套接字",
        "如果 kubelet 使用别的 --root-dir，请告诉代理",
    ),
    "pod-lost-at-restart": text(
        "{who} 在 kubelet {release} 启动后无法保留：{reason}",
        "kubelet 启动时会重新准入每个 Pod。按这个 Pod 占用的资源和 {node} 上的空闲，kubelet {release} 会说：{message}",
        "在重启 kubelet 之前把这个 Pod 移到别的节点，或腾出它所缺的资源",
        "numaware explain pod {who} --on {node}",
    ),
    "restart-kubelet-stops": text(
        "kubelet {release} 无法在 {node} 上启动",
        "它要么接受状态文件，要么停止；对这些文件它会停止：{message}",
        "kubectl drain {node}   # 然后删除所指的文件，再启动 kubelet",
    ),
    "state-stale-entries": text(
        "{file} 中仍有 {count} 个已消失 Pod 的资源",
        "这些 Pod 在 /var/lib/kubelet/pods 下已没有目录，却仍在文件中占用 CPU、内存或设备：{uids:and}。"
        "kubelet 下次处理 Pod 时会清除它们，除非它卡住了。",
        "systemctl restart kubelet   # 如果下一个 Pod 准入之后它们仍在",
        "numaware checkpoint show {file}",
    ),
    "nri-disabled": text("{runtime} 中的 NRI 已关闭", _NRI),
    "nri-disabled/containerd": text(
        "containerd 中的 NRI 已关闭",
        _NRI,
        '在 {file} 中：\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n'
        "然后：systemctl restart containerd",
    ),
    "nri-disabled/crio": text(
        "CRI-O 中的 NRI 已关闭",
        _NRI,
        "在 {file} 中：\n[crio.nri]\nenable_nri = true\n然后：systemctl restart crio",
    ),
    "cgroup-v1": text(
        "控制组是第 1 版",
        "Kubernetes 已不再为它开发；NUMA 内存和 CPU 绑定可用，新功能不可用。",
        "用 systemd.unified_cgroup_hierarchy=1 启动系统",
    ),
    "cgroup-v1/stops": text(
        "控制组是第 1 版：{version} 的 kubelet 不会启动",
        "从 v1.35 起，除非 failCgroupV1 为 false，kubelet 拒绝第 1 版控制组。",
        "用 systemd.unified_cgroup_hierarchy=1 启动系统",
        "或暂时设置：failCgroupV1: false",
    ),
    "cgroup-without-cpuset": text(
        "缺少 cpuset 控制器",
        "内核的控制组没有提供 cpuset，什么都无法绑定到 CPU 或 NUMA 节点。",
        "从内核命令行去掉 cgroup_disable=cpuset，或使用带 CONFIG_CPUSETS 的内核",
    ),
    "cgroup-driver-mismatch": text(
        "kubelet 与 containerd 的 cgroup 驱动不一致：{kubelet} 和 {runtime}",
        "这样就有两个程序管理同一批控制组。会询问运行时的 kubelet（v1.31 及以后）会自行纠正。",
        '在 {file} 中：\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
        "  SystemdCgroup = true",
        "cgroupDriver: systemd   # 在 kubelet 的配置中",
    ),
    "numad-running": text(
        "numad 与 kubelet 同时运行",
        "numad 按自己的规则在 NUMA 节点之间移动进程及其内存，与 kubelet 的决定相抵触。",
        "systemctl disable --now numad",
    ),
    "isolated-cpus-reserved": text(
        "CPU {common} 既为系统预留，又与系统隔离",
        "内核调度器不使用 CPU {isolated}（isolcpus），而 kubelet 把 {reserved} 预留给系统进程，系统进程就挤在剩下的 CPU 上。",
        "预留没有被隔离的 CPU，或把 {common} 从 isolcpus 中去掉",
    ),
    "component-missing": text("缺少 {component}", "集群中没有它。"),
    "component-missing/agent": text(
        "没有代理上报 NUMA 节点的情况",
        "没有人发布什么资源在哪个 NUMA 节点上，调度器无从知道 kubelet 会拒绝什么。",
        "kubectl apply -f deploy/crd -f deploy/rbac -f deploy/agent/daemonset.yaml",
    ),
    "component-missing/on-nodes": text(
        "{component} 没有在 {count} 个节点上运行：{nodes:and}",
        "没有人上报这些机器的 NUMA 节点。",
        "kubectl -n numaware get pods -o wide -l app.kubernetes.io/name={component}   # 为什么没有",
    ),
    "component-missing/kind": text(
        "集群不认识 NodeResourceTopology",
        "代理发布这种对象，调度器读取它；它的定义没有安装。",
        "安装 CRD topology.node.k8s.io/v1alpha2, noderesourcetopologies",
    ),
    "component-missing/volcano": text(
        "缺少 Volcano 的部件：{parts:and}",
        "命名空间 volcano-system 中没有它们的 Pod。没有调度器，就没有人放置以 Volcano 为调度器的 Pod；没有其余部件，它的作业不会生成 Pod。",
        "kubectl -n volcano-system get deployments,pods   # 为什么没有",
    ),
    "component-missing/openfuyao": text(
        "缺少 openFuyao NUMA 软件包的部件：{parts:and}",
        "软件包包含所有这些部件，而其中一些正在运行：exporter 上报 NUMA 节点，volcano-config 及其网站切换策略，"
        "numaadj 在运行时把 Pod 移到一起。",
        "helm upgrade numa-affinity-package ./numa-affinity-package",
    ),
    "numa-aware-off": text(
        "Volcano 的 numa-aware 插件未开启",
        "它的配置（ConfigMap volcano-system/volcano-scheduler-configmap）的任何一层中都没有 `- name: numa-aware`，因此 Volcano 不理会 "
        "volcano.sh/numa-topology-policy，放置 Pod 时如同机器只有一个 NUMA 节点。",
        "kubectl -n volcano-system edit configmap volcano-scheduler-configmap   # 加入 - name: numa-aware，然后重启 volcano-scheduler",
        "或在控制台开启：策略，集群 NUMA 亲和",
    ),
    "numa-policy-unheeded": text(
        "kube-scheduler 自身不理会 volcano.sh/numa-topology-policy",
        "{who} 用 Volcano 的注解要求 {policy}，而它的调度器是 default-scheduler。",
        "schedulerName: volcano   # 或 numaware；或给 kube-scheduler 配上 `numaware extender`",
    ),
    "runtime-without-nri": text(
        "{count} 个节点上的 {runtime} 太旧，没有 NRI：{nodes:and}",
        "containerd 从 1.7 起、CRI-O 从 1.26 起才有 NRI。只有在运行时调整容器的程序才需要它，例如 openFuyao 的 Pod 亲和。",
        "升级这些节点的容器运行时",
    ),
    "component-not-ready": text(
        "{component}：{pods} 个 Pod 中 {ready} 个就绪",
        "其余的正在启动，或者自身有问题。",
        "kubectl get pods -A | grep {component}",
    ),
    "component-old": text(
        "{component} 过旧：{versions:and}，当前为 {wanted}",
        "不同版本的代理和调度器可能只能部分互相理解。",
        "升级到 {wanted}",
    ),
    "component-old/kubelet": text(
        "{count} 个 kubelet 对这个 API server 来说过旧：{nodes:and}",
        "Kubernetes 支持最多落后三个小版本的 kubelet，这里是 {wanted} 及以后。",
        "升级这些节点",
    ),
    "nodes-not-ready": text(
        "{count} 个节点未就绪：{nodes:and}",
        "它们的 kubelet 没有上报，或上报了问题。",
        "kubectl describe node NODE",
        "在节点上：sudo numaware doctor",
    ),
    "nodes-without-topology": text(
        "{count} 个节点没有发布任何信息：{nodes:and}",
        "它们没有 NodeResourceTopology 对象。想要同一 NUMA 节点上 CPU、内存或设备的 Pod 只能碰运气。",
        "检查这些节点上的代理",
    ),
    "topology-unusable": text(
        "{publisher} 发布的 {node} 的信息没有意义", "{message:sentence}", "重启或升级 {node} 上的发布程序"
    ),
    "topology-stale": text(
        "{count} 个节点发布的信息不是现在的：{nodes:and}",
        "已统计 Pod 的指纹与现有 Pod 的不同。短暂如此是正常的；持续如此说明发布程序卡住了。",
        "一分钟后再问；如果仍然如此，重启这些节点上的发布程序",
    ),
    "topology-stale/gone": text(
        "{count} 个已发布的节点已不存在：{nodes:and}",
        "已不存在的节点的对象只是杂物。",
        "kubectl delete noderesourcetopology NODE",
    ),
    "policies-differ": text(
        "节点池 {pool} 中的节点策略不同：{policies:and}",
        "同一个 Pod 在不同节点上受到不同对待，而节点池本应是同一种。",
        "给节点池中的所有节点使用同一份 kubelet 配置",
    ),
}

LABELS: Mapping[str, str] = {
    "ok": "正常",
    "unknown": "未知",
    "doctor-title": "{node}：{errors:errors}，{warnings:warnings}，{unknown} 个未知，{ok} 个正常",
    "doctor-this-node": "本节点",
    "doctor-machine": "{nodes:numa}，{cores:cores}，{cpus:cpus}，{memory:size}",
    "doctor-no-machine": "/sys 中看不到机器",
    "doctor-no-processes": "看不到任何进程",
    "doctor-kubelet-runs": "正在运行",
    "doctor-kubelet-stopped": "没有运行",
    "doctor-config": "{file}",
    "doctor-policies": "{file}：CPU {cpu}，内存 {memory}，拓扑 {topology}，范围 {scope}",
    "doctor-no-config": "在 kubelet 通常存放的位置没有找到配置",
    "doctor-flags": "来自 {source}",
    "doctor-no-state": "{file} 不存在",
    "doctor-state": "{file}",
    "doctor-restart": "孪生在这台机器上接受这些状态文件",
    "doctor-restart-pods": (
        "{node}：按 kubelet {release} 启动时的准入询问了 {count} 个 Pod"
        "[[；另有 {strangers} 个只知道占用了什么：请用 --pods 给出]]"
    ),
    "doctor-restart-never": "未尝试：配置无法启动",
    "doctor-restart-unknown": "未尝试：{why}",
    "doctor-podresources": "{file}",
    "doctor-no-kubelet-folder": "{file} 不存在或无权读取",
    "doctor-no-plugins": "没有设备插件注册",
    "doctor-plugins": "{resources:and}，{plugins} 个插件套接字",
    "doctor-nri": "{runtime} 中已开启",
    "doctor-nri-off": "{runtime} 中已关闭；只有运行时调整容器才需要它",
    "doctor-nri-unknown": "{file} 没有说明",
    "doctor-no-runtime": "没有找到 containerd 或 CRI-O",
    "doctor-no-runtime-config": "{runtime} 在运行，但没有配置文件",
    "doctor-cgroup-v2": "第 2 版",
    "doctor-cgroup-v1": "第 1 版",
    "doctor-no-cgroup": "/sys/fs/cgroup 不存在",
    "doctor-driver": "kubelet {kubelet}，containerd {runtime}",
    "doctor-driver-unknown": "kubelet 或运行时没有说明",
    "doctor-services": "{names:and}",
    "doctor-not-isolated": "无",
    "doctor-isolated": "CPU {isolated}",
    "doctor-forbidden": "{count} 个路径无权读取，包括 {paths:and}；请用 root 运行",
    "doctor-kubelets": "API server {server}，kubelet {versions:and}",
    "doctor-component": "{pods} 个 Pod 中 {ready} 个就绪，版本 {versions:and}",
    "doctor-no-agent": "未安装[[；拓扑信息来自 {others:and}]]",
    "doctor-no-scheduler": "未安装；由别的调度器放置 Pod",
    "doctor-runtimes": "{versions:and}",
    "doctor-volcano": "{parts:and}；{plugin}",
    "numa-aware-on": "numa-aware 已开启",
    "numa-aware-off": "numa-aware 未开启",
    "numa-aware-unknown": "无权读取 numa-aware 是否开启（ConfigMap volcano-system/volcano-scheduler-configmap）",
    "numa-aware-no-volcano": "没有它的调度器的配置",
    "doctor-cluster-plugins": "{plugins:and}",
    "doctor-no-topology-kind": "这里不认识 NodeResourceTopology",
    "doctor-topologies": "{publishers:and}",
    "doctor-fresh": "已知 {count} 个节点中 {current} 个与发布的一致",
    "doctor-fresh-unknown": "没有发布程序说明它统计了哪些 Pod",
    "doctor-pools": "{pools:and}",
    "doctor-configz": "询问了 {count} 个 kubelet",
    "doctor-no-configz": "无法询问任何 kubelet（nodes/proxy）",
    "doctor-cluster": "{server} 的集群",
    "check-kubelets": "kubelet",
    "check-agent": "代理",
    "check-scheduler": "调度器",
    "check-runtimes": "容器运行时",
    "check-volcano": "Volcano",
    "check-topology-objects": "拓扑对象",
    "check-topology-fresh": "拓扑是否最新",
    "check-policies": "策略",
    "check-kubelet-configs": "kubelet 配置",
    "check-machine": "机器",
    "check-kubelet": "kubelet",
    "check-kubelet-config": "kubelet 配置",
    "check-kubelet-flags": "kubelet 参数",
    "check-cpu-state": "CPU 状态文件",
    "check-memory-state": "内存状态文件",
    "check-device-state": "设备状态文件",
    "check-restart": "kubelet 重启",
    "check-restart-pods": "重启时的 Pod",
    "check-podresources": "PodResources",
    "check-device-plugins": "设备插件",
    "check-nri": "NRI",
    "check-cgroup": "控制组",
    "check-cgroup-driver": "cgroup 驱动",
    "check-services": "服务",
    "check-isolated-cpus": "隔离的 CPU",
    "check-permissions": "权限",
}
