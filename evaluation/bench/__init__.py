"""Measuring of a workload: times, memory, processes, devices and checks against cheating."""
