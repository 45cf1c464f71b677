"""Published verdicts: the results of two benchmarks as lines that an arena loads.

    python benchmarks/verdict_lines.py

Writes `benchmarks/published/verdicts-h200.jsonl.xz` from the committed results of
`benchmarks/production.py` (one module in a live model each, several together, and one over two
ranks) and of `benchmarks/answers.py`. It judges nothing. These verdicts are no runs: they have no
trace, and the models of the first benchmark have fewer layers than those of the tasks, which each
line states.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.answers import TRACKS
from benchmarks.production import CHOSEN
from benchmarks.shared import ROOT
from evaluation.device_kind import GPU
from evaluation.kinds.module.architectures import (
    TRACK,
    Architecture,
    architectures,
    find_task,
)
from evaluation.kinds.module.composition import COMPOSITION

RESULTS = ROOT / "benchmarks/results"
OUTPUT = ROOT / "benchmarks/published/verdicts-h200.jsonl.xz"
MODULE_MADE_BY = {
    "triton": ("Triton kernel of the benchmark", ""),
    "compile": ("torch.compile of the library's module", "torch-compile"),
    "library": ("Copy of the library's module", ""),
    COMPOSITION: ("Kernels of the benchmark", ""),
}
ANSWER_MADE_BY = {
    "triton": ("Triton answer of the benchmark", ""),
    "compile": ("torch.compile", "torch-compile"),
}
"""Title of who made a kernel, and the slug of the agent where it is one."""
RANKS_MADE_BY = {
    "honest": ("Module over two ranks, of the tests", "final"),
    "without the sum": ("Module over two ranks without its sum, of the tests", "round"),
}
"""Title of who made a module over two ranks, and the scope of its verdict."""
DETAIL = (
    "alone", "best", "ceilings", "deployed", "drop", "errors", "isolated", "modules", "noisy",
    "not_compiled", "predicted", "regimes", "reported", "seconds", "unexplained",
    "wins_alone_loses_deployed",
)  # fmt: skip
DEFAULT = "the library's default"
INTERVAL = re.compile(r"^[\d.]+x \[([\d.]+), ([\d.]+)\] over \d+ cases")
"""Message of a verdict on an answer; its file has the interval nowhere else."""


def main() -> int:
    """Write the file; the exit code is 0."""
    lines = every_line()
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    OUTPUT.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{len(lines) - 1} verdicts in {OUTPUT}")
    return 0


def every_line() -> list[dict[str, Any]]:
    """Return the header and the line of each verdict."""
    production = read("production-gpu.json")
    header = {
        "format": 1,
        "judge_version": production["judge"]["version"],
        "command": f"{production['command']}; {read('answers-gpu.json')['command']}",
        "ended_at": production["at"],
        "device": production["device"]["name"],
        "fingerprint": {name: production[name] for name in ("device", "peaks", "torch", "judge")},
    }
    return [header, *modules(production), *ranks(read("ranks-gpu.json")), *answers()]


def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text())


def modules(production: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the verdicts on modules of live models, each by itself or several together."""
    for slug, found in production["verdicts"].items():
        name, _, submission = slug.partition("/")
        together = submission == COMPOSITION
        architecture = architectures()[name] if together else find_task(name)[0]
        agent, made_by = MODULE_MADE_BY[submission]
        yield {
            **module_line(f"{name}/{TRACK}", found, found.get("errors")),
            **({"together": True} if together else {}),
            "agent": agent,
            "made_by": made_by,
            "judge_version": found["judge"],
            "judged_at": found["at"],
            "setting": setting(architecture),
            "machine": {
                "device": {**production["device"], "uuid": found["card"]},
                "peaks": production["peaks"],
                "torch": production["torch"],
                "source": found["source"],
            },
        }


def ranks(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the verdicts on modules that are split over two GPUs."""
    for name, (agent, scope) in RANKS_MADE_BY.items():
        report = found[name]
        gates = {gate["gate"]: gate["detail"] for gate in report["gates"]}
        yield {
            **module_line(
                report["task"],
                {**report, **gates.get("performance", {})},
                gates["correctness"].get("phases"),
            ),
            "agent": agent,
            "scope": scope,
            "judge_version": report["judge_version"],
            "task_hash": report["task_hash"],
            "setting": "two GPUs of one host",
            "machine": {"device": found["device"], **found["fingerprint"]},
        }


def module_line(task: str, found: Mapping[str, Any], errors: Any) -> dict[str, Any]:
    """Return what the verdicts on modules have in common."""
    return {
        "task": task,
        "scope": "final",
        "verdict": found["verdict"],
        "reason": found["reason"],
        "message": found["message"],
        "noisy": found.get("noisy", False),
        "alone": found.get("isolated"),
        **found.get("deployed", {}),
        "detail": {k: v for k, v in {**found, "errors": errors}.items() if k in DETAIL},
    }


def setting(architecture: Architecture) -> str:
    """Return how the benchmark's model differs from the task's, as words."""
    own = dict(flat(architecture.sizes[GPU].settings))
    parts = [
        f"{name} {shown(value)} in place of {shown(own.get(name, DEFAULT))}"
        for name, value in flat(CHOSEN[architecture.name].depth)
        if own.get(name) != value and not name.endswith("layer_types")
    ]
    return f"fewer layers: {'; '.join(parts)}" if parts else ""


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings, those of inner tables with dots in their names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def answers() -> Iterator[dict[str, Any]]:
    """Yield the verdicts on answers to tasks; their speedups are of public cases alone."""
    every = read("answers-gpu.json")
    for slug, found in every["answers"].items():
        _, name, answer = slug.split("/")
        agent, made_by = ANSWER_MADE_BY[answer]
        ends = INTERVAL.match(found["message"])
        yield {
            "task": f"{name}/{TRACKS[answer]}",
            "agent": agent,
            "made_by": made_by,
            "judge_version": found["judge"],
            "judged_at": found["at"],
            "task_hash": found["hash"],
            "scope": found["scope"],
            "verdict": found["verdict"],
            "reason": found.get("reason"),
            "message": found["message"],
            "speedup": found["seen"],
            "low": float(ends[1]) if ends else None,
            "high": float(ends[2]) if ends else None,
            "unseen_speedup": found["unseen"],
            "machine": {
                "device": every["device"],
                "torch": every["torch"],
                "source": found["source"],
            },
            "detail": {"baseline": found["baseline"], "seconds": found["gate_seconds"]},
        }


if __name__ == "__main__":
    raise SystemExit(main())
