"""From the kubelet configuration in force to a wanted one and back, safely: planned, confirmed, journalled, undone on failure."""
