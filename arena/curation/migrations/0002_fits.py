from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("curation", "0001_squashed_0005_interruptions")]

    operations = [
        migrations.AddField(
            model_name="check",
            name="fits",
            field=models.BooleanField(default=False),
        ),
    ]
