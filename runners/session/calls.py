"""Calls of the tools of a harness, each joined to its result by order and id.

The id of a call is the model's or the provider's, and may be empty, or the same in each turn. So
it only finds a call that has no result yet: the first of those with that id. Events have ids of
the session's own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runners.session.session import AgentSession


@dataclass(frozen=True, eq=False)
class Call:
    """A call that has begun; `event` is the id of its event."""

    tool: str
    arguments: Mapping[str, Any]
    event: str
    span: str
    began: float = field(default_factory=time.monotonic)


class Calls:
    """The calls of one program that have no result yet, by their id, in order."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._open: dict[str, list[Call]] = {}

    def begin(self, name: str, tool: str, arguments: Any, *, span: str = "") -> Call:
        """Record a call with the id `name`."""
        given = arguments_of(arguments)
        call = Call(tool, given, self._session.tool_call(tool, given, span=span), span)
        self._open.setdefault(name, []).append(call)
        return call

    def find(self, name: str) -> Call | None:
        """Return the first call with this id that has no result yet."""
        return next(iter(self._open.get(name, ())), None)

    def names(self) -> list[str]:
        """Return the id of each call without a result."""
        return [name for name, calls in self._open.items() for _ in calls]

    def end(
        self,
        name: str,
        output: str,
        *,
        ok: bool | None,
        exit_code: Any = None,
        tool: str = "",
        duration_ms: float | None = None,
        span: str = "",
    ) -> Call | None:
        """Record the result of the call with the id `name`, and return the call.

        `ok` and `exit_code` are what the record states, None where it does not. A result that
        belongs to no call is recorded without one, under the name `tool`.
        """
        call = self.find(name)
        if call:
            self._open[name].remove(call)
            if not self._open[name]:
                del self._open[name]
            if duration_ms is None:
                duration_ms = round((time.monotonic() - call.began) * 1000, 1)
        code = exit_code if type(exit_code) is int else None
        self._session.tool_result(
            call.event if call else "",
            call.tool if call else tool,
            output,
            ok=ok if code is None or ok is False else code == 0,
            exit_code=code,
            duration_ms=duration_ms,
            span=span or (call.span if call else ""),
        )
        return call


def arguments_of(given: Any) -> dict[str, Any]:
    """Return the arguments of a call: an object, or what else the model wrote, as it is."""
    if isinstance(given, str):
        try:
            found = json.loads(given)
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {"arguments": given}
    if isinstance(given, Mapping):
        return dict(given)
    return {} if given is None else {"arguments": given}
