"""How PostgreSQL stores the tokens of running instances; other databases have nothing to set."""

from django.db import migrations

# Each step rewrites the row of its token. With half of each page free the new version fits beside the old one, and
# because no index holds a column that a move changes the update is HOT: it writes no index. As the table of the
# executable jobs, this one turns over all the time.
_STORAGE = (
    "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, "
    "autovacuum_vacuum_cost_delay = 0"
)
_NAMES = "fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay"


def _alter(schema_editor, change):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE jobexec_processes_execution {change}")


def set_storage(apps, schema_editor):
    _alter(schema_editor, f"SET ({_STORAGE})")


def reset_storage(apps, schema_editor):
    _alter(schema_editor, f"RESET ({_NAMES})")


class Migration(migrations.Migration):
    dependencies = [("jobexec_processes", "0005_exact_ids")]

    operations = [migrations.RunPython(set_storage, reset_storage)]
