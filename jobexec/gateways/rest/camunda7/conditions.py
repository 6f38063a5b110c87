"""The conditions of a task query, and their meaning for a row in any of the three tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from django.db.models import Q

from .bodies import Body
from .times import moment

_ELEMENT = "handler_configuration__element_id"


def conditions(body: Body, now: datetime) -> Q:
    """Combine all conditions in the body; unknown members are ignored, as in Camunda.

    Raises EngineError for invalid values.
    """
    condition = Q()
    for each in _given(body, now):
        condition &= each
    return condition


def _given(body: Body, now: datetime) -> Iterator[Q]:
    for name, make in _TEXTS.items():
        if (value := body.text(name)) is not None:
            yield make(value)
    for name, make_of_list in LISTS.items():
        if values := body.texts(name):
            yield make_of_list(values)
    for name, lookup in _MOMENTS.items():
        if (value := body.text(name)) is not None:
            yield Q(**{lookup: moment(name, value)})
    yield from _numbers_and_flags(body, now)


def _numbers_and_flags(body: Body, now: datetime) -> Iterator[Q]:
    for name, lookup in _NUMBERS.items():
        if (number := body.integer(name)) is not None:
            yield Q(**{lookup: number})
    for name, make in _FLAGS.items():
        if body.flag(name):
            yield make(now)


def task_ids(values: list[str]) -> Q:
    """Match the tasks with these ids; values that cannot be ids match no task."""
    return Q(job_key__in=[key for key in map(key_of, values) if key is not None])


def key_of(id: str) -> int | None:
    """The key for an id, None if the id is not valid."""
    return int(id) if id.isascii() and id.isdecimal() and len(id) <= 19 and 0 < int(id) < 2**63 else None


def instances(values: list[str]) -> Q:
    """Match the tasks of these process instances; a task without one is shown as its own instance."""
    return Q(process_instance_id__in=[each for each in values if each]) | Q(process_instance_id="") & task_ids(values)


def _activities(values: list[str]) -> Q:
    unnamed = Q(**{f"{_ELEMENT}__isnull": True}, handler_type__in=values)
    return Q(**{f"{_ELEMENT}__in": values}) | unnamed


def _execution(value: str) -> Q:
    return Q(execution_id=value) | Q(execution_id="") & instances([value])


_TEXTS: dict[str, Callable[[str], Q]] = {
    "externalTaskId": lambda value: task_ids([value]),
    "topicName": lambda value: Q(handler_type=value),
    "workerId": lambda value: Q(lock_owner=value),
    "activityId": lambda value: _activities([value]),
    "executionId": _execution,
    "processInstanceId": lambda value: instances([value]),
    "processDefinitionId": lambda value: Q(process_definition_id=value),
}
LISTS: dict[str, Callable[[list[str]], Q]] = {
    "externalTaskIdIn": task_ids,
    "activityIdIn": _activities,
    "processInstanceIdIn": instances,
    "tenantIdIn": lambda values: Q(tenant_id__in=values),
}
_MOMENTS = {"lockExpirationBefore": "lock_expiration_time__lt", "lockExpirationAfter": "lock_expiration_time__gt"}
_NUMBERS = {"priorityHigherThanOrEquals": "priority__gte", "priorityLowerThanOrEquals": "priority__lte"}
_FLAGS: dict[str, Callable[[datetime], Q]] = {
    "locked": lambda now: Q(lock_expiration_time__gt=now),
    "notLocked": lambda now: Q(lock_expiration_time=None) | Q(lock_expiration_time__lte=now),
    "withRetriesLeft": lambda now: Q(retries__gt=0),
    "noRetriesLeft": lambda now: Q(retries=0),
}
