"""Times of the baselines of an operator, measured once per device and cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from evaluation import JUDGE_VERSION
from evaluation.bench.devices.device import Device
from evaluation.code.cache_folder import replace_text
from evaluation.kinds.kernel.builds import Build
from evaluation.tasks.spec import Task
from evaluation.types import Split

RULE = "right, or left out with a reason"
"""The rule by which baselines are chosen; other results are not read from the cache."""


@dataclass(frozen=True)
class BaselineTimes:
    """Geomean microseconds over the seen cases by baseline, and why others are left out."""

    us: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def cached_times(
    cache: Path,
    task: Task,
    device: Device,
    builds: Sequence[Build],
    measure: Callable[[], BaselineTimes],
) -> BaselineTimes:
    """Return the times of the baselines, from the cache or by `measure`.

    All tasks of an operator with the same sources and seen cases share them.
    """
    sources = [(build.folder / f"{task.operator.name}.py").read_text("utf-8") for build in builds]
    measured = sources, task.cases(Split.SEEN), dict(device.fingerprint), task.operator.precision
    key = repr((JUDGE_VERSION, RULE, task.operator.arguments, *measured, torch.__version__))
    file = cache / "baselines" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.json"
    if file.is_file():
        return BaselineTimes(**json.loads(file.read_text()))
    times = measure()
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(asdict(times)))
    return times
