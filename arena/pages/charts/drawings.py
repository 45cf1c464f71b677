"""Drawings on logarithmic axes as files with tables: rooflines, and records over time."""

from __future__ import annotations

from collections.abc import Sequence

from arena.leaderboard.kernels.records import Record
from arena.pages.charts.files import Drawing
from arena.runs.display.roofline import Roofline
from arena.runs.templatetags.rooflines import records_svg, roofline_svg


def roofline_drawing(shown: Roofline) -> Drawing:
    """Draw cases under the ceilings of a device; the table has a line for each of both."""
    ceilings = [
        (each.name, "ceiling", None, None, each.value, None, None)
        for each in (*shown.bandwidths, *shown.rates)
    ]
    cases = [
        (p.case, "case", p.intensity, p.baseline, p.candidate, p.speedup, p.share)
        for p in shown.points
    ]
    columns = (
        "name", "what", "operations_per_byte", "baseline_tflops", "tflops_or_gbps", "speedup",
        "roofline_share",
    )  # fmt: skip
    return Drawing(roofline_svg(shown, "Roofline"), columns, [*ceilings, *cases])


def records_drawing(records: Sequence[Record]) -> Drawing | None:
    """Draw the records of a task, a step line for each device; None with fewer than two."""
    svg = records_svg(records)
    rows = [
        (
            each.run.ended_at,
            each.run.hardware.slug,
            each.run.agent.slug,
            each.run.pk,
            *(each.run.unseen_speedup, each.run.unseen_low, each.run.unseen_high, each.beaten),
        )
        for each in records
    ]
    columns = ("at", "device", "agent", "run", "speedup", "low", "high", "beaten")
    return Drawing(svg, columns, rows) if svg else None
