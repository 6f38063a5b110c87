from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobexec_processes", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="processdefinition",
            name="number",
            field=models.BigIntegerField(blank=True, null=True, unique=True),
        ),
        migrations.AddField(
            model_name="processdeployment",
            name="key",
            field=models.BigIntegerField(blank=True, null=True, unique=True),
        ),
        migrations.AddField(
            model_name="processinstance",
            name="awaited",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="usertask",
            name="key",
            field=models.BigIntegerField(blank=True, null=True, unique=True),
        ),
    ]
