"""Invented files of published kernels, for tests alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from arena.published.loading import Loaded, load
from tests.arena.production import CEILINGS, performance

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HEADER = {
    "format": 1,
    "judge_version": "5",
    "command": "python -m evaluation generations",
    "started_at": "2026-11-27T19:00:00+00:00",
    "ended_at": "2026-11-27T20:00:00+00:00",
    "fingerprint": {"device": {"name": "NVIDIA H100 80GB HBM3"}},
    "collections": {
        "first": {
            "title": "First collection",
            "address": "https://example.org/first",
            "commit": COMMIT,
            "licence": "MIT",
        },
        "second": {
            "title": "Second collection",
            "address": "https://example.org/second",
            "commit": COMMIT,
            "licence": None,
        },
    },
}


def kernel_line(
    problem: int,
    claimed: float | None = 2.0,
    status: str = "passed",
    speedup: float | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return a line; `changes` replace its fields, or with a prefix those of claim and verdict."""
    line: dict[str, Any] = {
        "collection": "first",
        "model": "Model A",
        "suite": "kernelbench",
        "level": 1,
        "problem": problem,
        "task": f"kb1_{problem}_relu",
        "sample": 0,
        "source": f"https://example.org/first/blob/{COMMIT}/{problem}.py",
        "language": "triton",
        "claimed": {"right": True, "speedup": claimed, "hardware": "A100", "baseline": "eager"},
        "judged": {
            "status": status,
            "speedup": speedup,
            "low": speedup and speedup * 0.98,
            "high": speedup and speedup * 1.02,
            "noisy": False,
        },
    }
    for name, value in changes.items():
        part, _, field = name.partition("_")
        if part in ("claimed", "judged"):
            line[part][field] = value
        else:
            line[name] = value
    names = json.dumps([line[name] for name in ("collection", "model", "problem", "sample")])
    return {"sha256": hashlib.sha256(names.encode()).hexdigest(), **line}


def one_of_each_outcome() -> list[dict[str, Any]]:
    """Return a kernel of each outcome, in the order of the page."""
    return [
        kernel_line(1, 2.0, speedup=1.9, claimed_hardware="H100"),
        kernel_line(2, 20.0, speedup=1.5),
        kernel_line(3, 1.4, speedup=0.7),
        kernel_line(4, None, speedup=1.2),
        kernel_line(
            5, 8.0, "specialised", 3.0, judged_gate="correctness", judged_broke_at="65 x 1"
        ),
        kernel_line(
            13, 4.0, "suite_right", judged_reason="WRONG_VALUES", judged_right_by=["suite"]
        ),
        kernel_line(6, 368.0, "wrong", judged_reason="WRONG_VALUES", model="Model B"),
        kernel_line(7, 80.0, "forbidden", judged_reason="private_api", model="Model B"),
        kernel_line(8, 1.1, "failed", judged_reason="COMPILE_ERROR", collection="second"),
        kernel_line(9, 3.0, "unsupported", judged_reason="cutlass", collection="second"),
    ]


def write_claims(
    folder: Path, lines: Iterable[Mapping[str, Any]], name: str = "claims-test.jsonl", **header: Any
) -> Path:
    """Write a file of claims into a folder and return its path."""
    path = folder / name
    every = [{**HEADER, **header}, *lines]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in every))
    return path


def load_claims(folder: Path, lines: Iterable[Mapping[str, Any]], **header: Any) -> Loaded:
    """Load invented lines, none of which may be refused."""
    loaded = load(write_claims(folder, lines, **header))
    assert loaded.refused == []
    return loaded


def verdict_line(task: str, speedup: float, drop: str = "", **changes: Any) -> dict[str, Any]:
    """Return a line of a verdict on a module in a live model."""
    interval = {"speedup": speedup, "low": speedup - 0.02, "high": speedup + 0.02}
    return {
        "task": task,
        "agent": "Invented maker",
        "judge_version": "6",
        "judged_at": "2026-11-26T12:35:28+00:00",
        "scope": "final",
        "setting": "fewer layers: num_hidden_layers 2 in place of 8",
        "verdict": "passed",
        "alone": 2.0,
        **interval,
        "detail": {"deployed": interval, "isolated": 2.0, "drop": drop},
        **changes,
    }


def composition_line(speedup: float, *modules: str, **changes: Any) -> dict[str, Any]:
    """Return a line of a verdict on several modules of Llama in one model."""
    line = verdict_line("llama/production", speedup, agent="Several makers", together=True)
    times = performance(2.0, speedup, alone={}, modules=dict.fromkeys(modules, 3.0))
    return {**line, "detail": {**line["detail"], **times, "ceilings": CEILINGS}, **changes}


def load_verdicts(folder: Path, lines: Iterable[Mapping[str, Any]]) -> Loaded:
    """Load invented verdicts, none of which may be refused."""
    header = {**HEADER, "device": "NVIDIA H200", "collections": {}}
    loaded = load(write_claims(folder, lines, "verdicts-test.jsonl", **header))
    assert loaded.refused == []
    return loaded
