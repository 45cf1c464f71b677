"""Devices of this machine, their measured peaks and rooflines."""
