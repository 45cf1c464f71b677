"""What executes: workers and their actors, supervised children, workspaces and the agents that work in them."""
