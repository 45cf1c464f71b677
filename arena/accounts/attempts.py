"""Limits on attempts to log in and to sign up and on pictures, counted in the server's cache."""

from __future__ import annotations

import contextlib
import time
from ipaddress import IPv4Address, IPv6Network, ip_address

from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from arena.accounts.models import digest_of

PERIOD_SECONDS = 300


def count_attempt(kind: str, who: str, limit: int) -> str:
    """Count an attempt in the current period, and return the key of its counter.

    Raises: ValidationError above the limit, which every form shows.
    """
    period, elapsed = divmod(int(time.time()), PERIOD_SECONDS)
    key = f"{kind}-" + digest_of(f"{period} {who}")
    cache.add(key, 0, 2 * PERIOD_SECONDS)
    if cache.incr(key) > limit:
        wait = PERIOD_SECONDS - elapsed
        raise ValidationError(
            f"Too many attempts. Try again in {wait} seconds.", "throttled", {"seconds": wait}
        )
    return key


def forget_attempts(key: str) -> None:
    """Reset a counter after an attempt that succeeded."""
    cache.set(key, 0, 2 * PERIOD_SECONDS)


def uncount_attempt(key: str) -> None:
    """Take one attempt back, which succeeded."""
    with contextlib.suppress(ValueError):  # the counter has expired
        cache.decr(key)


def address_of(request: HttpRequest | None) -> str:
    """Return the address that a request came from; of IPv6 the network of its machine.

    Behind a proxy it is that of the proxy, unless the settings name its header. Of several
    addresses the proxy has added the last; a client can have sent the others.
    """
    if request is None:
        return ""
    if settings.CLIENT_ADDRESS_HEADER and (
        named := request.headers.get(settings.CLIENT_ADDRESS_HEADER)
    ):
        return _counted(named.rpartition(",")[2].strip())
    return _counted(str(request.META.get("REMOTE_ADDR", "")))


def _counted(address: str) -> str:
    """Return what counts as one address: a machine has all of an IPv6 network of 64 bits."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or IPv6Network((found, 64), strict=False))
