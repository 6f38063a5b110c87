"""How PostgreSQL stores tables whose rows are rewritten and replaced all the time; others have nothing to set."""

from __future__ import annotations

from typing import Any

from django.db.migrations import RunPython

# With half of each page free the new version of a row fits beside the old one, and if no index holds a column that has
# changed, the update is HOT: it writes no index. Vacuum must come early, and must not wait for a share of a table that
# is small on average.
_STORAGE = {
    "fillfactor": "50",
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "1000",
    "autovacuum_vacuum_cost_delay": "0",
}


def turning_over(table: str) -> RunPython:
    """A migration of a table that turns over completely all the time."""
    values = ", ".join(f"{name} = {value}" for name, value in _STORAGE.items())

    def alter(schema_editor: Any, change: str) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"ALTER TABLE {table} {change}")

    return RunPython(
        lambda apps, schema_editor: alter(schema_editor, f"SET ({values})"),
        lambda apps, schema_editor: alter(schema_editor, f"RESET ({', '.join(_STORAGE)})"),
    )
