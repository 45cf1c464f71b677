"""Kinds of tasks, each a folder."""
