from typing import Any

from django.db import migrations, models


def fill(apps: Any, editor: Any) -> None:
    """Note which runs are of users, by the present rights of their owners."""
    of_users = apps.get_model("accounts", "User").objects.filter(is_staff=False)
    runs = apps.get_model("runs", "Run").objects
    runs.filter(owner__in=of_users.values("pk")).update(by_arena=False)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_squashed_0003_final_verdicts_of_own_agents'),
        ('runs', '0024_artefacts'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='by_arena',
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
