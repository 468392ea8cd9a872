"""NUMA-aware scheduling for Kubernetes.

Read the tree top to bottom as a sentence: a `machine`, a `workload`, the `twin` that joins them.
ARCHITECTURE.md says what each room is for and who may import whom.
"""

__version__ = "0.1.0"
