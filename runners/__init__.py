"""Execution: workers, supervised child processes, workspaces and the agents in them."""
