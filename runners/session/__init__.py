"""An agent's attempt at a run: workspace, control socket, budget, recorded events."""
