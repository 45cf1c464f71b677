"""The pages of the leaderboard app, one module for each group of pages."""
