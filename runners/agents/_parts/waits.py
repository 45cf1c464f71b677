"""Longest waits that a harness is given, in place of its own, which would end too early."""

MAX_WAIT_SECONDS = 3600
"""Longest time of a command or tool: a verdict may wait for other runs."""
MAX_ANSWER_SECONDS = 1500
"""Longest silence of the model: the gateway tries for ten minutes, and only then streams."""
