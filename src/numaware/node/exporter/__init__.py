"""What Prometheus can ask of this node: NUMA nodes, the pods on them, and the exporter itself."""
