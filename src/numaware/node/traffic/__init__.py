"""Who talks to whom on this node, counted from the kernel's own counters of TCP connections."""
