"""Importers of public kernel suites: checkouts that users have become folders of tasks."""
