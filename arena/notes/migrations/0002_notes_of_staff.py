from typing import Any

from django.db import migrations, models


def fill(apps: Any, editor: Any) -> None:
    """Note which notes are of staff, by the present rights of their authors."""
    staff = apps.get_model("accounts", "User").objects.filter(is_staff=True)
    notes = apps.get_model("notes", "Note").objects
    notes.filter(author__in=staff.values("pk")).update(by_staff=True)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_squashed_0003_final_verdicts_of_own_agents'),
        ('notes', '0001_squashed_0002_scans'),
    ]

    operations = [
        migrations.AddField(
            model_name='note',
            name='by_staff',
            field=models.BooleanField(default=False, db_default=False),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
