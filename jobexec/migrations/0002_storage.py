"""How PostgreSQL stores the executable jobs; other databases have nothing to set."""

from django.db import migrations

# Locking a job rewrites its row. With half of each page free the new version fits beside the old one, and because no
# index holds a lock column the update is HOT: it writes no index. The table turns over completely all the time, so
# vacuum must come early and must not wait for a share of a table that is small on average.
_STORAGE = (
    "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, "
    "autovacuum_vacuum_cost_delay = 0"
)
_NAMES = "fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay"


def _alter(schema_editor, change):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE jobexec_job {change}")


def set_storage(apps, schema_editor):
    _alter(schema_editor, f"SET ({_STORAGE})")


def reset_storage(apps, schema_editor):
    _alter(schema_editor, f"RESET ({_NAMES})")


class Migration(migrations.Migration):
    dependencies = [("jobexec", "0001_initial")]

    operations = [migrations.RunPython(set_storage, reset_storage)]
