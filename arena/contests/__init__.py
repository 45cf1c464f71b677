"""Contests: a task with a deadline, one entry a person, and final verdicts that come after it."""
