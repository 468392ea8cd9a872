"""One pod on one node, explained from the twin's evidence: causes, caveats, and the smallest changes that would admit it."""
