"""User tasks."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from jobexec.identifiers import uuid7
from jobexec.models.fields import NameField


class UserTaskQuerySet(QuerySet["UserTask"]):
    """User tasks, filtered by user."""

    def for_user(self, user: Any) -> UserTaskQuerySet:
        """The tasks that a user has, or may claim: as a candidate, or as a member of a group."""
        name = user.get_username()
        groups = list(user.groups.values_list("name", flat=True))
        candidates = TaskCandidate.objects.using(self.db).filter(
            Q(kind=TaskCandidate.USER, name=name) | Q(kind=TaskCandidate.GROUP, name__in=groups)
        )
        return self.filter(Q(assignee=name) | Q(assignee="", pk__in=candidates.values("task_id")))


class UserTask(models.Model):
    """An open user task (ACT_RU_TASK). ``owner_id`` is its execution, ``assignee`` a user name.

    ``key`` is its number for clients of Camunda 8.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.BigIntegerField(unique=True, null=True, blank=True)
    root_id = models.UUIDField(db_index=True)
    instance_id = models.UUIDField()
    owner_id = models.UUIDField()
    element_id = NameField(max_length=255)
    activity_id = models.UUIDField(null=True, blank=True)
    definition_id = NameField(max_length=255)
    tenant_id = NameField(max_length=64, blank=True, default="")
    name = models.CharField(max_length=255, blank=True, default="")
    assignee = NameField(max_length=255, blank=True, default="", db_index=True)
    due_date = models.DateTimeField(null=True, blank=True, db_index=True)
    follow_up_date = models.DateTimeField(null=True, blank=True)
    priority = models.IntegerField(default=50)
    form_key = models.CharField(max_length=255, blank=True, default="")
    fields = models.JSONField(default=list, encoder=DjangoJSONEncoder)
    create_time = models.DateTimeField()

    objects = UserTaskQuerySet.as_manager()

    class Meta:
        verbose_name = _("user task")
        verbose_name_plural = _("user tasks")
        default_permissions = ("view", "change")
        permissions: ClassVar = [("complete_usertask", _("Can complete user tasks"))]

    def __str__(self) -> str:
        return self.name or self.element_id


class TaskCandidate(models.Model):
    """A user or a group who may claim a task (ACT_RU_IDENTITYLINK)."""

    USER, GROUP = "user", "group"

    task_id = models.UUIDField()
    kind = models.CharField(max_length=8, choices=[(USER, _("user")), (GROUP, _("group"))])
    name = NameField(max_length=255)

    class Meta:
        verbose_name = _("candidate")
        verbose_name_plural = _("candidates")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=["task_id", "kind", "name"], name="jobexec_candidate"),)
        indexes = (models.Index(fields=["kind", "name"], name="jobexec_candidate_name"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
