"""Every run tries the same examples: a red run is red again, on any machine and however slow it is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("numaware", derandomize=True, deadline=None, database=None)
settings.load_profile("numaware")
