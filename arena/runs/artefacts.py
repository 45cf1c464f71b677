"""Artefacts of builds on their way from the machine that compiled to the one that measures.

One belongs to one evaluation and is used for that alone, so that a machine which builds can change
no verdict but that of what it has built.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from django.db import models, transaction
from django.db.models.functions import Now

from arena.runs.states import EVALUATION_ACTIVE

KEY = re.compile(r"[0-9a-f]{40}")
MAX_BYTES = 4 << 20
"""Size of a packed artefact. A larger one stays, and is built again where it is measured."""
MAX_ROWS = 1000
"""Artefacts that the database keeps, and so 4 GB at most; the oldest are removed first."""


class Artefact(models.Model):
    """The packed artefact of one evaluation that was built and waits to be measured."""

    evaluation = models.OneToOneField(
        "runs.Evaluation", models.CASCADE, primary_key=True, related_name="artefact"
    )
    key = models.CharField(max_length=40)
    """Hash of the source, the task, the compiler and the processor that it is for."""
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()
    built_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-built_at"]

    def __str__(self) -> str:
        return f"{self.key} of evaluation {self.evaluation_id}"


def store(evaluation: Any, lease: str, key: str, content: bytes) -> bool:
    """Store the artefact of an evaluation that this lease holds; return whether it does, and fits.

    Another one that an earlier build left is replaced.
    """
    if len(content) > MAX_BYTES:
        return False
    values = {"key": key, "sha256": hashlib.sha256(content).hexdigest(), "content": content}
    with transaction.atomic():
        rows = type(evaluation)._default_manager.held(evaluation.pk, lease)
        if rows.select_for_update().first() is None:
            return False
        Artefact.objects.update_or_create(evaluation_id=evaluation.pk, defaults=values)
    return True


def find(evaluation_id: int) -> tuple[str, bytes] | None:
    """Return the key and the content of an evaluation's artefact; None without a whole one."""
    found = Artefact.objects.filter(evaluation=evaluation_id).first()
    if found is None:
        return None
    content = bytes(found.content)
    whole = hashlib.sha256(content).hexdigest() == found.sha256 and KEY.fullmatch(found.key)
    return (found.key, content) if whole else None


def make_room(rows: int = MAX_ROWS) -> int:
    """Delete what is measured, and the oldest beyond `rows`; return the number."""
    # One that comes meanwhile is in neither.
    left: int = Artefact.objects.exclude(evaluation__status__in=EVALUATION_ACTIVE).delete()[0]
    oldest = list(Artefact.objects.order_by("-built_at").values_list("pk", flat=True)[rows:])
    beyond: int = Artefact.objects.filter(pk__in=oldest).delete()[0]
    return left + beyond
