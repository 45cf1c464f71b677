"""What executes: workers, supervised children, workspaces and the agents that work in them."""
