"""Checks that a task must pass before it enters the catalogue."""
