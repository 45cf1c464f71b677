from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('published', '0002_judge_of_each_kernel'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='publishedkernel',
            name='published_kernel_status_known',
        ),
        migrations.AddField(
            model_name='publishedkernel',
            name='right_by',
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name='publishedkernel',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['passed', 'specialised', 'suite_right', 'wrong', 'forbidden', 'failed', 'unsupported', 'inconclusive', 'not_judged'])), name='published_kernel_status_known'),
        ),
    ]
