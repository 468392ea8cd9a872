//go:build !v1_36

package main

import (
	"context"

	model "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type (
	machineInfo = model.MachineInfo
	nodeInfo    = model.Node
	coreInfo    = model.Core
	hugePages   = model.HugePagesInfo
)

var logger = klog.Background()

func newTopologyManager(machine *machineInfo, config configuration) (topologymanager.Manager, error) {
	return topologymanager.NewManager(logger, machine.Topology, config.TopologyPolicy, config.TopologyScope, config.TopologyOptions)
}

func newCPUManager(machine *machineInfo, config configuration, reserved v1.ResourceList, folder string, store topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(logger, config.CPUPolicy, config.CPUOptions, reconcilePeriod, machine, config.reservedCPUs(), reserved, folder, store)
}

func newMemoryManager(machine *machineInfo, config configuration, reserved v1.ResourceList, folder string, store topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(logger, config.MemoryPolicy, machine, reserved, config.reservedMemory(), folder, store)
}

func addProviders(node *kubelet) {
	node.topology.AddHintProvider(logger, listener{node.cpu, "cpu", node})
	node.topology.AddHintProvider(logger, listener{node.memory, "memory", node})
}

func admitted(manager topologymanager.Manager, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return manager.Admit(context.Background(), attributes)
}

func merged(store topologymanager.Store, all []map[string][]topologymanager.TopologyHint) (topologymanager.TopologyHint, bool) {
	return store.GetPolicy().Merge(logger, all)
}

func startContainer(node *kubelet, pod *v1.Pod, one *v1.Container, id string) {
	node.cpu.AddContainer(logger, pod, one, id)
	node.memory.AddContainer(logger, pod, one, id)
	node.topology.AddContainer(logger, pod, one, id)
}

func cpuHints(node *kubelet, pod *v1.Pod, one *v1.Container) {
	node.cpu.GetTopologyHints(logger, pod, one, lifecycle.AddOperation)
}

func memoryHints(node *kubelet, pod *v1.Pod, one *v1.Container) {
	node.memory.GetTopologyHints(logger, pod, one, lifecycle.AddOperation)
}

// listener passes everything on to a manager and notes the hints.
type listener struct {
	topologymanager.HintProvider
	name string
	node *kubelet
}

func (l listener) GetTopologyHints(logger klog.Logger, pod *v1.Pod, one *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	said := l.HintProvider.GetTopologyHints(logger, pod, one, operation)
	l.node.hear(l.name, one.Name, said)
	return said
}

func (l listener) GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	said := l.HintProvider.GetPodTopologyHints(logger, pod, operation)
	l.node.hear(l.name, nil, said)
	return said
}
