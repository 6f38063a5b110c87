"""The table of django-tasks-db, read without that package, which may already be uninstalled."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.apps.registry import Apps
from django.core.management.base import CommandError
from django.db import connections, models
from django.db.models import QuerySet
from django.utils.translation import gettext as _

#: Years from this one on mean "no time" (django-tasks-db writes 9999-01-01, because NULLs sort differently).
NO_TIME = 9999


class StoredTask(models.Model):
    """A row of django-tasks-db since version 0.12. The model is in no installed app, so it has no migrations."""

    id = models.UUIDField(primary_key=True)
    status = models.CharField(max_length=10)
    enqueued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    args_kwargs = models.JSONField()
    priority = models.IntegerField()
    task_path = models.TextField()
    worker_ids = models.JSONField()
    queue_name = models.CharField(max_length=32)
    backend_name = models.CharField(max_length=32)
    run_after = models.DateTimeField(null=True)
    return_value = models.JSONField(null=True)
    exception_class_path = models.TextField()
    traceback = models.TextField()

    class Meta:
        apps = Apps()
        app_label = "django_tasks_database"
        db_table = "django_tasks_database_dbtaskresult"
        managed = False

    def __str__(self) -> str:
        return f"{self.task_path} {self.pk}"

    @property
    def not_before(self) -> datetime | None:
        """``run_after``; None if it has none."""
        return None if self.run_after is None or self.run_after.year >= NO_TIME else self.run_after

    @property
    def errors(self) -> list[dict[str, str]]:
        """The failure in the format of task results."""
        if not self.exception_class_path:
            return []
        return [{"exception_class_path": self.exception_class_path, "traceback": self.traceback}]


def check_table(using: str) -> None:
    """Raise CommandError if the table does not exist, or has the columns of another version."""
    connection, name = connections[using], StoredTask._meta.db_table
    with connection.cursor() as cursor:
        if name not in connection.introspection.table_names(cursor):
            text = _(
                "The database %(using)r has no table %(table)s of django-tasks-db. Name the right database with "
                "--source."
            )
            raise CommandError(text % {"using": using, "table": name})
        there = {column.name for column in connection.introspection.get_table_description(cursor, name)}
    missing = sorted({field.name for field in StoredTask._meta.concrete_fields} - there)
    if missing:
        text = _(
            "The table %(table)s lacks the columns %(columns)s: migrate it to django-tasks-db 0.12 or later first."
        )
        raise CommandError(text % {"table": name, "columns": ", ".join(missing)})


def stored(using: str, queues: list[str] | None, *statuses: str) -> QuerySet[StoredTask]:
    """The rows with these statuses, ordered by primary key."""
    rows: QuerySet[StoredTask] = StoredTask._base_manager.using(using).filter(status__in=statuses).order_by("pk")
    return rows.filter(queue_name__in=queues) if queues else rows


def locked(rows: QuerySet[StoredTask]) -> QuerySet[StoredTask]:
    """Lock the rows so that no worker can claim them, skipping locked ones; on SQLite the transaction does this."""
    features: Any = connections[rows.db].features
    if not features.has_select_for_update:
        return rows
    return rows.select_for_update(skip_locked=features.has_select_for_update_skip_locked)
