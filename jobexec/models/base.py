"""The base class of all job tables, with the columns of ACT_RU_JOB, and an index that is partial where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec import clock
from jobexec.identifiers import uuid7

from .fields import NameField
from .locks import serial_key


class PartialIndex(models.Index):
    """An index over the rows that match ``where`` on PostgreSQL, and over all rows elsewhere.

    Django omits a conditional index on MySQL and MariaDB (and warns); the full index is what is needed there. SQLite
    has partial indexes but does not see that ``x = 'p'`` excludes ``x = ''``, and so would not use this one.
    """

    def __init__(self, *, where: models.Q, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where

    def deconstruct(self) -> Any:
        path, expressions, kwargs = super().deconstruct()
        return path, expressions, {**kwargs, "where": self.where}

    def create_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, using: str = "", **kwargs: Any
    ) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return super().create_sql(model, schema_editor, using=using, **kwargs)
        index = self.clone()
        index.condition = self.where
        return models.Index.create_sql(index, model, schema_editor, using=using, **kwargs)


class SparseIndex(PartialIndex):
    """An index over the rows in which its only column is not NULL, wherever the database has partial indexes.

    SQLite does see that ``x = 'p'`` implies ``x IS NOT NULL``.
    """

    def __init__(self, *, fields: Sequence[str], where: models.Q | None = None, **kwargs: Any) -> None:
        super().__init__(fields=fields, where=where or models.Q(**{f"{fields[0]}__isnull": False}), **kwargs)

    def create_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, using: str = "", **kwargs: Any
    ) -> Any:
        index = self.clone()
        if schema_editor.connection.features.supports_partial_indexes:
            index.condition = self.where
        return models.Index.create_sql(index, model, schema_editor, using=using, **kwargs)


def ordered_index(name: str, *fields: str) -> PartialIndex:
    """An index whose last column is the id, for statements with a condition on its first column.

    Over all rows, and yet partial: PostgreSQL must not use it for a condition on the id only. When a table was empty at
    its last ANALYZE, all its indexes seem to cost the same, and it often chose to read this one as a whole for a single
    row. ``x = 'p'`` and ``x <= 5`` imply ``x IS NOT NULL``; ``id = 'p'`` does not.
    """
    return PartialIndex(name=name, fields=[*fields, "id"], where=models.Q(**{f"{fields[0]}__isnull": False}))


def batch_index(name: str) -> SparseIndex:
    """Finds the children of a batch; costs nothing for jobs without one."""
    return SparseIndex(name=name, fields=["batch_id"])


def process_instance_index(name: str) -> PartialIndex:
    """Finds the jobs of a process instance; costs nothing for jobs without one."""
    return PartialIndex(name=name, fields=["process_instance_id"], where=~models.Q(process_instance_id=""))


def key_index(name: str, column: str = "job_key") -> PartialIndex:
    """Finds a job by the key that external workers know; costs nothing for jobs without one."""
    return PartialIndex(name=name, fields=[column], where=models.Q(**{f"{column}__isnull": False}))


class JobType(models.TextChoices):
    """The origin of a job (ACT_RU_JOB.TYPE_); kept through every move."""

    MESSAGE = "message", pgettext_lazy("type of job", "message")
    TIMER = "timer", _("timer")
    HISTORY = "history", _("history")
    EXTERNAL = "external worker", pgettext_lazy("type of job", "external worker")


class AbstractJob(models.Model):
    """The columns of every job table, named after Camunda's job properties.

    A table is a state. A row keeps its ``id`` through every move from table to table. Only ``jobexec.operations``
    changes rows; only acquisition, release, recovery and moves raise ``revision``, so that changing the priority or the
    retries of a running job never invalidates its outcome.
    """

    state: ClassVar[str]
    #: Whether its jobs run when they are due, unless something suspends them; all other jobs are held back.
    runnable: ClassVar[bool]
    #: Whether its jobs are given up: they run again only if an operator requeues them.
    dead: ClassVar[bool]

    #: Whether ``enqueue`` returned this row instead of inserting one, because its unique key is taken.
    is_duplicate: bool = False

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    revision = models.PositiveIntegerField(default=1)
    type = models.CharField(max_length=32, choices=JobType, default=JobType.MESSAGE)
    lock_owner: models.Field[str | None, str | None] = NameField(max_length=255, null=True, blank=True)  # type: ignore[misc,assignment]
    lock_expiration_time = models.DateTimeField(null=True, blank=True)
    exclusive = models.BooleanField(default=True)
    execution_id = NameField(max_length=64, blank=True, default="")
    process_instance_id = NameField(max_length=255, blank=True, default="")
    root_process_instance_id = NameField(max_length=255, blank=True, default="")
    process_definition_id = NameField(max_length=255, blank=True, default="")
    process_definition_key = NameField(max_length=255, blank=True, default="")
    deployment_id = NameField(max_length=255, blank=True, default="")
    tenant_id = NameField(max_length=64, blank=True, default="")
    job_definition_id = NameField(max_length=255, blank=True, default="")
    handler_type = NameField(max_length=255)
    handler_configuration = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    custom_headers = models.JSONField(default=dict, blank=True, encoder=DjangoJSONEncoder)
    category = NameField(max_length=128, default="default")
    priority = models.IntegerField(default=0)
    rank = models.BigIntegerField(default=0, help_text=_("Order of acquisition; jobs with a lower rank run sooner."))
    due_date = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text=_("If the job has not started by then, it is cancelled.")
    )
    repeat = models.CharField(max_length=255, blank=True, default="")
    retries = models.PositiveIntegerField(default=3, help_text=_("Attempts left."))
    attempts = models.PositiveIntegerField(default=0, help_text=_("Attempts made."))
    lost_runs = models.PositiveIntegerField(
        default=0, help_text=_("How often an executor process died while it ran the job.")
    )
    start_time = models.DateTimeField(
        null=True, blank=True, help_text=_("Start of a run in a process of its own, saved before the run begins.")
    )
    conflicts = models.PositiveIntegerField(
        default=0, help_text=_("Attempts that ended in a database conflict, such as a deadlock, and cost no retry.")
    )
    snoozes = models.PositiveIntegerField(
        default=0, db_default=0, help_text=_("How often the job postponed itself without using a retry.")
    )
    unknown_since = models.DateTimeField(
        null=True, blank=True, help_text=_("When a node first acquired the job without knowing its handler.")
    )
    retry_plan = models.CharField(max_length=255, blank=True, default="")
    atomic = models.BooleanField(default=False)
    timeout = models.DurationField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    suspend_requested = models.BooleanField(default=False, help_text=_("Suspended individually, not through a scope."))
    exception_message = models.CharField(max_length=4000, blank=True, default="")
    exception_stack = models.TextField(blank=True, default="")
    failed_activity_id = NameField(max_length=255, blank=True, default="")
    create_time = models.DateTimeField(default=clock.now)
    sequence_counter = models.PositiveBigIntegerField(default=1)
    correlation_id = NameField(max_length=255, blank=True, default="")
    batch_id = models.UUIDField(null=True, blank=True)
    traceparent = models.CharField(max_length=55, blank=True, default="")
    resource: models.Field[str | None, str | None] = NameField(  # type: ignore[misc,assignment]
        max_length=255,
        null=True,
        blank=True,
        help_text=_("The resource that it shares with other jobs; see RESOURCES."),
    )
    waits_for: models.Field[str | None, str | None] = NameField(  # type: ignore[misc,assignment]
        max_length=128, null=True, blank=True, help_text=_("The name of the message that it waits for.")
    )
    waits_for_key: models.Field[str | None, str | None] = NameField(  # type: ignore[misc,assignment]
        max_length=255, null=True, blank=True
    )
    waits_until = models.DateTimeField(null=True, blank=True, help_text=_("When it continues without the message."))
    message = models.TextField(  # noqa: DJ001  # NULL: none
        null=True, blank=True, editable=False, help_text=_("The payload of the received message, as JSON.")
    )
    task_backend = NameField(
        max_length=255,
        blank=True,
        default="",
        db_default="",
        help_text=_("The alias in TASKS through which it was enqueued."),
    )

    job_key = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text=_("The key that external workers use for the job.")
    )

    class Meta:
        abstract = True
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return f"{self.handler_type} {self.pk}"

    @property
    def locked(self) -> bool:
        """Whether a node holds the job: it is queued or running there."""
        return self.lock_owner is not None

    @property
    def serial_key(self) -> str:
        """The key shared by jobs that must not run at the same time; '' for jobs that run beside any other."""
        exclusive = self.exclusive and self.process_instance_id
        return serial_key(self.tenant_id, self.process_instance_id) if exclusive else ""


SHARED_COLUMNS: tuple[str, ...] = tuple(field.name for field in AbstractJob._meta.fields)
"""The columns that a move carries from one job table to another."""
