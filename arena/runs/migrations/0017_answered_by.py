from collections import defaultdict
from typing import Any

from django.db import migrations, models


def name_models(apps: Any, schema_editor: Any) -> None:
    """Fill both columns from the calls of runs whose agent names a model."""
    from arena.runs.scoring.answered import SEPARATOR, joined

    Agent, Event = apps.get_model("catalog", "Agent"), apps.get_model("runs", "Event")
    Run = apps.get_model("runs", "Run")
    calls = Event.objects.filter(kind="model_call", body__status=200, run__ended_at__isnull=False)
    claims = Event.objects.filter(kind="message", run__agent__adapter="external")
    names: defaultdict[str, set[str]] = defaultdict(set)
    for events in (calls, claims.exclude(body__role="user")):
        found = events.exclude(run__agent__model="").order_by()
        for run, name in found.values_list("run", "body__model").distinct():
            names[run].add(name)
    of_agent: defaultdict[int, set[str]] = defaultdict(set)
    by_itself: set[int] = set()
    for run in Run.objects.filter(pk__in=names).select_related("agent").iterator():
        text = joined(run.agent.model, names[run.pk])
        if text:
            Run.objects.filter(pk=run.pk).update(answered_by=text)
        judged = run.status in ("passed", "failed") and run.quarantined_at is None
        if judged and run.visibility == "public":
            of_agent[run.agent_id].update(text.split(SEPARATOR) if text else ())
            if not text:
                by_itself.add(run.agent_id)
    for agent in Agent.objects.filter(pk__in=[pk for pk, found in of_agent.items() if found]):
        every = of_agent[agent.pk] | ({agent.model} if agent.pk in by_itself else set())
        Agent.objects.filter(pk=agent.pk).update(answered_by=SEPARATOR.join(sorted(every)[:5]))


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0011_answered_by"),
        ("runs", "0016_inconclusive_verdicts"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="answered_by",
            field=models.CharField(blank=True, max_length=600),
        ),
        migrations.RunPython(name_models, migrations.RunPython.noop),
    ]
