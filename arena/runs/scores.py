"""Columns of the scores of a verdict, which runs and evaluations have."""

from __future__ import annotations

from django.db import models


class Scores(models.Model):
    """Summary of a verdict: geomean speedups with 95 % intervals, and the roofline share."""

    speedup = models.FloatField(null=True, blank=True)
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    unseen_speedup = models.FloatField(null=True, blank=True)
    unseen_low = models.FloatField(null=True, blank=True)
    unseen_high = models.FloatField(null=True, blank=True)
    roofline_share = models.FloatField(null=True, blank=True)

    class Meta:
        abstract = True


SCORES = tuple(field.name for field in Scores._meta.local_fields)
