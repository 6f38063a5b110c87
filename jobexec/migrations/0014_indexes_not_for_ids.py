"""Indexes that end with the id, so that PostgreSQL does not take them for statements that know the id only."""

from django.db import migrations, models

from jobexec.models.base import PartialIndex


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0013_declared_time")]

    operations = [
        migrations.RemoveIndex(model_name="job", name="jobexec_job_acquisition"),
        migrations.AddIndex(
            model_name="job",
            index=PartialIndex(
                fields=["category", "deployment_id", "rank", "id"],
                name="jobexec_job_acquisition",
                where=models.Q(category__isnull=False),
            ),
        ),
        migrations.RemoveIndex(model_name="externalworkerjob", name="jobexec_external_available"),
        migrations.AddIndex(
            model_name="externalworkerjob",
            index=PartialIndex(
                fields=["handler_type", "available_at", "rank", "id"],
                name="jobexec_external_available",
                where=models.Q(handler_type__isnull=False),
            ),
        ),
        migrations.RemoveIndex(model_name="historyjob", name="jobexec_historyjob_due"),
        migrations.AddIndex(
            model_name="historyjob",
            index=PartialIndex(
                fields=["due_date", "id"],
                name="jobexec_historyjob_due",
                where=models.Q(due_date__isnull=False),
            ),
        ),
        migrations.RemoveIndex(model_name="timerjob", name="jobexec_timerjob_due"),
        migrations.AddIndex(
            model_name="timerjob", index=models.Index(fields=["due_date"], name="jobexec_timerjob_due")
        ),
    ]
