from typing import Any

from django.db import migrations, models


def forget_verdicts(apps: Any, schema_editor: Any) -> None:
    """Delete the files of verdicts: an arena loads them again when it starts, with an id each."""
    apps.get_model("published", "PublishedFile").objects.filter(verdicts__isnull=False).delete()


class Migration(migrations.Migration):

    dependencies = [("published", "0001_kernels_and_verdicts")]

    operations = [
        migrations.RunPython(forget_verdicts, migrations.RunPython.noop),
        migrations.AddField(
            model_name="publishedverdict",
            name="machine",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="publishedverdict",
            name="slug",
            field=models.SlugField(max_length=12, unique=True, default=""),
            preserve_default=False,
        ),
    ]
