"""A node or a cluster examined: one check after the other, each with what was seen and what follows."""
