"""Activities remember who had the user task, and the job that did what the element does."""

from django.db import migrations, models

from jobexec.models.fields import NameField


class Migration(migrations.Migration):
    dependencies = [("jobexec_processes", "0006_storage")]

    operations = [
        migrations.AddField(
            "activityinstance", "assignee", NameField(blank=True, db_default="", default="", max_length=255)
        ),
        migrations.AddField("activityinstance", "job_id", models.UUIDField(blank=True, null=True)),
    ]
