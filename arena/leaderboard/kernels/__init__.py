"""Kernels rather than agents: the best of each task, records, and those that others published."""
