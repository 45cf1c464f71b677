from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0010_suites"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="answered_by",
            field=models.CharField(blank=True, editable=False, max_length=600),
        ),
    ]
