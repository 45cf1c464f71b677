"""Isolation of untrusted processes. Imports nothing of the project."""
