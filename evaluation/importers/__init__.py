"""Importers: of public suites, which become folders of tasks, and of kernels that models wrote."""
