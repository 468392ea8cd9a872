package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	_ "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type hints = map[string][]topologymanager.TopologyHint

// kubelet is one process: managers on a folder with state files. A restart makes a new one on the same folder.
type kubelet struct {
	given    scenario
	folder   string
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	active   []*v1.Pod
	// How often the CPU manager has asked who is active.
	asked chan struct{}
	heard map[string]hints
	told  []map[string]any
	ids   int
}

type stageError struct {
	stage string
	error
}

func play(given scenario) map[string]any {
	folder, err := os.MkdirTemp("", "recorder")
	must(err)
	defer os.RemoveAll(folder)
	gates := map[string]bool{}
	for name, on := range given.Config.Gates {
		gates[name] = on
	}
	must(utilfeature.DefaultMutableFeatureGate.SetFromMap(gates))
	reserved := map[string]string{}
	for name, quantity := range quantities(given.Config.SystemReserved) {
		reserved[string(name)] = quantity.String()
	}
	start := map[string]any{"error": nil, "stage": nil, "nodeAllocatableReservation": reserved}
	result := map[string]any{"start": start, "events": []any{}}
	node, failed := started(given, folder, nil)
	if failed != nil {
		start["error"], start["stage"], start["checkpoints"] = failed.Error(), failed.stage, map[string]string{}
		return result
	}
	start["defaultCpuSet"], start["checkpoints"] = node.shared(), node.files()
	if given.Config.CPUPolicy == "static" {
		start["allocatableCPUs"] = node.cpu.GetAllocatableCPUs().String()
		start["reservedCPUs"] = node.cpu.GetAllCPUs().Difference(node.cpu.GetAllocatableCPUs()).String()
	}
	events := []any{}
	for _, event := range given.Events {
		outcome := map[string]any{"op": event.Op}
		events = append(events, outcome)
		switch event.Op {
		case "add":
			node.add(event.Pod.object(), outcome)
		case "remove":
			outcome["uid"], outcome["found"] = event.UID, node.drop(event.UID)
		case "start":
			started := node.start(event.UID)
			outcome["uid"], outcome["found"] = event.UID, started != nil
			if started != nil {
				outcome["containers"] = node.holdings(started)
			}
		case "restart":
			again, failed := started(given, folder, node.active)
			if failed != nil {
				outcome["startError"], outcome["stage"] = failed.Error(), failed.stage
				result["events"] = events
				return result
			}
			node = again
			outcome["startError"], outcome["readmissions"] = nil, node.readmit(outcome)
		}
		outcome["defaultCpuSet"], outcome["checkpoints"], outcome["freeDevices"] = node.shared(), node.files(), map[string]int{}
	}
	result["events"] = events
	return result
}

// started makes the managers in the kubelet's order: topology, CPU, memory; then starts them with nobody known as running.
func started(given scenario, folder string, active []*v1.Pod) (*kubelet, *stageError) {
	node := &kubelet{given: given, folder: folder, active: active, asked: make(chan struct{}, 1<<16)}
	config, machine := given.Config, given.machine()
	var err error
	if node.topology, err = newTopologyManager(machine, config); err != nil {
		return nil, &stageError{"topology", err}
	}
	reserved := quantities(config.SystemReserved)
	if node.cpu, err = newCPUManager(machine, config, reserved, folder, node.topology); err != nil {
		return nil, &stageError{"cpu", err}
	}
	if node.memory, err = newMemoryManager(machine, config, reserved, folder, node.topology); err != nil {
		return nil, &stageError{"memory", err}
	}
	addProviders(node)
	ctx := context.Background()
	known := func() []*v1.Pod {
		select {
		case node.asked <- struct{}{}:
		default:
		}
		return node.active
	}
	if err = node.cpu.Start(ctx, known, always{}, nobody{}, nobody{}, containermap.NewContainerMap()); err != nil {
		return nil, &stageError{"cpu", err}
	}
	if config.CPUPolicy == "static" {
		// The CPU manager looks after everybody once at its start, in the background; that is over when it has asked twice.
		<-node.asked
		<-node.asked
	}
	if err = node.memory.Start(ctx, func() []*v1.Pod { return node.active }, always{}, nobody{}, nobody{}, containermap.NewContainerMap()); err != nil {
		return nil, &stageError{"memory", err}
	}
	return node, nil
}

// Events

func (node *kubelet) add(pod *v1.Pod, outcome map[string]any) {
	before := node.active
	node.active = append(append([]*v1.Pod{}, before...), pod)
	for key, value := range node.admit(pod) {
		outcome[key] = value
	}
	if outcome["admitted"] == false {
		node.keep(before, outcome)
	}
}

// keep lets go of all other pods, and notes the files before that where it changed them.
func (node *kubelet) keep(kept []*v1.Pod, outcome map[string]any) {
	held := node.files()
	node.active = kept
	node.collect()
	if fmt.Sprint(held) != fmt.Sprint(node.files()) {
		outcome["checkpointsBeforeCleanup"] = held
	}
}

func (node *kubelet) admit(pod *v1.Pod) map[string]any {
	node.told = []map[string]any{}
	verdict := admitted(node.topology, &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: node.active, Operation: lifecycle.AddOperation})
	return map[string]any{
		"uid":        string(pod.UID),
		"admitted":   verdict.Admit,
		"reason":     verdict.Reason,
		"message":    verdict.Message,
		"qos":        string(v1qos.GetPodQOS(pod)),
		"merges":     node.told,
		"containers": node.holdings(pod),
	}
}

func (node *kubelet) readmit(outcome map[string]any) []any {
	verdicts, refused := []any{}, map[types.UID]bool{}
	for _, pod := range node.active {
		verdict := node.admit(pod)
		refused[pod.UID] = verdict["admitted"] == false
		verdicts = append(verdicts, verdict)
	}
	kept := []*v1.Pod{}
	for _, pod := range node.active {
		if !refused[pod.UID] {
			kept = append(kept, pod)
		}
	}
	node.keep(kept, outcome)
	return verdicts
}

func (node *kubelet) drop(uid string) bool {
	kept := []*v1.Pod{}
	for _, pod := range node.active {
		if string(pod.UID) != uid {
			kept = append(kept, pod)
		}
	}
	found := len(kept) < len(node.active)
	node.active = kept
	node.collect()
	return found
}

// start runs the hook before each container in turn; a container that starts again does so under another id.
func (node *kubelet) start(uid string) *v1.Pod {
	for _, pod := range node.active {
		if string(pod.UID) == uid {
			for _, one := range everyContainer(pod) {
				node.ids++
				startContainer(node, pod, &one, fmt.Sprintf("id-%d", node.ids))
			}
			return pod
		}
	}
	return nil
}

func everyContainer(pod *v1.Pod) []v1.Container {
	return append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
}

// collect makes the managers drop who is gone: they do it whenever anybody is asked about.
func (node *kubelet) collect() {
	nobody := &v1.Pod{}
	cpuHints(node, nobody, &v1.Container{})
	memoryHints(node, nobody, &v1.Container{})
}

// What came of it

func (node *kubelet) shared() string {
	return node.cpu.State().GetDefaultCPUSet().String()
}

func (node *kubelet) files() map[string]string {
	files := map[string]string{}
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		content, err := os.ReadFile(filepath.Join(node.folder, name))
		must(err)
		files[name] = string(content)
	}
	return files
}

func (node *kubelet) holdings(pod *v1.Pod) []any {
	held := []any{}
	for _, one := range everyContainer(pod) {
		entry := map[string]any{"name": one.Name, "cpuset": nil, "devices": map[string]any{}}
		if set, exists := node.cpu.State().GetCPUSet(string(pod.UID), one.Name); exists {
			entry["cpuset"] = set.String()
		}
		blocks := node.memory.State().GetMemoryBlocks(string(pod.UID), one.Name)
		sort.Slice(blocks, func(i, j int) bool { return blocks[i].Type < blocks[j].Type })
		listed := []any{}
		for _, block := range blocks {
			listed = append(listed, block)
		}
		entry["memory"] = listed
		held = append(held, entry)
	}
	return held
}

// hear notes what one provider says; the last one's word makes a merge, and the release's own policy says what comes of it.
func (node *kubelet) hear(provider string, container any, said hints) {
	if node.heard == nil {
		node.heard = map[string]hints{}
	}
	node.heard[provider] = said
	if provider != "memory" {
		return
	}
	best, admit := merged(node.topology, []map[string][]topologymanager.TopologyHint{{}, node.heard["cpu"], said})
	node.told = append(node.told, map[string]any{
		"container": container,
		"hints":     map[string]any{"device": map[string]any{}, "cpu": listed(node.heard["cpu"]), "memory": listed(said)},
		"best":      shown(best),
		"admit":     admit,
	})
}

func listed(said hints) map[string]any {
	lists := map[string]any{}
	for resource, list := range said {
		if list == nil {
			lists[resource] = nil
			continue
		}
		all := []any{}
		for _, hint := range list {
			all = append(all, shown(hint))
		}
		lists[resource] = all
	}
	return lists
}

func shown(hint topologymanager.TopologyHint) map[string]any {
	if hint.NUMANodeAffinity == nil {
		return map[string]any{"mask": nil, "preferred": hint.Preferred}
	}
	return map[string]any{"mask": hint.NUMANodeAffinity.GetBits(), "preferred": hint.Preferred}
}

// What the managers need to know of the rest of a kubelet.

type always struct{}

func (always) AddSource(string) {}
func (always) AllReady() bool   { return true }

type nobody struct{}

func (nobody) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (nobody) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

const reconcilePeriod = 24 * time.Hour
