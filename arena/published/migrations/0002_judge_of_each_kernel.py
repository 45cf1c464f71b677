from typing import Any

from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def fill(apps: Any, editor: Any) -> None:
    """Give each kernel the judge's version of its file."""
    file = apps.get_model("published", "PublishedFile").objects.filter(pk=OuterRef("file"))
    kernels = apps.get_model("published", "PublishedKernel").objects
    kernels.update(judge_version=Subquery(file.values("judge_version")[:1]))


class Migration(migrations.Migration):

    dependencies = [
        ('published', '0001_squashed_0002_published_verdict_pages'),
    ]

    operations = [
        migrations.AddField(
            model_name='publishedkernel',
            name='judge_version',
            field=models.CharField(default='', max_length=50),
            preserve_default=False,
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
