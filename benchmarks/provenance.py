"""What a measurement was made by: the device, what it was at then, and the judge to the byte."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from evaluation import JUDGE_VERSION
from evaluation.devices import detect
from evaluation.devices.device import Device
from evaluation.types import to_json

JUDGE = Path(__file__).resolve().parent.parent / "evaluation"
SOURCES = (".py", ".h", ".cpp")


def of(device: Device) -> dict[str, Any]:
    """Device, its peaks and state, PyTorch, judge and time, for a file of results."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": to_json(device.fingerprint),
        "peaks": to_json(device.peaks),
        "now": detect.state(device),
        "torch": torch.__version__,
        "judge": {"version": JUDGE_VERSION, "source": source_of_judge()},
    }


def source_of_judge() -> str:
    """Twelve digits of a SHA-256 over the judge's files: a checkout that gives the same has the
    same judge.
    """
    digest = hashlib.sha256()
    files = (path for path in JUDGE.rglob("*.*") if path.suffix in SOURCES)
    for path in sorted(files):
        digest.update(path.relative_to(JUDGE).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]
