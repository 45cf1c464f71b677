"""Changes that boards must learn of although no service of runs makes them."""

from __future__ import annotations

from typing import Any

from django.db.models.signals import post_delete, post_migrate, post_save, pre_save
from django.dispatch import receiver

from arena.catalog.models import Agent, Hardware, Operator, Task
from arena.runs.models import Run, StandingsState
from arena.runs.scoring.standings import keep_records_of, keep_standing, rebuild, touch

UNRANKED = ("open_book", "quarantined_at")


@receiver(post_save, sender=Task)
@receiver(post_save, sender=Operator)
@receiver(post_save, sender=Hardware)
def touch_boards(**_: Any) -> None:
    """Start a new version, because boards show tasks by their status, category and track."""
    touch()


@receiver(pre_save, sender=Agent)
def remember_agent(instance: Agent, **_: Any) -> None:
    """Note whether the change of an agent makes its runs count, or count no more."""
    before = Agent.objects.filter(pk=instance.pk).values(*UNRANKED).first()
    after = {name: getattr(instance, name) for name in UNRANKED}
    changed = before is not None and any(
        bool(before[name]) != bool(after[name]) for name in UNRANKED
    )
    instance._counts_anew = changed  # type: ignore[attr-defined]


@receiver(post_save, sender=Agent)
def touch_agent(instance: Agent, **_: Any) -> None:
    if instance._counts_anew:  # type: ignore[attr-defined]
        keep_records_of(instance)
    else:
        touch()


@receiver(post_delete, sender=Run)
def drop_standing(instance: Run, **_: Any) -> None:
    """Let an older run stand for the place of a deleted one."""
    touch(removed=True)
    keep_standing(instance)


@receiver(post_migrate)
def build_standings(sender: Any, **_: Any) -> None:
    """Compute the standings of a database that has none yet."""
    if sender.label == "runs" and not StandingsState.objects.exists():
        rebuild()
