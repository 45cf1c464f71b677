"""Builds: sandboxed compilers, and a cache of artefacts named by content."""
