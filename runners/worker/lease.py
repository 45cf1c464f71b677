"""Leases: names that no other claim has."""

from __future__ import annotations

import os
import secrets
import socket


def new_lease() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
