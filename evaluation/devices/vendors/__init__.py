"""Vendors of devices: a module of this folder is one."""
