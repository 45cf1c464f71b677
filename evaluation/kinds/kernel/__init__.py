"""A single operator, judged against baselines by the arena's own clock."""
