"""Lines of the files that come with the project: claims of kernels, and verdicts of benchmarks.

Each file is JSON lines, which may be packed: a header, then one line for each kernel or verdict.
Fields that are not known here are left out.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from arena.published.outcomes import Status
from arena.runs.strict import Number, Strict

MAX_RATIO = 1e6
"""Above any speedup, claimed or judged."""


class Known(Strict, extra="ignore", strict=False):
    """Base of lines; numbers and texts of collections come in either form."""


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _web_address(value: str) -> str:
    if value and not value.startswith(("https://", "http://")):
        raise ValueError("should be a web address")
    return value


def _ratio(value: float | None) -> float | None:
    """Return a ratio; None for one that is not positive, by which collections mark a failure."""
    if value is not None and (not math.isfinite(value) or value > MAX_RATIO):
        raise ValueError(f"should be below {MAX_RATIO:g}")
    return value if value and value > 0 else None


Text = Annotated[str, BeforeValidator(_as_text)]
Word = Annotated[Text, Field(max_length=100)]
Optional = Annotated[str, BeforeValidator(lambda value: "" if value is None else _as_text(value))]
"""A text that may be null, which is stored as empty."""
Address = Annotated[str, AfterValidator(_web_address), Field(max_length=500)]
Ratio = Annotated[Number | None, AfterValidator(_ratio)]


class Collection(Known):
    title: str
    address: Address
    commit: Optional = ""
    licence: Optional = ""


class Header(Known):
    """The first line of a file: how it was made, and the collections of its kernels."""

    format: Literal[1]
    judge_version: Text
    command: Optional = ""
    device: Optional = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    fingerprint: dict[str, Any] = {}
    collections: dict[str, Collection] = {}

    @property
    def device_name(self) -> str:
        """Return the name of the judge's device, from the fingerprint unless it is given."""
        found = self.fingerprint.get("device", "")
        return self.device or str(found.get("name", "") if isinstance(found, dict) else found)


class Claimed(Known):
    right: bool | None = None
    speedup: Ratio = None
    hardware: Optional = ""
    baseline: Optional = ""


class Judged(Known):
    status: Status
    reason: Optional = ""
    message: Optional = ""
    gate: Optional = ""
    broke_at: Optional = ""
    speedup: Ratio = None
    low: Ratio = None
    high: Ratio = None
    noisy: bool | None = False
    hidden_speedup: Ratio = None
    precision_rule: Optional = ""
    right_by: list[Word] | None = None
    seconds: Number | None = None
    judge_version: Optional = ""


class KernelLine(Known):
    collection: Word
    model: Word
    suite: Word
    level: Optional = ""
    problem: Word
    task: Optional = ""
    sample: Optional = ""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: Address
    language: Word
    claimed: Claimed = Claimed()
    judged: Judged


class VerdictLine(Known):
    task: Annotated[str, Field(pattern=r"^[\w.-]+/[\w-]+$")]
    together: bool = False
    agent: Word
    made_by: Optional = ""
    judge_version: Text
    judged_at: datetime | None = None
    task_hash: Optional = ""
    scope: Word
    setting: Optional = ""
    verdict: Word
    reason: Optional = ""
    message: Optional = ""
    noisy: bool = False
    alone: Ratio = None
    speedup: Ratio = None
    low: Ratio = None
    high: Ratio = None
    unseen_speedup: Ratio = None
    machine: dict[str, Any] = {}
    detail: dict[str, Any] = {}
