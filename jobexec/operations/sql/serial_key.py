"""Process instances of any tenant: their exclusive jobs, and whether they are locked."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet

from jobexec.models import AbstractJob, ExclusiveLock
from jobexec.models.locks import possible_instances, serial_key_expression

_Row = TypeVar("_Row", bound=AbstractJob)


def locked_instance(using: str) -> Exists:
    """Return the condition that the process instance of a row, if it were exclusive, is locked."""
    locks = ExclusiveLock.objects.using(using)
    return Exists(locks.filter(process_instance_id=serial_key_expression(OuterRef)))


def of_instances(queryset: QuerySet[_Row], keys: Collection[str]) -> QuerySet[_Row, Any]:
    """Return the exclusive jobs of these process instances; the alias ``key`` is the serial key of each.

    Uses the index on process instances and then compares the keys, which include the tenant, with what it finds.
    """
    # Repeats the condition of the partial index: PostgreSQL cannot infer it from a join, nor from a list of more than
    # 100 values, and would scan the whole table.
    jobs = queryset.filter(~Q(process_instance_id=""), exclusive=True)
    instances = set[str]().union(*map(possible_instances, keys))
    return jobs.filter(process_instance_id__in=instances).alias(key=serial_key_expression()).filter(key__in=keys)  # type: ignore[return-value]
