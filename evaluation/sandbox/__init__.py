"""Isolation of untrusted code. Uses the standard library alone and nothing else of the project."""
