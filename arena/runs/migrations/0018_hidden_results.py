from typing import Any

from django.db import migrations


def hide(apps: Any, schema_editor: Any) -> None:
    """Remove from stored results on hidden cases what can tell a size."""
    from arena.runs.scoring.hidden import without_sizes

    GateResult, Event = apps.get_model("runs", "GateResult"), apps.get_model("runs", "Event")
    names = ("gate", "verdict", "reason", "message", "passed", "total", "duration_ms")
    for gate in GateResult.objects.filter(gate="generalization").iterator():
        before = {name: getattr(gate, name) for name in names}
        private = {"duration_ms": gate.duration_ms, "reason": gate.reason, "passed": gate.passed}
        GateResult.objects.filter(pk=gate.pk).update(
            **without_sizes(before), private={**private, **gate.private}
        )
    for event in Event.objects.filter(kind="gate_result", body__gate="generalization").iterator():
        Event.objects.filter(pk=event.pk).update(body=without_sizes(event.body))


class Migration(migrations.Migration):
    dependencies = [("runs", "0017_answered_by")]

    operations = [migrations.RunPython(hide, migrations.RunPython.noop)]
