"""Verdicts: a request goes through the gates of its kind, and becomes a report."""
