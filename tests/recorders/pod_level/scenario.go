package main

import (
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/utils/cpuset"
)

// What tests/vectors/README.md calls a scenario, without devices.
type scenario struct {
	ID      string `json:"id"`
	Machine struct {
		Numa []numaNode `json:"numa"`
	} `json:"machine"`
	Config configuration `json:"config"`
	Events []event       `json:"events"`
}

type numaNode struct {
	ID        int               `json:"id"`
	Memory    uint64            `json:"memoryBytes"`
	Hugepages map[string]uint64 `json:"hugepages"`
	Distances []uint64          `json:"distances"`
	CPUs      []struct {
		ID     int `json:"id"`
		Core   int `json:"core"`
		Socket int `json:"socket"`
	} `json:"cpus"`
}

type configuration struct {
	TopologyPolicy  string            `json:"topologyManagerPolicy"`
	TopologyScope   string            `json:"topologyManagerScope"`
	TopologyOptions map[string]string `json:"topologyManagerPolicyOptions"`
	CPUPolicy       string            `json:"cpuManagerPolicy"`
	CPUOptions      map[string]string `json:"cpuManagerPolicyOptions"`
	MemoryPolicy    string            `json:"memoryManagerPolicy"`
	SystemReserved  map[string]string `json:"systemReserved"`
	ReservedCPUs    string            `json:"reservedSystemCPUs"`
	ReservedMemory  []struct {
		Node   int32             `json:"numaNode"`
		Limits map[string]string `json:"limits"`
	} `json:"reservedMemory"`
	Gates map[string]bool `json:"featureGates"`
}

type event struct {
	Op  string `json:"op"`
	UID string `json:"uid"`
	Pod *pod   `json:"pod"`
}

type amounts struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

type container struct {
	amounts
	Name          string `json:"name"`
	RestartPolicy string `json:"restartPolicy"`
}

type pod struct {
	UID            string      `json:"uid"`
	Name           string      `json:"name"`
	Namespace      string      `json:"namespace"`
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
	Resources      amounts     `json:"resources"`
}

func (given *pod) object() *v1.Pod {
	made := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: given.Name, Namespace: given.Namespace, UID: types.UID(given.UID)}}
	made.Spec.Containers = containers(given.Containers)
	made.Spec.InitContainers = containers(given.InitContainers)
	if len(given.Resources.Requests)+len(given.Resources.Limits) > 0 {
		made.Spec.Resources = &v1.ResourceRequirements{Requests: quantities(given.Resources.Requests), Limits: quantities(given.Resources.Limits)}
	}
	return made
}

func containers(given []container) []v1.Container {
	made := []v1.Container{}
	for _, one := range given {
		each := v1.Container{Name: one.Name}
		each.Resources = v1.ResourceRequirements{Requests: quantities(one.Requests), Limits: quantities(one.Limits)}
		if one.RestartPolicy != "" {
			policy := v1.ContainerRestartPolicy(one.RestartPolicy)
			each.RestartPolicy = &policy
		}
		made = append(made, each)
	}
	return made
}

func quantities(given map[string]string) v1.ResourceList {
	list := v1.ResourceList{}
	for name, text := range given {
		list[v1.ResourceName(name)] = resource.MustParse(text)
	}
	return list
}

func (config configuration) reservedMemory() []kubeletconfig.MemoryReservation {
	reserved := []kubeletconfig.MemoryReservation{}
	for _, one := range config.ReservedMemory {
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: one.Node, Limits: quantities(one.Limits)})
	}
	return reserved
}

func (config configuration) reservedCPUs() cpuset.CPUSet {
	set, err := cpuset.Parse(config.ReservedCPUs)
	must(err)
	return set
}

// machine is the scenario's as cAdvisor would tell it, threads of one core together.
func (given scenario) machine() *machineInfo {
	info := &machineInfo{}
	sockets := map[int]bool{}
	for _, node := range given.Machine.Numa {
		told := nodeInfo{Id: node.ID, Memory: node.Memory, Distances: node.Distances}
		for name, bytes := range node.Hugepages {
			size := resource.MustParse(name[len("hugepages-"):])
			pages := uint64(size.Value())
			told.HugePages = append(told.HugePages, hugePages{PageSize: pages / 1024, NumPages: bytes / pages})
		}
		threads, places := map[[2]int][]int{}, [][2]int{}
		for _, cpu := range node.CPUs {
			place := [2]int{cpu.Socket, cpu.Core}
			if threads[place] == nil {
				places = append(places, place)
			}
			threads[place] = append(threads[place], cpu.ID)
			sockets[cpu.Socket] = true
			info.NumCores++
		}
		for _, place := range places {
			sort.Ints(threads[place])
			told.Cores = append(told.Cores, coreInfo{Id: place[1], SocketID: place[0], Threads: threads[place]})
		}
		info.Topology = append(info.Topology, told)
	}
	info.NumSockets = len(sockets)
	return info
}
