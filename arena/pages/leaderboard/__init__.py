"""Pages of the leaderboard: boards, analysis, submitted and published kernels."""
