"""A run as pages show it: its summary, rounds, charts and the reason why it waits."""
