"""What a pod asks for: manifests of any kind that holds a pod template, as plain values."""
