"""The Memory Manager: which NUMA nodes a container's memory and huge pages are charged to."""
