"""API operations of published kernels: claims beside verdicts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from arena.errors import NotFound
from arena.leaderboard.kernels.claims import by_model
from arena.published.kernels import KernelFilters, kernels, selected, unknown
from arena.published.models import PublishedKernel
from arena.runs.strict import derived

router = Router(tags=["claims"])
MAX_KERNELS = 500


KernelFiltersIn = derived(
    "KernelFiltersIn",
    KernelFilters,
    Schema,
    outcome=(str, Field("", description="What became of the claim; see /methodology/#claims.")),
)


class PageIn(Schema):
    limit: int = Field(100, ge=1, le=MAX_KERNELS)
    offset: int = Field(0, ge=0)


class ClaimedOut(Schema):
    right: bool | None = Field(validation_alias="claimed_right")
    speedup: float | None = Field(validation_alias="claimed_speedup")
    hardware: str = Field(validation_alias="claimed_hardware")
    baseline: str = Field(validation_alias="claimed_baseline")


class JudgedOut(Schema):
    """The verdict; `speedup` is that at the suite's sizes, with its 95 % interval."""

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
    device: str = Field(validation_alias="file.device")
    judge_version: str


class KernelOut(Schema):
    """A published kernel: `source` is its address at the commit of its collection."""

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

    @staticmethod
    def resolve_licence(kernel: PublishedKernel) -> str:
        return str(kernel.published_by.get("licence", ""))

    @staticmethod
    def resolve_claimed(kernel: PublishedKernel) -> PublishedKernel:
        return kernel

    @staticmethod
    def resolve_judged(kernel: PublishedKernel) -> PublishedKernel:
        return kernel


class KernelsOut(Schema):
    count: int
    unknown: list[str]
    kernels: list[KernelOut]


class EstimateOut(Schema):
    value: float
    low: float | None
    high: float | None


class ModelOut(Schema):
    """Counts are of kernels with a verdict; geomeans of the `compared` ones with both ratios."""

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


@router.get("", response=KernelsOut)
def list_claims(
    request: HttpRequest,
    filters: Query[KernelFiltersIn],  # type: ignore[valid-type]
    page: Query[PageIn],
) -> dict[str, Any]:
    """List published kernels with their claims and verdicts, the largest claims first.

    `count` is the number of all that the filters select. `unknown` has a sentence for each filter
    whose value no kernel has.
    """
    every, chosen = kernels(), KernelFilters(**dict(filters))
    found = selected(every, chosen)
    shown = found[page.offset : page.offset + page.limit]
    return {"count": len(found), "unknown": unknown(every, chosen), "kernels": shown}


@router.get("/models", response=list[ModelOut])
def list_models(
    request: HttpRequest,
    filters: Query[KernelFiltersIn],  # type: ignore[valid-type]
) -> list[Any]:
    """List the figures of each model over the kernels that the filters select."""
    return list(by_model(selected(kernels(), KernelFilters(**dict(filters)))))


@router.get("/{kernel_id}", response=KernelOut)
def get_claim(request: HttpRequest, kernel_id: str) -> PublishedKernel:
    """Return one published kernel."""
    found = PublishedKernel.objects.select_related("file").filter(pk=kernel_id).first()
    if found is None:
        raise NotFound(f"There is no published kernel '{kernel_id}'.", "See GET /api/v1/claims.")
    return found
