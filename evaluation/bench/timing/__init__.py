"""The clock: windows of launches, their times, and speedups with intervals."""
