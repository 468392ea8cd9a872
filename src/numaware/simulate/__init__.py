"""The lab: an embedded cluster of twins, traces of pods, and the policies of several schedulers side by side."""
