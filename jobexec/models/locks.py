"""The right to run the exclusive jobs of a process instance, and the right to acquire jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import models
from django.db.models import Case, F, Value, When
from django.db.models.functions import Concat
from django.db.models.lookups import Exact
from django.utils.translation import gettext_lazy as _

from jobexec import clock

from .fields import NameField

#: Separates a tenant from the id of its process instance: U+001F, the unit separator of ASCII.
_SEPARATOR = "\x1f"


def serial_key(tenant_id: str, process_instance_id: str) -> str:
    """The name under which a process instance is locked: includes the tenant, to distinguish equal ids of tenants.

    Without a tenant it is the id itself, as in rows written before tenants were included.
    """
    return f"{tenant_id}{_SEPARATOR}{process_instance_id}" if tenant_id else process_instance_id


def serial_key_expression(of: Callable[[str], Any] = F) -> Case:
    """:func:`serial_key` in the database, for any table of jobs; ``of`` makes a column from its name, as OuterRef."""
    text: models.Field[str, str] = models.CharField()
    tenant, instance = of("tenant_id"), of("process_instance_id")
    of_tenant = Concat(tenant, Value(_SEPARATOR), instance, output_field=text)
    return Case(When(Exact(tenant, Value("")), then=instance), default=of_tenant, output_field=text)


def possible_instances(key: str) -> set[str]:
    """The ids of process instances for which ``key`` may be the name: indexes contain these, and not the key."""
    parts = key.split(_SEPARATOR)
    return {_SEPARATOR.join(parts[number:]) for number in range(len(parts))}


def locks_of(process_instance_id: str) -> models.Q:
    """A condition for the locks of process instances with this id, of any tenant."""
    of_tenants = models.Q(process_instance_id__endswith=f"{_SEPARATOR}{process_instance_id}")
    return models.Q(process_instance_id=process_instance_id) | of_tenants


class ExclusiveLock(models.Model):
    """The right to run the exclusive jobs of a process instance, held by one lock owner.

    The primary key makes exclusivity strict: of two nodes that insert the row, one fails. It is the :func:`serial_key`
    of the jobs. ``acquisition`` distinguishes the rows that one call inserted from existing ones (where INSERT cannot
    return rows).
    """

    process_instance_id = NameField(max_length=320, primary_key=True)
    lock_owner = NameField(max_length=255, db_index=True)
    acquisition = models.UUIDField()
    lock_time = models.DateTimeField(default=clock.now)

    class Meta:
        verbose_name = _("exclusive lock")
        verbose_name_plural = _("exclusive locks")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.process_instance_id.replace(_SEPARATOR, " ")

    @property
    def instance(self) -> str:
        """The id of the process instance, without its tenant."""
        return self.process_instance_id.rpartition(_SEPARATOR)[2]

    @property
    def tenant_id(self) -> str:
        """The tenant of the process instance."""
        return self.process_instance_id.rpartition(_SEPARATOR)[0]


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
