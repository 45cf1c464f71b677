"""A trace in the Agent Trajectory Interchange Format (ATIF) of Harbor, version 1.4.

Steps are the messages of the user, the system and the agent. A call of a tool and its result belong
to the agent's step before it. Verdicts are steps of the system; edits of files are extra data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from arena.runs.models import Run
from arena.runs.spending import spending
from arena.runs.trace.entries import Entry
from arena.runs.trace.timeline import rows

VERSION = "ATIF-v1.4"
SOURCES = {"assistant": "agent", "user": "user", "system": "system"}


def trajectory(run: Run) -> Iterator[str]:
    """Yield the trajectory of a run as JSON."""
    spent = spending(run.pk)
    steps = _Steps()
    for entry in rows(run.events.all(), run.last_seq):
        steps.add(entry)
    totals: dict[str, float] = {
        "total_prompt_tokens": spent.input_tokens,
        "total_completion_tokens": spent.output_tokens,
        "total_cached_tokens": spent.cached_tokens,
        "total_steps": len(steps.steps),
    }
    if spent.cost_usd is not None:
        totals["total_cost_usd"] = spent.cost_usd
    agent = {"name": run.agent.adapter, "version": run.harness_version or "unknown"}
    whole = {
        "schema_version": VERSION,
        "session_id": run.pk,
        "agent": agent | ({"model_name": run.agent.model} if run.agent.model else {}),
        "steps": steps.steps,
        "final_metrics": totals,
        "extra": {
            "task": run.task_version.task.slug,
            "hardware": run.hardware.slug,
            "status": run.status,
            "speedup": run.speedup,
            "unseen_speedup": run.unseen_speedup,
        },
    }
    yield json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


class _Steps:
    """Steps so far, and the usage of calls whose message has not come yet."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.pending: dict[str, float] = {}

    def add(self, entry: Entry) -> None:
        """Add what a row of the trace says."""
        body = entry.event.body
        match entry.event.kind:
            case "message":
                self._message(entry, body)
            case "tool_call":
                self._call(entry, body)
            case "model_call" if not body["replayed"]:
                self._spend(body)
            case "file_edit":
                edit = {name: body[name] for name in ("path", "operation", "diff")}
                self._agent_step(entry).setdefault("extra", {}).setdefault("edits", []).append(edit)
            case "span_end" if body["span_kind"] == "evaluation":
                self._verdict(entry, body)

    def _begin(self, entry: Entry, source: str, message: str) -> dict[str, Any]:
        step = {
            "step_id": len(self.steps) + 1,
            "timestamp": entry.event.at.isoformat(),
            "source": source,
            "message": message,
        }
        if entry.agents:
            step["extra"] = {"subagents": list(entry.agents)}
        self.steps.append(step)
        return step

    def _message(self, entry: Entry, body: dict[str, Any]) -> None:
        source = SOURCES[body["role"]]
        step = self._begin(entry, source, body["text"])
        if source != "agent":
            return
        if body["model"]:
            step["model_name"] = body["model"]
        if body["reasoning"]:
            step["reasoning_content"] = body["reasoning"]
        if body["usage"] or body["cost_usd"] is not None:
            self._spend(body)
        if self.pending:
            step["metrics"], self.pending = self.pending, {}

    def _spend(self, body: dict[str, Any]) -> None:
        usage = body["usage"] or {}
        spent = {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "cached_tokens": usage.get("cached_tokens"),
            "cost_usd": body["cost_usd"],
        }
        for name, value in spent.items():
            if value is not None:
                self.pending[name] = self.pending.get(name, 0) + value

    def _agent_step(self, entry: Entry) -> dict[str, Any]:
        """Return the last step if it is this agent's, else a new one without a message."""
        last: dict[str, Any] = self.steps[-1] if self.steps else {"source": "none"}
        subagents = last.get("extra", {}).get("subagents", [])
        if last["source"] == "agent" and subagents == list(entry.agents):
            return last
        return self._begin(entry, "agent", "")

    def _call(self, entry: Entry, body: dict[str, Any]) -> None:
        step, name = self._agent_step(entry), entry.event.event_id
        call = {"tool_call_id": name, "function_name": body["tool"], "arguments": body["arguments"]}
        step.setdefault("tool_calls", []).append(call)
        if entry.result:
            result = entry.result.event.body
            text = "\n".join(filter(None, (result["output"], result["error"])))
            results = step.setdefault("observation", {"results": []})["results"]
            results.append({"source_call_id": name, "content": text})

    def _verdict(self, entry: Entry, body: dict[str, Any]) -> None:
        words = (body["verdict"], body["reason"], body["message"])
        step = self._begin(
            entry, "system", f"Round {body['round']}: {' '.join(filter(None, words))}"
        )
        step["extra"] = {name: body[name] for name in ("round", "verdict", "reason")}
