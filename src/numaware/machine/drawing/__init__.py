"""Pictures of a machine: one model of nested boxes (`picture`), many renderers (`text`, `svg`)."""
