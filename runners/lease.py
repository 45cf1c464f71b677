"""Whose work something is: a name that no other claim has."""

from __future__ import annotations

import os
import secrets
import socket


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def new_lease() -> str:
    return f"{worker_name()}:{secrets.token_hex(4)}"
