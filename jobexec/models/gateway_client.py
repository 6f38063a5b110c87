"""Clients that may use the gateways, and the workers that do."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField


def may_work() -> list[str]:
    """The default permissions of a client."""
    return ["work"]


class GatewayClient(models.Model):
    """A program that may fetch and finish jobs from outside: its credentials and its permissions.

    Only a digest of its secret is stored (``token_digest``, by which it is found); the secret is shown once, when it is
    created. It serves as bearer token, as password of HTTP basic authentication and as client secret of OAuth 2.
    """

    name = NameField(max_length=150, unique=True, help_text=_("The client id, also used as the user name."))
    token_digest = models.CharField(max_length=64, null=True, blank=True, unique=True, editable=False)
    #: The previous secret, valid beside the new one until workers have that: until a time, or (NULL) until it is
    #: retired.
    previous_token_digest = models.CharField(max_length=64, null=True, blank=True, unique=True, editable=False)
    previous_expiration_time = models.DateTimeField(null=True, blank=True, editable=False)
    types = models.JSONField(
        default=list, blank=True, help_text=_("Job types that the client may work on. Empty: all types.")
    )
    tenants = models.JSONField(
        default=list, blank=True, help_text=_("Tenants whose jobs the client may see. Empty: all tenants.")
    )
    permissions = models.JSONField(
        default=may_work, help_text=_("Its permissions: work, search, update, resolve, publish.")
    )
    max_requests_per_second = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("Empty: the limit in the settings. 0: no limit.")
    )
    enabled = models.BooleanField(default=True)
    expiration_time = models.DateTimeField(null=True, blank=True)
    create_time = models.DateTimeField(default=clock.now, editable=False)
    last_use = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("gateway client")
        verbose_name_plural = _("gateway clients")
        permissions: ClassVar = [
            ("use_gateway", _("Can work on and search for jobs through the gateways")),
            ("operate_gateway", _("Can change jobs and resolve incidents through the gateways")),
            ("rotate_gatewayclient", _("Can give gateway clients a new secret")),
            ("enable_gatewayclient", _("Can enable and disable gateway clients")),
        ]

    def __str__(self) -> str:
        return self.name


class ExternalWorker(models.Model):
    """A worker that a gateway has seen: the type that it asks for, its last request, and its streams and polls.

    Written by the gateways every few seconds, never during a request; they also remove rows of workers that have not
    been seen for long.
    """

    # Together no longer than MariaDB's limit for a key.
    gateway = NameField(max_length=100)
    protocol = models.CharField(max_length=16)
    client = NameField(max_length=150, blank=True, default="")
    worker = NameField(max_length=200, blank=True, default="")
    type = NameField(max_length=255)
    tenants = models.JSONField(default=list, blank=True)
    streams = models.PositiveIntegerField(default=0, help_text=_("Open streams."))
    polls = models.PositiveIntegerField(default=0, help_text=_("Polls waiting for a job."))
    open_streams = models.JSONField(default=list, blank=True, help_text=_("The open streams, up to a maximum number."))
    activated = models.PositiveBigIntegerField(default=0, help_text=_("Jobs handed out since it was first seen."))
    first_seen = models.DateTimeField(default=clock.now)
    last_seen = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        verbose_name = _("external worker")
        verbose_name_plural = _("external workers")
        default_permissions = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["gateway", "protocol", "client", "worker", "type"], name="jobexec_externalworker_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.worker} ({self.type})"
