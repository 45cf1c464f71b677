"""Parts of a request that reach the provider: few headers and query parameters, no state.

What is left out could hide the usage of a call, name another account, or let an answer outlive the
call that pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.gateway.wire import WireFormat

HEADERS = ("accept", "anthropic-version", "content-type", "user-agent")
BETA = "anthropic-beta"
BETAS = (
    "adaptive-thinking-", "claude-code-", "context-1m-", "context-management-", "effort-",
    "extended-cache-ttl-", "fine-grained-tool-streaming-", "interleaved-thinking-",
    "model-context-window-exceeded-", "output-128k-", "prompt-caching-", "redact-thinking-",
    "structured-outputs-", "token-counting-", "token-efficient-tools-", "tool-search-tool-",
)  # fmt: skip
"""Beginnings of the betas of Messages that change an answer alone: no files, no tools that the
provider runs."""
QUERY = {"alt": ("sse", "json"), "beta": ("true",)}
"""Parameters by name, with the values that they may have."""
STATEFUL = ("background", "cachedContent", "cached_content", "conversation", "previous_response_id")
"""Fields of a request that use or leave what the provider keeps outside the call."""


def headers(given: Mapping[str, str], wire: WireFormat, key: str) -> dict[str, str]:
    """Return the headers of a request to the provider, with its key if it has one."""
    sent = {name: given[name] for name in HEADERS if name in given}
    betas = [beta.strip() for beta in given.get(BETA, "").split(",")]
    if known := [beta for beta in betas if beta.startswith(BETAS)]:
        sent[BETA] = ",".join(known)
    if key:
        sent[wire.key_header] = wire.key_prefix + key
    return sent


def query(given: Mapping[str, str]) -> dict[str, str]:
    """Return the query parameters of a request to the provider."""
    return {name: value for name, value in given.items() if value in QUERY.get(name, ())}


def state_problem(data: Any) -> str:
    """Return why a request's body may not be sent; empty if it keeps nothing at the provider."""
    if not isinstance(data, dict):
        return ""
    prompt = data.get("prompt")
    used = [name for name in (*STATEFUL, "store") if data.get(name)]
    used += ["prompt.id"] if isinstance(prompt, dict) and "id" in prompt else []
    if not used:
        return ""
    return (
        f"{used[0]!r} is not allowed: a call must be whole in its request and its answer, and keep"
        " nothing at the provider"
    )
