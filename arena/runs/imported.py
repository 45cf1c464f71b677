"""Files of results that were loaded."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class ImportedFile(models.Model):
    """A results file that was loaded completely, keyed by its SHA-256."""

    sha256 = models.CharField(primary_key=True, max_length=64)
    name = models.CharField(max_length=200)
    loaded_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name
