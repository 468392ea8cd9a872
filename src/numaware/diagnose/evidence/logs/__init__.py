"""A kubelet's log: `scan` cuts out lines, `record` unwraps them, `messages` understands them, `journal` joins them."""
