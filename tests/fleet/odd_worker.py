"""A worker in a hurry on a machine that is odd: a clock that is off, or a judge of another version.

ODD_CLOCK is in seconds, and ODD_JUDGE is a version.
"""

from __future__ import annotations

import os
import runpy
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

import evaluation

QUICK_WORKER = Path(__file__).resolve().parents[1] / "runners" / "quick_worker.py"
real_now = timezone.now
offset = timedelta(seconds=float(os.environ.get("ODD_CLOCK", "0")))


def shifted_now() -> datetime:
    return real_now() + offset


if offset:
    timezone.now = shifted_now
evaluation.JUDGE_VERSION = os.environ.get("ODD_JUDGE", evaluation.JUDGE_VERSION)
runpy.run_path(str(QUICK_WORKER), run_name="__main__")
