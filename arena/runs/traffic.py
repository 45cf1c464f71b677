"""Recorded traffic of models, where every machine finds it: a continued run replays it anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import models


class TrafficPart(models.Model):
    """Whole lines of a run's recording, from the byte `start` on."""

    run = models.ForeignKey("runs.Run", models.CASCADE, related_name="traffic")
    start = models.PositiveBigIntegerField()
    lines = models.TextField()

    class Meta:
        ordering = ["run", "start"]
        constraints = [
            models.UniqueConstraint(fields=["run", "start"], name="traffic_part_start_unique")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} from {self.start}"


def add_part(run_id: str, start: int, lines: bytes) -> None:
    """Append whole lines to the recording of a run; a part that is stored already stays."""
    values = {"lines": lines.decode()}
    TrafficPart.objects.get_or_create(run_id=run_id, start=start, defaults=values)


def recording(run_ids: Sequence[str]) -> bytes:
    """Return the recording of the first of these runs that has one; empty for none."""
    for run_id in run_ids:
        parts = TrafficPart.objects.filter(run=run_id).order_by("start")
        if found := "".join(parts.values_list("lines", flat=True)):
            return found.encode()
    return b""


def forget(run_ids: Sequence[str]) -> None:
    """Delete the recordings of runs that nobody continues any more."""
    TrafficPart.objects.filter(run__in=run_ids).delete()
