"""Changes made by operators."""

from __future__ import annotations

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import NameField


class OperatorType(models.TextChoices):
    """The kind of operator that made a change."""

    USER = "user", _("user")
    CLIENT = "client", _("client")
    COMMAND = "command", _("command")
    EXECUTOR = "executor", _("executor")
    CODE = "code", _("code")


class AuditLog(models.Model):
    """One change by an operator (ACT_HI_OP_LOG): who, when, from where, what. Holds plain ids, no foreign keys.

    A change of many jobs is one row: ``count`` is how many, ``scope`` which ones, and ``object_id`` is empty.
    """

    timestamp = models.DateTimeField(db_index=True)
    operator_type = models.CharField(max_length=16, choices=OperatorType)
    operator = NameField(
        max_length=255, blank=True, default="", help_text=_("A user of the site or the system, a client or a node.")
    )
    via = models.CharField(
        max_length=64, blank=True, default="", help_text=_("The admin, a gateway, or the command with its action.")
    )
    origin = models.CharField(
        max_length=255, blank=True, default="", help_text=_("The network address, or the host of the command or node.")
    )
    verb = NameField(max_length=64)
    object_type = NameField(max_length=64, help_text=_("The table that the object was in."))
    object_id = NameField(
        max_length=255, blank=True, default="", db_index=True, help_text=_("Empty if there are several.")
    )
    #: NULL if it is unknown, or if there are several: only users who may see all tenants see the row.
    tenant_id: models.Field[str | None, str | None] = NameField(max_length=64, null=True, blank=True)  # type: ignore[misc,assignment]
    count = models.PositiveBigIntegerField(default=1, help_text=_("The number of changed objects."))
    scope = models.JSONField(
        null=True, blank=True, encoder=DjangoJSONEncoder, help_text=_("The selection, if there are several objects.")
    )
    old_value = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    new_value = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)

    class Meta:
        verbose_name = _("audit log entry")
        verbose_name_plural = _("audit log")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.verb} {self.object_type} {self.object_id}".rstrip()
