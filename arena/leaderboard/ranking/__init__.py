"""Rankings of agents: the runs that count, their filters, sets of tasks, and the boards."""
