"""Ablation tables of the methodology page: which tricks get through without a mechanism.

They are the committed results of `benchmarks/ablation.py`, one for each kind of device.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.types import GateName

BEFORE_TIMING = (GateName.INTEGRITY, GateName.COMPILE, GateName.CORRECTNESS)


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism: the tricks that it refuses, and those that get through without it."""

    title: str
    refused: int
    tried: int
    escapes: Sequence[str]
    """Tricks that pass and gain more than the bound."""
    passes: Sequence[str]
    """Tricks that must be refused and pass, without a gain on the suite's small cases."""


@dataclass(frozen=True)
class AblationTable:
    """The table of one device."""

    device: str
    measured_at: str
    judge: str
    tricks: int
    refused_before: int
    """Tricks that are refused before anything is timed."""
    bound: float
    escapes: Sequence[str]
    """Tricks that gain more than the bound with every mechanism on."""
    passes: Sequence[str]
    """Tricks that must be refused and pass then, without such a gain."""
    rows: Sequence[MechanismRow]


def ablation_tables(folder: Path) -> list[AblationTable]:
    """Return the tables of the result files in a folder, that of the CPU first."""
    files = (folder / f"ablation-{kind}.json" for kind in ("cpu", "gpu"))
    return [_table(json.loads(file.read_text("utf-8"))) for file in files if file.is_file()]


def _table(data: Mapping[str, Any]) -> AblationTable:
    gates: Mapping[str, int] = data["gates"]
    before = sum(gates.get(gate, 0) for gate in BEFORE_TIMING)
    return AblationTable(
        device=data["device"]["name"],
        measured_at=data["at"][:10],
        judge=f"{data['judge']['version']} ({data['judge']['source']})",
        tricks=sum(gates.values()),
        refused_before=before,
        bound=data["bound"],
        escapes=_names(data["escapes_with_all_on"]),
        passes=_names(data["passes_with_all_on"]),
        rows=[
            MechanismRow(
                title=row["title"],
                refused=len(row["refuses"]),
                tried=row["tried"],
                escapes=_names(row["escapes"]),
                passes=_names(row["passes"]),
            )
            for row in data["mechanisms"].values()
        ],
    )


def _names(tricks: Sequence[str]) -> list[str]:
    """Return the names of tricks without their suffix; with the language where two share one."""
    parts = [trick.split(".") for trick in tricks]
    shared = Counter(name for name, *_ in parts)
    return [
        name.replace("_", " ") + (f" ({language})" if shared[name] > 1 else "")
        for name, language, *_ in parts
    ]
