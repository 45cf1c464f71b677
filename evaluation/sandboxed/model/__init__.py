"""UNTRUSTED: a live model with a candidate's modules in it."""
