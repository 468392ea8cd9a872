"""Keeps pods that talk together while they run: looks at the node, plans, acts through the container runtime, undoes."""
