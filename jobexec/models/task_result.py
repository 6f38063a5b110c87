"""The results of tasks of django.tasks, and of jobs that keep theirs."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from .fields import NameField


class ResultStatus(models.TextChoices):
    """The states of django.tasks, except RUNNING, which follows from the lock of a job and not from this table."""

    READY = "READY", pgettext_lazy("status of a task", "ready")
    FAILED = "FAILED", pgettext_lazy("status of a task", "failed")
    SUCCESSFUL = "SUCCESSFUL", pgettext_lazy("status of a task", "successful")


#: In ``task_backend`` and ``backend``, where tasks of django.tasks have their alias: the job has come through ``@job``.
KEPT_BY_JOB = "@job"


class TaskResult(models.Model):
    """The attempts of a task and its return value; kept until ``expires_at``, or for RESULT_TTL after its end.

    A job whose ``@job`` keeps its result is a task, too: its ``backend`` is KEPT_BY_JOB. Has the id of its job. Written
    in the transaction that settles an attempt, never at enqueue: while the job is in a job table, that table determines
    the state, and this row has the results of earlier attempts.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    backend = NameField(max_length=255)
    handler_type = NameField(max_length=255)
    handler_configuration = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    status = models.CharField(max_length=16, choices=ResultStatus)
    category = NameField(max_length=128, default="default")
    priority = models.IntegerField(default=0)
    process_instance_id = NameField(max_length=255, blank=True, default="")
    tenant_id = NameField(max_length=64, blank=True, default="")
    run_after = models.DateTimeField(null=True, blank=True)
    create_time = models.DateTimeField(help_text=_("When it was enqueued."))
    first_time = models.DateTimeField(null=True, blank=True, help_text=_("When its first attempt began."))
    last_time = models.DateTimeField(null=True, blank=True, help_text=_("When its last attempt began."))
    end_time = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text=_("When it is deleted, if its job specifies that; otherwise RESULT_TTL applies."),
    )
    return_value = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    errors = models.JSONField(default=list, blank=True, help_text=_("Class and traceback of each failed attempt."))
    workers = models.JSONField(default=list, blank=True, help_text=_("The node of each attempt."))

    class Meta:
        verbose_name = _("task result")
        verbose_name_plural = _("task results")
        default_permissions = ("view", "delete")
        indexes: ClassVar = [models.Index(fields=["expires_at", "end_time"], name="jobexec_taskresult_expiry")]

    def __str__(self) -> str:
        return f"{self.handler_type} {self.pk}"
