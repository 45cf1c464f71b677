"""Types of the bodies that the client sends and gets, made by scripts/client-types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing import NotRequired  # Python 3.10 has none, and never looks at it here


class BudgetIn(TypedDict):
    rounds: NotRequired[int | None]
    seconds: NotRequired[int | None]
    turns: NotRequired[int | None]
    tokens: NotRequired[int | None]
    usd: NotRequired[float | None]


class EvaluationOut(TypedDict):
    seen: Interval | None
    unseen: Interval | None
    roofline_share: float | None
    scope: str
    status: str
    verdict: str
    reason: str
    message: str
    hardware: str
    judge_version: str
    noisy: bool
    aka_score: float | None
    ended_at: str | None


class EventIn(TypedDict):
    kind: str
    body: dict[str, Any]
    id: NotRequired[str]
    span: NotRequired[str]
    parent: NotRequired[str]
    rev: NotRequired[int]


class GateOut(TypedDict):
    gate: str
    verdict: str
    reason: str
    message: str
    rule: str
    passed: int
    total: int
    duration_ms: float
    detail: dict[str, Any]


class HardwareOut(TypedDict):
    slug: str
    name: str
    vendor: str
    kind: str
    arch: str
    peaks: dict[str, Any]
    isolation: dict[str, Any]
    queue: str
    seen_at: str
    live_workers: int


class Interval(TypedDict):
    speedup: float
    low: float | None
    high: float | None


class JudgedOut(TypedDict):
    status: str
    reason: str
    message: str
    gate: str
    broke_at: str
    speedup: float | None
    low: float | None
    high: float | None
    noisy: bool
    hidden_speedup: float | None
    precision_rule: str
    right_by: list[str] | None
    device: str
    judge_version: str


class MeasurementOut(TypedDict):
    case: str
    kind: str
    dtype: str
    symbols: dict[str, Any]
    baseline: str
    candidate_us: float
    baseline_us: float
    speedup: float
    low: float
    high: float
    gbps: float | None
    tflops: float | None
    roofline_share: float | None
    warm_us: float | None
    noisy: bool
    eager_us: float | None
    captured: bool | None
    memory_bytes: int | None
    baseline_memory_bytes: int | None


class NoteOut(TypedDict):
    seq: int | None
    mark: Literal["clean", "leak", "reward_hack", "interesting", "bug"]
    quote: str
    text: str
    author: str
    created_at: str


class ProgressOut(TypedDict):
    next: int
    status: str
    last_seq: int
    rounds_left: int
    seconds_left: float


class RewardOut(TypedDict):
    id: str
    run: str
    round: int
    task: str
    hardware: str
    status: Literal["pending", "judged", "broken"]
    reward: float | None
    noisy: bool
    judge_version: str
    scope: str | None
    verdict: str
    reason: str
    message: str
    gates: list[GateOut]
    seen: Interval | None
    unseen: Interval | None
    cases: list[MeasurementOut]
    waiting: WaitingOut | None


class RunOut(TypedDict):
    seen: Interval | None
    unseen: Interval | None
    roofline_share: float | None
    id: str
    task: str
    task_version: str
    agent: str
    hardware: str
    owner: str | None
    label: str
    repeat: int
    experiment: str | None
    visibility: str
    status: str
    reason: str
    fault: str
    budget: dict[str, Any]
    created_at: str
    started_at: str | None
    ended_at: str | None
    judge_version: str
    noisy: bool
    seconds: float | None
    rounds: int
    last_seq: int
    cost_usd: float | None
    tokens: int | None
    answered_by: str
    imported_at: str | None
    imported_from: str
    continues: str | None


class RunDetail(RunOut):
    waiting: WaitingOut | None
    continued_by: str | None
    archived_at: str | None
    notes: list[NoteOut]
    submissions: list[SubmissionOut]


class SubmissionDetail(TypedDict):
    id: str
    round: int
    content_hash: str
    note: str
    created_at: str
    evaluations: list[JudgedOut]
    files: dict[str, str]


class SubmissionOut(TypedDict):
    id: str
    round: int
    content_hash: str
    note: str
    created_at: str
    evaluations: list[EvaluationOut]


class TaskOut(TypedDict):
    slug: str
    title: str
    category: str
    families: list[str]
    level: int
    suite: str
    track: str
    status: str
    content_hash: str | None
    admitted: bool


class TaskDetail(TaskOut):
    prompt: str
    reference: str
    source: dict[str, Any]
    public: dict[str, Any]


class WaitingOut(TypedDict):
    queue: str
    ahead: int
    served: bool
    reason: str
