"""Detectors of work done at the wrong time: early, overlapping or reused."""
