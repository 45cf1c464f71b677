from typing import Any

from django.db import migrations, models
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce


def name_judges(apps: Any, schema_editor: Any) -> None:
    """Fill both columns from the final verdict of each run, else from that of its last round."""
    Run, Evaluation = apps.get_model("runs", "Run"), apps.get_model("runs", "Evaluation")
    judged = Evaluation.objects.filter(submission__run=OuterRef("pk")).exclude(judge_version="")
    finals = judged.filter(scope="final").order_by("-submission__round")
    rounds = judged.filter(scope="round").order_by("-submission__round")
    ended = Run.objects.filter(status__in=("passed", "failed"))


    def of_verdict(column: str, otherwise: Any) -> Coalesce:
        found = [Subquery(each.values(column)[:1]) for each in (finals, rounds)]
        return Coalesce(*found, models.Value(otherwise))

    ended.update(judge_version=of_verdict("judge_version", ""))
    ended.filter(status="passed").update(noisy=of_verdict("noisy", False))


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0014_measurement_without_dtype"),
    ]

    operations = [
        migrations.RemoveField(model_name="standing", name="judge_version"),
        migrations.AddField(
            model_name="run",
            name="judge_version",
            field=models.CharField(blank=True, max_length=50),
        ),
        migrations.AddField(
            model_name="run",
            name="noisy",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(name_judges, migrations.RunPython.noop),
    ]
