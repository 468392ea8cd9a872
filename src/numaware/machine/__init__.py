"""What a node is: CPU sets, quantities, topology and devices, the readers that find them, and their drawings."""
