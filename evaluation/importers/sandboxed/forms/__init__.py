"""UNTRUSTED: forms in which suites write their problems, one module for each."""
