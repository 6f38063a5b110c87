"""The permission to execute jobs in the admin."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0008_lost_keys")]

    operations = [
        migrations.AlterModelOptions(
            name="job",
            options={
                "default_permissions": ("view", "delete"),
                "permissions": [
                    ("retry_job", "Can set retries and retry jobs now"),
                    ("cancel_job", "Can cancel jobs"),
                    ("suspend_job", "Can suspend jobs"),
                    ("activate_job", "Can activate jobs"),
                    ("reschedule_job", "Can change due dates of jobs"),
                    ("prioritize_job", "Can change priorities of jobs"),
                    ("unlock_job", "Can unlock jobs"),
                    ("execute_job", "Can execute jobs in the process of the admin"),
                    ("bury_job", "Can move jobs to the dead letters"),
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
    ]
