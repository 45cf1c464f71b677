"""Profiles of a submission's kernels on one seen case, taken in the sandbox."""
