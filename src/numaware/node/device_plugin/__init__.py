"""The device plugin: devices of this node, grouped into resources of Kubernetes, with the NUMA node of each."""
