"""Types of the API's bodies, made from its OpenAPI description by scripts/client-types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing import NotRequired  # Python 3.10 has none, and never looks at it here


class AgentIn(TypedDict):
    adapter: str
    slug: str
    title: str
    model: NotRequired[str]
    provider: NotRequired[str]
    settings: NotRequired[dict[str, Any]]
    description: NotRequired[str]


class AgentOut(TypedDict):
    slug: str
    title: str
    adapter: str
    model: str
    answered_by: str
    provider: str
    settings: dict[str, Any]
    description: str
    tasks: list[str]
    kinds: list[str]
    open_book: bool
    shipped: bool
    availability: AvailabilityOut


class ArchitectureOut(TypedDict):
    name: str
    title: str
    family: str
    library: str
    model: str
    paper: str
    stand_in: bool
    note: str
    hardware: str
    modules: list[ModuleOut]


class AvailabilityOut(TypedDict):
    available: bool
    cause: Literal["", "harness", "settings", "model", "worker", "hardware", "program", "provider", "wires", "key", "permission", "elsewhere"]
    reason: str
    version: str


class BestOut(TypedDict):
    run: str
    agent: str
    speedup: float
    low: float
    high: float
    noisy: bool
    judge_version: str


class Board(TypedDict):
    filters: FiltersIn
    unknown: list[str]
    size: int
    needed: int
    judges: list[str]
    rows: list[RowOut]


class BudgetIn(TypedDict):
    rounds: NotRequired[int | None]
    seconds: NotRequired[int | None]
    turns: NotRequired[int | None]
    tokens: NotRequired[int | None]
    usd: NotRequired[float | None]


class ClaimedOut(TypedDict):
    right: bool | None
    speedup: float | None
    hardware: str
    baseline: str


class EstimateOut(TypedDict):
    value: float
    low: float | None
    high: float | None


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


class EventsIn(TypedDict):
    first: int
    events: list[EventIn]


class EventsOut(TypedDict):
    events: list[dict[str, Any]]
    last_seq: int
    status: str
    more: bool


class ExternalAgent(TypedDict):
    name: str
    model: NotRequired[str]


class FiltersIn(TypedDict):
    suite: NotRequired[str]
    hardware: NotRequired[str]
    category: NotRequired[str]
    track: NotRequired[str]
    family: NotRequired[str]
    level: NotRequired[str]
    task_set: NotRequired[Literal["", "core", "all"]]
    model: NotRequired[str]
    harness: NotRequired[str]
    experiment: NotRequired[str]
    origin: NotRequired[Literal["arena", "external", "all"]]
    judge: NotRequired[str]
    holds: NotRequired[Literal["", "right", "kept", "specialised"]]
    generalization: NotRequired[Literal["seen", "unseen"]]
    since: NotRequired[str | None]
    until: NotRequired[str | None]


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


class HarnessOut(TypedDict):
    name: str
    title: str
    wires: list[str]
    program: str
    install: str
    settings_schema: dict[str, Any]


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
    device: str
    judge_version: str


class KernelFiltersIn(TypedDict):
    model: NotRequired[str]
    collection: NotRequired[str]
    suite: NotRequired[str]
    level: NotRequired[str]
    outcome: NotRequired[str]
    device: NotRequired[str]
    task: NotRequired[str]


class KernelOut(TypedDict):
    id: str
    collection: str
    model: str
    suite: str
    level: str
    problem: str
    task: str
    sample: str
    sha256: str
    source: str
    licence: str
    language: str
    outcome: str
    claimed: ClaimedOut
    judged: JudgedOut


class KernelsOut(TypedDict):
    count: int
    kernels: list[KernelOut]


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


class ModelOut(TypedDict):
    model: str
    kernels: int
    judged: int
    claimed_right: int
    right_at_suite_size: int
    right: int
    compared: int
    claimed: EstimateOut | None
    measured: EstimateOut | None
    fast_one: float | None


class ModuleOut(TypedDict):
    task: str
    title: str
    module: str
    judged: int
    best: BestOut | None


class NoteOut(TypedDict):
    seq: int | None
    mark: Literal["clean", "leak", "reward_hack", "interesting", "bug"]
    quote: str
    text: str
    author: str
    created_at: str


class Page(TypedDict):
    runs: list[RunOut]
    next_cursor: str | None


class PageIn(TypedDict):
    limit: NotRequired[int]
    offset: NotRequired[int]


class ProgressOut(TypedDict):
    next: int
    status: str
    last_seq: int
    rounds_left: int
    seconds_left: float


class RecordOut(TypedDict):
    run: str
    round: int | None
    task: str
    task_hash: str
    hardware: str
    agent: str
    speedup: float
    low: float | None
    high: float | None
    unseen_speedup: float
    unseen_low: float | None
    unseen_high: float | None
    judge_version: str
    roofline_share: float | None
    beaten: float
    gain: float
    since: str
    until: str | None


class RecordsIn(TypedDict):
    task: NotRequired[str]
    category: NotRequired[str]
    track: NotRequired[str]
    hardware: NotRequired[str]
    agent: NotRequired[str]
    limit: NotRequired[int]


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


class RowOut(TypedDict):
    rank: int | None
    tied: bool
    unranked: str
    agent: str
    passed: int
    total: int
    tasks: int
    size: int
    solved: float
    pass_rate: float
    set_speedup: float
    set_low: float
    set_high: float
    speedup: float | None
    low: float | None
    high: float | None
    unseen_speedup: float | None
    unseen_low: float | None
    unseen_high: float | None
    noisy: int
    gap: float | None
    roofline_share: float | None
    rounds: float
    seconds: float
    cost: float | None
    tokens: int | None
    cost_per_solved: float | None
    tokens_per_solved: float | None
    title: str
    model: str
    answered_by: str


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


class RunStarted(RunOut):
    waiting: WaitingOut | None


class RunDetail(RunStarted):
    continued_by: str | None
    notes: list[NoteOut]
    submissions: list[SubmissionOut]


class RunFilters(TypedDict):
    task: NotRequired[str | None]
    agent: NotRequired[str | None]
    hardware: NotRequired[str | None]
    status: NotRequired[str | None]
    experiment: NotRequired[str | None]


class RunIn(TypedDict):
    task: str
    agent: NotRequired[str | None]
    external: NotRequired[ExternalAgent | None]
    hardware: NotRequired[str | None]
    budget: NotRequired[BudgetIn | None]
    label: NotRequired[str]
    visibility: NotRequired[Literal["public", "owner", "staff"]]


class SubmissionDetail(TypedDict):
    id: str
    round: int
    content_hash: str
    note: str
    created_at: str
    evaluations: list[JudgedOut]
    files: dict[str, str]


class SubmissionIn(TypedDict):
    task: str
    source: str
    hardware: NotRequired[str | None]
    label: NotRequired[str]
    note: NotRequired[str]
    scope: NotRequired[Literal["round", "final"]]
    visibility: NotRequired[Literal["owner", "public"]]


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


class VerdictIn(TypedDict):
    source: str
    note: NotRequired[str]
    round: NotRequired[int | None]


class WaitingOut(TypedDict):
    queue: str
    ahead: int
    served: bool
    reason: str
