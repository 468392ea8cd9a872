"""A kubelet configuration for a machine and its purpose, proven on the twin with a typical pod."""
