"""Which node a pod should go to: the rules of this project, and those of other schedulers to compare with."""
