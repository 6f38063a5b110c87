"""Each step rewrites the rows of its tokens; no index holds a column that a move changes."""

from django.db import migrations

from jobexec.operations.sql.storage import turning_over


class Migration(migrations.Migration):
    dependencies = [("jobexec_processes", "0005_exact_ids")]

    operations = [turning_over("jobexec_processes_execution")]
