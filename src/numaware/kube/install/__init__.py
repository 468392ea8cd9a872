"""Putting numaware into a cluster without Helm, and taking it out again: the chart's objects, applied and removed by name."""
