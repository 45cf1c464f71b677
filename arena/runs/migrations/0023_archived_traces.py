import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0022_peak_memory'),
    ]

    operations = [
        migrations.CreateModel(
            name='ArchivedTrace',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='archive', serialize=False, to='runs.run')),
                ('sha256', models.CharField(max_length=64)),
                ('size', models.PositiveBigIntegerField()),
                ('last_seq', models.PositiveIntegerField()),
                ('spent', models.JSONField()),
                ('archived_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
