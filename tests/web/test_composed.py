"""The page of an architecture with its best kernels measured together, beside the prediction."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from arena.leaderboard.models import Composition
from arena.leaderboard.production.compositions import together
from arena.leaderboard.ranking.results import snapshot
from arena.runs.display.funnels import DROPS
from evaluation.kinds.module.drops import Drop
from tests.arena.production import performance, production_run
from tests.web.test_production import LLAMA, text_of

pytestmark = pytest.mark.django_db
FAILED = {"correctness": {"drop": "clash", "caused_by": ["llama_mlp", "llama_rms_norm"]}}
FACT = "All best kernels, measured"


def composition(detail: Any = None, **changes: Any) -> Composition:
    """Return what a worker stored of the best kernels of two modules."""
    runs = [
        production_run("tuner", on, performance(4.0, 1.25))
        for on in ("llama_rms_norm", "llama_mlp")
    ]
    wanted = together(snapshot(), "test-cpu")["llama"]
    gates = {"performance": performance(2.0, 1.44) if detail is None else detail}
    values = {
        "status": "done", "verdict": "passed", "gates": gates, "judge_version": "7",
        "ended_at": timezone.now(), **changes,
    }  # fmt: skip
    return Composition.objects.create(
        architecture="llama",
        architecture_hash="a" * 64,
        hardware=runs[0].hardware,
        key=wanted.key,
        submissions=wanted.submissions,
        **values,
    )


def test_measured_speedup_is_shown_with_its_interval_regimes_and_the_prediction(
    client: Any,
) -> None:
    composition()
    page = text_of(client, LLAMA)
    facts, _, rest = page.partition('id="modules"')
    assert FACT in facts and "1.44×" in facts and "1.40 to 1.48; predicted 1.67×" in facts
    note = rest.partition('id="composed"')[2].partition("</p>")[0]
    assert "<strong>Measured:</strong>" in note and "1.44× as fast (1.40 to 1.48)" in note
    assert "prefill 1.44× in Eager, decode 1.44× in Eager" in note
    assert "<strong>Predicted:</strong> 1.67×" in note
    assert "by judge 7" in note and "<code>bbbbbbbb</code>" in note
    regimes = page.partition("phase and regime")[2].partition("</table>")[0]
    assert regimes.count(">All best kernels<") == 2, "a row for each phase"


def test_funnel_begins_with_the_best_kernels_together(client: Any) -> None:
    composition()
    page = text_of(client, LLAMA)
    funnel = page.partition('aria-label="Table: submissions"')[2]
    row = funnel.partition("</tr>")[2].partition("</tr>")[0]
    assert "All best kernels" in row and "2 modules in one model" in row
    for part in ('data-label="Alone"', "2.00×", "1.67×", "1.44×", "1.40 to 1.48"):
        assert part in row, part
    chart = page.partition('id="chart-funnel"')[2]
    assert "All best kernels" in chart.partition("</figure>")[0]


def test_composition_that_fails_names_the_modules_that_cause_it(client: Any) -> None:
    composition(verdict="failed", gates=FAILED, message="An operator was registered twice.")
    page = text_of(client, LLAMA)
    assert "they do not work together" in page and DROPS[Drop.CLASH] in page
    assert "as far as the judge can tell: MLP, RMS norm." in page
    assert FACT not in page and "1.67×" in page


def test_composition_that_is_disputed_is_not_shown_as_measured_speed(client: Any) -> None:
    composition(performance(2.0, 1.9, drop="over_ceiling"), verdict="disputed")
    page = text_of(client, LLAMA)
    assert FACT not in page and DROPS[Drop.OVER_CEILING].partition(",")[0] in page


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"status": "queued"}, "once its device is idle"),
        ({"status": "broken", "message": "No memory."}, "not be measured together: No memory."),
        ({"status": "done", "verdict": "skipped", "message": "No library."}, "No library."),
        ({"key": "of other kernels"}, "Each saves what it saves by itself."),
    ],
)
def test_kernels_that_are_not_measured_together_have_a_prediction(
    client: Any, changes: dict[str, Any], text: str
) -> None:
    made = composition(verdict="", gates={})
    Composition.objects.filter(pk=made.pk).update(**changes)
    page = text_of(client, LLAMA)
    assert "Predicted, not measured:" in page and text in page
    assert FACT not in page


@pytest.mark.parametrize("detail", [{}, [], {"deployed": "fast"}])
def test_page_opens_with_a_malformed_composition(client: Any, detail: Any) -> None:
    composition(detail)
    assert FACT not in text_of(client, LLAMA)
