"""The right to acquire jobs, with the strategy ``global_lock``."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import NameField


class AcquisitionLock(models.Model):
    """The right to acquire, held by one lock owner at a time (Flowable: the global acquire lock in ACT_GE_PROPERTY).

    ``token`` grows with every acquisition of the lock. A node that acts under the lock proves by it that no other owner
    has taken it over since; Flowable does not check that, so a stalled holder goes on and frees its successor's lock.
    """

    name = NameField(max_length=64, primary_key=True)
    lock_owner: models.Field[str | None, str | None] = NameField(max_length=255, null=True, blank=True)  # type: ignore[misc,assignment]
    token = models.PositiveBigIntegerField(default=0)
    lock_expiration_time = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("acquisition lock")
        verbose_name_plural = _("acquisition locks")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.name
