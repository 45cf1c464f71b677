"""Pages of runs: start, submit, list, one run, its rounds, comparisons and experiments."""
