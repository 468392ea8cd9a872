"""What the page shows, worked out from a world: the wall, nodes, pods, explanations, what-if."""
