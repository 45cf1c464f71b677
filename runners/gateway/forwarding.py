"""Parts of a request that reach the provider: few headers and query parameters, no state.

No other model may answer, and the provider runs no tools and reads no address.

What is left out could hide the usage of a call, name another account, or let an answer outlive the
call that pays for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from runners.gateway.wire import WireFormat

MAX_NAME = 200
"""Characters of a refused tool's name in its error."""
HEADERS = ("accept", "anthropic-version", "content-type", "user-agent")
BETA = "anthropic-beta"
BETAS = (
    "adaptive-thinking-", "claude-code-", "context-1m-", "context-management-", "effort-",
    "extended-cache-ttl-", "fine-grained-tool-streaming-", "interleaved-thinking-",
    "model-context-window-exceeded-", "output-128k-", "prompt-caching-", "redact-thinking-",
    "structured-outputs-", "token-counting-", "token-efficient-tools-", "tool-search-tool-",
)  # fmt: skip
"""Prefixes of `anthropic-beta` that change an answer alone: no files, no tools of the provider."""
QUERY = {"alt": ("sse", "json"), "beta": ("true",)}
"""Parameters by name, with the values that they may have."""
STATEFUL = ("background", "cachedContent", "cached_content", "conversation", "previous_response_id")
"""Fields of a request that use or leave what the provider keeps outside the call."""
ROUTING = frozenset(
    "api_base api_key base_url content_policy_fallbacks context_window_fallbacks"
    " custom_llm_provider extra_body fallbacks mock_response mock_testing_fallbacks model_list"
    " provider route router_settings_override".split()
)
"""Fields with which a proxy lets another model, server or account answer."""
PROVIDER_FIELDS = frozenset(
    "enable_search mcp_servers plugins search_parameters web_search_options".split()
)
"""Fields that give the model a tool which the provider runs."""
CLIENT_TOOLS = frozenset(
    "apply_patch custom function local_shell namespace shell tool_search".split()
)
"""Types of tools that the agent runs itself; a namespace holds others."""
CLIENT_TOOLS_OF_MESSAGES = ("bash_", "computer_", "memory_", "text_editor_", "tool_search_tool_")
"""Prefixes of types of tools that the agent runs, or that have neither network nor fee."""
GOOGLE_TOOLS = frozenset(
    "codeexecution computeruse enterprisewebsearch filesearch googlemaps googlesearch"
    " googlesearchretrieval mcpservers retrieval urlcontext".split()
)
"""Fields of a tool with which Google's models run one, in lower case without underscores."""
ADDRESSES = frozenset("audiourl fileuri fileurl imageurl videourl".split())
"""Fields of a message with an address that the provider reads, in the same spelling."""
DATA = frozenset("args arguments input_schema parameters response tools".split())
"""Fields whose objects are an agent's own: schemas, and what its tools are given and return."""
NOT_PASSED = frozenset(
    "connection keep-alive proxy-connection te trailer transfer-encoding upgrade content-length"
    " content-encoding set-cookie"
    " anthropic-organization-id openai-organization openai-project".split()
)
"""Headers of an answer: of one connection, of an encoding that is undone here, of an account."""


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


def problem(data: Any, provider_tools: Collection[str] = ()) -> str:
    """Return why a request's body may not be sent; empty if it may.

    `provider_tools` are the tools run by the provider that are allowed all the same.
    """
    return (
        _state_problem(data)
        or _routing_problem(data)
        or _tool_problem(data, provider_tools)
        or _address_problem(data)
    )


def _routing_problem(data: Any) -> str:
    fields = data if isinstance(data, dict) else {}
    used = [name for name, value in fields.items() if name.lower() in ROUTING and value]
    if used:
        return f"{used[0]!r} is not allowed: no other model, server or account may answer"
    if fields.get("service_tier") == "priority":
        return "the service tier 'priority' is not allowed: its price is not in the run's cost"
    return ""


def _tool_problem(data: Any, allowed: Collection[str]) -> str:
    """Return why the tools of a request are not allowed: an agent has no network."""
    used = next((name for name in _provider_tools(data) if name not in allowed), None)
    if used is None:
        return ""
    return (
        f"the tool {used[:MAX_NAME]!r} is not allowed: the provider runs it, an agent has no"
        " network, and its fee is not in the run's cost"
    )


def _provider_tools(data: Any) -> Iterator[str]:
    """Yield the tools of a request that its provider runs."""
    if not isinstance(data, dict):
        return
    for name, value in data.items():
        if name.lower() in PROVIDER_FIELDS and value not in (None, False, []):
            yield name
        if name.lower() == "tools":
            for tool in value if isinstance(value, list) else [value]:
                if isinstance(tool, dict):
                    yield from _run_by_provider(tool)


def _run_by_provider(tool: Mapping[str, Any]) -> Iterator[str]:
    kind = tool.get("type")
    if kind == "namespace":
        yield from _provider_tools({"tools": tool.get("tools")})
    elif kind is not None and not (
        isinstance(kind, str)
        and (kind in CLIENT_TOOLS or kind.startswith(CLIENT_TOOLS_OF_MESSAGES))
    ):
        yield str(kind)
    yield from (name for name in tool if name.lower().replace("_", "") in GOOGLE_TOOLS)
    if "server_url" in tool or "connector_id" in tool:
        yield "mcp"


def _address_problem(data: Any) -> str:
    """Return why a request may not name files by their addresses: an agent has no network."""
    rest = [data]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        if not isinstance(value, dict):
            continue
        for name, part in value.items():
            if name == "url" and value.get("type") == "url":
                return _refused_address(name)
            if name.lower().replace("_", "") in ADDRESSES and _is_address(part):
                return _refused_address(name)
            if name not in DATA and not (name == "input" and isinstance(part, dict)):
                rest.append(part)
    return ""


def _is_address(part: Any) -> bool:
    text = part.get("url") if isinstance(part, dict) else part
    return isinstance(text, str) and not text.lower().startswith("data:")


def _refused_address(name: str) -> str:
    return f"{name!r} is not allowed: the provider reads it, and an agent has no network"


def _state_problem(data: Any) -> str:
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
