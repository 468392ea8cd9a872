"""The kubelet's Topology, CPU, Memory and Device Managers as a pure function: node + pod -> verdict and next node."""
