"""The rules of other schedulers, exactly as they are, quirks included: to measure against, not to follow.

`filtering`, `score` and `over_reserve` are the NodeResourceTopologyMatch plugin of scheduler-plugins, `volcano` is
Volcano's numa-aware plugin, `kai` KAI-Scheduler's numa plugin and order of nodes, `koordinator` Koordinator's
NodeNUMAResource: all are held against recordings of their own code (`recorded_*`). They are pure functions over `zones`
and pods, so that the lab can use any of them as its scheduler.
"""
