"""Model providers, as configured in TOML files."""

from __future__ import annotations

import contextlib
import fnmatch
import ipaddress
import os
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from runners.gateway.wire import FORMATS, Usage

SHIPPED = Path(__file__).with_name("providers.toml")
MILLION = 1_000_000
CONNECT_SECONDS = 0.5


class BadProvider(Exception):
    """Raised for a malformed configuration; the message names the file and the field."""


class Price(BaseModel):
    """Dollars per million tokens. Cached tokens cost what input does unless given."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)

    def cost_usd(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        dollars = fresh * self.input + usage.output_tokens * self.output
        dollars += usage.cached_tokens * cached + usage.cache_write_tokens * written
        return dollars / MILLION


class Provider(BaseModel):
    """One provider. See providers.toml for the meaning of the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    wires: tuple[str, ...] = Field(min_length=1)
    base_url: str = Field(pattern=r"^https?://")
    key_variable: str = ""
    key_file: str = ""
    requests_per_minute: float = Field(default=0, ge=0)
    """0 for no limit."""
    prices: Mapping[str, Price] = {}
    tools: tuple[str, ...] = ()
    """Tools that the provider runs and that a request may have all the same."""

    @field_validator("wires")
    @classmethod
    def _known(cls, wires: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(wires) - FORMATS.keys():
            raise ValueError(f"unknown: {', '.join(unknown)}; known: {', '.join(FORMATS)}")
        return wires

    def key(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the key; empty for a server without keys.

        Raises: LookupError naming the variable or file to set.
        """
        if self.key_file:
            try:
                return Path(self.key_file).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise LookupError(f"{self.key_file}: {error.strerror}") from error
        if not self.key_variable:
            return ""
        if key := environment.get(self.key_variable, "").strip():
            return key
        raise LookupError(
            f"{self.key_variable} is not set where the worker runs: export it and start again"
        )

    @property
    def is_local(self) -> bool:
        """Return whether its server is on this machine."""
        host = urlsplit(self.base_url).hostname or ""
        with contextlib.suppress(ValueError):  # a name
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost"

    def server_problem(self) -> str:
        """Return a complaint where it is on this machine and does not answer; empty otherwise."""
        if not self.is_local:
            return ""
        address = urlsplit(self.base_url)
        port = address.port or (443 if address.scheme == "https" else 80)
        try:
            socket.create_connection((address.hostname, port), CONNECT_SECONDS).close()
        except OSError:
            return f"No server answers at {self.base_url}: start one, or see docs/harnesses.md"
        return ""

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return the cost of a call in dollars; None for a model without a known price."""
        for pattern, price in self.prices.items():
            if fnmatch.fnmatchcase(model, pattern):
                return price.cost_usd(usage)
        return _published_cost(self.base_url, model, usage)

    def call_cost_usd(self, asked: str, answered: str, usage: Usage) -> float | None:
        """Return the cost of a call by the model that answered, or else by the requested one."""
        costs = (self.cost_usd(name, usage) for name in (answered, asked) if name)
        return next((cost for cost in costs if cost is not None), None)


def _published_cost(base_url: str, model: str, usage: Usage) -> float | None:
    """Return the cost by the prices of the package genai-prices."""
    import genai_prices  # it takes 0.2 s, which only the gateway should spend

    counts = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        priced = genai_prices.calc_price(counts, model, provider_api_url=base_url)
    except LookupError:
        try:
            priced = genai_prices.calc_price(counts, model)
        except LookupError:
            return None
    return float(priced.total_price)


def load(*files: Path) -> dict[str, Provider]:
    """Return the providers by name; later files replace those of earlier ones.

    Raises: BadProvider.
    """
    found: dict[str, Provider] = {}
    for file in (SHIPPED, *filter(Path.exists, files)):
        try:
            tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadProvider(f"{file}: {error}") from error
        for name, table in tables.items():
            found[name] = _provider(file, name, table)
    return found


def _provider(file: Path, name: str, table: Any) -> Provider:
    if not isinstance(table, Mapping):
        raise BadProvider(f"{file}: {name} should be a table, as in [{name}]")
    try:
        return Provider(name=name, **table)
    except (ValidationError, TypeError) as error:
        if isinstance(error, TypeError):
            raise BadProvider(f"{file}: [{name}] {error}") from error
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BadProvider(f"{file}: [{name}] {field}: {first['msg']}") from error
