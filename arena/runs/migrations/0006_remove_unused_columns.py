from django.db import migrations


class Migration(migrations.Migration):
    """Removes columns that nothing sets: every event is public, and a run is tried once."""

    dependencies = [("runs", "0005_captured_launches")]

    operations = [
        migrations.RemoveConstraint("event", "event_visibility_known"),
        migrations.RemoveField("event", "visibility"),
        migrations.RemoveField("run", "attempts"),
    ]
