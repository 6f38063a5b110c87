"""Messages that were published, as long as they are delivered or kept."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobexec import clock

from .base import PartialIndex, SparseIndex
from .fields import NameField


class Message(models.Model):
    """A message for the jobs that wait for its name and key (Zeebe: message buffer; Ratchet: signal).

    It is inserted in the publisher's transaction. Afterwards an executor delivers it, a page of jobs at a time:
    ``delivery_time`` is when to go on, and NULL once all jobs that waited have it. One without ``expiration_time`` is
    deleted then; others are kept until that time for jobs that wait later.
    """

    #: Whether ``publish_message`` returned this row instead of inserting one, because the message id is known.
    is_duplicate: bool = False

    id = models.BigIntegerField(primary_key=True, editable=False)
    tenant_id = NameField(max_length=64, blank=True, default="")
    name = NameField(max_length=128)
    key = NameField(max_length=255)
    message_id: models.Field[str | None, str | None] = NameField(  # type: ignore[misc,assignment]
        max_length=255,
        null=True,
        blank=True,
        help_text=_("While this message is kept, another one with this id is ignored."),
    )
    payload = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    create_time = models.DateTimeField(default=clock.now)
    expiration_time = models.DateTimeField(
        null=True, blank=True, help_text=_("Until then, the message is kept for jobs that start waiting later.")
    )
    delivery_time = models.DateTimeField(null=True, blank=True)
    delivered = models.PositiveBigIntegerField(
        default=0, help_text=_("Jobs that have received the message, or slightly more.")
    )

    class Meta:
        verbose_name = pgettext_lazy("for jobs that wait", "message")
        verbose_name_plural = pgettext_lazy("for jobs that wait", "messages")
        default_permissions = ("view", "delete")
        permissions: ClassVar = [("publish_message", _("Can publish messages"))]
        # Together no longer than MySQL's limit for a key, 3072 bytes.
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["key", "name", "tenant_id", "message_id"], name="jobexec_message_once")
        ]
        indexes: ClassVar = [
            SparseIndex(name="jobexec_message_delivery", fields=["delivery_time"]),
            SparseIndex(name="jobexec_message_expiration", fields=["expiration_time"]),
            PartialIndex(
                name="jobexec_message_kept",
                fields=["tenant_id", "expiration_time"],
                where=models.Q(expiration_time__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.key}"
