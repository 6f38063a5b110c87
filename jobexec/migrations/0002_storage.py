"""Locking a job rewrites its row; no index holds a lock column."""

from django.db import migrations

from jobexec.operations.sql.storage import turning_over


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0001_initial")]

    operations = [turning_over("jobexec_job")]
