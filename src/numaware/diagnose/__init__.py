"""Evidence into words: why the twin says no, what stands in the way, and the smallest changes that turn it into yes."""
