"""Packages of languages that are installed where they are wanted, and not with the judge."""

from __future__ import annotations

import importlib.util

from evaluation.errors import Broken


def lacking(module: str, requirement: str) -> str:
    """Return what to install where a module is missing; empty where it is there."""
    if importlib.util.find_spec(module):
        return ""
    return f"{module} is not installed; install it: .venv/bin/pip install '{requirement}'"


def require(module: str, requirement: str) -> None:
    """Raise Broken, with what to install, where a module is missing."""
    if reason := lacking(module, requirement):
        raise Broken(reason)
