"""Code that needs both a task and its languages: loading, workspace files, builds, baselines."""
