"""What a doctor sees and finds on a node, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

TEXTS: Mapping[str, Text] = {
    "machine-unreadable": text(
        "the machine cannot be read from /sys",
        "{message:sentence}",
        "run it on the node, or give --root a folder or an archive with sys/ and proc/ in it",
    ),
    "kubelet-not-running": text(
        "no kubelet runs on this node",
        "Other processes are there, and none is called kubelet.",
        "systemctl status kubelet\njournalctl -u kubelet -n 200 | numaware diagnose -",
    ),
    "podresources-missing": text(
        "the PodResources socket is not there",
        "Agents ask the kubelet on {file} who holds which CPUs, memory and devices. Without it they see nothing of the node.",
        "start the kubelet; it makes the socket when it runs",
        "if the kubelet has another --root-dir, tell the agents",
    ),
    "pod-lost-at-restart": text(
        "{who} would not survive a start of kubelet {release}: {reason}",
        "A kubelet admits every pod anew when it starts. With what this pod holds and what is free on {node}, kubelet "
        "{release} says: {message}",
        "move the pod to another node before the kubelet is restarted, or free what it says is missing",
        "numaware explain pod {who} --on {node}",
    ),
    "restart-kubelet-stops": text(
        "kubelet {release} would not start on {node}",
        "It takes its state files back or stops, and with these it stops: {message}",
        "kubectl drain {node}   # then delete the file that is named, and start the kubelet",
    ),
    "state-stale-entries": text(
        "{file} holds resources of {count} pods that are gone",
        "These pods have no folder under /var/lib/kubelet/pods any more, and still hold CPUs, memory or devices in the "
        "file: {uids:and}. The kubelet clears them away when it next looks at a pod, unless it is stuck.",
        "systemctl restart kubelet   # if they are still there after the next pod was admitted",
        "numaware checkpoint show {file}",
    ),
    "nri-disabled": text(
        "NRI is off in {runtime}",
        "Only programs that adjust containers while they run need it, such as moving talking pods together.",
    ),
    "nri-disabled/containerd": text(
        "NRI is off in containerd",
        "Only programs that adjust containers while they run need it, such as moving talking pods together.",
        'in {file}:\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n'
        "then: systemctl restart containerd",
    ),
    "nri-disabled/crio": text(
        "NRI is off in CRI-O",
        "Only programs that adjust containers while they run need it, such as moving talking pods together.",
        "in {file}:\n[crio.nri]\nenable_nri = true\nthen: systemctl restart crio",
    ),
    "cgroup-v1": text(
        "control groups are of version 1",
        "Kubernetes has stopped to develop for them; memory of NUMA nodes and CPU sets work, newer features do not.",
        "boot with systemd.unified_cgroup_hierarchy=1",
    ),
    "cgroup-v1/stops": text(
        "control groups are of version 1: a kubelet of {version} does not start",
        "From v1.35 on the kubelet refuses control groups of version 1 unless failCgroupV1 is false.",
        "boot with systemd.unified_cgroup_hierarchy=1",
        "or for a while: failCgroupV1: false",
    ),
    "cgroup-without-cpuset": text(
        "the cpuset controller is missing",
        "The kernel does not offer cpuset in its control groups, so nothing can be bound to CPUs or NUMA nodes.",
        "remove cgroup_disable=cpuset from the kernel's command line, or use a kernel built with CONFIG_CPUSETS",
    ),
    "cgroup-driver-mismatch": text(
        "kubelet and containerd disagree on the cgroup driver: {kubelet} and {runtime}",
        "Two programs then manage the same control groups. Kubelets that ask the runtime (v1.31 and later) put it right by "
        "themselves.",
        'in {file}:\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
        "  SystemdCgroup = true",
        "cgroupDriver: systemd   # in the kubelet's configuration",
    ),
    "numad-running": text(
        "numad runs beside the kubelet",
        "numad moves processes and their memory between NUMA nodes by its own rules, against what the kubelet decided.",
        "systemctl disable --now numad",
    ),
    "isolated-cpus-reserved": text(
        "CPUs {common} are reserved for the system and isolated from it",
        "The kernel keeps its scheduler off the CPUs {isolated} (isolcpus), and the kubelet reserves {reserved} for the "
        "system's processes, which then crowd on what is left of them.",
        "reserve CPUs that are not isolated, or take {common} out of isolcpus",
    ),
    "component-missing": text("{component} is missing", "The cluster has none."),
    "component-missing/agent": text(
        "no agent tells about NUMA nodes",
        "Nobody publishes what is on which NUMA node, so no scheduler can know what a kubelet will refuse.",
        "kubectl apply -f deploy/crd -f deploy/rbac -f deploy/agent/daemonset.yaml",
    ),
    "component-missing/on-nodes": text(
        "{component} does not run on {count} nodes: {nodes:and}",
        "Nobody tells about the NUMA nodes of these machines.",
        "kubectl -n numaware get pods -o wide -l app.kubernetes.io/name={component}   # why not there",
    ),
    "component-missing/kind": text(
        "the cluster does not know NodeResourceTopology",
        "Agents publish such objects, and schedulers read them; their definition is not installed.",
        "install the CRD topology.node.k8s.io/v1alpha2, noderesourcetopologies",
    ),
    "component-missing/volcano": text(
        "parts of Volcano are missing: {parts:and}",
        "No pod of theirs is in the namespace volcano-system. Without its scheduler nobody places pods that name Volcano as theirs; "
        "without the others its jobs make no pods.",
        "kubectl -n volcano-system get deployments,pods   # why they are not there",
    ),
    "component-missing/openfuyao": text(
        "parts of openFuyao's NUMA package are missing: {parts:and}",
        "The package has them all, and others of them run: the exporters tell of NUMA nodes, volcano-config and its website switch "
        "policies, numaadj moves pods together while they run.",
        "helm upgrade numa-affinity-package ./numa-affinity-package",
    ),
    "numa-aware-off": text(
        "Volcano's numa-aware plugin is off",
        "Its configuration (ConfigMap volcano-system/volcano-scheduler-configmap) has no entry `- name: numa-aware` in any tier, so "
        "Volcano passes over volcano.sh/numa-topology-policy and places pods as if machines had one NUMA node.",
        "kubectl -n volcano-system edit configmap volcano-scheduler-configmap   # add - name: numa-aware, then restart volcano-scheduler",
        "or switch it on in the console: Policies, cluster NUMA affinity",
    ),
    "numa-policy-unheeded": text(
        "kube-scheduler does not heed volcano.sh/numa-topology-policy by itself",
        "{who} asks for {policy} by an annotation of Volcano's, and its scheduler is default-scheduler.",
        "schedulerName: volcano   # or numaware; or give kube-scheduler `numaware extender`",
    ),
    "runtime-without-nri": text(
        "{runtime} on {count} nodes is too old for NRI: {nodes:and}",
        "containerd has NRI from 1.7 on and CRI-O from 1.26 on. Only programs that adjust containers while they run need it, such as "
        "openFuyao's pod affinity.",
        "update the container run-time of these nodes",
    ),
    "component-not-ready": text(
        "{component}: {ready} of {pods} pods are ready",
        "The others are starting, or have a problem of their own.",
        "kubectl get pods -A | grep {component}",
    ),
    "component-old": text(
        "{component} is old: {versions:and}, this is {wanted}",
        "Agents and schedulers of different versions may understand each other only in part.",
        "update it to {wanted}",
    ),
    "component-old/kubelet": text(
        "{count} kubelets are too old for this API server: {nodes:and}",
        "Kubernetes supports kubelets that are at most three minor versions behind, here {wanted} and later.",
        "update these nodes",
    ),
    "nodes-not-ready": text(
        "{count} nodes are not ready: {nodes:and}",
        "Their kubelets do not report, or report a problem.",
        "kubectl describe node NODE",
        "on the node: sudo numaware doctor",
    ),
    "nodes-without-topology": text(
        "nothing is published of {count} nodes: {nodes:and}",
        "There is no NodeResourceTopology object for them. Pods that want CPUs, memory or devices of one NUMA node are "
        "placed there by luck.",
        "check the agent on these nodes",
    ),
    "topology-unusable": text(
        "what {publisher} publishes of {node} makes no sense",
        "{message:sentence}",
        "restart or update the publisher on {node}",
    ),
    "topology-stale": text(
        "what is published of {count} nodes is not of now: {nodes:and}",
        "The fingerprint of the pods that were counted is not that of the pods that are there. For a moment that is normal; "
        "for longer the publisher hangs.",
        "ask again in a minute; if it stays, restart the publisher on these nodes",
    ),
    "topology-stale/gone": text(
        "{count} published nodes are gone: {nodes:and}",
        "Objects of nodes that are no longer there are only clutter.",
        "kubectl delete noderesourcetopology NODE",
    ),
    "policies-differ": text(
        "nodes of pool {pool} have different policies: {policies:and}",
        "The same pod is treated differently from node to node, though the pool is meant to be of one kind.",
        "give all nodes of the pool one kubelet configuration",
    ),
}

LABELS: Mapping[str, str] = {
    "ok": "ok",
    "unknown": "unknown",
    "doctor-title": "{node}: {errors:errors}, {warnings:warnings}, {unknown} unknown, {ok} in order",
    "doctor-this-node": "this node",
    "doctor-machine": "{nodes:numa}, {cores:cores}, {cpus:cpus}, {memory:size}",
    "doctor-no-machine": "/sys shows no machine",
    "doctor-no-processes": "no processes are to be seen",
    "doctor-kubelet-runs": "runs",
    "doctor-kubelet-stopped": "does not run",
    "doctor-config": "{file}",
    "doctor-policies": "{file}: CPU {cpu}, memory {memory}, topology {topology} by {scope}",
    "doctor-no-config": "no configuration found where kubelets keep it",
    "doctor-flags": "from {source}",
    "doctor-no-state": "{file} is not there",
    "doctor-state": "{file}",
    "doctor-restart": "the twin takes the state files back on this machine",
    "doctor-restart-pods": (
        "{node}: {count} pods asked about as kubelet {release} would admit them at its start"
        "[[; {strangers} more are known only by what they hold: give --pods]]"
    ),
    "doctor-restart-never": "not tried: the configuration does not start",
    "doctor-restart-unknown": "not tried: {why}",
    "doctor-podresources": "{file}",
    "doctor-no-kubelet-folder": "{file} is not there or may not be read",
    "doctor-no-plugins": "no device plugin has registered",
    "doctor-plugins": "{resources:and}, {plugins} plugin sockets",
    "doctor-nri": "on in {runtime}",
    "doctor-nri-off": "off in {runtime}; only run-time adjustment of containers needs it",
    "doctor-nri-unknown": "{file} does not say",
    "doctor-no-runtime": "no containerd or CRI-O found",
    "doctor-no-runtime-config": "{runtime} runs without a configuration file",
    "doctor-cgroup-v2": "version 2",
    "doctor-cgroup-v1": "version 1",
    "doctor-no-cgroup": "/sys/fs/cgroup is not there",
    "doctor-driver": "kubelet {kubelet}, containerd {runtime}",
    "doctor-driver-unknown": "the kubelet or the runtime does not say",
    "doctor-services": "{names:and}",
    "doctor-not-isolated": "none",
    "doctor-isolated": "CPUs {isolated}",
    "doctor-forbidden": "{count} paths may not be read, {paths:and} among them; run as root",
    "doctor-kubelets": "API server {server}, kubelets {versions:and}",
    "doctor-component": "{ready} of {pods} pods ready, version {versions:and}",
    "doctor-no-agent": "not installed[[; topology comes from {others:and}]]",
    "doctor-no-scheduler": "not installed; another scheduler places pods",
    "doctor-runtimes": "{versions:and}",
    "doctor-volcano": "{parts:and}; {plugin}",
    "numa-aware-on": "numa-aware is on",
    "numa-aware-off": "numa-aware is off",
    "numa-aware-unknown": "whether numa-aware is on may not be read (ConfigMap volcano-system/volcano-scheduler-configmap)",
    "numa-aware-no-volcano": "there is no configuration of its scheduler",
    "doctor-cluster-plugins": "{plugins:and}",
    "doctor-no-topology-kind": "NodeResourceTopology is not known here",
    "doctor-topologies": "{publishers:and}",
    "doctor-fresh": "{current} of {count} nodes are known to be as published",
    "doctor-fresh-unknown": "no publisher says which pods it has counted",
    "doctor-pools": "{pools:and}",
    "doctor-configz": "asked {count} kubelets",
    "doctor-no-configz": "no kubelet could be asked (nodes/proxy)",
    "doctor-cluster": "the cluster at {server}",
    "check-kubelets": "kubelets",
    "check-agent": "agent",
    "check-scheduler": "scheduler",
    "check-runtimes": "container run-times",
    "check-volcano": "Volcano",
    "check-topology-objects": "topology objects",
    "check-topology-fresh": "topology is current",
    "check-policies": "policies",
    "check-kubelet-configs": "kubelet configurations",
    "check-machine": "machine",
    "check-kubelet": "kubelet",
    "check-kubelet-config": "kubelet configuration",
    "check-kubelet-flags": "kubelet flags",
    "check-cpu-state": "CPU state file",
    "check-memory-state": "memory state file",
    "check-device-state": "device state file",
    "check-restart": "kubelet restart",
    "check-restart-pods": "pods at a restart",
    "check-podresources": "PodResources",
    "check-device-plugins": "device plugins",
    "check-nri": "NRI",
    "check-cgroup": "control groups",
    "check-cgroup-driver": "cgroup driver",
    "check-services": "services",
    "check-isolated-cpus": "isolated CPUs",
    "check-permissions": "permissions",
}
