"""Migrations of columns whose type changes on some databases only."""

from __future__ import annotations

from typing import Any

from django.db.migrations import AlterField


class AlterColumnType(AlterField):
    """Changes a field, and its column where the type differs; Django would copy the table on SQLite anyway."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        before, after = (
            state.apps.get_model(app_label, self.model_name)
            ._meta.get_field(self.name)
            .db_type(schema_editor.connection)
            for state in (from_state, to_state)
        )
        if before != after:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
