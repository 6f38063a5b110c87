"""Process instances, of whichever tenant: their exclusive jobs, and whether somebody holds them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet

from jobexec.models import AbstractJob, ExclusiveLock
from jobexec.models.exclusive_lock import possible_instances, serial_key_expression

_Row = TypeVar("_Row", bound=AbstractJob)


def locked_instance(using: str) -> Exists:
    """The condition that somebody holds the process instance of a row, were it exclusive."""
    locks = ExclusiveLock.objects.using(using)
    return Exists(locks.filter(process_instance_id=serial_key_expression(OuterRef)))


def of_instances(queryset: QuerySet[_Row], keys: Collection[str]) -> QuerySet[_Row, Any]:
    """The exclusive jobs of these process instances; ``key`` is the alias of each one's serial key.

    By the index of process instances: the keys of tenants are compared with what it finds.
    """
    # Says what the partial index says: PostgreSQL cannot conclude it from a join, nor from a list of more than 100,
    # and would read the whole table.
    jobs = queryset.filter(~Q(process_instance_id=""), exclusive=True)
    instances = set[str]().union(*map(possible_instances, keys))
    return jobs.filter(process_instance_id__in=instances).alias(key=serial_key_expression()).filter(key__in=keys)  # type: ignore[return-value]
