"""Vendors of devices, one module each."""
